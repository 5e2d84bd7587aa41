//! Receiving and acking at one depth: what was taken is sent again between the timed stretches, in time that does not count.

use std::time::{Duration, Instant};

use crate::{Acks, Consumer, Measured, Outcome, Subject};

/// The most that is taken between two refills.
const STRETCH: u64 = 2_000;

pub(crate) async fn run<S: Subject>(store: &S, acks: Acks, max: u32, depth: u64, time: Duration) -> Outcome<Measured> {
    store.fill(depth).await?;
    // What made the depth is on the disk before anything is timed, so that a great one does not slow the first seconds.
    rustix::fs::sync();
    let mut consumer = store.consumer(acks).await?;
    // At most a fifth, so that the depth stays what it is called.
    let stretch = (depth / 5).clamp(max.into(), STRETCH);
    let (mut taken, mut spent) = (0, Duration::ZERO);
    while spent < time {
        let (mut now_taken, started) = (0, Instant::now());
        while now_taken < stretch && spent + started.elapsed() < time {
            let messages = consumer.take(max).await?;
            if messages.is_empty() {
                return Err("the queue ran dry".into());
            }
            now_taken += messages.len() as u64;
        }
        spent += started.elapsed();
        taken += now_taken;
        store.fill(now_taken).await?;
    }
    let taking = taken as f64 / spent.as_secs_f64();
    // Whoever only marks what was acked has to remove it some time.
    let started = Instant::now();
    store.maintain().await?;
    spent += started.elapsed();
    Ok(vec![("taking", taking), ("rate", taken as f64 / spent.as_secs_f64())])
}
