//! Firing schedules: each nominal time once, in one commit with the schedule's going on, for the leader alone.

use std::time::Duration;

use fencepost_core::schedule::{FIRES_KEPT, NOMINAL_TIME_HEADER, SCHEDULE_HEADER, nominal_time};
use fencepost_core::{
    Fired, Key, Kind, MessageKind, NextFire, Partitions, Put, ScheduleDefinition, ScheduleStatus, Tick, TickOutcome,
    Timestamp,
};

use crate::Harness;
use crate::ground::{Ground, SECOND, at, definition, lead, name, queue, sent};
use crate::stage::{fenced, refused};

/// A fire sends the schedule's message with its name and nominal time, and the schedule goes on, in one commit.
pub async fn a_fire_sends_and_goes_on(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    let whole = ScheduleDefinition {
        kind: MessageKind::new("report").unwrap(),
        key: Some(Key::new("customer-7").unwrap()),
        payload: vec![0, 255],
        ..definition("nightly")
    };
    let halves = [Duration::from_micros(1_000_000_000_000), Duration::from_micros(1_000_000_500_000)]
        .map(|since| Timestamp::from_micros(0) + since);
    ground.store.put_schedule(&whole, Some(at(halves[0])), ground.start).await.unwrap();
    let before = ground.status("nightly").await;
    h.clock().advance(SECOND);
    let next = Some(NextFire { nominal_at: ground.after(60), due_at: ground.after(61) });
    let tick = Tick { fires: halves.to_vec(), missed: 3, next, ..ground.tick("nightly", &[], None).await };
    let outcomes = ground.fire(&[tick]).await;

    let messages = ground.sent().await;
    let fired: Vec<Fired> = halves
        .iter()
        .zip(&messages)
        .map(|(nominal_at, message)| Fired { nominal_at: *nominal_at, fired_at: ground.after(1), message: message.id })
        .collect();
    assert_eq!(outcomes, [TickOutcome::Fired(fired.clone())]);
    assert_eq!(messages.len(), 2);
    for (message, time) in messages.iter().zip(["1970-01-12T13:46:40Z", "1970-01-12T13:46:40.500000Z"]) {
        assert_eq!((message.kind.as_str(), message.key.as_ref().unwrap().as_str()), ("report", "customer-7"));
        assert_eq!((message.payload.as_slice(), message.created_at), ([0, 255].as_slice(), ground.after(1)));
        assert_eq!(message.headers.get(SCHEDULE_HEADER).unwrap(), "nightly");
        assert_eq!(message.headers.get(NOMINAL_TIME_HEADER).unwrap(), time);
        assert_eq!(message.headers.len(), 2);
    }
    let status = h.another().await.schedule(&name("nightly")).await.unwrap().unwrap();
    assert!(status.revision > before.revision);
    let revision = status.revision;
    assert_eq!(status, ScheduleStatus { revision, next, last: fired.last().copied(), missed: 3, ..before });
    assert_eq!(ground.store.schedule_history(&name("nightly")).await.unwrap(), fired);
    assert_eq!(ground.due().await.schedules, []);
}

/// Ticks of many schedules go to their queues together, and each is answered at its place.
pub async fn ticks_of_many_schedules_are_answered_at_their_places(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    ground.store.create_queue(&queue("other"), Partitions::default()).await.unwrap();
    let mut ticks = Vec::new();
    for n in 0..20 {
        let text = format!("s{n}");
        let to = if n % 3 == 0 { "other" } else { "jobs" };
        let made = ScheduleDefinition { queue: queue(to), payload: text.clone().into(), ..definition(&text) };
        ground.store.put_schedule(&made, Some(at(ground.after(1))), ground.start).await.unwrap();
        ticks.push(ground.tick(&text, if n % 2 == 0 { &[1, 2] } else { &[2] }, Some(3)).await);
    }
    let outcomes = ground.fire(&ticks).await;
    assert_eq!(outcomes.len(), 20);
    let (jobs, other) = (ground.sent().await, sent(&ground.store, "other").await);
    for (n, outcome) in outcomes.iter().enumerate() {
        let TickOutcome::Fired(fired) = outcome else { panic!("{n} is {outcome:?}") };
        let times: Vec<Timestamp> = fired.iter().map(|fired| fired.nominal_at).collect();
        assert_eq!(times, ticks[n].fires);
        for fired in fired {
            let messages = if n % 3 == 0 { &other } else { &jobs };
            let message = messages.iter().find(|message| message.id == fired.message).unwrap();
            assert_eq!(message.payload, format!("s{n}").into_bytes());
            assert_eq!(message.headers[NOMINAL_TIME_HEADER], nominal_time(fired.nominal_at));
        }
    }
    assert_eq!((jobs.len(), other.len()), (19, 11));
    assert_eq!(ground.fire(&[]).await, []);
}

