//! Notices: whoever listens gets each one that is committed after it began, once and in order; nobody else gets anything.

use std::pin::pin;
use std::time::Duration;

use fencepost_core::{
    ChannelName, Closed, Kind, MAX_NOTICE, NOTICES_WAITING, Notice, NoticePayload, NoticeReceiver, Topic,
};

use crate::dropped::poll_once;
use crate::stage::{refused, woken, writes_nothing};
use crate::{End, Harness, Step, StepOutcome};

fn channel(name: &str) -> ChannelName {
    ChannelName::new(name).unwrap()
}

fn payload(text: &str) -> NoticePayload {
    NoticePayload::new(text).unwrap()
}

async fn next(receiver: &mut NoticeReceiver) -> Notice {
    let next = tokio::time::timeout(Duration::from_secs(20), receiver.next()).await;
    next.expect("a notice comes").expect("the store is open")
}

/// The text of the next notice, which must be one.
async fn heard(receiver: &mut NoticeReceiver) -> String {
    match next(receiver).await {
        Notice::Payload { payload, .. } => payload.as_str().to_owned(),
        other => panic!("{other:?} in place of a payload"),
    }
}

/// B30: what is notified is delivered to who listens, with its payload and by the engine's clock.
pub async fn b30_a_notice_is_delivered(h: &dyn Harness) {
    let store = h.store();
    let mut receiver = store.listen(&channel("c")).await.unwrap();
    assert_eq!(receiver.channel(), &channel("c"));
    let now = store.now().await.unwrap();
    for text in ["hello", "", "ünïcode ' \" \\ \n"] {
        store.notify(&channel("c"), &payload(text)).await.unwrap();
        let Notice::Payload { payload, at } = next(&mut receiver).await else { panic!("a payload was sent") };
        assert_eq!((payload.as_str(), at), (text, now));
    }
}

/// B30: what is notified through another handle is delivered as well, each notice once and in order.
pub async fn b30_a_notice_from_elsewhere_is_delivered_once_and_in_order(h: &dyn Harness) {
    let (here, there) = (h.store(), h.another().await);
    let mut receiver = here.listen(&channel("c")).await.unwrap();
    for n in 0..100 {
        let sender = if n % 3 == 0 { &here } else { &there };
        sender.notify(&channel("c"), &payload(&n.to_string())).await.unwrap();
    }
    for n in 0..100 {
        assert_eq!(heard(&mut receiver).await, n.to_string());
    }
    there.notify(&channel("c"), &payload("last")).await.unwrap();
    assert_eq!(heard(&mut receiver).await, "last");
}

/// B30: a payload of the largest size is delivered whole, and a larger one is refused.
pub async fn b30_a_payload_at_the_limit_is_delivered_and_a_larger_one_refused(h: &dyn Harness) {
    let store = h.store();
    let mut receiver = store.listen(&channel("c")).await.unwrap();
    let largest = "ä".repeat(MAX_NOTICE / 2);
    store.notify(&channel("c"), &payload(&largest)).await.unwrap();
    assert_eq!(heard(&mut receiver).await, largest);
    let refusal =
        writes_nothing(h, "a refused payload", async { NoticePayload::new(largest + "x") }).await;
    assert_eq!(refused(refusal, Kind::LimitExceeded).fact("limit"), Some("8000"));
}

/// B20: channels of 255 bytes of any script work end to end, and ones that differ in their end alone are two.
pub async fn b20_long_channels_are_told_apart(h: &dyn Harness) {
    let (here, there) = (h.store(), h.another().await);
    let names = [
        format!("{}1", "é".repeat(127)),
        format!("{}2", "é".repeat(127)),
        "x".repeat(70),
        "x".repeat(71),
        "X".repeat(70),
        "注文 · nº 7".to_owned(),
        " 注文 · nº 7".to_owned(),
    ];
    assert_eq!(names[0].len(), 255);
    let mut receivers = Vec::new();
    for name in &names {
        receivers.push(here.listen(&channel(name)).await.unwrap());
    }
    for name in &names {
        there.notify(&channel(name), &payload(name)).await.unwrap();
    }
    for (name, receiver) in names.iter().zip(&mut receivers) {
        assert_eq!(heard(receiver).await, *name);
    }
}

/// Every listener of the channel gets a notice, and a listener of another channel gets none.
pub async fn every_listener_of_the_channel_gets_it_and_no_other(h: &dyn Harness) {
    let (here, there) = (h.store(), h.another().await);
    let mut receivers = [
        here.listen(&channel("c")).await.unwrap(),
        here.listen(&channel("c")).await.unwrap(),
        there.listen(&channel("c")).await.unwrap(),
    ];
    let mut stranger = here.listen(&channel("d")).await.unwrap();
    here.notify(&channel("c"), &payload("1")).await.unwrap();
    there.notify(&channel("c"), &payload("2")).await.unwrap();
    there.notify(&channel("d"), &payload("own")).await.unwrap();
    for receiver in &mut receivers {
        assert_eq!((heard(receiver).await, heard(receiver).await), ("1".to_owned(), "2".to_owned()));
    }
    assert_eq!(heard(&mut stranger).await, "own");
}

