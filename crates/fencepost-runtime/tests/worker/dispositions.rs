//! What becomes of single messages that a handler could not finish, and how a worker waits for them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_core::{
    BatchSize, CreateConsumer, DeadLetters, Delay, FailurePolicy, Key, Message, NewMessage, OnFailure, Queues,
    SlotCount,
};
use fencepost_core::{Consumers, Store};
use fencepost_runtime::{HandlerError, Inline, Instead, MessageHandler, PerMessage, Report, SlotContext};
use tokio::time::Instant;

use crate::stage::{Stage, next, nothing_to_do, pass, path, settings, shows};

fn seconds(seconds: u64) -> Delay {
    Delay::new(Duration::from_secs(seconds)).unwrap()
}

type Fails = dyn Fn(&Message) -> Result<(), HandlerError> + Send + Sync;

/// What was run, as `payload/attempt`, and what each of them does the first times.
#[derive(Clone)]
struct Script {
    fails: Arc<Fails>,
    ran: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn new(fails: impl Fn(&Message) -> Result<(), HandlerError> + Send + Sync + 'static) -> Self {
        Self { fails: Arc::new(fails), ran: Arc::default() }
    }

    fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }
}

#[async_trait]
impl MessageHandler for Script {
    async fn handle(&self, message: &Message, _slot: &SlotContext) -> Result<(), HandlerError> {
        let text = String::from_utf8_lossy(&message.payload);
        self.ran.lock().unwrap().push(format!("{text}/{}", message.attempt));
        (self.fails)(message)
    }
}

fn is(message: &Message, text: &str) -> bool {
    message.payload == text.as_bytes()
}

/// A stage whose consumer `c` has this policy.
async fn stage(policy: FailurePolicy) -> Stage {
    let stage = Stage::new(1).await;
    stage.store.drop_consumer(&path(), true).await.unwrap();
    let request = CreateConsumer::ordered(path(), SlotCount::new(1).unwrap()).policy(policy);
    stage.store.create_consumer(&request).await.unwrap();
    stage
}

/// Sends messages `text` of key `k`, or of the key before a `:`.
async fn send(stage: &Stage, texts: &[&str]) {
    let message = |text: &&str| {
        let key = text.split_once(':').map_or("k", |(key, _)| key);
        NewMessage::new(*text).unwrap().key(Key::new(key).unwrap())
    };
    stage.store.send_batch(&path().queue, texts.iter().map(message).collect()).await.unwrap();
}

