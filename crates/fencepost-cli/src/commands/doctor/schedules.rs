//! What is wrong with schedules: some that cannot fire, and nobody who fires.

use std::time::Duration;

use fencepost::runtime::LEADER;
use fencepost::{QueueStatus, Result, ScheduleStatus, Store, Timestamp};

use super::Finding;
use crate::commands::schedule::leader::Leader;
use crate::commands::schedule::state::{self, Trouble};
use crate::text::{self, counted, shell_word};

/// How late a leader may be before nobody seems to lead: longer than its lease lives, unless that was asked for.
const LATE: Duration = Duration::from_secs(60);

/// Examines schedules, where the caller may see them.
pub async fn examine(store: &Store) -> Result<Vec<Finding>> {
    let (schedules, leader) = (store.schedule_status().await?, Leader::find(store).await?);
    let queues = match schedules.iter().any(|status| status.problem.is_some()) {
        true => store.queue_status().await?,
        false => Vec::new(),
    };
    // ORDER: read last, so that nothing that is seen happened after it.
    let now = store.now().await?;
    let each = |status| troubled(status, &queues).into_iter().chain(ahead(status, now));
    let mut findings: Vec<Finding> = schedules.iter().flat_map(each).collect();
    if let Some(late) = state::overdue(&schedules, now).filter(|late| *late > LATE) {
        let since = text::duration(late);
        let due = schedules.iter().filter(|status| status.next.is_some_and(|next| next.due_at < now)).count() as u64;
        let due = counted(due, "schedule");
        if leader.holding(now).is_some() {
            findings.push(Finding::warning(
                "schedules_late",
                format!("what was due {since} ago was not fired, though somebody leads: {due}"),
                format!("see what the leader says; `fencepost lease show {}` says who it is", shell_word(LEADER)),
            ));
        } else if leader.is_nobody(now) {
            findings.push(Finding::warning(
                "nobody_fires",
                format!("nobody fires schedules, and {due} should have fired, the first {since} ago"),
                "start `fencepost schedule serve`, or a `Scheduler` in your program; the misfire policies say what is made up for",
            ));
        }
    } else if leader.is_nobody(now) {
        let waiting = schedules.iter().filter(|status| status.next.is_some()).count() as u64;
        if waiting > 0 {
            let waiting = counted(waiting, "schedule");
            findings.push(Finding::note(
                "nobody_leads",
                format!("nobody leads the schedules, and {waiting} would not fire"),
                "start `fencepost schedule serve`, or a `Scheduler` in your program, before the first is due",
            ));
        }
    }
    Ok(findings)
}

fn troubled(status: &ScheduleStatus, queues: &[QueueStatus]) -> Option<Finding> {
    let (name, problem) = (&status.definition.name, status.trouble()?);
    let word = shell_word(name.as_str());
    let queue = shell_word(status.definition.queue.as_str());
    let hint = match Trouble::of(status, queues.iter().map(|queue| &queue.queue))? {
        Trouble::TargetBack => return None,
        Trouble::TargetGone if status.next.is_some() || status.is_paused => {
            format!("`fencepost queue create {queue}`, or `fencepost schedule remove {word}`")
        }
        Trouble::TargetGone => format!(
            "its last time was not sent: `fencepost queue create {queue}` and put it anew with a time to come, or \
             `fencepost schedule remove {word}`"
        ),
        Trouble::Unreadable => {
            format!("put it anew, or start a version that can read it; `fencepost schedule show {word}` shows it")
        }
    };
    let finding = Finding::warning("schedule_problem", format!("the schedule `{name}` does not fire: {problem}"), hint);
    Some(finding.with("schedule", name.as_str()).with("problem", problem))
}

/// A schedule that fired while a clock was far ahead: nothing is fired for a time that is not after its last one.
fn ahead(status: &ScheduleStatus, now: Timestamp) -> Option<Finding> {
    let (name, last) = (&status.definition.name, status.last?);
    let ahead = last.nominal_at.since(now);
    let word = shell_word(name.as_str());
    let of = text::duration(ahead);
    (ahead > LATE).then(|| {
        Finding::warning(
            "schedule_ahead",
            format!("the schedule `{name}` has fired for a time that comes in {of}: a clock was ahead"),
            format!("it fires again after that; `fencepost schedule remove {word}` and a new put let it begin anew"),
        )
        .with("schedule", name.as_str())
    })
}
