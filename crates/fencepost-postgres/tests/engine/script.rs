//! What scripted orders of calls share: a queue with a consumer, calls as users of SQL make them, and waiting until somebody waits.

use fencepost_core::Error;
use fencepost_postgres::driver_error;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Row};

use crate::stage::{Stage, until_waiting};

/// The queue `q` of 16 partitions with the consumer `c`, and who may do everything.
pub struct Script {
    pub stage: Stage,
    pub admin: Client,
}

/// A slot that was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Own {
    pub slot: i32,
    pub epoch: i64,
}

impl Own {
    /// The arguments that every call on the slot begins with.
    pub fn arguments(self) -> String {
        format!("'q', 'c', {}, {}", self.slot, self.epoch)
    }
}

impl Script {
    pub async fn new(slots: i32) -> Option<Self> {
        Some(Self::on(Stage::new().await?, slots).await)
    }

    /// The same on a given stage.
    pub async fn on(stage: Stage, slots: i32) -> Self {
        let admin = stage.client().await;
        run(&admin, "select fencepost.create_queue('q')").await;
        run(&admin, &format!("select fencepost.create_consumer('q', 'c', {slots})")).await;
        Self { stage, admin }
    }

    /// A fresh queue and consumer in place of what is there, for the next order of calls.
    pub async fn anew(&self, slots: i32) {
        for sql in ["drop_queue('q', true)", "create_queue('q')", &format!("create_consumer('q', 'c', {slots})")] {
            run(&self.admin, &format!("select fencepost.{sql}")).await;
        }
    }

    pub async fn client(&self) -> Client {
        self.stage.client().await
    }

    /// Claims a slot for ten seconds.
    pub async fn claim(&self, slot: i32) -> Own {
        claim(&self.admin, slot).await.expect("the slot can be claimed")
    }

    pub async fn send(&self, count: i32) {
        let sql = format!("select fencepost.send('q', n::text, key => n::text) from generate_series(1, {count}) n");
        self.admin.query(&sql, &[]).await.expect("a send");
    }

    /// Returns once so many sessions wait for a lock in this database.
    pub async fn waiting(&self, how_many: i64) {
        until_waiting(&self.admin, how_many).await;
    }

    /// The newest version of a slot's state: what a refused call must not change.
    pub async fn state(&self, slot: i32) -> String {
        let sql = "select s::text || fencepost._state(s.consumer_id, s.slot)::text from fencepost.slot s where s.slot = $1::int";
        self.admin.query_one(sql, &[&slot]).await.unwrap().get(0)
    }
}

pub async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

/// Makes a call and returns its rows, or its error as the engine reads it.
pub async fn call(client: &Client, sql: &str) -> Result<Vec<Row>, Error> {
    client.query(sql, &[]).await.map_err(driver_error)
}

/// Makes a call that may have to wait, on a task of its own.
pub fn begin(client: Client, sql: String) -> JoinHandle<(Client, Result<Vec<Row>, Error>)> {
    tokio::spawn(async move {
        let answer = call(&client, &sql).await;
        (client, answer)
    })
}

pub async fn claim(client: &Client, slot: i32) -> Option<Own> {
    let sql = format!("select slot, epoch from fencepost.claim_slot('q', 'c', {slot}, 'w', '10 s')");
    own(&call(client, &sql).await.expect("a claim"))
}

pub fn own(rows: &[Row]) -> Option<Own> {
    rows.first().map(|row| Own { slot: row.get(0), epoch: row.get(1) })
}

/// Receives and returns the batch with the ids of its messages.
pub async fn receive(client: &Client, own: Own, most: i32) -> Option<(i64, Vec<i64>)> {
    let sql = format!("select batch_id, id from fencepost.receive({}, {most})", own.arguments());
    let rows = call(client, &sql).await.expect("a receive");
    Some((rows.first()?.get(0), rows.iter().map(|row| row.get(1)).collect()))
}

/// The one value of a call.
pub async fn value<T: for<'a> tokio_postgres::types::FromSql<'a>>(client: &Client, sql: &str) -> T {
    client.query_one(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
}
