//! A folder of its own for each test, a store in it, and calls that must succeed there.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fencepost_core::{
    BatchSize, ClaimSlot, ConsumerPath, Consumers, CreateConsumer, Kind, ManualClock, NewMessage, Partitions,
    QueueName, Queues, Result, SlotCount, SlotGrant, SlotIndex, SlotStatus, Slots, Ttl, WorkerName,
};
use fencepost_sqlite::rusqlite::Connection;
use fencepost_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// How long anything may take that must come.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A folder, and the clock that the stores in it live by.
pub struct Place {
    folder: TempDir,
    pub clock: Arc<ManualClock>,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder can be made"), clock: Arc::default() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The store's file.
    pub fn file(&self) -> PathBuf {
        self.path("app.db")
    }

    pub fn options(&self) -> SqliteOptions {
        SqliteOptions::default().create(true).clock(self.clock.clone())
    }

    pub async fn open(&self) -> SqliteStore {
        self.open_with(self.options()).await
    }

    pub async fn open_with(&self, options: SqliteOptions) -> SqliteStore {
        SqliteStore::open(self.file(), options).await.expect("the store opens")
    }

    /// An open store with the queue `orders` and its consumer `billing` of two slots.
    pub async fn stage(&self) -> SqliteStore {
        let store = self.open().await;
        stage(&store).await;
        store
    }

    /// A connection as an application has one beside the store.
    pub fn connect(&self) -> Connection {
        let connection = Connection::open(self.file()).expect("an application connects");
        connection.busy_timeout(PATIENCE).unwrap();
        connection
    }
}

pub async fn stage(store: &SqliteStore) {
    store.create_queue(&orders(), Partitions::default()).await.unwrap();
    store.create_consumer(&CreateConsumer::ordered(billing(), SlotCount::new(2).unwrap())).await.unwrap();
}

pub fn orders() -> QueueName {
    QueueName::new("orders").unwrap()
}

pub fn billing() -> ConsumerPath {
    ConsumerPath::new("orders", "billing").unwrap()
}

pub fn text(payload: impl Into<String>) -> NewMessage {
    NewMessage::new(payload.into()).unwrap()
}

pub fn ttl(time: Duration) -> Ttl {
    Ttl::new(time).unwrap()
}

pub fn index(slot: i64) -> SlotIndex {
    SlotIndex::new(slot).unwrap()
}

/// Claims a slot of `billing` that must be claimable.
pub async fn claim(store: &SqliteStore, name: &str, slot: i64, time: Duration) -> SlotGrant {
    let request = ClaimSlot::new(billing(), WorkerName::new(name).unwrap()).ttl(ttl(time));
    store.claim_slot(&request, index(slot)).await.unwrap().unwrap_or_else(|| panic!("slot {slot} is claimable"))
}

/// How a slot of `billing` stands.
pub async fn status(store: &SqliteStore, slot: i64) -> SlotStatus {
    let all = store.slot_status(Some(&orders())).await.unwrap();
    all.into_iter().find(|status| status.path == billing() && status.slot == index(slot)).expect("the slot is there")
}

/// Every message of `orders`, in order: its id and its text.
pub async fn messages(store: &SqliteStore) -> Vec<(i64, String)> {
    let path = ConsumerPath::new("orders", "everything").unwrap();
    store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(1).unwrap())).await.unwrap();
    let claim = ClaimSlot::new(path.clone(), WorkerName::new("reader").unwrap());
    let token = store.claim(&claim).await.unwrap().expect("its slot is free").token;
    let mut found = Vec::new();
    while let Some(batch) = store.receive(&token, BatchSize::new(10_000).unwrap()).await.unwrap() {
        found.extend(batch.messages.iter().map(|m| (m.id.get(), String::from_utf8_lossy(&m.payload).into_owned())));
        store.ack(&token, batch.id).await.unwrap();
    }
    store.drop_consumer(&path, true).await.unwrap();
    found
}

/// The texts of every message of `orders`, in order.
pub async fn texts(store: &SqliteStore) -> Vec<String> {
    messages(store).await.into_iter().map(|(_, text)| text).collect()
}

/// The rows of an application's table.
pub fn rows(connection: &Connection, table: &str) -> Vec<i64> {
    let mut statement = connection.prepare(&format!("SELECT id FROM {table} ORDER BY id")).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Checks what a call failed with.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(answer: Result<T>, kind: Kind, code: &str) {
    let error = answer.expect_err("the call is refused");
    assert_eq!((error.kind(), error.code()), (kind, code), "{error:?}");
}

/// Copies files by another process: opening a database file in a process that has it open drops its locks.
pub fn copy(from: &[PathBuf], to: &Path) {
    let copied = Command::new("cp").arg("--").args(from).arg(to).status().expect("cp runs");
    assert!(copied.success(), "cp fails");
}

/// A file's content, read by another process.
pub fn bytes(file: &Path) -> Vec<u8> {
    Command::new("cat").arg("--").arg(file).output().expect("cat runs").stdout
}

/// How many commits the write-ahead log of the file holds.
pub fn commits(file: &Path) -> usize {
    // The format is documented at https://sqlite.org/fileformat2.html#walformat
    let mut name = file.as_os_str().to_owned();
    name.push("-wal");
    let log = bytes(Path::new(&name));
    let number = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
    if log.len() < 32 {
        return 0;
    }
    let frame = number(8) as usize + 24;
    let current = |at: &usize| log[at + 8..at + 16] == log[16..24];
    (32..=log.len() - frame).step_by(frame).take_while(current).filter(|at| number(at + 4) != 0).count()
}

/// The writer, standing still: what is called meanwhile waits in its queue, and goes together when it is let go.
pub struct Still {
    gate: Sender<()>,
    standing: JoinHandle<()>,
}

impl Still {
    pub async fn new(store: &SqliteStore) -> Self {
        let (entered, entering) = tokio::sync::oneshot::channel();
        let (gate, opened) = std::sync::mpsc::channel();
        let store = store.clone();
        let standing = tokio::spawn(async move {
            let stood = store.between_transactions(move || {
                let _ = entered.send(());
                let _ = opened.recv();
            });
            stood.await.unwrap();
        });
        entering.await.expect("the writer stands still");
        Self { gate, standing }
    }

    pub async fn let_go(self) {
        drop(self.gate);
        self.standing.await.unwrap();
    }
}

/// Makes a call that cannot be answered yet: it is in the queue when this returns.
pub fn queued<F: Future>(call: F) -> Pin<Box<F>> {
    let mut call = Box::pin(call);
    assert!(matches!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending), "the call waits");
    call
}

/// Runs a test on several threads.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("the test ends in time") })
}
