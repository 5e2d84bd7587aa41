//! Names: of any script and up to 255 bytes they work end to end; what is no name never reaches a store.

use fencepost_core::{
    AcquireLease, Acquired, ClaimSlot, ConsumerName, ConsumerPath, CreateConsumer, Heartbeat, HolderName, Key, Kind,
    LeaseName, MessageKind, Nonce, Partitions, QueueName, Release, Renewal, WorkerName,
};

use crate::Harness;
use crate::stage::{count, refused, size, text, ttl, writes_nothing};

/// A33: an empty or blank name is refused by every constructor, so no call can carry one.
pub async fn a33_empty_and_blank_names_are_refused(h: &dyn Harness) {
    writes_nothing(h, "a refused name", async {
        for bad in ["", " ", "\t ", "\u{2003}", "a\0b", "a\nb"] {
            let refusals = [
                QueueName::new(bad).map(drop),
                ConsumerName::new(bad).map(drop),
                LeaseName::new(bad).map(drop),
                WorkerName::new(bad).map(drop),
                HolderName::new(bad).map(drop),
                Key::new(bad).map(drop),
                MessageKind::new(bad).map(drop),
                Nonce::new(bad).map(drop),
                ConsumerPath::new("orders", bad).map(drop),
                ConsumerPath::new(bad, "billing").map(drop),
            ];
            for refusal in refusals {
                refused(refusal, Kind::InvalidInput);
            }
        }
    })
    .await;
    assert!(WorkerName::new("w").is_ok());
}

/// B20: names of 70 and 255 bytes and of any script work end to end, for everything that has a name.
pub async fn b20_long_and_unicode_names_work_end_to_end(h: &dyn Harness) {
    let unicode = format!("注文·🦀·{}", "é".repeat(10));
    let quoted = r#"a'b"c`d\e%f;--/ g"#.to_owned();
    let wide = format!("{}x", "é".repeat(127));
    let names = ["x".repeat(70), "y".repeat(255), wide, unicode, quoted, "Case".into(), "case".into()];
    let store = h.store();
    for name in &names {
        assert!(name.len() <= 255);
        let path = ConsumerPath::new(name, name).unwrap();
        store.create_queue(&path.queue, Partitions::default()).await.unwrap();
        store.create_consumer(&CreateConsumer::ordered(path.clone(), count(1))).await.unwrap();

        let (key, kind) = (Key::new(name).unwrap(), MessageKind::new(name).unwrap());
        let message = text("x").key(key.clone()).kind(kind.clone()).header(name, name).unwrap();
        let id = store.send(&path.queue, message).await.unwrap();
        let (worker, nonce) = (WorkerName::new(name).unwrap(), Nonce::new(name).unwrap());
        let claim = ClaimSlot::new(path.clone(), worker.clone()).nonce(nonce.clone());
        let grant = store.claim(&claim).await.unwrap().unwrap();
        assert_eq!(store.claim(&claim).await.unwrap().unwrap().token, grant.token);
        let batch = store.receive(&grant.token, size(10)).await.unwrap().unwrap();
        let received = &batch.messages[0];
        assert_eq!((received.id, received.key.as_ref(), &received.kind), (id, Some(&key), &kind));
        assert_eq!(received.headers.get(name), Some(name));
        assert_eq!(store.ack(&grant.token, batch.id).await.unwrap(), 1);

        let held = vec![(grant.token.slot, grant.token.epoch)];
        let beat = Heartbeat { path: path.clone(), member: nonce.clone(), worker: worker.clone(), ttl: ttl(10), held };
        assert_eq!(store.heartbeat(&beat).await.unwrap().held, [Renewal::Held]);
        assert_eq!(store.members(&path).await.unwrap()[0].worker, worker);
        assert_eq!(store.slot_status(Some(&path.queue)).await.unwrap()[0].state.owner.as_ref().unwrap().worker, worker);

        let (lease, holder) = (LeaseName::new(name).unwrap(), HolderName::new(name).unwrap());
        let acquire = AcquireLease::new(lease.clone(), holder.clone()).nonce(nonce);
        let Acquired::Granted { token, .. } = store.acquire_lease(&acquire).await.unwrap() else {
            panic!("`{name}` is held")
        };
        let status = store.lease_status().await.unwrap().into_iter().find(|status| status.name == lease).unwrap();
        assert_eq!(store.lease(&lease).await.unwrap().as_ref(), Some(&status));
        assert_eq!(status.state.holding.unwrap().holder, holder);
        assert_eq!(store.release_lease(&token).await.unwrap(), Release::Released);
    }
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    let queues: Vec<_> = store.queue_status().await.unwrap().iter().map(|status| status.queue.to_string()).collect();
    assert_eq!(queues, sorted, "names are told apart byte for byte, and listed in that order");
    let leases: Vec<_> = store.lease_status().await.unwrap().iter().map(|status| status.name.to_string()).collect();
    assert_eq!(leases, sorted);
}
