//! One ordeal: messages are sent while workers are killed, stopped and replaced.

use std::path::Path;
use std::time::{Duration, Instant};

use fencepost::{CreateConsumer, FailurePolicy, Key, Kind, NewMessage, OnFailure, Partitions, SlotCount};
use fencepost_core::Store;
use fencepost_test_support::Random;

use crate::ground::Ground;
use crate::part::{TTL, path};
use crate::place::PATIENCE;
use crate::puppet::Puppet;

const WORKERS: usize = 3;
const MESSAGES: u64 = 1_200;
/// How many keys there are; a few messages have none.
pub const KEYS: u64 = 24;

/// What becomes of a message, from the digits that its payload ends with: the same whoever handles it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Finishes,
    Fails,
    IsRejected,
}

impl Fate {
    pub fn of(payload: &[u8], attempt: u32) -> Self {
        let text = std::str::from_utf8(payload).unwrap();
        match text.rsplit('/').next().unwrap() {
            // It fails so often.
            "fails1" if attempt <= 1 => Fate::Fails,
            "fails2" if attempt <= 2 => Fate::Fails,
            "rejected" => Fate::IsRejected,
            "hopeless" => Fate::Fails,
            _ => Fate::Finishes,
        }
    }
}

/// What was done, for the checkers.
#[derive(Debug, Default)]
pub struct Ordeal {
    pub sent: Vec<(i64, String)>,
    pub kills: u32,
    pub stops: u32,
}

pub async fn run<F: Copy>(test: F, url: &str, ground: &Ground, seed: u64, policy: OnFailure) -> Ordeal {
    let (store, url) = (ground.store(), Path::new(url));
    stage(&*store, policy).await;
    let mut dice = Random::seeded(seed);
    let mut ordeal = Ordeal::default();
    let mut workers: Vec<Puppet> = (0..WORKERS).map(|_| Puppet::start(test, url)).collect();
    workers.iter().for_each(|worker| assert_eq!(worker.hear(), "joined"));
    let mut frozen: Option<(usize, Instant)> = None;
    let mut next_blow = Instant::now() + Duration::from_millis(100);
    let started = Instant::now();
    let mut number = 0;
    let mut next = messages(&mut dice, 0, 1);
    loop {
        if number < MESSAGES {
            let (messages, texts) = &next;
            match store.send_batch(&path().queue, messages.clone()).await {
                Ok(ids) => {
                    ordeal.sent.extend(ids.iter().map(|id| id.get()).zip(texts.iter().cloned()));
                    number += texts.len() as u64;
                    let many = (1 + dice.below(12)).min(MESSAGES - number);
                    next = self::messages(&mut dice, number, many);
                }
                // One was stopped inside a transaction. Nothing is stored of a call that is busy.
                Err(error) => assert_eq!(error.kind(), Kind::Busy, "{error:?}"),
            }
        } else if frozen.is_none() && store.consumer_status(None).await.unwrap()[0].lag == 0 {
            break;
        }
        if frozen.is_some_and(|(_, until)| Instant::now() >= until) {
            let (index, _) = frozen.take().unwrap();
            workers[index].thaw();
        }
        if Instant::now() >= next_blow && number < MESSAGES {
            let index = dice.below(WORKERS as u64) as usize;
            if frozen.is_none() && dice.below(3) == 0 {
                workers[index].freeze();
                frozen = Some((index, Instant::now() + TTL + Duration::from_millis(200 + dice.below(500))));
                ordeal.stops += 1;
            } else if frozen.is_none_or(|(stopped, _)| stopped != index) {
                workers[index].kill();
                workers[index] = Puppet::start(test, url);
                ordeal.kills += 1;
            }
            next_blow = Instant::now() + Duration::from_millis(100 + dice.below(400));
        }
        if started.elapsed() > PATIENCE {
            panic!("seed {seed}: it does not come to an end: {:#?}", store.slot_status(None).await);
        }
        tokio::time::sleep(Duration::from_millis(20)).await; // TIME: messages come over time
    }
    ordeal
}

async fn stage(store: &dyn Store, on_failure: OnFailure) {
    let path = path();
    store.create_queue(&path.queue, Partitions::new(8).unwrap()).await.unwrap();
    let policy = FailurePolicy::default()
        .on_failure(on_failure)
        .max_attempts(3)
        .and_then(|policy| policy.backoff(Duration::from_millis(20)))
        .unwrap();
    let request = CreateConsumer::ordered(path, SlotCount::new(4).unwrap()).policy(policy);
    store.create_consumer(&request).await.unwrap();
}

/// So many messages, each with its fate.
fn messages(dice: &mut Random, from: u64, many: u64) -> (Vec<NewMessage>, Vec<String>) {
    let mut texts = Vec::new();
    let mut messages = Vec::new();
    for number in from..from + many {
        let fate = match dice.below(40) {
            0..=2 => "fails1",
            3 => "fails2",
            4 => "rejected",
            5 => "hopeless",
            _ => "finishes",
        };
        let key = dice.below(KEYS + 4);
        let text = format!("{key}/{number}/{fate}");
        // The last few have no key.
        let keyed = (key < KEYS).then(|| Key::new(format!("key {key}")).unwrap());
        messages.push(NewMessage::new(text.as_str()).unwrap().key(keyed));
        texts.push(text);
    }
    (messages, texts)
}
