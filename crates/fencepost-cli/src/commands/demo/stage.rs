//! The show: starts the processes, lets faults happen to some of them, sends the input, and waits until everything is handled.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fencepost::runtime::{CancellationToken, stop_on_signals};
use fencepost::{Error, Key, Kind, NewMessage, Partitions, Result, SlotCount, Store};
use serde_json::json;
use tokio::sync::mpsc;

use super::crew::{self, Process, Said};
use super::input::{Expected, Input};
use super::plan::Plan;
use super::story::{FAULT, PLAIN, REFUSED, RESCUE, Story, messages, short};
use super::tally::Reading;
use super::words::{Order, Word};

/// How long a slot stays with a worker that says nothing.
const TTL: Duration = Duration::from_secs(3);

/// The batch in which a worker is killed, and the one in which one stops itself, counted from its first.
const FAULT_AT: (u32, u32) = (2, 3);

/// How often the processes and the store are looked at.
const LOOK: Duration = Duration::from_millis(25);

/// Without any progress for so long the show has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Codes of the store's errors that end the show.
const UNUSABLE: [&str; 6] = ["storage_full", "read_only", "permission_denied", "io_error", "corrupt", "store_closed"];

/// How many messages are sent in one call.
const SEND: usize = 500;

/// What happened, in numbers.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Messages sent.
    pub sent: u64,
    /// Messages delivered again.
    pub redelivered: u64,
    /// Calls refused because of the epoch.
    pub fenced: u64,
    /// Slots taken over with an open batch from an owner that had lost them.
    pub takeovers: u64,
    /// Workers killed, and paused.
    pub faults: (u32, u32),
    /// Workers that were to be killed, and paused.
    pub planned: (u32, u32),
    /// The whole show.
    pub elapsed: Duration,
    /// From the first send to the last commit before anybody had to wait for a TTL.
    pub busy: Option<(Duration, u64)>,
    /// Where it goes.
    pub printer: Option<crate::printer::Printer>,
}

