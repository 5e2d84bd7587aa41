//! Schedules in a file: what many of them cost, and what becomes of one that somebody else has written.

use std::time::{Duration, Instant};

use fencepost_core::{
    AcquireLease, Acquired, HolderName, LeaseName, LeaseToken, Leases, NextFire, Put, Queues, ScheduleDefinition,
    ScheduleName, Schedules, Store, Tick, TickOutcome,
};
use fencepost_sqlite::SqliteStore;

use crate::place::{Place, orders, run};

async fn lead(store: &SqliteStore) -> LeaseToken {
    let request = AcquireLease::new(LeaseName::new("leader").unwrap(), HolderName::new("h").unwrap());
    match store.acquire_lease(&request).await.unwrap() {
        Acquired::Granted { token, .. } => token,
        refused => panic!("it was free: {refused:?}"),
    }
}

/// A thousand due schedules fire in one commit; with `--nocapture` it tells how long that takes.
#[test]
#[expect(clippy::print_stdout, reason = "figures, for whoever asks for them")]
fn a_thousand_schedules_fire_in_one_commit() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let leader = lead(&store).await;
        let start = store.now().await.unwrap();
        let next = |second: u64| {
            let nominal_at = start + Duration::from_secs(second);
            NextFire { nominal_at, due_at: nominal_at }
        };
        let mut puts = tokio::task::JoinSet::new();
        for n in 0..1_000 {
            let (store, name) = (store.clone(), ScheduleName::new(format!("s{n}")).unwrap());
            let definition = ScheduleDefinition::new(name, "@hourly", orders());
            let first = Some(next(0));
            puts.spawn(async move { store.put_schedule(&definition, first, start).await });
        }
        assert!(puts.join_all().await.into_iter().all(|put| put.unwrap() == Put::Created));
        let due = store.due_schedules(&leader, None, 10_000).await.unwrap().unwrap();
        assert_eq!(due.schedules.len(), 1_000);
        let mut took = Vec::new();
        for round in 0..5 {
            let tick = |status: &fencepost_core::ScheduleStatus| Tick {
                name: status.definition.name.clone(),
                revision: status.revision,
                fires: vec![next(round).nominal_at],
                missed: 0,
                next: Some(next(round + 1)),
                problem: None,
            };
            let ticks: Vec<Tick> = store.schedule_status().await.unwrap().iter().map(tick).collect();
            let since = Instant::now();
            let outcomes = store.fire_schedules(&leader, &ticks).await.unwrap();
            took.push(since.elapsed());
            assert!(outcomes.iter().all(|outcome| matches!(outcome, TickOutcome::Fired(fired) if fired.len() == 1)));
        }
        println!("1000 ticks in one commit: {took:?}");
        let sent: i64 =
            place.connect().query_row("SELECT count(*) FROM fencepost_message", [], |row| row.get(0)).unwrap();
        assert_eq!(sent, 5_000);
    });
}

/// B11: a row that cannot be read is told of, and keeps no other from firing; it stays as it is until it is put again.
#[test]
fn b11_a_row_that_cannot_be_read_is_told_of_alone() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let leader = lead(&store).await;
        let start = store.now().await.unwrap();
        let next = Some(NextFire { nominal_at: start, due_at: start });
        let definition = |name: &str| ScheduleDefinition::new(ScheduleName::new(name).unwrap(), "@hourly", orders());
        for name in ["bad", "nameless", "well"] {
            store.put_schedule(&definition(name), next, start).await.unwrap();
        }
        let spoil = "UPDATE fencepost_schedule SET misfire = 'latest' WHERE name = 'bad';
            UPDATE fencepost_schedule SET name = 'a' || char(10) WHERE name = 'nameless'";
        place.connect().execute_batch(spoil).unwrap();

        let due = store.due_schedules(&leader, None, 10).await.unwrap().unwrap();
        let told: Vec<_> = due.schedules.iter().map(|status| (&status.definition.name, &status.unreadable)).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].1.as_ref().is_some_and(|why| why.contains("`latest`")), "{told:?}");
        assert_eq!(*told[1].1, None);
        assert_eq!(store.schedule_status().await.unwrap(), due.schedules);

        let bad = ScheduleName::new("bad").unwrap();
        assert!(store.pause_schedule(&bad).await.unwrap());
        assert!(store.resume_schedule(&bad, next).await.unwrap());
        let misfire = "SELECT misfire FROM fencepost_schedule WHERE name = 'bad'";
        let stored: String = place.connect().query_row(misfire, [], |row| row.get(0)).unwrap();
        assert_eq!(stored, "latest");
        assert_eq!(store.put_schedule(&definition("bad"), next, start).await.unwrap(), Put::Changed);
        assert_eq!(store.schedule(&bad).await.unwrap().unwrap().unreadable, None);
    });
}

/// The record of what was fired has each nominal time of a schedule once, whatever the schedule's own row says: what would be sent for it again is
/// not sent.
#[test]
fn b08_the_record_of_fires_lets_no_nominal_time_in_twice() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let leader = lead(&store).await;
        let at = store.now().await.unwrap();
        let name = ScheduleName::new("s").unwrap();
        let definition = ScheduleDefinition::new(name.clone(), "@hourly", orders());
        store.put_schedule(&definition, Some(NextFire { nominal_at: at, due_at: at }), at).await.unwrap();
        let tick = async || {
            let revision = store.schedule(&name).await.unwrap().unwrap().revision;
            Tick { name: name.clone(), revision, fires: vec![at], missed: 0, next: None, problem: None }
        };
        store.fire_schedules(&leader, &[tick().await]).await.unwrap();
        let forget = "UPDATE fencepost_schedule SET last_at = NULL, last_fired_at = NULL, last_message = NULL";
        place.connect().execute_batch(forget).unwrap();
        assert!(store.fire_schedules(&leader, &[tick().await]).await.is_err());
        assert_eq!(store.queue_status().await.unwrap()[0].stored, 1);
    });
}