/// What a transaction notifies is delivered when it commits, in its order, and never when it is rolled back.
pub async fn a_notice_in_a_transaction_is_delivered_when_it_commits(h: &dyn Harness) {
    let store = h.store();
    let mut receiver = store.listen(&channel("c")).await.unwrap();
    let steps = |texts: &[&str]| -> Vec<Step> {
        let step = |text: &&str| Step::Notify { channel: channel("c"), payload: payload(text) };
        texts.iter().map(step).collect()
    };
    let outcomes = h.transact(steps(&["never"]), End::Rollback).await.unwrap();
    assert_eq!(outcomes, [StepOutcome::Notified]);
    h.transact(steps(&["1", "2"]), End::Commit).await.unwrap();
    store.notify(&channel("c"), &payload("3")).await.unwrap();
    for text in ["1", "2", "3"] {
        assert_eq!(heard(&mut receiver).await, text);
    }
}

/// Who begins to listen gets nothing of what was committed before, whoever else listens.
pub async fn a_listener_gets_nothing_of_what_was_before(h: &dyn Harness) {
    let (here, there) = (h.store(), h.another().await);
    here.notify(&channel("c"), &payload("before all")).await.unwrap();
    let mut first = here.listen(&channel("c")).await.unwrap();
    let mut listeners = Vec::new();
    for n in 0..20 {
        there.notify(&channel("c"), &payload(&n.to_string())).await.unwrap();
        listeners.push(here.listen(&channel("c")).await.unwrap());
    }
    there.notify(&channel("c"), &payload("20")).await.unwrap();
    for (n, listener) in listeners.iter_mut().enumerate() {
        assert_eq!(heard(listener).await, (n + 1).to_string());
    }
    for n in 0..=20 {
        assert_eq!(heard(&mut first).await, n.to_string());
    }
}

/// B25: a thousand listeners that come and go leave nothing behind, write nothing, and disturb nobody.
pub async fn b25_a_thousand_listeners_leave_nothing(h: &dyn Harness) {
    let store = h.store();
    let mut kept = store.listen(&channel("kept")).await.unwrap();
    writes_nothing(h, "listening", async {
        let mut receivers = Vec::new();
        for n in 0..1_000 {
            receivers.push(store.listen(&channel(&format!("c{}", n % 300))).await.unwrap());
        }
    })
    .await;
    store.notify(&channel("c7"), &payload("nobody")).await.unwrap();
    store.notify(&channel("kept"), &payload("kept")).await.unwrap();
    assert_eq!(heard(&mut kept).await, "kept");
    let mut again = store.listen(&channel("c7")).await.unwrap();
    store.notify(&channel("c7"), &payload("again")).await.unwrap();
    assert_eq!(heard(&mut again).await, "again");
}

/// A receiver that is not asked hears once how many it missed, and goes on with the newest.
pub async fn a_full_receiver_hears_how_many_it_missed(h: &dyn Harness) {
    let store = h.store();
    let mut lazy = store.listen(&channel("c")).await.unwrap();
    let mut keen = store.listen(&channel("c")).await.unwrap();
    for n in 0..NOTICES_WAITING + 10 {
        store.notify(&channel("c"), &payload(&n.to_string())).await.unwrap();
        assert_eq!(heard(&mut keen).await, n.to_string());
    }
    assert_eq!(next(&mut lazy).await, Notice::Lagged(10));
    for n in 10..NOTICES_WAITING + 10 {
        assert_eq!(heard(&mut lazy).await, n.to_string());
    }
    store.notify(&channel("c"), &payload("last")).await.unwrap();
    assert_eq!(heard(&mut lazy).await, "last");
}

/// A wait that is dropped loses no notice.
pub async fn a_dropped_wait_loses_nothing(h: &dyn Harness) {
    let store = h.store();
    let mut receiver = store.listen(&channel("c")).await.unwrap();
    for text in ["1", "2"] {
        assert!(poll_once(&mut pin!(receiver.next())).is_none(), "nothing was sent");
        store.notify(&channel("c"), &payload(text)).await.unwrap();
        assert_eq!(heard(&mut receiver).await, text);
    }
}

/// Who sleeps on a channel is woken by a notice, as on any topic.
pub async fn a_notice_wakes_who_sleeps_on_its_channel(h: &dyn Harness) {
    let (here, there) = (h.store(), h.another().await);
    let _listens = here.listen(&channel("other")).await.unwrap();
    let mut sleeper = here.wakes(&Topic::Channel(channel("c")));
    there.notify(&channel("c"), &payload("x")).await.unwrap();
    woken(&mut sleeper).await;
    here.notify(&channel("c"), &payload("y")).await.unwrap();
    woken(&mut sleeper).await;
}

/// Closing the store tells every listener, after what had come before.
pub async fn closing_tells_every_listener(h: &dyn Harness) {
    let store = h.store();
    let mut receiver = store.listen(&channel("c")).await.unwrap();
    let mut witness = store.listen(&channel("c")).await.unwrap();
    store.notify(&channel("c"), &payload("last")).await.unwrap();
    assert_eq!(heard(&mut witness).await, "last");
    store.close().await;
    assert_eq!(heard(&mut receiver).await, "last");
    assert_eq!(receiver.next().await, Err(Closed));
    assert_eq!(witness.next().await, Err(Closed));
}
