//! A large backlog, then small ones for a while: rates, the most memory, and whether the file stops growing.

use std::path::Path;
use std::time::Instant;

use crate::{Acks, Consumer, FILL, Measured, Outcome, Subject, process};

/// Messages a receive.
const MAX: u32 = 100;

/// Messages between two calls of maintenance.
const MAINTAIN: u64 = 10_000;

/// How many small backlogs follow, each of as many messages as are between two calls of maintenance.
const STEADY: u64 = 30;

pub(crate) async fn run<S: Subject>(store: &S, folder: &Path, count: u64) -> Outcome<Measured> {
    let size = || process::size(folder);
    let started = Instant::now();
    for begin in (0..count).step_by(MAINTAIN as usize) {
        store.fill(MAINTAIN.min(count - begin)).await?;
    }
    let fill_rate = count as f64 / started.elapsed().as_secs_f64();
    let full = size()?;

    let mut consumer = store.consumer(Acks::WithNext).await?;
    let started = Instant::now();
    drain(store, &mut consumer, count / 2).await?;
    let half = size()?;
    drain(store, &mut consumer, count - count / 2).await?;
    let drain_rate = count as f64 / started.elapsed().as_secs_f64();
    let end = size()?;

    let mut sizes = Vec::new();
    for _ in 0..STEADY {
        for _ in 0..MAINTAIN / FILL {
            store.fill(FILL).await?;
        }
        drain(store, &mut consumer, MAINTAIN).await?;
        sizes.push(size()?);
    }
    let steady = sizes.last().copied().unwrap_or(end);
    Ok(vec![
        ("fill_rate", fill_rate),
        ("drain_rate", drain_rate),
        ("peak_memory", process::peak_memory()?),
        ("size_full", full),
        ("size_half", half),
        ("size_end", end),
        ("size_steady", steady),
    ])
}

async fn drain<S: Subject>(store: &S, consumer: &mut S::Consumer, count: u64) -> Outcome<()> {
    let (mut taken, mut maintained) = (0, 0);
    while taken < count {
        // Never more than are asked for, so that what is open at the end is the last batch of these.
        let messages = consumer.take(MAX.min((count - taken) as u32)).await?;
        if messages.is_empty() {
            return Err("the queue ran dry".into());
        }
        taken += messages.len() as u64;
        if taken - maintained >= MAINTAIN || taken == count {
            maintained = taken;
            store.maintain().await?;
        }
    }
    Ok(())
}
