//! The server has no room left.

use std::time::{Duration, Instant};

use fencepost_core::{
    BatchSize, ClaimSlot, ConsumerPath, Consumers, CreateConsumer, Kind, NewMessage, Partitions, Queues, Retry,
    SlotCount, Slots, WorkerName,
};
use fencepost_postgres::PostgresStore;
use fencepost_test_support::{DEFAULT_MAJOR, PgServer, skip_or_fail};
use tokio_postgres::Client;

use crate::script::run;
use crate::stage::options;

const DISK: u64 = 48 << 20;

/// Takes what is left of the disk, or gives it back: through the server, which alone sees it.
async fn fill(client: &Client, disk: &str, full: bool) {
    let program = match full {
        true => format!("cat > /dev/null; dd if=/dev/zero of={disk}/filler bs=8k 2> /dev/null; true"),
        false => format!("cat > /dev/null; rm {disk}/filler"),
    };
    run(client, &format!("copy (select 1) to program '{program}'")).await;
}

/// Out of disk: a send says `storage_full` with what to do and stores nothing, and so does whatever else must write; what was answered before is
/// there; reading and looking go on; once there is room, everything does, and every message that was answered comes once, in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_nothing_and_work_goes_on_with_the_first_free_byte() {
    let Some(server) = skip_or_fail(PgServer::private_with_disk(DEFAULT_MAJOR, DISK).await) else { return };
    let disk = server.disk().display().to_string();
    let database = server.database().await.unwrap();
    let admin = server.connect("postgres").await.unwrap();
    run(&admin, &format!("create tablespace small location '{disk}'")).await;
    run(&admin, &format!("alter database {} set tablespace small", database.name())).await;
    let store = PostgresStore::open(&database.url(), options().create(true)).await.unwrap();
    let path = ConsumerPath::new("q", "c").unwrap();
    store.create_queue(&path.queue, Partitions::new(1).unwrap()).await.unwrap();
    store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(1).unwrap())).await.unwrap();
    let message = || NewMessage::new(vec![b'x'; 2_000]).unwrap();
    let mut answered = vec![store.send(&path.queue, message()).await.unwrap()];
    let grant = store.claim(&ClaimSlot::new(path.clone(), WorkerName::new("w").unwrap())).await.unwrap().unwrap();

    fill(&admin, &disk, true).await;
    // There is room within pages that are there already.
    let error = loop {
        match store.send(&path.queue, message()).await {
            Ok(id) => answered.push(id),
            Err(error) => break error,
        }
        assert!(answered.len() < 100_000, "it becomes full");
    };
    assert_eq!((error.kind(), error.code(), error.retry()), (Kind::Unavailable, "storage_full", Retry::Backoff));
    assert!(error.hint().is_some_and(|hint| hint.contains("make room")), "{error:?}");
    let batch = vec![message(); 100];
    assert_eq!(store.send_batch(&path.queue, batch).await.unwrap_err().code(), "storage_full");
    // Looking at it takes no room.
    let status = store.queue_status().await.unwrap().remove(0);
    assert_eq!(status.stored, answered.len() as u64, "nothing of what was refused is there");
    let since = Instant::now();
    assert!(store.send(&path.queue, message()).await.is_err());
    assert!(since.elapsed() < Duration::from_secs(5), "a refusal keeps nobody waiting: {:?}", since.elapsed());

    fill(&admin, &disk, false).await;
    answered.push(store.send(&path.queue, message()).await.unwrap());
    let mut received = Vec::new();
    while let Some(batch) = store.receive(&grant.token, BatchSize::new(500).unwrap()).await.unwrap() {
        received.extend(batch.messages.iter().map(|message| message.id));
        store.ack(&grant.token, batch.id).await.unwrap();
    }
    assert_eq!(received, answered);
}
