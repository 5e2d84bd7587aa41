//! Schedules on a real server: fires that wait for somebody's lock judge by what is true then, and a look costs what is due.

use std::time::{Duration, Instant};

use fencepost_core::{
    AcquireLease, Acquired, Due, HolderName, Kind, LeaseName, LeaseToken, Leases, NextFire, Partitions, Put, QueueName,
    Queues, Reason, ScheduleDefinition, ScheduleName, Schedules, Tick, TickOutcome, Timestamp, Topic, Wakeups,
};
use fencepost_postgres::PostgresStore;
use tokio_postgres::Client;

use crate::idle::Json;
use crate::script::{run, value};
use crate::stage::{Stage, ttl, until_waiting};

struct Ground {
    stage: Stage,
    leader: LeaseToken,
    start: Timestamp,
}

fn named(text: &str) -> ScheduleName {
    ScheduleName::new(text).unwrap()
}

fn jobs() -> QueueName {
    QueueName::new("jobs").unwrap()
}

fn definition(text: &str) -> ScheduleDefinition {
    ScheduleDefinition::new(named(text), "@every 1s", jobs())
}

async fn lead(store: &PostgresStore) -> LeaseToken {
    let request = AcquireLease::new(LeaseName::new("leader").unwrap(), HolderName::new("h").unwrap()).ttl(ttl(30));
    match store.acquire_lease(&request).await.unwrap() {
        Acquired::Granted { token, .. } => token,
        refused => panic!("it was free: {refused:?}"),
    }
}

impl Ground {
    async fn new() -> Option<Self> {
        Some(Self::of(Stage::new().await?).await)
    }

    async fn of(stage: Stage) -> Self {
        stage.store.create_queue(&jobs(), Partitions::default()).await.unwrap();
        let leader = lead(&stage.store).await;
        let start = stage.store.now().await.unwrap();
        Self { stage, leader, start }
    }

    fn at(&self, seconds: u64) -> NextFire {
        let nominal_at = self.start + Duration::from_secs(seconds);
        NextFire { nominal_at, due_at: nominal_at }
    }

    async fn put(&self, text: &str) -> Tick {
        self.stage.store.put_schedule(&definition(text), Some(self.at(1)), self.start).await.unwrap();
        let revision = self.stage.store.schedule(&named(text)).await.unwrap().unwrap().revision;
        let fires = vec![self.at(1).nominal_at];
        Tick { name: named(text), revision, fires, missed: 0, next: Some(self.at(2)), problem: None }
    }

    /// What fires while `first` is an open transaction that commits once the fire waits for it.
    async fn fire_behind(&self, first: &str, ticks: &[Tick]) -> fencepost_core::Result<Vec<TickOutcome>> {
        let (client, watch) = (self.stage.client().await, self.stage.client().await);
        run(&client, &format!("begin; {first}")).await;
        let commits = async {
            until_waiting(&watch, 1).await;
            run(&client, "commit").await;
        };
        tokio::join!(self.stage.store.fire_schedules(&self.leader, ticks), commits).0
    }

    async fn look(&self, most: u32) -> Due {
        self.stage.store.due_schedules(&self.leader, None, most).await.unwrap().expect("it leads")
    }

    async fn sent(&self) -> i64 {
        let statuses = self.stage.store.queue_status().await.unwrap();
        statuses.first().map_or(0, |status| status.stored.cast_signed())
    }
}

/// B08: a fire that waited for a takeover is fenced, and sends nothing.
#[tokio::test]
async fn b08_a_fire_that_waited_for_a_takeover_is_fenced() {
    let Some(ground) = Ground::new().await else { return };
    let tick = ground.put("s").await;
    let takeover = "select fencepost.lease_force_release('leader', 'why')";
    let error = ground.fire_behind(takeover, &[tick]).await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (Kind::Fenced, Some("fire_schedules")));
    assert_eq!(ground.sent().await, 0);
}

