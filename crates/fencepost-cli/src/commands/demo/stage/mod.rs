//! The show: starts the processes, lets faults happen to some of them, sends the input, and waits until everything is handled.
//!
//! `fate` is what happens to whom, `hear` what comes of what the workers say, `figures` the numbers in the end.

mod fate;
mod figures;
mod hear;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fencepost::runtime::{CancellationToken, stop_on_signals};
use fencepost::{Error, Kind, NewMessage, Result, Store};
use serde_json::json;
use tokio::sync::mpsc;

use super::crew::{self, Process, Said};
use super::input::{Expected, Input};
use super::plan::Plan;
use super::story::{PLAIN, Story, messages};
use super::tally::Reading;
use super::words::{Order, Word};
use fate::{Fate, loads};
pub use figures::Figures;

/// How long a slot stays with a worker that says nothing.
const TTL: Duration = Duration::from_secs(3);

/// How often the processes and the store are looked at.
const LOOK: Duration = Duration::from_millis(25);

/// Without any progress for so long the show has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many messages are sent in one call.
const SEND: usize = 500;

/// The running show.
pub struct Stage<'a> {
    store: &'a Store,
    input: &'a Input,
    plan: Plan,
    story: Story,
    processes: Vec<Option<Process>>,
    fates: Vec<Fate>,
    said: mpsc::Receiver<Said>,
    /// The latest epoch of each slot, and who was granted it.
    owners: BTreeMap<u16, (i64, usize)>,
    loads: BTreeMap<u16, u64>,
    committed: u64,
    progress: Instant,
    figures: Figures,
    stop: CancellationToken,
}

