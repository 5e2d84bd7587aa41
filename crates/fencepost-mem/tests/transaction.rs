//! What the model's own transactions promise beside the contract: all or nothing, one write each, and no harm by a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fencepost_core::{Error, Kind, ManualClock, NewMessage, Partitions, QueueName, Queues, Result, Store};
use fencepost_mem::MemStore;

async fn store() -> (MemStore, QueueName) {
    let (store, queue) = (MemStore::new(Arc::new(ManualClock::default())), QueueName::new("orders").unwrap());
    store.create_queue(&queue, Partitions::default()).await.unwrap();
    (store, queue)
}

async fn stored(store: &MemStore) -> u64 {
    store.queue_status().await.unwrap()[0].stored
}

fn message() -> NewMessage {
    NewMessage::new("x").unwrap()
}

#[tokio::test]
async fn a_transaction_that_changes_much_is_one_write_and_one_that_changes_nothing_is_none() {
    let (store, queue) = store().await;
    let before = store.writes();
    let ids = store.write(|tx| {
        tx.send_in(&queue, message())?;
        tx.send_batch_in(&queue, vec![message(), message()])
    });
    assert_eq!(ids.unwrap().iter().map(|id| id.get()).collect::<Vec<_>>(), [2, 3], "ids are positions");
    assert_eq!((store.writes(), stored(&store).await), (before + 1, 3));
    store.write(|_| Ok(())).unwrap();
    assert_eq!(store.writes(), before + 1);
}

#[tokio::test]
async fn an_error_of_the_closure_undoes_what_it_did_and_is_returned() {
    let (store, queue) = store().await;
    let result: Result<()> = store.write(|tx| {
        tx.send_in(&queue, message())?;
        Err(Error::new(Kind::Conflict, "the caller's own reason").coded("own"))
    });
    assert_eq!(result.unwrap_err().code(), "own");
    assert_eq!(stored(&store).await, 0);
    assert_eq!(store.send(&queue, message()).await.unwrap().get(), 1, "the position was not used up");
}

#[tokio::test]
async fn a_panic_of_the_closure_undoes_what_it_did_and_the_store_goes_on() {
    let (store, queue) = store().await;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _: Result<()> = store.write(|tx| {
            tx.send_in(&queue, message())?;
            panic!("the caller's bug")
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(stored(&store).await, 0);
    store.send(&queue, message()).await.unwrap();
    assert_eq!(stored(&store).await, 1);
}

#[tokio::test]
async fn a_closed_store_does_not_run_the_closure() {
    let (store, _) = store().await;
    store.close().await;
    let result: Result<()> = store.write(|_| panic!("the closure ran"));
    assert_eq!(result.unwrap_err().code(), "store_closed");
}
