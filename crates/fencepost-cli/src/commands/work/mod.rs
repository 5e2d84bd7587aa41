//! `fencepost work`: a command handles the messages of a consumer, one by one or in batches.
//!
//! `plan` is what was asked for, `command` one run of the command, `handler` what is made of it for a message or a batch, `results`
//! what the command says of single messages, `story` what is told of it all. Owning slots, order, renewals, retries and the drain
//! are the worker's of the runtime.

mod command;
mod handler;
mod plan;
mod results;
mod story;

use std::sync::Arc;
use std::time::Duration;

use fencepost::runtime::{CancellationToken, PerMessage, Report, Worker, stop_on_signals};
use fencepost::{ConsumerPath, Error, Kind, Result, Retry, Store};
use tokio::time::Instant;

use self::handler::{EachMessage, Job, WholeBatch};
use self::plan::Plan;
use self::story::{Story, Teller};
use crate::cli::WorkArgs;
use crate::commands::{consumer, queue};
use crate::open;
use crate::printer::Printer;
use crate::text;

/// How often it is looked whether anything is left, at most and at least; counting takes time in proportion to what is left.
const LOOKS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// How long removing what was consumed may take at the end.
const MAINTENANCE: Duration = Duration::from_secs(1);

/// A look may take so much of the time: one in so many parts.
const PART: u32 = 10;

/// Runs the command.
pub async fn run(url: &str, args: &WorkArgs, printer: &Printer) -> Result<()> {
    let plan = Plan::new(args)?;
    command::check(&plan.command)?;
    let stop = stop_on_signals()
        .map_err(|cause| Error::new(Kind::Unavailable, "cannot listen for signals").caused_by(cause))?;
    open::existing(url, async |store| {
        let consumer = consumer::find(store, &plan.path).await?;
        if queue::find(store, &plan.path.queue).await?.paused {
            printer.note(&format!("the queue `{}` is paused: nothing new is handed out", plan.path.queue));
        }
        let story = Arc::new(Story::new(*printer, plan.path.clone(), consumer.policy));
        // Ends the worker, and what looks whether anything is left; a signal ends both.
        let over = stop.child_token();
        let worker = join(store, &plan, &over, &story).await?;
        let working = async {
            let report = worker.run(over.clone()).await;
            let was_told = over.is_cancelled();
            over.cancel();
            (report, was_told)
        };
        let watching = async {
            tokio::select! {
                biased;
                () = stop.cancelled() => {
                    let grace = text::exact(plan.grace);
                    printer.aside(&format!("stopping: what runs has {grace} to end; a second signal ends it at once"));
                    Ok(())
                }
                () = over.cancelled() => Ok(()),
                nothing_left = until_empty(store, &plan.path), if plan.until_empty => {
                    over.cancel();
                    nothing_left
                }
            }
        };
        let ((report, was_told), watched): ((Report, bool), Result<()>) = tokio::join!(working, watching);
        story.end(&report)?;
        watched?;
        if was_told { Ok(()) } else { Err(why_it_ended(store, &plan.path).await) }
    })
    .await
}

/// Why a worker ended that was not told to: its consumer was dropped, and may have been made anew since.
async fn why_it_ended(store: &Store, path: &ConsumerPath) -> Error {
    consumer::find(store, path).await.map_or_else(|error| error, |_| consumer::absent(path))
}

async fn join(store: &Store, plan: &Plan, over: &CancellationToken, story: &Arc<Story>) -> Result<Worker> {
    let job = Job::new(plan, over.clone(), story.clone());
    let (contract, settings, teller) = (store.contract(), plan.settings()?, Teller(story.clone()));
    match plan.batch {
        None => {
            let handler = PerMessage::new(EachMessage::new(job, plan.workers), plan.workers);
            Worker::join_observed(contract, settings, handler, teller).await
        }
        Some(_) => Worker::join_observed(contract, settings.at_once(plan.workers), WholeBatch(job), teller).await,
    }
}

/// Waits until nothing is left that the consumer would be handed, now or later, by whomever.
async fn until_empty(store: &Store, path: &ConsumerPath) -> Result<()> {
    loop {
        let begun = Instant::now();
        match consumer::find(store, path).await {
            Ok(status) if status.lag == 0 => {
                maintain(store, path).await;
                return Ok(());
            }
            Err(error) if error.retry() == Retry::Never => return Err(error),
            _ => {}
        }
        tokio::time::sleep((begun.elapsed() * PART).clamp(LOOKS.0, LOOKS.1)).await;
    }
}

/// Removes what was consumed, within a bound. A worker does so from time to time, and one that runs now and then for a moment would
/// never come to it. What fails here is done by the next one.
async fn maintain(store: &Store, path: &ConsumerPath) {
    let maintaining = async { while store.maintain(Some(&path.queue)).await.unwrap_or(0) > 0 {} };
    let _ = tokio::time::timeout(MAINTENANCE, maintaining).await;
}
