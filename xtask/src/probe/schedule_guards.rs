//! The guards of what a schedule means that are proved, as data.

use super::guards::Guard;

const SCHEDULE: &[&str] = &["fencepost-schedule"];
const RUNTIME: &str = "fencepost-runtime";

const ZONE: &str = "crates/fencepost-schedule/src/zone.rs";
const TIMETABLE: &str = "crates/fencepost-schedule/src/timetable.rs";
const MISFIRE: &str = "crates/fencepost-schedule/src/misfire.rs";
const LEADER: &str = "crates/fencepost-runtime/src/scheduler/mod.rs";
const JITTER: &str = "crates/fencepost-schedule/src/jitter.rs";

pub const GUARDS: &[Guard] = &[
    Guard {
        name: "schedule-gap",
        without: "what clocks skip fires before the gap",
        file: ZONE,
        text: "let at = stretch.start.max(wanted - stretch.offset);",
        instead: "let at = wanted - stretch.offset;",
        engines: SCHEDULE,
        red: &["dst::b13_a_gap_fires_once_after_it", "dst::b13_a_day_that_a_zone_skipped_fires_once_after_it"],
    },
    Guard {
        name: "schedule-overlap",
        without: "what clocks show twice fires twice",
        file: ZONE,
        text: "self.stretches(second - 2 * FARTHEST, second).map(latest).max();",
        instead: "self.stretches(second - 2 * FARTHEST, second).map(latest).last();",
        engines: SCHEDULE,
        red: &["dst::b13_an_overlap_fires_once_the_first_time"],
    },
    Guard {
        name: "schedule-overlap-first",
        without: "what clocks show twice fires the second time",
        file: ZONE,
        text: ".find_map(reached);",
        instead: ".filter_map(reached).last();",
        engines: SCHEDULE,
        red: &["dst::b13_an_overlap_fires_once_the_first_time"],
    },
    Guard {
        name: "schedule-gap-count",
        without: "times that a gap makes one of count each",
        file: TIMETABLE,
        text: "skipped.saturating_sub(1)",
        instead: "skipped.saturating_sub(u64::MAX)",
        engines: SCHEDULE,
        red: &["dst::b13_a_gap_fires_once_after_it"],
    },
    Guard {
        name: "schedule-never",
        without: "a spec that never fires is taken",
        file: "crates/fencepost-schedule/src/spec/cron.rs",
        text: "if !months_from(2000, 1).take(CYCLE).any(has_days) {",
        instead: "if !months_from(2000, 1).take(CYCLE).any(has_days) && false {",
        engines: SCHEDULE,
        red: &["parse::a_spec_that_never_fires_is_refused"],
    },
    Guard {
        name: "schedule-cap",
        without: "everything that was missed fires, however much",
        file: MISFIRE,
        text: "Misfire::All(cap) => due.min(cap.into()),",
        instead: "Misfire::All(_) => due,",
        engines: SCHEDULE,
        red: &["misfire::b12_down_for_ten_intervals"],
    },
    Guard {
        name: "schedule-walk",
        without: "what was missed is counted one by one",
        file: TIMETABLE,
        text: "(by(through) - by(after)) as u64",
        instead: "std::iter::successors(Some(by(after)), |at| Some(at + 1)).take_while(|at| *at < by(through)).count() as u64",
        engines: SCHEDULE,
        red: &["misfire::work_does_not_grow_with_the_time_that_was_missed"],
    },
    Guard {
        name: "schedule-grace",
        without: "what is due alone is a misfire, however little late",
        file: MISFIRE,
        text: "let is_misfire = due > 1 || now.since(first.due_at) >= GRACE;",
        instead: "let is_misfire = due > 0;",
        engines: SCHEDULE,
        red: &["misfire::what_is_due_alone_and_hardly_late_is_no_misfire"],
    },
    Guard {
        name: "schedule-early",
        without: "a nominal time fires before its jitter has passed",
        file: MISFIRE,
        text: "if due_at(at) <= now {",
        instead: "if at <= now {",
        engines: SCHEDULE,
        red: &["misfire::nothing_fires_before_it_is_due"],
    },
    Guard {
        name: "schedule-jitter-same",
        without: "jitter is another one whenever it is asked for",
        file: JITTER,
        text: "chain_update(at.as_micros().to_be_bytes())",
        instead: "chain_update(format!(\"{:?}\", std::time::Instant::now()))",
        engines: SCHEDULE,
        red: &["jitter::jitter_is_the_same_for_everybody"],
    },
    Guard {
        name: "schedule-jitter-order",
        without: "a nominal time may be due after the next one",
        file: JITTER,
        text: "let span = jitter.min(room).as_micros();",
        instead: "let span = jitter.max(room.min(jitter)).as_micros();",
        engines: SCHEDULE,
        red: &["jitter::jitter_is_within_its_bound_and_before_the_next_nominal_time"],
    },
    Guard {
        name: "schedule-unreadable",
        without: "a schedule that a newer version put is an error that does not say so",
        file: "crates/fencepost-schedule/src/schedule.rs",
        text: "read().map_err(|cause: Error| {",
        instead: "read().map_err(|cause: Error| {\n            if cause.hint().is_some() {\n                return cause;\n            }",
        engines: SCHEDULE,
        red: &["definition::b11_a_schedule_that_a_newer_version_put_is_an_error_that_says_so_and_stops"],
    },
    Guard {
        name: "leader-lost",
        without: "a leader whose lease is somebody else's goes on to fire",
        file: LEADER,
        text: "Ok(Ok(Renewal::Lost)) => return Err(leadership_lost(\"the lease was lost\".into())),",
        instead: "Ok(Ok(Renewal::Lost)) => return Ok(()),",
        engines: &[RUNTIME],
        red: &["schedules::b01_a_leader_that_lost_its_lease_fires_nothing_more"],
    },
    Guard {
        name: "leader-error",
        without: "a store that fails counts as a lost lead",
        file: LEADER,
        text: "            if attempt == ATTEMPTS || error.retry() == Retry::Never {\n                return Err(error);",
        instead: "            if attempt == ATTEMPTS || error.retry() == Retry::Never {\n                return Err(leadership_lost(error.to_string()));",
        engines: &[RUNTIME],
        red: &[
            "schedules::b02_b06_a_renewal_that_fails_ends_it_with_that_error",
            "schedules::b04_supervise_leads_again_after_a_loss_only",
        ],
    },
    Guard {
        name: "leader-given-back",
        without: "a leader that ends keeps its lease until that expires",
        file: LEADER,
        text: "timeout(self.request.ttl.get(), self.store.release_lease(token)).await;",
        instead: "Ok::<_, fencepost_core::Error>(Ok::<(), fencepost_core::Error>(()));",
        engines: &[RUNTIME],
        red: &["schedules::what_is_due_fires_at_its_time_and_a_stop_gives_the_lease_back"],
    },
    Guard {
        name: "leader-woken",
        without: "a schedule that is put while the leader sleeps waits for the next look",
        file: LEADER,
        text: "                    _ = changed.woken() => break,\n",
        instead: "",
        engines: &[RUNTIME],
        red: &["schedules::b09_a_new_schedule_wakes_the_leader"],
    },
];
