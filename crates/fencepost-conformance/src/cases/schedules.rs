//! Schedules as engines keep them: they store what they are told, and say what is due by their clock.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::schedule::{
    LONGEST_JITTER, MAX_FIRES, MAX_SPEC, NOMINAL_TIME_HEADER, SCHEDULE_HEADER, nominal_time,
};
use fencepost_core::{
    Due, Fired, Key, Kind, MAX_PAYLOAD, MessageKind, Misfire, NextFire, Put, Reason, ScheduleDefinition, ScheduleStatus,
    Store, Tick, TickOutcome, Timestamp, Topic, WakeReceiver,
};

use crate::Harness;
use crate::ground::{Ground, SECOND, at, definition, name, names, queue};
use crate::stage::{asleep, refused, ttl, woken, writes_nothing};

/// A schedule is made, and tells what it was made of.
pub async fn a_schedule_is_told_as_it_was_put(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    let whole = ScheduleDefinition {
        spec: "30 2 * * 1-5".into(),
        zone: "America/Argentina/Buenos_Aires".into(),
        kind: MessageKind::new("report").unwrap(),
        key: Some(Key::new("customer-7").unwrap()),
        payload: vec![0, 255, 1],
        misfire: Misfire::All(7),
        jitter: Duration::from_micros(1_500_001),
        from: Some(ground.after(5)),
        until: Some(ground.after(500)),
        ..definition("nightly")
    };
    let next = NextFire { nominal_at: ground.after(10), due_at: ground.after(11) };
    let put = ground.store.put_schedule(&whole, Some(next), ground.after(1)).await.unwrap();
    assert_eq!(put, Put::Created);
    let told = ScheduleStatus {
        definition: whole,
        revision: ground.status("nightly").await.revision,
        is_paused: false,
        anchor_at: ground.after(1),
        next: Some(next),
        last: None,
        missed: 0,
        problem: None,
        unreadable: None,
    };
    assert_eq!(ground.status("nightly").await, told);

    ground.put("a", 3).await;
    for misfire in [Misfire::Skip, Misfire::One] {
        let plain = ScheduleDefinition { misfire, ..definition("z") };
        ground.store.put_schedule(&plain, None, ground.start).await.unwrap();
        let status = ground.status("z").await;
        assert_eq!((status.definition, status.next), (plain, None));
    }
    let all = h.another().await.schedule_status().await.unwrap();
    let listed: Vec<&str> = all.iter().map(|status| status.definition.name.as_str()).collect();
    assert_eq!(listed, ["a", "nightly", "z"]);
    assert_eq!(all[1], told);
    assert_eq!(ground.store.schedule(&name("absent")).await.unwrap(), None);
}

/// B10: a put of the same definition writes nothing and keeps what comes next, so one who puts it again and again starves nothing.
pub async fn b10_an_unchanged_put_keeps_what_comes_next(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    let before = ground.put("s", 3).await;
    for seconds in [2, 4] {
        h.clock().advance(2 * SECOND);
        let put =
            ground.store.put_schedule(&before.definition, Some(at(ground.after(seconds + 3))), ground.after(seconds));
        assert_eq!(writes_nothing(h, "an unchanged put", put).await.unwrap(), Put::Unchanged);
    }
    assert_eq!(ground.status("s").await, before);
    assert_eq!(names(&ground.due().await), ["s"]);
}

