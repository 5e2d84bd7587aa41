//! The rows by name, as the driver writes them and a program reads them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How a consumer acks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    /// In a call of its own after each receive.
    Apart,
    /// With the next receive, in one call.
    WithNext,
}

/// One thing to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// Callers that each send one message after the other. Measures `rate`.
    Send {
        /// How many of them.
        callers: u64,
        /// For how long.
        time: Duration,
    },
    /// Receiving and acking from a queue that stays as deep as it is. Measures `taking`, and `rate` with the time it takes to
    /// remove what was acked.
    Take {
        /// How it is acked.
        acks: Acks,
        /// Messages a receive.
        max: u32,
        /// How deep.
        depth: u64,
        /// For how long.
        time: Duration,
    },
    /// From before a send until the message was received by a sleeper of the same process. Measures `p50` and `p99`.
    WakeWithin {
        /// How often.
        count: u64,
    },
    /// The same from another process.
    WakeAcross {
        /// How often.
        count: u64,
    },
    /// A worker without work. Measures `processor`, `written` and `moments`.
    Idle {
        /// For how long.
        time: Duration,
    },
    /// A large backlog made and drained, then small ones. Measures rates, memory and file sizes.
    Drain {
        /// How large.
        count: u64,
    },
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { callers, time } => write!(f, "send {callers} {}", time.as_millis()),
            Self::Take { acks, max, depth, time } => {
                let acks = if *acks == Acks::Apart { "apart" } else { "with-next" };
                write!(f, "take {acks} {max} {depth} {}", time.as_millis())
            }
            Self::WakeWithin { count } => write!(f, "wake within {count}"),
            Self::WakeAcross { count } => write!(f, "wake across {count}"),
            Self::Idle { time } => write!(f, "idle {}", time.as_millis()),
            Self::Drain { count } => write!(f, "drain {count}"),
        }
    }
}

impl FromStr for Row {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let millis = |text: &str| text.parse().map(Duration::from_millis);
        let words: Vec<&str> = text.split_whitespace().collect();
        Ok(match words.as_slice() {
            ["send", callers, time] => Self::Send { callers: callers.parse()?, time: millis(time)? },
            ["take", acks @ ("apart" | "with-next"), max, depth, time] => Self::Take {
                acks: if *acks == "apart" { Acks::Apart } else { Acks::WithNext },
                max: max.parse()?,
                depth: depth.parse()?,
                time: millis(time)?,
            },
            ["wake", "within", count] => Self::WakeWithin { count: count.parse()? },
            ["wake", "across", count] => Self::WakeAcross { count: count.parse()? },
            ["idle", time] => Self::Idle { time: millis(time)? },
            ["drain", count] => Self::Drain { count: count.parse()? },
            _ => return Err(format!("`{text}` is no row").into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_are_written() {
        let time = Duration::from_millis(1_500);
        let take = |acks| Row::Take { acks, max: 100, depth: 1_000, time };
        for row in [
            Row::Send { callers: 64, time },
            take(Acks::Apart),
            take(Acks::WithNext),
            Row::WakeWithin { count: 5 },
            Row::WakeAcross { count: 5 },
            Row::Idle { time },
            Row::Drain { count: 7 },
        ] {
            assert_eq!(row.to_string().parse::<Row>().unwrap(), row);
        }
        assert!("send 64".parse::<Row>().is_err());
    }
}
