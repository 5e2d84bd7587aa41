//! Names: of any script and up to 255 bytes they work end to end; what is no name never reaches a store.

use std::time::Duration;

use fencepost_core::{
    AcquireLease, Acquired, BatchId, BatchSize, ChannelName, ClaimSlot, ConsumerName, ConsumerPath, CreateConsumer,
    Delay, Epoch, FailurePolicy, FailureText, Heartbeat, HolderName, IdempotencyKey, Key, Kind, LeaseName, MAX_FAILURE,
    MessageId, MessageKind, Nonce, OnceTtl, Partitions, QueueName, Release, Renewal, ScheduleName, SentOnce, SlotCount,
    SlotIndex, Start, WorkerName,
};

use crate::Harness;
use crate::stage::{Stage, count, refused, size, text, ttl, why, writes_nothing};

/// A33: an empty or blank name is refused by every constructor, so no call can carry one.
pub async fn a33_empty_and_blank_names_are_refused(h: &dyn Harness) {
    writes_nothing(h, "a refused name", async {
        for bad in ["", " ", "\t ", "\u{2003}", "a\0b", "a\nb"] {
            let refusals = [
                QueueName::new(bad).map(drop),
                ConsumerName::new(bad).map(drop),
                LeaseName::new(bad).map(drop),
                ScheduleName::new(bad).map(drop),
                ChannelName::new(bad).map(drop),
                WorkerName::new(bad).map(drop),
                HolderName::new(bad).map(drop),
                Key::new(bad).map(drop),
                MessageKind::new(bad).map(drop),
                Nonce::new(bad).map(drop),
                IdempotencyKey::new(bad).map(drop),
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

/// A33: what is out of its range is refused by its constructor, so no call can carry it: counts, times, numbers and failures.
pub async fn a33_what_is_out_of_range_is_refused(h: &dyn Harness) {
    let second = Duration::from_secs(1);
    let policy = FailurePolicy::default();
    writes_nothing(h, "a refused argument", async {
        for bad in [i64::MIN, -1, 0] {
            let refusals = [
                BatchSize::new(bad).map(drop),
                SlotCount::new(bad).map(drop),
                Partitions::new(bad).map(drop),
                MessageId::new(bad).map(drop),
                BatchId::new(bad).map(drop),
                Epoch::new(bad).map(drop),
                policy.max_attempts(bad).map(drop),
                policy.max_crashes(bad).map(drop),
            ];
            for refusal in refusals {
                refused(refusal, Kind::InvalidInput);
            }
        }
        let refusals = [
            BatchSize::new(10_001).map(drop),
            SlotIndex::new(-1).map(drop),
            policy.max_attempts(1_001).map(drop),
            policy.max_crashes(101).map(drop),
            policy.backoff(Duration::ZERO).map(drop),
            policy.backoff(25 * 60 * 60 * second).map(drop),
            Delay::new(366 * 24 * 60 * 60 * second).map(drop),
            OnceTtl::new(second / 2).map(drop),
            OnceTtl::new(366 * 24 * 60 * 60 * second).map(drop),
            FailureText::new(" \n").map(drop),
            FailureText::new("a\0b").map(drop),
        ];
        for refusal in refusals {
            refused(refusal, Kind::InvalidInput);
        }
        for bad in ["", "soon", "id:", "id:-1", "p-1", "-1", "2026-13-01T00:00:00Z"] {
            refused(bad.parse::<Start>(), Kind::InvalidInput);
        }
        refused(FailureText::new("x".repeat(MAX_FAILURE + 1)), Kind::LimitExceeded);
    })
    .await;
    assert!(FailureText::new("x".repeat(MAX_FAILURE)).is_ok());
}

/// The longest text of a failure, of any script, comes back as it was given.
pub async fn the_longest_text_of_a_failure_comes_back(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let reason = format!("é{}\n'\"`🦀", "x".repeat(MAX_FAILURE - 10));
    assert_eq!(reason.len(), MAX_FAILURE);
    let sent = stage.send(0, 1).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 1).await;
    stage.give_up(&token, &batch, sent[0], &reason).await;
    stage.ack(&token, &batch).await;
    let told = stage.through(h.another().await).dead().await.remove(0).reason.unwrap();
    assert!(told.as_str() == reason);
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
        store.dead_letter(&grant.token, batch.id, id, &why(name)).await.unwrap();
        assert_eq!(store.ack(&grant.token, batch.id).await.unwrap(), 0);
        let letter = store.dead_letters(&path, None, size(10)).await.unwrap().remove(0);
        assert_eq!((&letter.path, letter.key.as_ref(), &letter.kind), (&path, Some(&key), &kind));
        assert_eq!(letter.reason.map(|reason| reason.to_string()).as_ref(), Some(name));
        assert_eq!(store.dead_counts(Some(&path.queue)).await.unwrap(), [(path.clone(), 1)]);
        assert_eq!(store.replay_dead_letters(&path, Some(&[id])).await.unwrap(), 1);
        let batch = store.receive(&grant.token, size(10)).await.unwrap().unwrap();
        assert_eq!(store.ack(&grant.token, batch.id).await.unwrap(), 1);
        let once = IdempotencyKey::new(name).unwrap();
        let send_once = || store.send_once(&path.queue, text("once"), &once, OnceTtl::default());
        let first = send_once().await.unwrap();
        assert_eq!(send_once().await.unwrap(), SentOnce { id: first.id, deduplicated: true });

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
