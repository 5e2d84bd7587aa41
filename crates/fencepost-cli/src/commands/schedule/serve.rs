//! `fencepost schedule serve`: waits for its turn, and fires what is due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::runtime::{ScheduleEvent, ScheduleObserver, Scheduler, stop_on_signals};
use fencepost::{Error, HolderName, Kind, Result, Retry, Ttl};
use serde_json::json;

use crate::cli::ScheduleServeArgs;
use crate::open;
use crate::printer::Printer;
use crate::text;

/// How long it waits before it tries again while the store is away, at least and at most.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A shorter term would be lost by a pause that every host has at times.
const SHORTEST: Duration = Duration::from_secs(1);

/// Runs the command.
pub async fn run(url: &str, args: &ScheduleServeArgs, printer: &Printer) -> Result<()> {
    let ttl = text::parse_within(&args.ttl, "ttl", "a TTL", "allowed is from `1s` to `24h`", |span| {
        if span < SHORTEST { Err(Error::invalid("it is too short", "")) } else { Ttl::new(span) }
    })?;
    let holder = match &args.holder {
        Some(holder) => HolderName::new(holder)?,
        None => text::this_process(HolderName::new)?,
    };
    let stop = stop_on_signals()
        .map_err(|cause| Error::new(Kind::Unavailable, "cannot listen for signals").caused_by(cause))?;
    open::existing(url, async |store| {
        let scheduler = Scheduler::new(store.contract(), holder).ttl(ttl).observer(Arc::new(Teller(*printer)));
        printer.aside("waiting for its turn; one leads at a time");
        let mut pause = SHORTEST_PAUSE;
        loop {
            let since = Instant::now();
            let Err(error) = scheduler.supervise(&stop).await else { break };
            if error.retry() == Retry::Never {
                return Err(error);
            }
            // A store that was away for a while is no reason to go: nobody else might be there.
            printer.event(
                || format!("cannot go on, and tries again: {}", text::shown(&error.to_string())),
                || json!({"event": "unavailable", "code": error.code(), "message": error.to_string()}),
            );
            pause = if since.elapsed() > LONGEST_PAUSE { SHORTEST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
        }
        printer.answer(|| "stopped".into(), || json!({"outcome": "stopped"}))
    })
    .await
}

/// Tells people and programs what happens.
struct Teller(Printer);

impl ScheduleObserver for Teller {
    fn hear(&self, event: ScheduleEvent<'_>) {
        match event {
            ScheduleEvent::Leads { epoch } => self
                .0
                .event(|| format!("leads under epoch {epoch}"), || json!({"event": "leads", "epoch": epoch.get()})),
            ScheduleEvent::Lost { epoch } => self.0.event(
                || "leads no more: its lease was taken; waiting for its turn".to_owned(),
                || json!({"event": "lost", "epoch": epoch.get()}),
            ),
            ScheduleEvent::Fired { schedule, fired, missed } => {
                for fired in fired {
                    self.0.event(
                        || {
                            let at = text::rfc3339(fired.nominal_at);
                            format!("fired {} for {at}: message {}", text::shown(schedule.as_str()), fired.message)
                        },
                        || {
                            json!({"event": "fired", "schedule": schedule.as_str(), "id": fired.message.get(),
                                "nominal_at": text::rfc3339(fired.nominal_at), "fired_at": text::rfc3339(fired.fired_at)})
                        },
                    );
                }
                if missed > 0 {
                    self.0.event(
                        || {
                            let times = text::counted(missed, "time");
                            format!("{} missed {times}", text::shown(schedule.as_str()))
                        },
                        || json!({"event": "missed", "schedule": schedule.as_str(), "count": missed}),
                    );
                }
            }
            ScheduleEvent::Unreadable { schedule, problem } => self.0.event(
                || format!("{} was stopped: {}", text::shown(schedule.as_str()), text::shown(problem)),
                || json!({"event": "unreadable", "schedule": schedule.as_str(), "problem": problem}),
            ),
            ScheduleEvent::TargetGone { schedule, queue } => self.0.event(
                || {
                    let (schedule, queue) = (text::shown(schedule.as_str()), text::shown(queue.as_str()));
                    format!("{schedule} did not fire: there is no queue {queue}")
                },
                || json!({"event": "target_gone", "schedule": schedule.as_str(), "queue": queue.as_str()}),
            ),
            _ => {}
        }
    }
}
