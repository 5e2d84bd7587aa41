//! alkstore-postgres by the rows that it shares with fencepost, through its public interface alone: `PROGRAM send CLIENTS MS` and
//! `PROGRAM lease COUNT` print a name and a number a line. `DATABASE_URL` names the database.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alkstore::{EnqueueOpts, Queue, QueueOpts, Store};
use alkstore_postgres::PgOpts;
use serde_json::Value;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const QUEUE: &str = "bench";

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(words: &[String]) -> Outcome<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let url = std::env::var("DATABASE_URL")?;
    let store: Arc<dyn Store> = alkstore_postgres::open(&url, PgOpts::default()).await?.into();
    match words.as_slice() {
        ["send", clients, millis] => send(store, clients.parse()?, Duration::from_millis(millis.parse()?)).await,
        ["lease", count] => lease(store, count.parse()?).await,
        _ => Err(format!("`{}` is no row", words.join(" ")).into()),
    }
}

async fn queue(store: &Arc<dyn Store>) -> Outcome<Arc<dyn Queue>> {
    let opts = QueueOpts { visibility_timeout_s: 3_600, ..QueueOpts::default() };
    Ok(store.queue(QUEUE, opts).await?.into())
}

fn payload() -> Value {
    Value::String("x".repeat(200))
}

async fn send(store: Arc<dyn Store>, clients: u64, time: Duration) -> Outcome<()> {
    let queue = queue(&store).await?;
    let started = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut sent = 0_u64;
                while started.elapsed() < time {
                    queue.enqueue(payload(), EnqueueOpts::default()).await?;
                    sent += 1;
                }
                Outcome::Ok(sent)
            })
        })
        .collect();
    let mut sent = 0;
    for task in tasks {
        sent += task.await??;
    }
    say(&format!("rate {}", sent as f64 / started.elapsed().as_secs_f64()));
    Ok(())
}

async fn lease(store: Arc<dyn Store>, count: u64) -> Outcome<()> {
    let started = Instant::now();
    for _ in 0..count {
        let lock = store.try_lock("bench", "owner", 30).await?.ok_or("the lock is free")?;
        lock.release().await?;
    }
    say(&format!("rate {}", count as f64 / started.elapsed().as_secs_f64()));
    Ok(())
}

fn say(text: &str) {
    // Nobody is left to tell when this fails.
    let _ = writeln!(std::io::stdout(), "{text}");
}
