//! What schedules that are due are to do, as much of it as one commit takes.

use fencepost_core::Timestamp;
use fencepost_core::schedule::{NextFire, ScheduleStatus, Tick};

/// How many messages one commit sends at most, unless a single schedule fires once.
const MESSAGES: usize = 10_000;

/// How many bytes their payloads have together at most, with the same exception.
const BYTES: usize = 16 << 20;

/// Judges the schedules that are due, in their order, until a commit is full.
pub fn judge(due: &[ScheduleStatus], now: Timestamp) -> Vec<Tick> {
    let (mut ticks, mut messages, mut bytes) = (Vec::with_capacity(due.len()), MESSAGES, BYTES);
    for status in due {
        let size = status.definition.payload.len();
        let mut room = messages.min(bytes.checked_div(size).unwrap_or(usize::MAX));
        if room == 0 {
            if !ticks.is_empty() {
                break;
            }
            room = 1;
        }
        let tick = limited(fencepost_schedule::tick(status, now), room);
        messages = messages.saturating_sub(tick.fires.len());
        bytes = bytes.saturating_sub(tick.fires.len() * size);
        ticks.push(tick);
    }
    ticks
}

/// A tick with at most so many messages. The others come next, and are due at once.
fn limited(mut tick: Tick, room: usize) -> Tick {
    if tick.fires.len() > room {
        let first_left = tick.fires[room];
        tick.fires.truncate(room);
        tick.next = Some(NextFire { nominal_at: first_left, due_at: first_left });
    }
    tick
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fencepost_core::schedule::{Misfire, ScheduleDefinition};
    use fencepost_core::{QueueName, ScheduleName};

    use super::*;

    fn status(name: &str, spec: &str, payload: usize, misfire: Misfire) -> ScheduleStatus {
        let mut definition =
            ScheduleDefinition::new(ScheduleName::new(name).unwrap(), spec, QueueName::new("q").unwrap());
        (definition.payload, definition.misfire) = (vec![0; payload], misfire);
        let first = Timestamp::from_micros(60_000_000);
        ScheduleStatus {
            definition,
            revision: 1,
            is_paused: false,
            anchor_at: Timestamp::from_micros(0),
            next: Some(NextFire { nominal_at: first, due_at: first }),
            last: None,
            missed: 0,
            problem: None,
            unreadable: None,
        }
    }

    fn minutes(count: u64) -> Timestamp {
        Timestamp::from_micros(0) + Duration::from_secs(60 * count)
    }

    /// What does not fit into a commit is what comes next, and nothing of it is lost or counted twice.
    #[test]
    fn much_to_make_up_for_is_made_up_for_in_several_commits() {
        let mut status = status("s", "* * * * *", 1 << 20, Misfire::All(40));
        let (mut fired, mut missed) = (Vec::new(), 0);
        for commit in 0..3 {
            let ticks = judge(std::slice::from_ref(&status), minutes(50));
            assert_eq!(ticks[0].fires.len(), [16, 16, 8][commit], "{commit}");
            fired.extend(ticks[0].fires.iter().copied());
            missed += ticks[0].missed;
            status.next = ticks[0].next;
        }
        assert_eq!(fired, (11..=50).map(minutes).collect::<Vec<_>>());
        assert_eq!((missed, status.next.unwrap().nominal_at), (10, minutes(51)));
    }

    #[test]
    fn a_commit_that_is_full_leaves_the_others_for_the_next_one() {
        let due: Vec<_> = (0..40).map(|n| status(&format!("s{n}"), "* * * * *", 1 << 20, Misfire::One)).collect();
        assert_eq!(judge(&due, minutes(1)).len(), 16);
        let due: Vec<_> = (0..40).map(|n| status(&format!("s{n}"), "* * * * *", 0, Misfire::One)).collect();
        assert_eq!(judge(&due, minutes(1)).len(), 40);
    }

    #[test]
    fn what_cannot_be_read_has_a_problem_and_the_others_fire() {
        let due = [status("a", "@lunar", 0, Misfire::One), status("b", "* * * * *", 0, Misfire::One)];
        let ticks = judge(&due, minutes(1));
        assert!(ticks[0].problem.as_ref().is_some_and(|problem| problem.contains("@lunar")), "{ticks:?}");
        assert_eq!((ticks[0].next, ticks[1].fires.as_slice()), (None, &[minutes(1)][..]));
    }
}