impl<'a> Stage<'a> {
    /// Starts the processes and waits until every slot has an owner.
    pub async fn open(
        url: &str,
        store: &'a Store,
        plan: &Plan,
        input: &'a Input,
        expected: &Expected,
        story: Story,
    ) -> Result<Stage<'a>> {
        let stop = stop_on_signals()
            .map_err(|cause| Error::new(Kind::Unavailable, "cannot listen for signals").caused_by(cause))?;
        let (speaking, said) = mpsc::channel(1_024);
        // About ten batches a worker and more, so that a fault happens in the middle of the work, not at its end.
        let max = (expected.records / u64::from(plan.workers * 10)).clamp(1, 100);
        let mut processes = Vec::new();
        for worker in 0..plan.workers as usize {
            let name = format!("worker-{}", worker + 1);
            let mut arguments: Vec<String> =
                ["demo-worker", "--name", &name, "--max", &max.to_string()].map(str::to_owned).into();
            arguments.extend(["--ttl-ms".into(), TTL.as_millis().to_string()]);
            if input.reading() == Reading::Flight {
                arguments.push("--flights".into());
            }
            processes.push(Some(crew::start(worker, name, url, &arguments, speaking.clone())?));
        }
        let figures =
            Figures { planned: (plan.kill, plan.pause), printer: Some(story.printer()), ..Figures::default() };
        let mut stage = Stage {
            store,
            input,
            plan: *plan,
            story,
            fates: vec![Fate::Works; processes.len()],
            processes,
            said,
            owners: BTreeMap::new(),
            loads: loads(expected, plan)?,
            committed: 0,
            progress: Instant::now(),
            figures,
            stop,
        };
        stage.assemble().await?;
        Ok(stage)
    }

    /// Waits for every worker to join, tells them to go, waits for every slot to be owned, and casts the faults.
    async fn assemble(&mut self) -> Result<()> {
        let mut ready = 0;
        while ready < self.plan.workers {
            match self.next().await? {
                Some(Said { word: Some(Word::Ready), .. }) => ready += 1,
                Some(said) => self.hear(said).await?,
                None => self.check_patience()?,
            }
        }
        for process in self.processes.iter_mut().flatten() {
            process.tell(Order::Go).await;
        }
        while self.owners.len() < self.plan.workers as usize {
            match self.next().await? {
                Some(said) => self.hear(said).await?,
                None => self.check_patience()?,
            }
        }
        self.cast().await;
        Ok(())
    }

    /// Sends the input and waits until everything is handled and every fault has run its course.
    pub async fn play(&mut self) -> Result<()> {
        let (input, store) = (self.input, self.store);
        let mut sending = std::pin::pin!(send(input, store));
        let mut sent = None;
        let started = Instant::now();
        self.progress = started;
        let mut looked = Instant::now();
        loop {
            tokio::select! {
                finished = &mut sending, if sent.is_none() => {
                    let (count, took) = finished?;
                    sent = Some(count);
                    self.figures.sent = count;
                    self.progress = Instant::now();
                    let what = format!("has sent {} in {:.2} s", messages(count), took.as_secs_f64());
                    self.story.tell("sender", PLAIN, &what, json!({
                        "event": "sent", "messages": count, "seconds": took.as_secs_f64(),
                    }))?;
                }
                said = self.said.recv() => {
                    if let Some(said) = said {
                        self.hear(said).await?;
                    }
                    if self.is_waiting_for_a_ttl(sent) && self.figures.busy.is_none() {
                        self.figures.busy = Some((started.elapsed(), self.committed));
                        let what = format!("the rest is done; the slots of the killed and the paused open again after {} s", TTL.as_secs());
                        self.story.tell("demo", PLAIN, &what, json!({"event": "wait", "committed": self.committed}))?;
                    }
                }
                () = tokio::time::sleep(LOOK) => self.check_patience()?,
                () = self.stop.cancelled() => return Err(interrupted()),
            }
            if looked.elapsed() < LOOK {
                continue;
            }
            looked = Instant::now();
            self.watch_the_stopped()?;
            if sent.is_some_and(|sent| self.committed >= sent) && self.is_settled() && self.lag().await? == 0 {
                self.figures.elapsed = self.story.elapsed();
                let facts = json!({"event": "compare", "committed": self.committed});
                return self.story.tell("demo", PLAIN, "all is handled; compares with a plain single pass", facts);
            }
        }
    }

    async fn lag(&self) -> Result<u64> {
        let path = super::path()?;
        let status = self.store.consumer_status(Some(&path.queue)).await?;
        Ok(status.iter().filter(|status| status.path == path).map(|status| status.lag).sum())
    }

    async fn next(&mut self) -> Result<Option<Said>> {
        tokio::select! {
            said = self.said.recv() => Ok(said),
            () = tokio::time::sleep(LOOK) => Ok(None),
            () = self.stop.cancelled() => Err(interrupted()),
        }
    }

    fn check_patience(&self) -> Result<()> {
        if self.progress.elapsed() < PATIENCE {
            return Ok(());
        }
        Err(Error::new(
            Kind::Unavailable,
            format!("cannot finish the demo: nothing happened for {} s", PATIENCE.as_secs()),
        )
        .with("committed", self.committed)
        .hinted("is the machine very busy? `fencepost status` shows who holds what"))
    }

    /// Ends the processes that are left.
    pub async fn close(self) -> Figures {
        // RACE: all pipes are closed before any process is waited for, so that they end side by side.
        let ending: Vec<_> = self.processes.into_iter().flatten().map(|process| tokio::spawn(process.end())).collect();
        for ended in ending {
            let _ = ended.await;
        }
        self.figures
    }
}

fn interrupted() -> Error {
    Error::new(Kind::Unavailable, "the demo was interrupted")
        .coded("interrupted")
        .hinted("run it again; nothing has to be cleaned up")
}

/// Sends every record, in order.
async fn send(input: &Input, store: &Store) -> Result<(u64, Duration)> {
    let started = Instant::now();
    let queue = super::path()?.queue;
    let (mut records, mut sent) = (input.records()?, 0);
    loop {
        let batch: Vec<NewMessage> = records
            .by_ref()
            .take(SEND)
            .map(|record| record.and_then(|record| Ok(NewMessage::new(record.text)?.key(record.key))))
            .collect::<Result<_>>()?;
        if batch.is_empty() {
            return Ok((sent, started.elapsed()));
        }
        sent += store.send_batch(&queue, batch).await?.len() as u64;
    }
}