/// B12: ten missed times fire none, one or all of them as the tick says, each with its own nominal time.
pub async fn b12_missed_times_fire_as_the_tick_says(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    h.clock().advance(10 * SECOND);
    for (text, fires) in [("skip", &[][..]), ("one", &[10]), ("all", &[4, 5, 6, 7, 8, 9, 10])] {
        ground.put(text, 1).await;
        let missed = 10 - fires.len() as u64;
        let tick = Tick { missed, ..ground.tick(text, fires, Some(11)).await };
        assert_eq!(ground.fire_one(tick).await, fires);
        let status = ground.status(text).await;
        assert_eq!((status.missed, status.next), (missed, Some(at(ground.after(11)))));
        assert_eq!(status.last.map(|last| last.nominal_at), fires.last().map(|last| ground.after(*last)));
    }
    let times: Vec<String> =
        ground.sent().await.iter().map(|message| message.headers[NOMINAL_TIME_HEADER].clone()).collect();
    let wanted = [10, 4, 5, 6, 7, 8, 9, 10].map(|seconds| nominal_time(ground.after(seconds)));
    assert_eq!(times, wanted);
}

/// A nominal time fires once, whoever asks for it again.
pub async fn each_nominal_time_fires_once(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    ground.put("s", 1).await;
    assert_eq!(ground.fire_one(ground.tick("s", &[1, 2, 3], Some(4)).await).await, [1, 2, 3]);
    assert_eq!(ground.fire_one(ground.tick("s", &[2, 3, 4], Some(5)).await).await, [4]);
    assert_eq!(ground.fire_one(ground.tick("s", &[1, 4], Some(6)).await).await, []);
    let status = ground.status("s").await;
    assert_eq!(status.last.unwrap().nominal_at, ground.after(4));
    assert_eq!((status.next, ground.sent().await.len()), (Some(at(ground.after(6))), 4));
}

/// B08: who does not hold the leader's lease fires nothing; one whose grant has expired fires until somebody takes over.
pub async fn b08_a_fenced_leader_fires_nothing(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    ground.put("s", 1).await;
    h.clock().advance(60 * SECOND);
    assert_eq!(ground.fire_one(ground.tick("s", &[1], Some(2)).await).await, [1], "expired, but nobody took over");
    let heir = lead(&ground.store, 30).await;
    let before = ground.status("s").await;
    let tick = ground.tick("s", &[2], Some(3)).await;
    let late = ground.store.fire_schedules(&ground.leader, std::slice::from_ref(&tick)).await;
    fenced(late, ground.leader.epoch, Some(heir.epoch));
    let none = ground.store.fire_schedules(&ground.leader, &[]).await;
    fenced(none, ground.leader.epoch, Some(heir.epoch));
    assert_eq!((ground.status("s").await, ground.sent().await.len()), (before, 1));
    let heir = Ground { leader: heir, ..ground };
    assert_eq!(heir.fire_one(tick).await, [2]);
}

/// A tick of another revision, or of a schedule that is paused or removed, does nothing; the others of the call fire.
pub async fn a_tick_of_what_is_no_more_changes_nothing(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    let mut ticks = Vec::new();
    for text in ["changed", "fired", "paused", "removed", "as it was"] {
        ground.put(text, 1).await;
        ticks.push(ground.tick(text, &[1], Some(2)).await);
    }
    let changed = ScheduleDefinition { payload: b"new".to_vec(), ..definition("changed") };
    ground.store.put_schedule(&changed, Some(at(ground.after(9))), ground.start).await.unwrap();
    assert_eq!(ground.fire_one(ticks[1].clone()).await, [1]);
    ground.store.pause_schedule(&name("paused")).await.unwrap();
    ground.store.remove_schedule(&name("removed")).await.unwrap();
    ticks.push(Tick { name: name("paused now"), ..ticks[4].clone() });
    ground.put("paused now", 1).await;
    ground.store.pause_schedule(&name("paused now")).await.unwrap();
    ticks[5].revision = ground.status("paused now").await.revision;

    let before = ground.store.schedule_status().await.unwrap();
    let outcomes = ground.fire(&ticks).await;
    let is_fired = |outcome: &TickOutcome| matches!(outcome, TickOutcome::Fired(fired) if fired.len() == 1);
    assert_eq!(outcomes.iter().map(is_fired).collect::<Vec<_>>(), [false, false, false, false, true, false]);
    assert!(outcomes.iter().all(|outcome| is_fired(outcome) || *outcome == TickOutcome::Changed), "{outcomes:?}");
    let after = ground.store.schedule_status().await.unwrap();
    assert_eq!((&before[1..], after.len()), (&after[1..], before.len()), "all but `as it was`");
    assert_eq!(ground.sent().await.len(), 2);
}