/// A takeover that comes while a fire is open waits for its end.
#[tokio::test]
async fn a_takeover_waits_for_an_open_fire() {
    let Some(ground) = Ground::new().await else { return };
    let tick = ground.put("s").await;
    let (client, watch) = (ground.stage.client().await, ground.stage.client().await);
    let fire = format!(
        "begin; select * from fencepost._schedules_fire('leader', {}, '{{s}}', '{{{}}}', array['{{2000-01-01T00:00:00Z}}'], '{{0}}', '{{null}}', '{{null}}', '{{null}}')",
        ground.leader.epoch, tick.revision
    );
    run(&client, &fire).await;
    let reason = Reason::new("why").unwrap();
    let takes = ground.stage.store.force_release_lease(&ground.leader.name, &reason);
    let commits = async {
        until_waiting(&watch, 1).await;
        assert_eq!(ground.sent().await, 0);
        run(&client, "commit").await;
    };
    let (taken, ()) = tokio::join!(takes, commits);
    assert!(taken.unwrap() > ground.leader.epoch);
    assert_eq!(ground.sent().await, 1);
}

/// A fire leaves out what somebody is just pausing, changing or removing, fires the others, and waits for nobody.
#[tokio::test]
async fn a_fire_leaves_out_what_is_being_changed() {
    let Some(ground) = Ground::new().await else { return };
    let client = ground.stage.client().await;
    for first in [
        "select fencepost._schedule_set_paused('s', true)",
        "update fencepost.schedule set revision = revision + 1 where name = 's'",
        "select fencepost._schedule_remove('s')",
    ] {
        let before = ground.sent().await;
        let ticks = [ground.put("s").await, ground.put(&format!("other {before}")).await];
        run(&client, &format!("begin; {first}")).await;
        let outcomes = ground.stage.store.fire_schedules(&ground.leader, &ticks).await.unwrap();
        run(&client, "commit").await;
        assert_eq!(outcomes[0], TickOutcome::Changed, "{first}");
        assert!(matches!(&outcomes[1], TickOutcome::Fired(fired) if fired.len() == 1), "{first}: {outcomes:?}");
        assert_eq!(ground.sent().await, before + 1);
        ground.stage.store.remove_schedule(&named("s")).await.unwrap();
    }
}

/// Of ticks that come at the same moment one fires, and the others find that it has.
#[tokio::test(flavor = "multi_thread")]
async fn of_ticks_at_the_same_moment_one_fires() {
    let Some(ground) = Ground::new().await else { return };
    let tick = ground.put("s").await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (store, leader, tick) = (ground.stage.store.clone(), ground.leader.clone(), tick.clone());
            tokio::spawn(async move { store.fire_schedules(&leader, &[tick]).await.unwrap() })
        })
        .collect();
    let mut fired = 0;
    for task in tasks {
        match task.await.unwrap().as_slice() {
            [TickOutcome::Fired(messages)] => fired += messages.len(),
            [TickOutcome::Changed] => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((fired, ground.sent().await), (1, 1));
}

/// B11: a fire that waited for the drop of its queue finds it gone; a drop that comes while a fire is open waits for its end.
#[tokio::test]
async fn b11_a_fire_and_a_drop_of_its_queue_wait_for_each_other() {
    let Some(ground) = Ground::new().await else { return };
    let tick = ground.put("s").await;
    let outcomes = ground.fire_behind("select fencepost.drop_queue('jobs', true)", &[tick]).await.unwrap();
    assert_eq!(outcomes, [TickOutcome::TargetGone]);

    ground.stage.store.create_queue(&jobs(), Partitions::default()).await.unwrap();
    let (client, watch) = (ground.stage.client().await, ground.stage.client().await);
    run(&client, "begin; select * from fencepost._schedule_run('s')").await;
    let (store, queue) = (ground.stage.store.clone(), jobs());
    let commits = async {
        until_waiting(&watch, 1).await;
        run(&client, "commit").await;
    };
    let (dropped, ()) = tokio::join!(store.drop_queue(&queue, true), commits);
    dropped.unwrap();
    assert!(ground.stage.store.queue_status().await.unwrap().is_empty());
}

/// Of puts of one definition at the same moment one makes the schedule, and the others find it as it is.
#[tokio::test(flavor = "multi_thread")]
async fn of_puts_at_the_same_moment_one_makes_the_schedule() {
    let Some(ground) = Ground::new().await else { return };
    let (next, start) = (Some(ground.at(1)), ground.start);
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let store = ground.stage.store.clone();
            tokio::spawn(async move { store.put_schedule(&definition("s"), next, start).await.unwrap() })
        })
        .collect();
    let mut made = 0;
    for task in tasks {
        match task.await.unwrap() {
            Put::Created => made += 1,
            Put::Unchanged => {}
            Put::Changed => panic!("nothing differs"),
        }
    }
    assert_eq!(made, 1);
}

