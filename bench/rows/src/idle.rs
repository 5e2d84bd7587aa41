//! What a worker without work costs: processor time, and bytes written to files.

use std::time::{Duration, Instant};

use crate::{Measured, Outcome, Subject, process};

/// How long a worker may take to settle down.
const SETTLE: Duration = Duration::from_millis(500);

/// In what moments writes are counted.
const MOMENT: Duration = Duration::from_millis(250);

pub(crate) async fn run<S: Subject>(store: &S, time: Duration) -> Outcome<Measured> {
    let store = store.clone();
    let worker = tokio::spawn(async move { store.idle().await });
    tokio::time::sleep(SETTLE).await;
    let (started, processor, written) = (Instant::now(), process::processor_time(), process::written()?);
    let (mut moments, mut last) = (0, written);
    while started.elapsed() < time {
        tokio::time::sleep(MOMENT).await;
        let now = process::written()?;
        moments += u32::from(now != last);
        last = now;
    }
    let share = (process::processor_time() - processor).as_secs_f64() / started.elapsed().as_secs_f64();
    if worker.is_finished() {
        worker.await??;
        return Err("the worker ended".into());
    }
    worker.abort();
    Ok(vec![("processor", share * 100.0), ("written", (last - written) as f64), ("moments", moments.into())])
}
