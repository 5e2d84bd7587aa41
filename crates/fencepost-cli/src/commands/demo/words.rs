//! What a worker process tells the demo, one JSON object a line on its standard output, and what it is told, a word a line.

use serde::{Deserialize, Serialize};

/// A worker's word.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Word {
    /// It has joined and waits to be told to go.
    Ready,
    /// A slot was granted to it.
    Claimed {
        slot: u16,
        epoch: i64,
        /// The epoch of the owner that lost it with its batch open.
        taken_from: Option<i64>,
        /// The open batch that came with it.
        batch: Option<i64>,
        /// How many messages are delivered again.
        redelivered: u32,
    },
    /// It stands in the middle of a batch and waits to be killed.
    MidBatch { slot: u16, epoch: i64, batch: i64, handled: usize, messages: usize },
    /// It is about to stop itself, with its batch open and no transaction open.
    Stopping { slot: u16, epoch: i64, batch: i64, messages: usize },
    /// It was continued.
    Continued { slot: u16, epoch: i64, batch: i64 },
    /// A batch's effects and its ack were committed together.
    Committed { slot: u16, epoch: i64, batch: i64, messages: usize },
    /// A call was refused because somebody else owns the slot.
    Fenced { slot: u16, call: String, batch: i64, messages: usize, presented: i64, current: String },
    /// Something failed and is tried again.
    Trouble {
        message: String,
        /// The code of the store's error, if it was one.
        code: Option<String>,
    },
}

/// What a worker is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Claim and work.
    Go,
    /// Stand still in the middle of the batch of that number, to be killed.
    StandAt(u32),
    /// Stop yourself in the batch of that number.
    StopAt(u32),
}

impl Order {
    /// The order as a line.
    pub fn to_line(self) -> String {
        match self {
            Order::Go => "go\n".into(),
            Order::StandAt(batch) => format!("stand {batch}\n"),
            Order::StopAt(batch) => format!("stop {batch}\n"),
        }
    }

    /// The order that a line holds.
    pub fn from_line(line: &str) -> Option<Self> {
        match line.trim().split_once(' ') {
            None if line.trim() == "go" => Some(Order::Go),
            Some(("stand", batch)) => batch.parse().ok().map(Order::StandAt),
            Some(("stop", batch)) => batch.parse().ok().map(Order::StopAt),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_pipe() {
        for order in [Order::Go, Order::StandAt(3), Order::StopAt(7)] {
            assert_eq!(Order::from_line(&order.to_line()), Some(order));
        }
        assert_eq!(Order::from_line("come\n"), None);
    }
}
