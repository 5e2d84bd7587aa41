//! Many callers that each send one message after the other, every one answered when its commit is.

use std::time::{Duration, Instant};

use crate::{Measured, Outcome, Subject, message};

pub(crate) async fn run<S: Subject>(store: &S, callers: u64, time: Duration) -> Outcome<Measured> {
    let started = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut sent = 0;
                while started.elapsed() < time {
                    store.send(message()).await?;
                    sent += 1;
                }
                Ok::<u64, Box<dyn std::error::Error + Send + Sync>>(sent)
            })
        })
        .collect();
    let mut sent = 0;
    for task in tasks {
        sent += task.await??;
    }
    Ok(vec![("rate", sent as f64 / started.elapsed().as_secs_f64())])
}