/// A put of another definition replaces it with what comes next and from when it counts; what it has fired stays known.
pub async fn a_changed_put_goes_on_from_what_it_says(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    let before = ground.put("s", 1).await;
    assert_eq!(ground.fire_one(ground.tick("s", &[1], Some(2)).await).await, [1]);
    let fired = ground.status("s").await;
    assert!(fired.revision > before.revision);
    let changes = [
        ScheduleDefinition { spec: "@every 2s".into(), ..before.definition.clone() },
        ScheduleDefinition { zone: "Europe/Berlin".into(), ..before.definition.clone() },
        ScheduleDefinition { kind: MessageKind::new("k").unwrap(), ..before.definition.clone() },
        ScheduleDefinition { key: Some(Key::new("k").unwrap()), ..before.definition.clone() },
        ScheduleDefinition { payload: b"p".to_vec(), ..before.definition.clone() },
        ScheduleDefinition { misfire: Misfire::All(2), ..before.definition.clone() },
        ScheduleDefinition { misfire: Misfire::All(3), ..before.definition.clone() },
        ScheduleDefinition { jitter: SECOND, ..before.definition.clone() },
        ScheduleDefinition { from: Some(ground.start), ..before.definition.clone() },
        ScheduleDefinition { until: Some(ground.after(9)), ..before.definition.clone() },
    ];
    let mut present = fired.clone();
    for (n, definition) in changes.into_iter().enumerate() {
        let (next, now) = (at(ground.after(20 + n as u64)), ground.after(1));
        let put = ground.store.put_schedule(&definition, Some(next), now).await;
        assert_eq!(put.unwrap(), Put::Changed, "{definition:?}");
        let status = ground.status("s").await;
        assert!(status.revision > present.revision);
        let times = |of: &ScheduleDefinition| (of.spec.clone(), of.zone.clone(), of.jitter, of.from, of.until);
        let goes_on = match times(&present.definition) == times(&definition) {
            true => (present.next, present.anchor_at),
            false => (Some(next), now),
        };
        assert_eq!((status.next, status.anchor_at), goes_on, "{definition:?}");
        assert_eq!((&status.definition, status.last, status.missed), (&definition, fired.last, 0));
        present = status;
    }
}

/// A time that is due when a schedule is changed is sent as it is now, unless it fires at other times: then it counts as missed.
pub async fn what_is_due_when_a_schedule_is_changed_is_not_lost(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    let before = ground.put("s", 1).await;
    h.clock().advance(5 * SECOND);
    let changed = ScheduleDefinition { payload: b"new".to_vec(), ..before.definition.clone() };
    let (next, now) = (Some(at(ground.after(6))), ground.after(5));
    assert_eq!(ground.store.put_schedule(&changed, next, now).await.unwrap(), Put::Changed);
    let status = ground.status("s").await;
    assert_eq!((status.next, status.anchor_at, status.missed), (before.next, ground.start, 0));
    assert_eq!(ground.fire_one(ground.tick("s", &[1], Some(4)).await).await, [1]);
    assert_eq!(ground.sent().await[0].payload, b"new");

    let slower = ScheduleDefinition { spec: "@every 2s".into(), ..changed };
    assert_eq!(ground.store.put_schedule(&slower, next, now).await.unwrap(), Put::Changed);
    let status = ground.status("s").await;
    assert_eq!((status.next, status.anchor_at, status.missed), (next, now, 1));
}

/// A schedule that is removed and made anew is another one, whatever it is called: what was judged of the one before is nothing of it.
pub async fn b08_a_tick_of_one_that_was_made_anew_since_does_nothing(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    ground.put("s", 1).await;
    let tick = ground.tick("s", &[1], None).await;
    h.clock().advance(2 * SECOND);
    assert!(ground.store.remove_schedule(&name("s")).await.unwrap());
    let next = Some(at(ground.after(9)));
    assert_eq!(ground.store.put_schedule(&definition("s"), next, ground.after(2)).await.unwrap(), Put::Created);
    assert_eq!(ground.fire(&[tick]).await, [TickOutcome::Changed]);
    assert_eq!((ground.status("s").await.next, ground.sent().await.len()), (next, 0));
}

/// A schedule needs its queue when it is put.
pub async fn a_schedule_without_its_queue_is_refused(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    let lost = ScheduleDefinition { queue: queue("absent"), ..definition("s") };
    let put = ground.store.put_schedule(&lost, None, ground.start);
    let error = refused(writes_nothing(h, "a refused put", put).await, Kind::NotFound);
    assert_eq!(error.fact("queue"), Some("absent"));
    assert_eq!(ground.store.schedule(&name("s")).await.unwrap(), None);
}

