//! A worker process of the demo: handles batches, and at a fixed point stands still to be killed or stops itself.

use std::io::Write;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fencepost::runtime::{
    BatchHandler, CancellationToken, Done, Event, HandlerError, LossCause, Observer, SlotContext, Worker,
    WorkerSettings, stop_on_signals,
};
use fencepost::slot::GrantOrigin;
use fencepost::{Batch, BatchSize, Error, Kind, Result, SlotToken, Ttl, WorkerName};
use rustix::process::{Signal, getpid, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::table::{self, Table};
use super::tally::Reading;
use super::words::{Order, Word};
use crate::cli::DemoWorkerArgs;

/// Runs the hidden command. Everything it says goes to standard output, for the demo to read.
pub async fn run(url: &str, args: &DemoWorkerArgs) -> Result<()> {
    die_with_parent();
    let store = fencepost::open(url).await?;
    let table = table::beside(&store)?;
    let settings = WorkerSettings::new(super::path()?, WorkerName::new(args.name.as_str())?)
        .ttl(Ttl::from_micros(args.ttl_ms * 1_000)?)
        .max(BatchSize::new(args.max)?);
    let reading = if args.flights { Reading::Flight } else { Reading::Record };
    let fault = Arc::new(Mutex::new(Fault::default()));
    let handler = Handler { table, reading, fault: fault.clone() };
    let worker = Worker::join_observed(store.contract(), settings, handler, Speaker).await?;
    say(&Word::Ready);

    let stop = stop_on_signals()
        .map_err(|cause| Error::new(Kind::Unavailable, "cannot listen for signals").caused_by(cause))?;
    let (go, told_to_go) = oneshot::channel();
    let listening = tokio::spawn(listen(stop.clone(), fault, go));
    if told_to_go.await.is_ok() {
        worker.run(stop).await;
    }
    listening.abort();
    store.close().await;
    Ok(())
}

/// Obeys what the demo says; when its end of the pipe is gone, so is the demo, and the worker stops.
async fn listen(stop: CancellationToken, fault: Arc<Mutex<Fault>>, go: oneshot::Sender<()>) {
    let mut go = Some(go);
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = orders.next_line().await {
        let mut fault = fault.lock().expect("no panic while the fault is held");
        match Order::from_line(&line) {
            Some(Order::Go) => {
                if let Some(go) = go.take() {
                    let _ = go.send(());
                }
            }
            Some(Order::StandAt(batch)) => fault.stand_at = Some(batch),
            Some(Order::StopAt(batch)) => fault.stop_at = Some(batch),
            None => {}
        }
    }
    stop.cancel();
}

/// A worker that outlives the demo, or that is stopped when it ends, would stay for ever.
fn die_with_parent() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        say(&trouble(format!("cannot arrange to end with the demo: {error}")));
    }
}

/// Says one word. When nobody listens any more there is nobody to tell.
fn say(word: &Word) {
    if let Ok(line) = serde_json::to_string(word) {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

fn trouble(message: String) -> Word {
    Word::Trouble { message, code: None }
}

/// What happens to this worker, counted in batches.
#[derive(Debug, Default)]
struct Fault {
    begun: u32,
    stand_at: Option<u32>,
    stop_at: Option<u32>,
}

enum Fate {
    Work,
    Stand,
    Stop,
}

impl Fault {
    fn next(&mut self) -> Fate {
        self.begun += 1;
        if self.stand_at.is_some_and(|at| self.begun >= at) {
            self.stand_at = None;
            Fate::Stand
        } else if self.stop_at.is_some_and(|at| self.begun >= at) {
            self.stop_at = None;
            Fate::Stop
        } else {
            Fate::Work
        }
    }
}

struct Handler {
    table: Arc<dyn Table>,
    reading: Reading,
    fault: Arc<Mutex<Fault>>,
}

#[async_trait]
impl BatchHandler for Handler {
    async fn handle(&self, batch: &Batch, context: &SlotContext) -> Result<Done, HandlerError> {
        let (slot, epoch) = (context.token.slot.get(), context.token.epoch.get());
        let (id, messages) = (batch.id.get(), batch.messages.len());
        let fate = self.fault.lock().expect("no panic while the fault is held").next();
        match fate {
            Fate::Work => {}
            Fate::Stand => {
                say(&Word::MidBatch { slot, epoch, batch: id, handled: messages / 2, messages });
                std::future::pending::<()>().await;
            }
            Fate::Stop => {
                say(&Word::Stopping { slot, epoch, batch: id, messages });
                self.stop_until_continued().await?;
                say(&Word::Continued { slot, epoch, batch: id });
            }
        }
        // A worker that was paused believes in its slot and goes on: the transaction decides. In a task of its own, as one that wakes
        // up late is given little time.
        let finishing = finish(self.table.clone(), batch.clone(), context.token.clone(), self.reading);
        tokio::spawn(finishing).await??;
        Ok(Done::Acked)
    }
}

async fn finish(table: Arc<dyn Table>, batch: Batch, token: SlotToken, reading: Reading) -> Result<()> {
    let (slot, presented) = (token.slot.get(), token.epoch.get());
    let (id, messages) = (batch.id.get(), batch.messages.len());
    let answer = table.apply_and_ack(batch, token, reading).await;
    match &answer {
        Ok(()) => say(&Word::Committed { slot, epoch: presented, batch: id, messages }),
        Err(error) if error.kind() == Kind::Fenced => {
            let current = error.fact("current_epoch").unwrap_or("none").to_owned();
            say(&Word::Fenced { slot, call: "ack".into(), batch: id, messages, presented, current });
        }
        Err(_) => {}
    }
    answer
}

impl Handler {
    /// Stops this process, and returns when it was continued.
    async fn stop_until_continued(&self) -> Result<(), HandlerError> {
        let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
        let (wake, woken) = std::sync::mpsc::channel();
        tokio::spawn(async move {
            continued.recv().await;
            let _ = wake.send(());
        });
        let stop = move || {
            if let Err(error) = kill_process(getpid(), Signal::STOP) {
                return say(&trouble(format!("cannot stop itself: {error}")));
            }
            // RACE: the signal may reach another thread first, and this one run on for a moment; it waits here.
            let _ = woken.recv();
        };
        Ok(self.table.stop_at(Box::new(stop)).await?)
    }
}

struct Speaker;

impl Observer for Speaker {
    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Claimed { slot, epoch, origin, batch } => say(&Word::Claimed {
                slot: slot.get(),
                epoch: epoch.get(),
                taken_from: match origin {
                    GrantOrigin::TakeOver { from } => Some(from.get()),
                    _ => None,
                },
                batch: batch.map(|batch| batch.id.get()),
                redelivered: batch.map_or(0, |batch| batch.size),
            }),
            Event::Lost { cause: LossCause::Renewal, .. } | Event::DeadlinePassed { .. } => {}
            // A renewal that takes long is made again meanwhile; what matters is told when a slot is lost.
            Event::CallFailed { error } if error.code() == "renewal_timeout" => {}
            Event::CallFailed { error } => {
                say(&Word::Trouble { message: error.to_string(), code: Some(error.code().to_owned()) });
            }
            Event::HandlerFailed { error, .. } => {
                let code = error.downcast_ref::<Error>().map(|error| error.code().to_owned());
                say(&Word::Trouble { message: error.to_string(), code });
            }
            _ => {}
        }
    }
}
