//! Calls that go straight to the functions of one queue, by the number that its name stands for. A number is remembered by the connection
//! that told it. It never stands for another queue: not for one that is made after a drop, nor where a server took over or was restored
//! behind a pooler that kept the connection, as numbers jump there before the next queue is made. So a call under a number that is gone
//! finds no function, and has not happened.

use std::collections::HashMap;

use fencepost_core::{QueueName, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::{Lent, Parameter};
use crate::error::{Effect, met_a_drop};
use crate::store::{PostgresStore, column, one};

const FIND: &str = "select fencepost._queue_number($1)";

/// What the server says of a function that the user may not call.
pub(crate) const NOT_GRANTED: &str = "42501";

/// So many names are remembered at most.
const REMEMBERED: usize = 10_000;

/// How often a call is made that meets a drop.
const ATTEMPTS: usize = 3;

/// A call on a queue's own functions.
#[derive(Clone, Copy)]
pub(crate) struct OfQueue {
    /// `{q}` stands for what the names of its functions begin with.
    pub(crate) by_number: &'static str,
    /// The same by a function of all queues. The queue's name is a value after the others.
    pub(crate) by_name: &'static str,
}

/// A call by the function for any queue or lease, which is the shortest way, and by the one that finds what was granted.
#[derive(Clone, Copy)]
pub(crate) struct OfAny {
    pub(crate) any: &'static str,
    pub(crate) granted: &'static str,
}

/// How a queue's functions are called.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    Number(i32),
    Name,
}

/// How queues are called, by their names.
#[derive(Default)]
pub(crate) struct Numbers(HashMap<QueueName, Way>);

impl Numbers {
    fn keep(&mut self, queue: &QueueName, way: Way) {
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(queue.clone(), way);
    }
}

impl PostgresStore {
    /// Makes a call on a queue's own functions, which may change something.
    pub(crate) async fn write_to(
        &self,
        operation: &'static str,
        queue: &QueueName,
        call: OfQueue,
        values: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        self.call_queue(queue, call, values).await.map_err(|error| error.during(operation))
    }

    async fn call_queue(&self, queue: &QueueName, call: OfQueue, values: &[Parameter<'_>]) -> Result<Vec<Row>> {
        let mut lent = self.connections().lend().await?;
        let mut attempt = 1;
        loop {
            let answer = self.call_queue_on(&mut lent, queue, call, values).await;
            match answer {
                Err(error)
                    if attempt < ATTEMPTS && lent.is_idle() && error.fact("sqlstate").is_some_and(met_a_drop) =>
                {
                    lent.numbers().0.remove(queue);
                    attempt += 1;
                }
                answer => return answer,
            }
        }
    }

    async fn call_queue_on(
        &self,
        lent: &mut Lent,
        queue: &QueueName,
        call: OfQueue,
        values: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        let connections = self.connections();
        let known = lent.numbers().0.get(queue).copied();
        let way = match known {
            Some(way) => way,
            None => {
                let name = queue.as_str();
                let rows = connections.run_on(lent, Effect::Read, FIND, &[(&name, Type::TEXT)]).await?;
                let way = Way::Number(column(one(&rows)?, 0)?);
                lent.numbers().keep(queue, way);
                way
            }
        };
        if let Way::Number(number) = way {
            let text = call.by_number.replace("{q}", &format!("fencepost.q{number}"));
            match connections.run_on(lent, Effect::Write, &text, values).await {
                Err(error) if lent.is_idle() && error.fact("sqlstate") == Some(NOT_GRANTED) => {
                    lent.numbers().keep(queue, Way::Name);
                }
                answer => return answer,
            }
        }
        let name = queue.as_str();
        let values: Vec<Parameter<'_>> = values.iter().cloned().chain([(&name as _, Type::TEXT)]).collect();
        connections.run_on(lent, Effect::Write, call.by_name, &values).await
    }
}