/// A fire in a transaction whose statements see one old snapshot is refused: it would judge by what is over.
#[tokio::test]
async fn a_fire_at_an_old_snapshot_is_refused() {
    let Some(ground) = Ground::new().await else { return };
    let client = ground.stage.client().await;
    run(&client, "begin isolation level repeatable read").await;
    let fire = "select * from fencepost._schedules_fire('leader', 1, '{}', '{}', '{}', '{}', '{}', '{}', '{}')";
    let error = client.batch_execute(fire).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "0A000");
}

/// How many pages a look at what is due touches.
async fn pages(client: &Client, look: &str) -> i64 {
    let explain = format!("explain (analyze, buffers, format json) {look}");
    let plan: serde_json::Value = serde_json::from_str(&value::<Json>(client, &explain).await.0).unwrap();
    let count = |what: &str| plan[0]["Plan"][what].as_i64().unwrap();
    count("Shared Hit Blocks") + count("Shared Read Blocks")
}

/// A look costs what is due, however many schedules wait behind it or are paused.
#[tokio::test]
async fn a_look_costs_what_is_due() {
    let Some(ground) = Ground::new().await else { return };
    ground.put("s").await;
    ground.stage.pass(5);
    let client = ground.stage.client().await;
    let look = format!(
        "select * from fencepost._schedules_lead('leader', {}, null, 100, 1000, null, null)",
        ground.leader.epoch
    );
    run(&client, &look).await;
    let before = pages(&client, &look).await;
    run(
        &client,
        "insert into fencepost.schedule (name, spec, zone, queue, kind, payload, misfire, jitter, anchor_at, paused, next_at, due_at)
            select 'n' || n, '@hourly', 'UTC', 'jobs', 'default', '', 'one', 0, fencepost._clock(), n % 2 = 0, d, d
            from generate_series(1, 10000) n, nullif(fencepost._clock() + n * interval '1 minute', case when n % 2 = 0
                then fencepost._clock() + n * interval '1 minute' end) d",
    )
    .await;
    let due = ground.look(100).await;
    assert_eq!((due.schedules.len(), due.next_due_at.is_some()), (1, true));
    let after = pages(&client, &look).await;
    assert!(after <= before + 10, "{before} pages with one schedule, {after} with 10,001");
}

/// A thousand due schedules fire in one call; with `--nocapture` it tells how long that takes.
#[tokio::test]
#[expect(clippy::print_stdout, reason = "figures, for whoever asks for them")]
async fn a_thousand_schedules_fire_in_one_call() {
    let Some(ground) = Ground::new().await else { return };
    let client = ground.stage.client().await;
    run(
        &client,
        "insert into fencepost.schedule (name, spec, zone, queue, kind, payload, misfire, jitter, anchor_at, next_at, due_at)
            select 'n' || n, '@hourly', 'UTC', 'jobs', 'default', 'x', 'one', 0, c, c, c
            from generate_series(1, 1000) n, fencepost._clock() c",
    )
    .await;
    let mut took = Vec::new();
    for round in 1..=5 {
        let due = ground.look(1_000).await;
        assert_eq!(due.schedules.len(), 1_000);
        let tick = |status: &fencepost_core::ScheduleStatus| Tick {
            name: status.definition.name.clone(),
            revision: status.revision,
            fires: vec![status.next.unwrap().nominal_at],
            missed: 0,
            next: Some(ground.at(round)),
            problem: None,
        };
        let ticks: Vec<Tick> = due.schedules.iter().map(tick).collect();
        let since = Instant::now();
        let outcomes = ground.stage.store.fire_schedules(&ground.leader, &ticks).await.unwrap();
        took.push(since.elapsed());
        assert!(outcomes.iter().all(|outcome| matches!(outcome, TickOutcome::Fired(fired) if fired.len() == 1)));
        ground.stage.pass(1);
    }
    assert_eq!(ground.sent().await, 5_000);
    println!("1000 ticks in one call: {took:?}");
}

