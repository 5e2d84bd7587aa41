//! Where an ordeal takes place: a store, and beside it the table of effects that are committed with their acks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost::postgres::tokio_postgres::Client;
use fencepost::postgres::{PostgresOptions, PostgresStore, TransactionCalls, driver_error as server_error};
use fencepost::sqlite::{SqliteOptions, SqliteStore, driver_error};
use fencepost::{BatchId, Message, Result, SlotToken};
use fencepost_core::Store;

/// What a worker did with a message.
pub struct Effect {
    pub id: i64,
    pub payload: String,
    pub slot: i64,
    pub epoch: i64,
}

/// A store with a table of effects.
#[derive(Clone)]
pub enum Ground {
    File(SqliteStore),
    /// With the connections that no transaction uses at this moment.
    Database(PostgresStore, Arc<Mutex<Vec<Client>>>),
}

impl Ground {
    /// Makes the store and the table.
    pub async fn make(url: &str) -> Self {
        let ground = Self::open_or_make(url, true).await;
        match &ground {
            Ground::File(store) => {
                let table = "CREATE TABLE effect (at INTEGER PRIMARY KEY, id INTEGER, payload TEXT, slot INTEGER, epoch INTEGER)";
                store.write(move |tx| tx.execute_batch(table).map_err(driver_error)).await.unwrap();
            }
            Ground::Database(store, _) => {
                let table = "CREATE TABLE effect (at bigint GENERATED ALWAYS AS IDENTITY, id bigint, payload text, slot bigint, epoch bigint)";
                store.client().await.unwrap().batch_execute(table).await.unwrap();
            }
        }
        ground
    }

    /// Opens what was made.
    pub async fn open(url: &str) -> Self {
        Self::open_or_make(url, false).await
    }

    async fn open_or_make(url: &str, create: bool) -> Self {
        match url.strip_prefix("sqlite:") {
            Some(file) => {
                // Whoever makes it sends, and does not wait for one that is stopped inside a transaction.
                let bound = Duration::from_millis(if create { 250 } else { 5_000 });
                let options = SqliteOptions::default().create(create).busy_timeout(bound);
                Ground::File(SqliteStore::open(Path::new(file), options).await.unwrap())
            }
            None => {
                let options = PostgresOptions::default().create(create);
                Ground::Database(PostgresStore::open(url, options).await.unwrap(), Arc::default())
            }
        }
    }

    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Ground::File(store) => Arc::new(store.clone()),
            Ground::Database(store, _) => Arc::new(store.clone()),
        }
    }

    /// Records the messages and acks their batch in one transaction.
    pub async fn finish(&self, messages: Vec<Message>, token: SlotToken, batch: BatchId) -> Result<u32> {
        let rows = messages.into_iter().map(|message| (message.id.get(), String::from_utf8(message.payload).unwrap()));
        let rows: Vec<(i64, String)> = rows.collect();
        let (slot, epoch) = (i64::from(token.slot.get()), token.epoch.get());
        match self {
            Ground::File(store) => {
                let work = move |tx: &fencepost::sqlite::WriteTransaction<'_, '_>| {
                    for (id, payload) in rows {
                        tx.execute(
                            "INSERT INTO effect (id, payload, slot, epoch) VALUES (?1, ?2, ?3, ?4)",
                            (id, payload, slot, epoch),
                        )
                        .map_err(driver_error)?;
                    }
                    tx.ack_in(&token, batch)
                };
                store.write(work).await
            }
            Ground::Database(store, idle) => {
                let free = idle.lock().unwrap().pop().filter(|client| !client.is_closed());
                let mut client = match free {
                    Some(client) => client,
                    None => store.client().await?,
                };
                let transaction = client.transaction().await.map_err(server_error)?;
                for (id, payload) in &rows {
                    let insert = "INSERT INTO effect (id, payload, slot, epoch) VALUES ($1, $2, $3, $4)";
                    transaction.execute(insert, &[id, payload, &slot, &epoch]).await.map_err(server_error)?;
                }
                let acked = transaction.ack_in(&token, batch).await?;
                transaction.commit_whole().await?;
                idle.lock().unwrap().push(client);
                Ok(acked)
            }
        }
    }

    /// Every effect, in the order in which they happened.
    pub async fn effects(&self) -> Vec<Effect> {
        let select = "SELECT id, payload, slot, epoch FROM effect ORDER BY at";
        match self {
            Ground::File(store) => {
                let work = move |tx: &fencepost::sqlite::WriteTransaction<'_, '_>| {
                    let mut rows = tx.prepare(select).map_err(driver_error)?;
                    let effects = rows.query_map([], |row| {
                        Ok(Effect { id: row.get(0)?, payload: row.get(1)?, slot: row.get(2)?, epoch: row.get(3)? })
                    });
                    effects.and_then(Iterator::collect).map_err(driver_error)
                };
                store.write(work).await.unwrap()
            }
            Ground::Database(store, _) => {
                let rows = store.client().await.unwrap().query(select, &[]).await.unwrap();
                let effect = |row: &fencepost::postgres::tokio_postgres::Row| Effect {
                    id: row.get(0),
                    payload: row.get(1),
                    slot: row.get(2),
                    epoch: row.get(3),
                };
                rows.iter().map(effect).collect()
            }
        }
    }

    /// What ended every dead letter.
    pub async fn dead(&self) -> BTreeMap<i64, String> {
        match self {
            Ground::File(store) => {
                let work = |tx: &fencepost::sqlite::WriteTransaction<'_, '_>| {
                    let mut rows = tx.prepare("SELECT id, cause FROM fencepost_dead").map_err(driver_error)?;
                    let dead = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
                    dead.and_then(Iterator::collect).map_err(driver_error)
                };
                store.write(work).await.unwrap()
            }
            Ground::Database(store, _) => {
                let client = store.client().await.unwrap();
                let rows = client.query("SELECT id, cause FROM fencepost.dead_letters", &[]).await.unwrap();
                rows.iter().map(|row| (row.get(0), row.get(1))).collect()
            }
        }
    }
}