/// B11: a schedule whose queue is gone reports it and goes on; the others fire, and it fires again once the queue is back.
pub async fn b11_a_schedule_whose_queue_is_gone_is_reported(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    ground.store.create_queue(&queue("gone"), Partitions::default()).await.unwrap();
    let lost = ScheduleDefinition { queue: queue("gone"), ..definition("lost") };
    ground.store.put_schedule(&lost, Some(at(ground.after(1))), ground.start).await.unwrap();
    ground.put("well", 1).await;
    ground.store.drop_queue(&queue("gone"), true).await.unwrap();

    let lost_tick = Tick { missed: 2, ..ground.tick("lost", &[3, 4], Some(5)).await };
    let outcomes = ground.fire(&[lost_tick, ground.tick("well", &[1], Some(2)).await]).await;
    assert_eq!(outcomes[0], TickOutcome::TargetGone);
    assert!(matches!(&outcomes[1], TickOutcome::Fired(fired) if fired.len() == 1), "{outcomes:?}");
    let status = ground.status("lost").await;
    assert_eq!((status.next, status.last, status.missed), (Some(at(ground.after(5))), None, 4));
    assert_eq!(status.problem.as_deref(), Some("the queue `gone` does not exist"));
    assert_eq!(ground.status("well").await.problem, None);
    refused(ground.store.run_schedule(&name("lost")).await, Kind::NotFound);

    // With nothing to send nothing is learned of the queue.
    assert_eq!(ground.fire_one(ground.tick("lost", &[], Some(6)).await).await, []);
    assert!(ground.status("lost").await.problem.is_some());
    ground.store.create_queue(&queue("gone"), Partitions::default()).await.unwrap();
    assert_eq!(ground.fire_one(ground.tick("lost", &[6], Some(7)).await).await, [6]);
    assert_eq!(ground.status("lost").await.problem, None);
    assert_eq!(sent(&ground.store, "gone").await.len(), 1);
}

/// B11: a problem that the leader reports stops that schedule alone, until it is put anew.
pub async fn b11_a_problem_stops_its_schedule_alone(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    let bad = ground.put("bad", 1).await;
    ground.put("well", 1).await;
    h.clock().advance(SECOND);
    let unreadable = Tick { problem: Some("a spec of tomorrow".into()), ..ground.tick("bad", &[], None).await };
    let outcomes = ground.fire(&[unreadable, ground.tick("well", &[1], Some(2)).await]).await;
    assert_eq!(outcomes[0], TickOutcome::Fired(vec![]));
    let status = ground.status("bad").await;
    assert_eq!((status.problem.as_deref(), status.next), (Some("a spec of tomorrow"), None));
    let due = ground.due().await;
    assert_eq!((due.schedules.len(), due.next_due_at), (0, Some(ground.after(2))));

    // Whoever leads next may be able to read it.
    assert_eq!(ground.fire_one(ground.tick("bad", &[], Some(2)).await).await, []);
    let status = ground.status("bad").await;
    assert_eq!((status.problem, status.next), (None, Some(at(ground.after(2)))));
    let unreadable = Tick { problem: Some("a spec of tomorrow".into()), ..ground.tick("bad", &[], None).await };
    ground.fire(&[unreadable]).await;
    let put = ground.store.put_schedule(&bad.definition, Some(at(ground.after(3))), ground.after(1)).await.unwrap();
    assert_eq!(put, Put::Changed);
    let status = ground.status("bad").await;
    assert_eq!((status.problem, status.next), (None, Some(at(ground.after(3)))));
}

/// What a schedule has fired is remembered up to a bound, oldest first.
pub async fn the_history_of_a_schedule_is_bounded(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    ground.put("s", 1).await;
    ground.put("other", 1).await;
    ground.fire(&[ground.tick("other", &[1], Some(2)).await]).await;
    let mut fired = Vec::new();
    for part in (1..=250_u64).collect::<Vec<_>>().chunks(60) {
        match ground.fire(&[ground.tick("s", part, Some(part[part.len() - 1] + 1)).await]).await.as_slice() {
            [TickOutcome::Fired(part)] => fired.extend(part.iter().copied()),
            other => panic!("not fired: {other:?}"),
        }
        let history = ground.store.schedule_history(&name("s")).await.unwrap();
        assert_eq!(history, fired[fired.len().saturating_sub(FIRES_KEPT)..]);
    }
    let many: Vec<u64> = (251..=1_500).collect();
    ground.fire(&[ground.tick("s", &many, Some(1_501)).await]).await;
    let history = ground.store.schedule_history(&name("s")).await.unwrap();
    let times: Vec<u64> = history.iter().map(|fired| fired.nominal_at.since(ground.start).as_secs()).collect();
    assert_eq!(times, (1_401..=1_500).collect::<Vec<_>>());
    assert_eq!(ground.store.schedule_history(&name("other")).await.unwrap().len(), 1);
    refused(ground.store.schedule_history(&name("absent")).await, Kind::NotFound);
}
