//! Dropping what others use at that moment.

use fencepost_core::{Dropped, NewMessage, Partitions, QueueName, Queues};

use crate::races::somebody_waits;
use crate::stage::Stage;

/// Maintenance reads the log's tables and then writes the queue's row; a drop has to take them in the same order.
#[tokio::test]
async fn a_queue_is_dropped_after_its_maintenance_and_neither_meets_a_deadlock() {
    let Some(stage) = Stage::new().await else { return };
    let queue = QueueName::new("q").unwrap();
    stage.store.create_queue(&queue, Partitions::default()).await.unwrap();
    stage.store.send(&queue, NewMessage::new("x").unwrap()).await.unwrap();
    let mut client = stage.client().await;
    let maintenance = client.transaction().await.unwrap();
    maintenance.execute("select fencepost.maintain('q')", &[]).await.unwrap();

    let dropped = tokio::spawn({
        let (store, queue) = (stage.store.clone(), queue.clone());
        async move { store.drop_queue(&queue, true).await }
    });
    somebody_waits(&stage).await;
    // Maintenance that comes meanwhile leaves it alone, as does one of everything.
    assert_eq!(stage.store.maintain(None).await.unwrap(), 0);
    maintenance.execute("update fencepost.queue set changes = changes where name = 'q'", &[]).await.unwrap();
    maintenance.commit().await.unwrap();
    assert_eq!(dropped.await.unwrap().unwrap(), Dropped::Dropped);
    assert!(stage.store.queue_status().await.unwrap().is_empty());
}
