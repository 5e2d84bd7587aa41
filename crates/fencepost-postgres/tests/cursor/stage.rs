//! A queue of one partition with a consumer of one slot, on the SQL of the folder; and a reader that checks every receive against the
//! bare condition that the cursor rule stands for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fencepost_test_support::{PgServer, TestDatabase};
use tokio_postgres::{Client, Error, GenericClient};

/// A change to the SQL: a text that is there exactly once, and what stands there instead.
#[derive(Debug, Clone, Copy)]
pub struct Mutation {
    pub name: &'static str,
    pub from: &'static str,
    pub to: &'static str,
}

pub struct Stage {
    pub database: TestDatabase,
    pub admin: Client,
}

impl Stage {
    /// A database of the server with a queue and a consumer.
    pub async fn new(server: &PgServer, partitions: i32, slots: i32, mutation: Option<Mutation>) -> Self {
        let database = server
            .database_from(&schema(mutation), |url| async move {
                let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
                let running = tokio::spawn(connection);
                client.batch_execute(&schema(mutation)).await?;
                drop(client);
                running.await.expect("the connection ends by itself")
            })
            .await
            .expect("a database");
        let admin = database.connect().await.expect("a connection");
        admin.execute("SELECT fencepost.create_queue('q', $1)", &[&partitions]).await.expect("a queue");
        admin.execute("SELECT fencepost.create_consumer('q', 'c', $1)", &[&slots]).await.expect("a consumer");
        Self { database, admin }
    }

    pub async fn client(&self) -> Client {
        self.database.connect().await.expect("a connection")
    }

    /// A reader of the given slot.
    pub async fn reader(&self, slot: i32) -> Reader {
        let client = self.client().await;
        let sql = "SELECT epoch FROM fencepost.claim_slot('q', 'c', $1, 'reader', '1 hour')";
        let epoch = client.query_one(sql, &[&slot]).await.expect("the slot is free").get(0);
        Reader { client, slot, epoch, delivered: Vec::new(), disagreed: Vec::new() }
    }

    /// A reader of a slot that an earlier one owned, whose session is gone.
    pub async fn reader_again(&self, slot: i32) -> Reader {
        let sql = "SELECT fencepost.force_release_slot('q', 'c', $1, 'the reader is done')";
        self.admin.execute(sql, &[&slot]).await.expect("an operator may");
        self.reader(slot).await
    }

    /// The ids that are committed.
    pub async fn committed(&self) -> Vec<i64> {
        let sql = "SELECT id FROM (SELECT id FROM fencepost.q1_0 UNION ALL SELECT id FROM fencepost.q1_1
            UNION ALL SELECT id FROM fencepost.q1_2) l ORDER BY id";
        self.admin.query(sql, &[]).await.expect("the log").iter().map(|row| row.get(0)).collect()
    }
}

/// Owns a slot, and remembers what it acked.
pub struct Reader {
    pub client: Client,
    pub slot: i32,
    pub epoch: i64,
    pub delivered: Vec<i64>,
    /// Receives that differed from the bare condition, as text.
    pub disagreed: Vec<String>,
}

/// A received batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    pub batch: i64,
    pub ids: Vec<i64>,
}

impl Reader {
    /// Receives at most `max`, acks, and remembers; whether something was there.
    pub async fn take(&mut self, max: i32) -> bool {
        let (slot, epoch) = (self.slot, self.epoch);
        let received = receive(&self.client, slot, epoch, max, None).await.expect("a receive");
        let Some(received) = received else { return false };
        self.check(&received, max).await;
        ack(&self.client, slot, epoch, received.batch).await.expect("an ack");
        self.delivered.extend(received.ids);
        true
    }

    /// Takes everything there is, three at a time.
    pub async fn drain(&mut self) {
        while self.take(3).await {}
    }

