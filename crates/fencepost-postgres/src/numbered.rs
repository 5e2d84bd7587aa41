//! Calls that go straight to the functions of one queue, by the number that its name stands for. The numbers are remembered: one of a
//! queue that was dropped is never given again, so a call under it finds no function, and has not happened.

use std::collections::HashMap;
use std::sync::RwLock;

use fencepost_core::{QueueName, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::Parameter;
use crate::store::{PostgresStore, column, one};

const FIND: &str = "select fencepost._queue_number($1)";

/// What the server says of a function that is not there.
const NO_FUNCTION: &str = "42883";

/// So many names are remembered at most.
const REMEMBERED: usize = 10_000;

/// The numbers of queues by their names.
#[derive(Default)]
pub(crate) struct Numbers(RwLock<HashMap<QueueName, i32>>);

impl Numbers {
    fn get(&self, queue: &QueueName) -> Option<i32> {
        self.0.read().expect("no panic while numbers are held").get(queue).copied()
    }

    fn keep(&self, queue: &QueueName, number: i32) {
        let mut numbers = self.0.write().expect("no panic while numbers are held");
        if numbers.len() >= REMEMBERED {
            numbers.clear();
        }
        numbers.insert(queue.clone(), number);
    }
}

impl PostgresStore {
    /// Makes a call on a queue's own functions: `{q}` in the text stands for what their names begin with.
    pub(crate) async fn write_to(
        &self,
        operation: &'static str,
        queue: &QueueName,
        text: &'static str,
        values: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        if let Some(number) = self.numbers().get(queue) {
            match self.write(operation, &numbered(text, number), values).await {
                Err(error) if error.fact("sqlstate") == Some(NO_FUNCTION) => {}
                answer => return answer,
            }
        }
        let rows = self.read(operation, FIND, &[(&queue.as_str(), Type::TEXT)]).await?;
        let number = column(one(&rows)?, 0)?;
        self.numbers().keep(queue, number);
        self.write(operation, &numbered(text, number), values).await
    }
}

fn numbered(text: &str, number: i32) -> String {
    text.replace("{q}", &format!("fencepost.q{number}"))
}
