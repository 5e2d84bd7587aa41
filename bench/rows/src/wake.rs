//! How long a message takes from before its send, with its commit, until a sleeper has received it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::message::age;
use crate::{Acks, Consumer, Measured, Outcome, Subject, Synchronous, message};

/// What the second process is started for.
pub(crate) const STAMP: &str = "stamp";

/// Between two sends, in microseconds: long enough to fall asleep, and uneven, so that no poll is in step with them.
const PAUSE: (u64, u64) = (20_000, 10_000);

pub(crate) async fn within<S: Subject>(store: &S, count: u64) -> Outcome<Measured> {
    let consumer = store.consumer(Acks::Apart).await?;
    let sending = tokio::spawn(send(store.clone(), count));
    let measured = receive(consumer, count).await?;
    sending.await??;
    Ok(measured)
}

pub(crate) async fn across<S: Subject>(
    store: &S,
    file: &Path,
    synchronous: Synchronous,
    count: u64,
) -> Outcome<Measured> {
    let consumer = store.consumer(Acks::Apart).await?;
    let mut sender = Command::new(std::env::current_exe()?)
        .arg(synchronous.to_string())
        .arg(file)
        .args([STAMP, &count.to_string()])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let sent = async {
        let status = sender.wait().await?;
        if status.success() { Ok(()) } else { Err(format!("the sending process ended with {status}").into()) }
    };
    Ok(tokio::try_join!(receive(consumer, count), sent)?.0)
}

pub(crate) async fn send<S: Subject>(store: S, count: u64) -> Outcome<()> {
    for number in 0..count {
        tokio::time::sleep(Duration::from_micros(PAUSE.0 + number * 3_709 % PAUSE.1)).await;
        store.send(message()).await?;
    }
    Ok(())
}

async fn receive(mut consumer: impl Consumer, count: u64) -> Outcome<Measured> {
    let mut ages = Vec::new();
    while (ages.len() as u64) < count {
        let messages = consumer.receive(1).await?;
        if messages.is_empty() {
            consumer.wait().await?;
        }
        for message in messages {
            ages.push(age(&message)?.as_secs_f64() * 1e3);
        }
        consumer.ack().await?;
    }
    ages.sort_by(f64::total_cmp);
    Ok(vec![("p50", ages[ages.len() / 2]), ("p99", ages[ages.len() * 99 / 100])])
}
