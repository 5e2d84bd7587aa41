//! Sends numbered messages of many keys at a rate.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencepost::postgres::PostgresStore;
use fencepost::{Key, NewMessage, QueueName, Queues};
use fencepost_bench_rows::Outcome;

use super::effects;

/// How many keys there are.
pub const KEYS: u64 = 1_000;

/// Between two sends.
const BEAT: Duration = Duration::from_millis(25);

/// How many messages may wait while the rate is as high as possible.
const AHEAD: u64 = 20_000;

/// Sends message `n` as the one numbered `n / KEYS` of key `n % KEYS`.
#[derive(Debug, Default)]
pub struct Sender {
    sent: AtomicU64,
    stopped: AtomicBool,
    /// Messages a second; `None`: as many as possible.
    rate: Mutex<Option<f64>>,
}

impl Sender {
    /// How many messages were sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Sends `rate` messages a second from now on.
    pub fn limit(&self, rate: f64) {
        *self.rate.lock().expect("no panic while the rate is held") = Some(rate);
    }

    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub async fn run(self: std::sync::Arc<Self>, store: PostgresStore, queue: QueueName) -> Outcome<()> {
        let client = store.client().await?;
        let (mut owed, mut last) = (0.0, Instant::now());
        while !self.stopped.load(Ordering::Acquire) {
            tokio::time::sleep(BEAT).await;
            let rate = *self.rate.lock().expect("no panic while the rate is held");
            let passed = last.elapsed().as_secs_f64();
            last = Instant::now();
            let count = match rate {
                Some(rate) => {
                    owed += rate * passed;
                    owed as u64
                }
                None => (effects::done(&client).await? + AHEAD).saturating_sub(self.sent()),
            };
            owed -= count as f64;
            owed = owed.max(0.0);
            let first = self.sent();
            let message = |number: u64| -> Outcome<NewMessage> {
                let text = format!("{} {} {:150}", number % KEYS, number / KEYS, "");
                Ok(NewMessage::new(text)?.key(Key::new(format!("key {}", number % KEYS))?))
            };
            let batch = (first..first + count).map(message).collect::<Outcome<Vec<_>>>()?;
            if !batch.is_empty() {
                store.send_batch(&queue, batch).await?;
                self.sent.store(first + count, Ordering::Release);
            }
        }
        Ok(())
    }
}