/// Runs a worker until nothing is left, and returns what it counted.
async fn run_until_empty(stage: &Stage, handler: impl MessageHandler) -> Report {
    let worker = stage.start(settings("w1"), PerMessage::new(handler, 4)).await;
    while stage.lag().await > 0 {
        pass(Duration::from_millis(100)).await;
    }
    worker.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_failed_message_comes_again_alone_and_the_others_are_acked() {
    let stage = stage(FailurePolicy::default()).await;
    send(&stage, &["1", "2", "3"]).await;
    let script = Script::new(|message| if is(message, "2") && message.attempt < 3 { Err("no".into()) } else { Ok(()) });
    let report = run_until_empty(&stage, script.clone()).await;
    assert_eq!(script.ran(), ["1/1", "2/1", "3/1", "2/2", "2/3"]);
    assert_eq!(report, Report { batches: 3, messages: 3, failed: 2, lost: 0 });
}

/// A46: the later messages of the key are not run, and follow in order; other keys go on.
#[tokio::test(start_paused = true)]
async fn a46_under_pause_the_key_waits_and_other_keys_go_on() {
    let stage = stage(FailurePolicy::default().on_failure(OnFailure::Pause)).await;
    send(&stage, &["k:1", "k:2", "other:1", "k:3", "other:2"]).await;
    let script =
        Script::new(|message| if is(message, "k:1") && message.attempt < 3 { Err("no".into()) } else { Ok(()) });
    run_until_empty(&stage, script.clone()).await;
    let of = |key: &str| script.ran().into_iter().filter(|line| line.starts_with(key)).collect::<Vec<_>>();
    assert_eq!(of("k:"), ["k:1/1", "k:1/2", "k:1/3", "k:2/1", "k:3/1"]);
    assert_eq!(of("other:"), ["other:1/1", "other:2/1"]);
    assert!(
        script.ran().iter().position(|line| line == "other:2/1") < script.ran().iter().position(|line| line == "k:1/2")
    );
}

#[tokio::test(start_paused = true)]
async fn a_snoozed_message_spends_no_attempt_and_comes_when_said() {
    let stage = stage(FailurePolicy::default()).await;
    send(&stage, &["1"]).await;
    let started = Instant::now();
    let script = Script::new(move |_| {
        if started.elapsed() < Duration::from_secs(60) { Err(Instead::Snooze(seconds(60)).into()) } else { Ok(()) }
    });
    let report = run_until_empty(&stage, script.clone()).await;
    assert_eq!(script.ran(), ["1/1", "1/1"]);
    let late = started.elapsed() - Duration::from_secs(60);
    assert!(late < Duration::from_millis(150), "{late:?}");
    assert_eq!(report, Report { batches: 2, messages: 1, failed: 1, lost: 0 });
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_rejects_and_what_fails_too_often_is_dead_with_its_reason() {
    let stage = stage(FailurePolicy::default().max_attempts(2).unwrap()).await;
    send(&stage, &["1", "2", "3"]).await;
    let script = Script::new(|message| match message.payload.as_slice() {
        b"1" => Err(Instead::Dead("it is malformed".into()).into()),
        b"2" => panic!("attempt {}", message.attempt),
        _ => Ok(()),
    });
    run_until_empty(&stage, script.clone()).await;
    assert_eq!(script.ran(), ["1/1", "2/1", "3/1", "2/2"]);
    let dead = stage.store.dead_letters(&path(), None, BatchSize::default()).await.unwrap();
    let told: Vec<_> = dead
        .iter()
        .map(|letter| (letter.cause.as_str(), letter.attempts, letter.reason.as_ref().unwrap().to_string()))
        .collect();
    let panicked = "the handler panicked: attempt 2".to_owned();
    assert_eq!(told, [("rejected", 1, "it is malformed".to_owned()), ("attempts", 2, panicked)]);
}

/// B24: a retry and a delayed message wake a worker that sleeps, within 50 ms of when they are due.
#[tokio::test(start_paused = true)]
async fn b24_what_becomes_due_wakes_a_worker_that_sleeps() {
    let stage = Stage::new(1).await;
    let (handler, mut shown) = shows();
    let settings = settings("w1").poll(Duration::from_secs(30));
    let worker = stage.start(settings, handler).await;
    worker.diary.tells("claimed 0").await;

    let sent = Instant::now();
    let message = NewMessage::new("held back").unwrap().delay(seconds(7));
    stage.store.send(&path().queue, message).await.unwrap();
    // The store of this stage wakes nobody, so the worker is told as an engine would.
    stage.store.sleepers.wake(&fencepost_core::Topic::Messages(path().queue));
    let first = next(&mut shown).await;
    let late = sent.elapsed() - Duration::from_secs(7);
    assert!(late < Duration::from_millis(50), "{late:?}");

    let retry = Instead::RetryAfter { delay: seconds(11), reason: "later".into() };
    let failed = Instant::now();
    first.answer.send(Err(retry.into())).unwrap();
    let again = next(&mut shown).await;
    let late = failed.elapsed() - Duration::from_secs(11);
    assert!(late < Duration::from_millis(50), "{late:?}");
    assert_eq!(again.batch.messages[0].attempt, 2);
    worker.stop().await;
}

/// Paused, it keeps its slots and takes nothing; resumed, it goes on.
#[tokio::test(start_paused = true)]
async fn a_paused_worker_keeps_its_slots_and_takes_nothing_new() {
    let stage = Stage::new(2).await;
    let joined = stage.join(settings("w1"), nothing_to_do()).await;
    let control = joined.worker.control();
    control.pause();
    let worker = joined.run();
    worker.diary.until(|diary| diary.held() == 2).await;
    stage.send(4).await;
    pass(Duration::from_secs(20)).await;
    assert_eq!((worker.diary.count("received"), worker.diary.held(), stage.lag().await), (0, 2, 4));
    control.resume();
    worker.diary.until(|diary| diary.count("acked") == 2).await;
    assert_eq!(worker.stop().await, Report { batches: 2, messages: 4, failed: 0, lost: 0 });
}

#[tokio::test(start_paused = true)]
async fn no_more_batches_are_handled_at_once_than_said() {
    let stage = Stage::new(4).await;
    stage.send(16).await;
    let (handler, mut shown) = shows();
    let worker = stage.start(settings("w1").at_once(2), handler).await;
    let (one, two) = (next(&mut shown).await, next(&mut shown).await);
    pass(Duration::from_secs(5)).await;
    assert!(shown.is_empty(), "a third one waits");
    one.answer.send(Ok(fencepost_runtime::Done::Ack)).unwrap();
    let three = next(&mut shown).await;
    assert_ne!(three.batch.messages, two.batch.messages);
    for shown in [two, three] {
        shown.answer.send(Ok(fencepost_runtime::Done::Ack)).unwrap();
    }
    next(&mut shown).await.answer.send(Ok(fencepost_runtime::Done::Ack)).unwrap();
    worker.diary.until(|diary| diary.count("acked") == 4).await;
    worker.stop().await;
}

/// A worker that is stopped while a message fails: nothing is spent.
#[tokio::test(start_paused = true)]
async fn a_clean_stop_spends_no_attempt() {
    let stage = stage(FailurePolicy::default()).await;
    stage.send(2).await;
    let (handler, mut shown) = shows();
    let worker = stage.start(settings("w1"), handler).await;
    let held = next(&mut shown).await;
    worker.stop.cancel();
    pass(Duration::from_secs(1)).await;
    held.answer.send(Err("the database went away with us".into())).unwrap();
    assert_eq!(worker.stop().await, Report::default());
    let heir = stage.claim(0).await.unwrap();
    let batch = stage.receive(&heir).await;
    assert_eq!((batch.crashes, batch.deliveries, batch.messages.len()), (0, 2, 2));
    assert!(batch.messages.iter().all(|message| message.attempt == 1));
}

/// Inline mode: everything there is, in the caller's own task; a slot that somebody holds is left alone.
#[tokio::test(start_paused = true)]
async fn inline_mode_runs_what_there_is_and_returns() {
    let stage = Stage::new(2).await;
    stage.send(6).await;
    let held = stage.claim(1).await.unwrap();
    let script =
        Script::new(|message| if message.attempt == 1 && is(message, "0") { Err("no".into()) } else { Ok(()) });
    let inline = Inline::new(stage.store.clone() as Arc<dyn Store>, path(), PerMessage::new(script.clone(), 1));
    let report = inline.run().await.unwrap();
    assert_eq!(report.messages + report.failed, 3, "the other slot is somebody else's");
    assert_eq!(stage.receive(&held).await.messages.len(), 3);
    assert_eq!(stage.slots().await[0].owner, None);
}

/// A batch's handler that fails because the store could not take its call blames no message: the batch comes again as it was.
#[tokio::test(start_paused = true)]
async fn trouble_of_the_store_spends_no_attempt() {
    let stage = Stage::new(1).await;
    stage.send(2).await;
    let (handler, mut shown) = shows();
    let worker = stage.start(settings("w1"), handler).await;
    let first = next(&mut shown).await;
    first.answer.send(Err(fencepost_core::Error::new(fencepost_core::Kind::Busy, "as asked").into())).unwrap();
    let again = next(&mut shown).await;
    assert_eq!(again.batch, first.batch, "the same batch, not delivered anew");
    assert_eq!(stage.store.calls("nack"), 0);
    again.answer.send(Ok(fencepost_runtime::Done::Ack)).unwrap();
    worker.diary.tells("acked 0 batch 1").await;
    assert_eq!(worker.stop().await, Report { batches: 1, messages: 2, failed: 0, lost: 0 });
}

/// A worker whose consumer was dropped has nothing to work for, and ends.
#[tokio::test(start_paused = true)]
async fn a_worker_ends_with_its_consumer() {
    let stage = Stage::new(1).await;
    let worker = stage.start(settings("w1"), nothing_to_do()).await;
    worker.diary.tells("claimed 0").await;
    stage.store.drop_consumer(&path(), true).await.unwrap();
    let report = tokio::time::timeout(crate::stage::PATIENCE, worker.task).await.expect("it ends by itself").unwrap();
    assert_eq!(report.messages, 0);
}

/// A queue that is paused while a message is due is looked at less and less often.
#[tokio::test(start_paused = true)]
async fn what_is_due_in_a_paused_queue_is_not_polled_for_all_the_time() {
    let stage = Stage::new(1).await;
    stage.send(1).await;
    let (handler, mut shown) = shows();
    let worker = stage.start(settings("w1"), handler).await;
    let first = next(&mut shown).await;
    stage.store.pause_queue(&path().queue).await.unwrap();
    let retry = Instead::RetryAfter { delay: seconds(1), reason: "later".into() };
    first.answer.send(Err(retry.into())).unwrap();
    pass(Duration::from_secs(10)).await;
    let before = stage.store.calls("receive");
    pass(Duration::from_secs(20)).await;
    let looks = stage.store.calls("receive") - before;
    assert!(looks <= 25, "{looks} looks in 20 s");
    stage.store.resume_queue(&path().queue).await.unwrap();
    next(&mut shown).await.answer.send(Ok(fencepost_runtime::Done::Ack)).unwrap();
    worker.diary.until(|diary| diary.count("acked") == 2).await;
    worker.stop().await;
}