/// Behind a pooler, which delivers no notification, a put elsewhere wakes who waits for schedules too.
#[tokio::test]
async fn a_put_elsewhere_wakes_behind_a_pooler() {
    let Some(stage) = Stage::pooled().await else { return };
    let ground = Ground::of(stage).await;
    let other = ground.stage.another().await;
    let mut sleeper = other.wakes(&Topic::Schedules);
    ground.put("s").await;
    tokio::time::timeout(Duration::from_secs(30), sleeper.woken()).await.expect("it is woken").unwrap();
}

/// Programs without Rust see by a view how schedules stand.
#[tokio::test]
async fn the_view_tells_how_schedules_stand() {
    let Some(ground) = Ground::new().await else { return };
    let tick = ground.put("s").await;
    ground.stage.store.fire_schedules(&ground.leader, &[Tick { missed: 3, ..tick }]).await.unwrap();
    let client = ground.stage.client().await;
    let shown = "select concat_ws(' ', name, spec, zone, queue, kind, misfire, jitter, paused, next_at - last_at, last_message, missed)
        from fencepost.schedule_status";
    assert_eq!(value::<String>(&client, shown).await, "s @every 1s UTC jobs default one 00:00:00 f 00:00:01 1 3");
}

/// B11: a row that cannot be read is told of, and keeps no other from firing, until it is put again.
#[tokio::test]
async fn b11_a_row_that_cannot_be_read_is_told_of_alone() {
    let Some(ground) = Ground::new().await else { return };
    let client = ground.stage.client().await;
    for name in ["bad", "early", "nameless", "well"] {
        ground.put(name).await;
    }
    let spoil =
        "update fencepost.schedule set due_at = next_at - interval '1 hour', next_at = next_at - interval '1 hour';
        update fencepost.schedule set misfire = 'latest' where name = 'bad';
        update fencepost.schedule set next_at = '-infinity', due_at = '-infinity' where name = 'early';
        update fencepost.schedule set name = '' where name = 'nameless'";
    run(&client, spoil).await;
    let due = ground.look(10).await;
    let told: Vec<_> =
        due.schedules.iter().map(|status| (status.definition.name.as_str(), status.unreadable.as_deref())).collect();
    let [early, bad, well] = told[..] else { panic!("{told:?}") };
    assert!(early.0 == "early" && early.1.is_some(), "{early:?}");
    assert!(bad.0 == "bad" && bad.1.is_some_and(|why| why.contains("`latest`")), "{bad:?}");
    assert_eq!(well, ("well", None));
    assert_eq!(ground.stage.store.schedule_status().await.unwrap().len(), 3);

    let put = ground.stage.store.put_schedule(&definition("bad"), Some(ground.at(1)), ground.start).await.unwrap();
    assert_eq!(put, Put::Changed);
    assert_eq!(ground.stage.store.schedule(&named("bad")).await.unwrap().unwrap().unreadable, None);
}

/// The record of what was fired has each nominal time of a schedule once, whatever the schedule's own row says: what would be sent for it again is
/// not sent.
#[tokio::test]
async fn b08_the_record_of_fires_lets_no_nominal_time_in_twice() {
    let Some(ground) = Ground::new().await else { return };
    let client = ground.stage.client().await;
    let tick = ground.put("s").await;
    ground.stage.store.fire_schedules(&ground.leader, std::slice::from_ref(&tick)).await.unwrap();
    run(&client, "update fencepost.schedule set last_at = null, last_fired_at = null, last_message = null").await;
    let again = Tick { revision: tick.revision + 1, ..tick };
    assert!(ground.stage.store.fire_schedules(&ground.leader, &[again]).await.is_err());
    assert_eq!(ground.sent().await, 1);
}