/// What no schedule can be is refused before it reaches the store.
pub async fn what_no_schedule_can_be_is_refused(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    let (start, end) = (ground.start, Timestamp::from_micros(i64::MAX));
    let plain = definition("s");
    let bad = [
        ScheduleDefinition { spec: " ".into(), ..plain.clone() },
        ScheduleDefinition { spec: "x".repeat(MAX_SPEC + 1), ..plain.clone() },
        ScheduleDefinition { spec: "a\0b".into(), ..plain.clone() },
        ScheduleDefinition { zone: String::new(), ..plain.clone() },
        ScheduleDefinition { zone: "x".repeat(256), ..plain.clone() },
        ScheduleDefinition { misfire: Misfire::All(0), ..plain.clone() },
        ScheduleDefinition { misfire: Misfire::All(10_001), ..plain.clone() },
        ScheduleDefinition { jitter: LONGEST_JITTER + SECOND, ..plain.clone() },
        ScheduleDefinition { jitter: Duration::from_nanos(1_500), ..plain.clone() },
        ScheduleDefinition { from: Some(start), until: Some(start), ..plain.clone() },
        ScheduleDefinition { until: Some(end), ..plain.clone() },
    ];
    let refusals = writes_nothing(h, "a refused put", async {
        for definition in bad {
            refused(ground.store.put_schedule(&definition, None, start).await, Kind::InvalidInput);
        }
        let large = ScheduleDefinition { payload: vec![0; MAX_PAYLOAD + 1], ..plain.clone() };
        refused(ground.store.put_schedule(&large, None, start).await, Kind::LimitExceeded);
        let nexts = [
            at(end),
            at(Timestamp::from_micros(-1)),
            NextFire { nominal_at: ground.after(1), due_at: start },
            NextFire { nominal_at: start, due_at: start + LONGEST_JITTER + SECOND },
        ];
        for next in nexts {
            refused(ground.store.put_schedule(&plain, Some(next), start).await, Kind::InvalidInput);
        }
        for max in [0, 10_001] {
            refused(ground.store.due_schedules(&ground.leader, None, max).await, Kind::InvalidInput);
        }
    });
    refusals.await;

    ground.put("s", 1).await;
    let tick = ground.tick("s", &[1, 2], Some(3)).await;
    let bad = [
        vec![tick.clone(), tick.clone()],
        vec![Tick { fires: vec![ground.after(2), ground.after(1)], ..tick.clone() }],
        vec![Tick { fires: vec![ground.after(1), ground.after(1)], ..tick.clone() }],
        vec![Tick { next: Some(at(ground.after(2))), ..tick.clone() }],
        vec![Tick { missed: u64::MAX, ..tick.clone() }],
        vec![Tick { problem: Some("x".into()), ..tick.clone() }],
        vec![Tick { problem: Some(" ".into()), fires: vec![], next: None, ..tick.clone() }],
    ];
    let refusals = writes_nothing(h, "a refused tick", async {
        for ticks in bad {
            refused(ground.store.fire_schedules(&ground.leader, &ticks).await, Kind::InvalidInput);
        }
        let many = (0..=MAX_FIRES as u64).map(|n| ground.after(n)).collect();
        let much = [Tick { fires: many, next: None, ..tick.clone() }];
        refused(ground.store.fire_schedules(&ground.leader, &much).await, Kind::LimitExceeded);
    });
    refusals.await;
}

/// Schedules are due by the engine's clock and by when they are due, jitter included; a look tells when the next is due.
pub async fn schedules_are_due_by_the_clock_of_the_engine(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    assert_eq!(ground.due().await, Due { now: ground.start, schedules: vec![], next_due_at: None });
    for (text, seconds) in [("late", 9), ("b", 2), ("a", 2), ("early", 1)] {
        ground.put(text, seconds).await;
    }
    let jittered = NextFire { nominal_at: ground.start, due_at: ground.after(3) };
    ground.store.put_schedule(&definition("jittered"), Some(jittered), ground.start).await.unwrap();
    ground.store.put_schedule(&definition("over"), None, ground.start).await.unwrap();

    let due = ground.due().await;
    assert_eq!((names(&due), due.next_due_at), (vec![], Some(ground.after(1))));
    h.clock().advance(SECOND);
    let due = ground.due().await;
    assert_eq!((due.now, names(&due), due.next_due_at), (ground.after(1), vec!["early"], Some(ground.after(2))));
    assert_eq!(due.schedules[0], ground.status("early").await);
    h.clock().advance(2 * SECOND);
    let due = ground.due().await;
    assert_eq!((names(&due), due.next_due_at), (vec!["early", "a", "b", "jittered"], Some(ground.after(9))));
    let due = ground.due_of(2).await;
    assert_eq!((names(&due), due.next_due_at), (vec!["early", "a"], Some(ground.after(2))), "the rest is due already");
    h.clock().advance(60 * SECOND);
    let due = ground.due_of(5).await;
    assert_eq!((due.schedules.len(), due.next_due_at), (5, None));
}

