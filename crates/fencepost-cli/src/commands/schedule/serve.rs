//! `fencepost schedule serve`: waits for its turn, and fires what is due.

use std::sync::Arc;
use std::time::Duration;

use fencepost::runtime::{ScheduleEvent, ScheduleObserver, Scheduler, stop_on_signals};
use fencepost::{Error, HolderName, Kind, Result, Ttl};
use serde_json::json;

use crate::cli::ScheduleServeArgs;
use crate::open;
use crate::printer::Printer;
use crate::text;

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
        // A store that was away for a while is no reason to go: nobody else might be there.
        scheduler.serve(&stop).await?;
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
            ScheduleEvent::Away { error } => self.0.event(
                || format!("cannot go on, and tries again: {}", text::shown(&error.to_string())),
                || json!({"event": "unavailable", "code": error.code(), "message": error.to_string()}),
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