/// What is to happen to a worker, and how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Nothing.
    Works,
    /// It will be killed in the middle of a batch.
    Kill,
    /// It was killed while it owned this slot by this epoch.
    Killed { slot: u16, epoch: i64 },
    /// It will stop itself.
    Pause,
    /// It said that it is about to.
    Stopping { slot: u16, epoch: i64 },
    /// The system shows it as stopped.
    Stopped { slot: u16, epoch: i64 },
    /// It was continued after somebody else had been granted its slot.
    Continued,
    /// Its late call was refused.
    Refused,
}

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

    /// Gives faults to the workers whose slots get the most messages: a worker without any would never be in a batch.
    async fn cast(&mut self) {
        let mut by_load: Vec<(u64, usize)> = (0..self.fates.len())
            .map(|worker| {
                let owned = self.owners.iter().filter(|(_, (_, owner))| *owner == worker);
                (owned.map(|(slot, _)| self.loads.get(slot).copied().unwrap_or(0)).sum(), worker)
            })
            .collect();
        by_load.sort_by_key(|(load, worker)| (std::cmp::Reverse(*load), *worker));
        let kills = std::iter::repeat_n((Fate::Kill, Order::StandAt(FAULT_AT.0)), self.plan.kill as usize);
        let pauses = std::iter::repeat_n((Fate::Pause, Order::StopAt(FAULT_AT.1)), self.plan.pause as usize);
        for ((_, worker), (fate, order)) in by_load.into_iter().zip(kills.chain(pauses)) {
            self.fates[worker] = fate;
            if let Some(process) = &mut self.processes[worker] {
                process.tell(order).await;
            }
        }
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

    /// Whether all that is left belongs to workers that were killed or stopped.
    fn is_waiting_for_a_ttl(&self, sent: Option<u64>) -> bool {
        let held_up: u64 = self
            .fates
            .iter()
            .filter_map(|fate| match fate {
                Fate::Killed { slot, epoch } | Fate::Stopping { slot, epoch } | Fate::Stopped { slot, epoch } => {
                    // Until somebody else is granted it.
                    let still = self.owners.get(slot).is_some_and(|(owner, _)| owner == epoch);
                    self.loads.get(slot).copied().filter(|_| still)
                }
                _ => None,
            })
            .sum();
        held_up > 0 && sent.is_some_and(|sent| self.committed + held_up >= sent)
    }

    /// Whether no fault is half-way: whoever was to be killed or stopped was, or never got far enough.
    fn is_settled(&self) -> bool {
        let half_way = |fate: &Fate| matches!(fate, Fate::Stopping { .. } | Fate::Stopped { .. } | Fate::Continued);
        !self.fates.iter().any(half_way)
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

    /// What a worker said, as a part of the story.
    async fn hear(&mut self, Said { worker, word }: Said) -> Result<()> {
        if !matches!(word, Some(Word::Trouble { .. })) {
            self.progress = Instant::now();
        }
        let name = format!("worker-{}", worker + 1);
        let Some(word) = word else {
            if self.processes[worker].is_some() && !matches!(self.fates[worker], Fate::Killed { .. }) {
                return Err(Error::new(
                    Kind::Internal,
                    format!("cannot go on: `{name}` ended before the work was done"),
                ));
            }
            return Ok(());
        };
        let facts = serde_json::to_value(&word).unwrap_or_default();
        match word {
            Word::Ready => {}
            Word::Committed { messages, .. } => self.committed += messages as u64,
            Word::Claimed { slot, epoch, taken_from, batch, redelivered } => {
                self.owners.insert(slot, (epoch, worker));
                self.figures.redelivered += u64::from(redelivered);
                let (style, what) = match (taken_from, batch) {
                    (Some(from), Some(batch)) => {
                        self.figures.takeovers += 1;
                        let again = messages(u64::from(redelivered));
                        (
                            RESCUE,
                            format!(
                                "takes over slot {slot}, epoch {} -> {}: batch {batch} again, {again}",
                                short(from),
                                short(epoch)
                            ),
                        )
                    }
                    (_, Some(batch)) => {
                        (RESCUE, format!("inherits slot {slot} with batch {batch}, epoch {}", short(epoch)))
                    }
                    _ => (PLAIN, format!("owns slot {slot}, epoch {}", short(epoch))),
                };
                self.story.tell(&name, style, &what, facts)?;
            }
            Word::MidBatch { slot, epoch, batch, handled, messages } => {
                if let Some(mut process) = self.processes[worker].take() {
                    process.kill().await?;
                }
                self.fates[worker] = Fate::Killed { slot, epoch };
                self.figures.faults.0 += 1;
                let what = format!(
                    "is killed (SIGKILL) in batch {batch} of slot {slot}, epoch {}: {handled} of {messages} handled",
                    short(epoch)
                );
                self.story.tell(&name, FAULT, &what, facts)?;
            }
            Word::Stopping { slot, epoch, batch, .. } => {
                self.fates[worker] = Fate::Stopping { slot, epoch };
                self.figures.faults.1 += 1;
                let what = format!("stops itself (SIGSTOP) in batch {batch} of slot {slot}, epoch {}", short(epoch));
                self.story.tell(&name, FAULT, &what, facts)?;
            }
            Word::Continued { slot, epoch, batch } => {
                let what = format!(
                    "wakes up, still believes in epoch {}, goes on with batch {batch} of slot {slot}",
                    short(epoch)
                );
                self.story.tell(&name, FAULT, &what, facts)?;
            }
            Word::Fenced { slot, call, batch, messages, presented, current } => {
                self.figures.fenced += 1;
                if self.fates[worker] == Fate::Continued {
                    self.fates[worker] = Fate::Refused;
                }
                let what = format!(
                    "REFUSED: {call} of batch {batch} by epoch {}, slot {slot} has {}; {} undone",
                    short(presented),
                    current.parse().map_or(current, short),
                    self::messages(messages as u64)
                );
                self.story.tell(&name, REFUSED, &what, facts)?;
            }
            Word::Trouble { message, code } => {
                self.story.tell(&name, FAULT, &format!("has trouble: {message}"), facts)?;
                // Nothing that waiting would mend.
                if let Some(code) = code.and_then(|code| UNUSABLE.into_iter().find(|known| *known == code)) {
                    return Err(Error::new(Kind::Unavailable, format!("cannot go on: `{name}` {message}"))
                        .coded(code)
                        .hinted("see to the store and its disk, then run the demo again"));
                }
            }
        }
        Ok(())
    }

    /// Continues a stopped worker once the system shows it as stopped and somebody else was granted its slot.
    fn watch_the_stopped(&mut self) -> Result<()> {
        for worker in 0..self.fates.len() {
            let Some(process) = &self.processes[worker] else { continue };
            match self.fates[worker] {
                Fate::Stopping { slot, epoch } if process.is_stopped() => {
                    self.fates[worker] = Fate::Stopped { slot, epoch };
                }
                Fate::Stopped { slot, epoch } => {
                    let Some((granted, heir)) = self.owners.get(&slot).copied().filter(|(granted, _)| *granted > epoch)
                    else {
                        continue;
                    };
                    process.proceed()?;
                    self.fates[worker] = Fate::Continued;
                    let what = format!(
                        "is continued (SIGCONT), now that worker-{} owns slot {slot}, epoch {}",
                        heir + 1,
                        short(granted)
                    );
                    let facts = json!({"event": "continue", "slot": slot, "epoch": epoch, "current": granted});
                    self.story.tell(&process.name, FAULT, &what, facts)?;
                }
                _ => {}
            }
        }
        Ok(())
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

/// How many messages each slot will get, but for those without a key.
fn loads(expected: &Expected, plan: &Plan) -> Result<BTreeMap<u16, u64>> {
    let (partitions, slots) = (Partitions::new(super::PARTITIONS)?, SlotCount::new(i64::from(plan.workers))?);
    let mut loads = BTreeMap::new();
    for (key, tally) in &expected.rows {
        let Some(key) = key else { continue };
        let slot = slots.owner(partitions.of_key(&Key::new(key.as_str())?));
        *loads.entry(slot.get()).or_default() += tally.legs;
    }
    Ok(loads)
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
