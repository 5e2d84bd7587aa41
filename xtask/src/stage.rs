//! Stages: steps of a task that run in order up to the first failure, each with the time it took.

use std::time::{Duration, Instant};

use crate::Result;

/// A stage's name and what it does.
pub type Stage = (&'static str, fn() -> Result);

/// Runs `stages` in order and ends with a table of them and one line on the whole.
pub fn run(task: &str, stages: &[Stage]) -> Result {
    let started = Instant::now();
    let mut rows = Vec::new();
    let mut failed = None;
    for &(name, work) in stages {
        println!("── {task}: {name}");
        let since = Instant::now();
        let done = work();
        println!("── {task}: {name} {} after {}", word(done.is_ok()), seconds(since.elapsed()));
        rows.push((name, word(done.is_ok()), seconds(since.elapsed())));
        if let Err(error) = done {
            failed = Some((name, error));
            break;
        }
    }
    rows.extend(stages[rows.len()..].iter().map(|(name, _)| (*name, "did not run", String::new())));

    println!();
    for (name, result, time) in &rows {
        println!("{name:<12} {result:<12} {time:>10}");
    }
    let total = seconds(started.elapsed());
    match failed {
        None => {
            println!("{task}: all {} stages passed in {total}", stages.len());
            Ok(())
        }
        Some((name, error)) => Err(format!("{task} failed in stage `{name}` after {total}: {error}")),
    }
}

fn word(passed: bool) -> &'static str {
    if passed { "passed" } else { "FAILED" }
}

/// A time as people read it in a table.
pub fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
