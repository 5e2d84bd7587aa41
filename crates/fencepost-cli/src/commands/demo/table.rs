//! The demo's own table, beside the store: what is kept in it, and what the demo asks of it, whichever database it is in.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use fencepost::{Batch, Error, Kind, Result, SlotToken, Store};

use super::input::RowKey;
use super::tally::{Reading, Tally};
use super::{postgres, sqlite};

/// A row as it is stored.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// What is kept of the key.
    pub tally: Tally,
    /// The message that was handled last.
    pub last_message: i64,
    /// Messages that came after a later one of their key.
    pub out_of_order: u64,
}

/// Rows by key.
pub type Rows = BTreeMap<RowKey, Row>;

/// The table, in the same database as the store: what makes effects and acks one transaction.
#[async_trait]
pub trait Table: Send + Sync {
    /// Makes the table, or empties it.
    ///
    /// # Errors
    /// `unavailable`.
    async fn reset(&self) -> Result<()>;

    /// Applies a batch and acks it: one transaction, in which the slot's epoch is checked.
    ///
    /// # Errors
    /// `fenced` when somebody else owns the slot, and then nothing is stored.
    async fn apply_and_ack(&self, batch: Batch, token: SlotToken, reading: Reading) -> Result<()>;

    /// Every row.
    ///
    /// # Errors
    /// `unavailable`.
    async fn rows(&self) -> Result<Rows>;

    /// Calls `stop`, which stops this process, on a thread where that keeps nobody else from the database.
    ///
    /// # Errors
    /// `unavailable`.
    async fn stop_at(&self, stop: Box<dyn FnOnce() + Send>) -> Result<()>;

    /// Where the table is, for people.
    fn place(&self) -> &'static str;
}

/// The table beside a store.
///
/// # Errors
/// `unsupported` for a store that other processes cannot reach.
pub fn beside(store: &Store) -> Result<Arc<dyn Table>> {
    if let Some(store) = store.as_sqlite() {
        return Ok(Arc::new(sqlite::InFile::of(store)));
    }
    if let Some(store) = store.as_postgres() {
        return Ok(Arc::new(postgres::InDatabase::of(store)));
    }
    Err(Error::new(Kind::Unsupported, format!("cannot run the demo on a store of kind `{}`", store.info().engine)).hinted(
        "its workers are processes, which share a file or a database: use `--store sqlite:FILE` or `--store postgres://…`, or leave it out",
    ))
}

/// The keys of a batch.
pub fn keys(batch: &Batch) -> Vec<RowKey> {
    let keys = batch.messages.iter().map(|message| message.key.as_ref().map(|key| key.as_str().to_owned()));
    let mut keys: Vec<RowKey> = keys.collect();
    // ORDER: workers that lock rows lock them in one order.
    keys.sort();
    keys.dedup();
    keys
}

/// Adds a batch to the rows of its keys.
///
/// # Errors
/// `corrupt` when a message is not what the demo sent.
pub fn fold(rows: &mut Rows, batch: &Batch, reading: Reading) -> Result<()> {
    for message in &batch.messages {
        let key = message.key.as_ref().map(|key| key.as_str().to_owned());
        let keyed = key.is_some();
        let row = rows.entry(key).or_default();
        if keyed && message.id.get() <= row.last_message {
            row.out_of_order += 1;
        }
        row.last_message = row.last_message.max(message.id.get());
        row.tally.add(&String::from_utf8_lossy(&message.payload), keyed, reading)?;
    }
    Ok(())
}