/// A look renews the leader's lease, by the TTL it names, and tells a leader that has lost it nothing; one that expired and that nobody took
/// goes on.
pub async fn a_look_renews_the_lease_of_the_leader(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    ground.put("s", 1).await;
    let expires_at = async || {
        let status = ground.store.lease(&ground.leader.name).await.unwrap().unwrap();
        status.state.holding.map(|holding| holding.expires_at)
    };
    h.clock().advance(10 * SECOND);
    assert_eq!(names(&ground.due().await), ["s"]);
    assert_eq!(expires_at().await, Some(ground.after(40)));
    let look = ground.store.due_schedules(&ground.leader, Some(ttl(7)), 1).await.unwrap().expect("it leads");
    assert_eq!((names(&look), expires_at().await), (vec!["s"], Some(ground.after(17))));
    h.clock().advance(60 * SECOND);
    assert_eq!(names(&ground.due().await), ["s"]);
    ground.store.force_release_lease(&ground.leader.name, &Reason::new("it hangs").unwrap()).await.unwrap();
    let lost = writes_nothing(h, "a look without the lease", ground.store.due_schedules(&ground.leader, None, 1)).await;
    assert_eq!(lost.unwrap(), None);
}

/// A look returns what has 4 MiB of payloads together, or one schedule, and says that more is due.
pub async fn a_look_returns_no_more_than_a_leader_takes(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    for n in 0..6 {
        let large = ScheduleDefinition { payload: vec![7; MAX_PAYLOAD], ..definition(&format!("s{n}")) };
        ground.store.put_schedule(&large, Some(at(ground.after(1))), ground.start).await.unwrap();
    }
    h.clock().advance(SECOND);
    let due = ground.due().await;
    assert_eq!((names(&due), due.next_due_at), (vec!["s0", "s1", "s2", "s3"], Some(ground.after(1))));
}

/// A paused schedule is not due; resumed it goes on with what it is told.
pub async fn a_paused_schedule_is_not_due(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    let before = ground.put("s", 1).await;
    h.clock().advance(5 * SECOND);
    assert!(ground.store.pause_schedule(&name("s")).await.unwrap());
    let paused = ground.status("s").await;
    assert!(paused.is_paused && paused.revision > before.revision);
    assert_eq!(paused.next, None);
    let due = ground.due().await;
    assert_eq!((due.schedules.len(), due.next_due_at), (0, None));
    let again = writes_nothing(h, "a second pause", ground.store.pause_schedule(&name("s"))).await;
    assert!(!again.unwrap());

    let changed = ScheduleDefinition { payload: b"new".to_vec(), ..before.definition.clone() };
    let put = ground.store.put_schedule(&changed, Some(at(ground.after(6))), ground.start).await.unwrap();
    assert_eq!(put, Put::Changed);
    let status = ground.status("s").await;
    assert_eq!((status.is_paused, status.next, &status.definition), (true, None, &changed), "it stays paused");

    assert!(ground.store.resume_schedule(&name("s"), Some(at(ground.after(7)))).await.unwrap());
    let resumed = ground.status("s").await;
    assert_eq!((resumed.is_paused, resumed.next, resumed.missed), (false, Some(at(ground.after(7))), 0));
    let (text, next) = (name("s"), Some(at(ground.after(8))));
    let again = writes_nothing(h, "a second resume", ground.store.resume_schedule(&text, next)).await;
    assert!(!again.unwrap());
    assert_eq!(ground.status("s").await, resumed);
    refused(ground.store.resume_schedule(&name("s"), Some(at(Timestamp::from_micros(-1)))).await, Kind::InvalidInput);
    let error = refused(ground.store.pause_schedule(&name("absent")).await, Kind::NotFound);
    assert_eq!(error.fact("schedule"), Some("absent"));
    refused(ground.store.resume_schedule(&name("absent"), None).await, Kind::NotFound);
}

