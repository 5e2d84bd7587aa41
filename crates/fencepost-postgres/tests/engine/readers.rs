//! Reading in pages while transactions commit in another order than they took their positions.

use fencepost_core::{
    BatchSize, Checkpoint, MessageId, NewMessage, Page, Partitions, QueueName, Queues, Readers, Start,
};
use fencepost_postgres::TransactionCalls;

use crate::stage::Stage;

fn ids(page: &Page) -> Vec<i64> {
    page.messages.iter().map(|message| message.id.get()).collect()
}

/// B19: a message that commits after a page went past its position is on the next page, also when the checkpoint was a text meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b19_a_reader_loses_no_late_commit_between_pages() {
    let Some(stage) = Stage::new().await else { return };
    let (queue, most) = (QueueName::new("orders").unwrap(), BatchSize::new(2).unwrap());
    stage.store.create_queue(&queue, Partitions::default()).await.unwrap();
    let mut late = Vec::new();
    for _ in 0..3 {
        let mut client = stage.client().await;
        let transaction = client.transaction().await.unwrap();
        let id = transaction.send_in(&queue, &NewMessage::new("late").unwrap()).await.unwrap();
        // The transaction lives on with its connection.
        std::mem::forget(transaction);
        late.push((client, id));
    }
    let sent: Vec<MessageId> = stage.store.send_batch(&queue, vec![NewMessage::new("x").unwrap(); 3]).await.unwrap();

    let first = stage.store.read(&queue, Start::Earliest, most).await.unwrap();
    assert_eq!(ids(&first), [sent[0].get(), sent[1].get()]);
    for (client, _) in &late[1..] {
        client.batch_execute("COMMIT").await.unwrap();
    }
    let kept: Checkpoint = first.next.to_string().parse().unwrap();
    let second = stage.store.read(&queue, Start::After(kept), BatchSize::ONE).await.unwrap();
    assert_eq!(ids(&second), [late[1].1.get()]);
    late[0].0.batch_execute("COMMIT").await.unwrap();
    let mut seen = Vec::new();
    let mut next = second.next;
    loop {
        let page = stage.store.read(&queue, Start::After(next), most).await.unwrap();
        if page.messages.is_empty() {
            break;
        }
        seen.extend(ids(&page));
        next = page.next;
    }
    seen.sort_unstable();
    let mut left = vec![late[0].1.get(), late[2].1.get(), sent[2].get()];
    left.sort_unstable();
    assert_eq!(seen, left);
}