    /// Compares an open batch with the bare condition: what is finished in its snapshot and not behind its cursor, the first by position.
    async fn check(&mut self, received: &Received, max: i32) {
        const BARE: &str = "
            WITH state AS (
                SELECT s.cursor c, coalesce((s.next).s, (s.next).b) seen FROM fencepost.state_0 s
                WHERE s.slot = $1 ORDER BY s.version DESC LIMIT 1)
            SELECT l.position FROM state, fencepost.consumer, fencepost.queue q,
                (SELECT * FROM fencepost.q1_0 UNION ALL SELECT * FROM fencepost.q1_1 UNION ALL SELECT * FROM fencepost.q1_2) l
            WHERE l.partition % consumer.slots = $1 AND pg_visible_in_snapshot(l.xid, seen)
                AND NOT (l.position <= (c).h AND pg_visible_in_snapshot(l.xid, (c).b))
                AND NOT ((c).pos IS NOT NULL AND l.position <= (c).pos AND pg_visible_in_snapshot(l.xid, (c).s))
            ORDER BY l.position LIMIT $2";
        let slot = i16::try_from(self.slot).expect("a slot");
        let rows = self.client.query(BARE, &[&slot, &i64::from(max)]).await.expect("the bare condition");
        let bare: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        if bare != received.ids {
            self.disagreed.push(format!("received {:?}, by the bare condition {bare:?}", received.ids));
        }
    }
}

/// Sends one message under a key and returns its id.
pub async fn send(client: &impl GenericClient, key: &str, text: &str) -> Result<i64, Error> {
    Ok(client.query_one("SELECT fencepost.send('q', $1::text, key => $2)", &[&text, &key]).await?.get(0))
}

/// Receives, after an ack of `acked` in the same call if that is given.
pub async fn receive(
    client: &impl GenericClient,
    slot: i32,
    epoch: i64,
    max: i32,
    acked: Option<i64>,
) -> Result<Option<Received>, Error> {
    let sql =
        "SELECT batch_id, id FROM fencepost._receive('q', 'c', $1, $2, $3, $4) WHERE id IS NOT NULL ORDER BY position";
    let rows = client.query(sql, &[&slot, &epoch, &max, &acked]).await?;
    let ids = rows.iter().map(|row| row.get(1)).collect();
    Ok(rows.first().map(|row| Received { batch: row.get(0), ids }))
}

pub async fn ack(client: &impl GenericClient, slot: i32, epoch: i64, batch: i64) -> Result<i32, Error> {
    Ok(client.query_one("SELECT fencepost.ack('q', 'c', $1, $2, $3)", &[&slot, &epoch, &batch]).await?.get(0))
}

/// What went wrong between what was committed and what was delivered; empty when nothing did.
pub fn wrong(committed: &[i64], delivered: &[i64]) -> Vec<String> {
    let mut counts: BTreeMap<i64, i64> = committed.iter().map(|id| (*id, -1)).collect();
    for id in delivered {
        *counts.entry(*id).or_insert(0) += 1;
    }
    let told = counts.into_iter().filter(|(_, count)| *count != 0);
    told.map(|(id, count)| if count < 0 { format!("lost {id}") } else { format!("doubled {id}") }).collect()
}

/// The whole SQL, as one text.
fn schema(mutation: Option<Mutation>) -> String {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
    let root = std::env::var_os("FENCEPOST_SQL_DIR").map_or_else(own, PathBuf::from);
    let mut text = "CREATE SCHEMA fencepost; SET check_function_bodies = off;\n".to_owned();
    for folder in ["tables", "functions"] {
        let mut files = Vec::new();
        collect(&root.join(folder), &mut files);
        files.sort();
        for file in files {
            text += &std::fs::read_to_string(&file).expect("a file of SQL");
        }
    }
    let Some(Mutation { name, from, to }) = mutation else { return text };
    assert_eq!(text.matches(from).count(), 1, "the mutation `{name}` has to match once");
    text.replace(from, to)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of SQL") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "sql") {
            files.push(path);
        }
    }
}