/// A run by hand sends one message now, also of a paused schedule, and changes nothing of the schedule.
pub async fn a_run_by_hand_changes_nothing_of_the_schedule(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    ground.put("s", 9).await;
    h.clock().advance(SECOND);
    ground.store.pause_schedule(&name("s")).await.unwrap();
    let before = ground.status("s").await;
    let fired = ground.store.run_schedule(&name("s")).await.unwrap();
    let messages = ground.sent().await;
    assert_eq!(messages.len(), 1);
    assert_eq!(fired, Fired { nominal_at: ground.after(1), fired_at: ground.after(1), message: messages[0].id });
    assert_eq!(messages[0].headers[SCHEDULE_HEADER], "s");
    assert_eq!(messages[0].headers[NOMINAL_TIME_HEADER], nominal_time(ground.after(1)));
    assert_eq!(ground.status("s").await, before);
    assert_eq!(ground.store.schedule_history(&name("s")).await.unwrap(), []);
    refused(ground.store.run_schedule(&name("absent")).await, Kind::NotFound);
}

/// A removed schedule is gone with what is remembered of it; one that is made anew begins anew.
pub async fn a_removed_schedule_is_gone(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    ground.put("s", 1).await;
    ground.fire_one(ground.tick("s", &[1], Some(2)).await).await;
    h.clock().advance(5 * SECOND);
    assert!(ground.store.remove_schedule(&name("s")).await.unwrap());
    assert_eq!(ground.store.schedule(&name("s")).await.unwrap(), None);
    assert_eq!(ground.due().await.schedules, []);
    let again = writes_nothing(h, "a second removal", ground.store.remove_schedule(&name("s"))).await;
    assert!(!again.unwrap());
    assert_eq!(ground.sent().await.len(), 1, "what it has sent stays");
    let status = ground.put("s", 7).await;
    assert_eq!((status.last, status.missed), (None, 0));
    assert_eq!(ground.store.schedule_history(&name("s")).await.unwrap(), []);
}

/// B20: schedules of any name of 255 bytes work end to end, and differ where their last byte does.
pub async fn b20_long_names_of_schedules_work(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    let long = |last: &str| format!("{}{last}", "é".repeat(127));
    for (text, seconds) in [(long("a"), 1), (long("b"), 2), ("報告 · nº 7".into(), 3)] {
        ground.put(&text, seconds).await;
        assert_eq!(ground.fire_one(ground.tick(&text, &[seconds], None).await).await, [seconds]);
        let last = ground.sent().await.pop().unwrap();
        assert_eq!(last.headers[SCHEDULE_HEADER], text);
    }
}

/// Who waits for schedules, registered after what has happened so far.
async fn sleeper(h: &dyn Harness, store: &Arc<dyn Store>) -> WakeReceiver {
    h.settle().await;
    store.wakes(&Topic::Schedules)
}

/// B09: a new or changed schedule, a resumed and a removed one wake who waits for them, through any handle; an unchanged put does not.
pub async fn b09_a_put_wakes_who_waits_for_schedules(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    let there = h.another().await;
    let made = definition("s");
    let changed = ScheduleDefinition { payload: b"new".to_vec(), ..made.clone() };
    for elsewhere in [&ground.store, &there] {
        let mut asleep_here = sleeper(h, &ground.store).await;
        elsewhere.put_schedule(&made, Some(at(ground.after(1))), ground.start).await.unwrap();
        woken(&mut asleep_here).await;
        drop(asleep_here);
        let mut asleep_here = sleeper(h, &ground.store).await;
        elsewhere.put_schedule(&changed, Some(at(ground.after(1))), ground.start).await.unwrap();
        woken(&mut asleep_here).await;
        drop(asleep_here);
        elsewhere.pause_schedule(&made.name).await.unwrap();
        let mut asleep_here = sleeper(h, &ground.store).await;
        elsewhere.resume_schedule(&made.name, Some(at(ground.after(2)))).await.unwrap();
        woken(&mut asleep_here).await;
        drop(asleep_here);
        let mut asleep_here = sleeper(h, &ground.store).await;
        elsewhere.remove_schedule(&made.name).await.unwrap();
        woken(&mut asleep_here).await;
    }
    ground.put("s", 1).await;
    // A handle that nobody slept on before: others may be woken once more to make sure.
    let fresh = h.another().await;
    let mut sleeper = sleeper(h, &fresh).await;
    assert_eq!(ground.store.put_schedule(&made, None, ground.start).await.unwrap(), Put::Unchanged);
    assert!(asleep(&mut sleeper), "nothing changed");
}
