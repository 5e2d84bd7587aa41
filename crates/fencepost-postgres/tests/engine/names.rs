//! B20: names of every length and with every character that is allowed, from the client to the tables and back.

use fencepost_core::{
    BatchSize, ClaimSlot, ConsumerPath, Consumers, CreateConsumer, Key, NewMessage, Partitions, QueueName, Queues,
    Readers, Release, SlotCount, Slots, Start, WorkerName,
};

use crate::stage::Stage;

fn names() -> Vec<String> {
    vec![
        "n".repeat(70),
        "n".repeat(255),
        "ä".repeat(35),
        "日".repeat(85),
        "it's \"quoted\" \\ $$ {q} %s; drop table x --".to_owned(),
        "a/b/3/c".to_owned(),
        " leading and trailing ".to_owned(),
        "'".to_owned(),
    ]
}

/// Whatever they are called, queues, consumers, workers and keys work from end to end, and none is taken for another.
#[tokio::test]
async fn b20_long_and_strange_names_work_from_end_to_end() {
    let Some(stage) = Stage::new().await else { return };
    let store = &stage.store;
    for name in names() {
        let path = ConsumerPath::new(name.clone(), name.clone()).unwrap();
        store.create_queue(&path.queue, Partitions::default()).await.unwrap();
        store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(1).unwrap())).await.unwrap();
        for key in names() {
            let message = NewMessage::new(key.clone()).unwrap().key(Key::new(key).unwrap());
            store.send(&path.queue, message).await.unwrap();
        }
        let request = ClaimSlot::new(path.clone(), WorkerName::new(name.clone()).unwrap());
        let grant = store.claim(&request).await.unwrap().expect("the slot is free");
        let batch = store.receive(&grant.token, BatchSize::default()).await.unwrap().expect("all of them");
        let keys: Vec<_> =
            batch.messages.iter().map(|message| message.key.as_ref().unwrap().as_str().to_owned()).collect();
        assert_eq!(keys, names());
        assert!(
            batch.messages.iter().all(|message| message.payload == message.key.as_ref().unwrap().as_str().as_bytes())
        );
        store.ack(&grant.token, batch.id).await.unwrap();
        let status = store.slot_status(Some(&path.queue)).await.unwrap();
        assert_eq!((status.len(), &status[0].path), (1, &path));
        assert_eq!(status[0].state.owner.as_ref().unwrap().worker.as_str(), name);
        assert_eq!(store.release_slot(&grant.token).await.unwrap(), Release::Released);
        let page = store.read(&path.queue, Start::Earliest, BatchSize::default()).await.unwrap();
        assert_eq!(page.messages.len(), names().len());
        store.maintain(Some(&path.queue)).await.unwrap();
    }
    assert_eq!(store.queue_status().await.unwrap().len(), names().len());
    for name in names() {
        store.drop_queue(&QueueName::new(name).unwrap(), true).await.unwrap();
    }
    assert!(store.queue_status().await.unwrap().is_empty());
}
