//! The scheduler: who leads, what ends a term, and that each nominal time fires once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_core::schedule::{Fired, Misfire, Put, ScheduleDefinition, Tick};
use fencepost_core::{
    AcquireLease, Acquired, Error, HolderName, Kind, LeaseName, Leases, Partitions, QueueName, Queues, Reason, Result,
    ScheduleName, Schedules, Store, Ttl,
};
use fencepost_mem::MemStore;
use fencepost_runtime::{CancellationToken, LEADER, ScheduleEvent, ScheduleObserver, Scheduler, Scheduling};
use fencepost_schedule::{Schedule, Spec};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::spy::{Hangs, Spy};
use crate::stage::{PATIENCE, pass, virtual_clock};

/// The leader's TTL unless a test says otherwise.
const TTL: Duration = Duration::from_secs(10);

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

fn name(name: &str) -> ScheduleName {
    ScheduleName::new(name).unwrap()
}

fn lease() -> LeaseName {
    LeaseName::new(LEADER).unwrap()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

async fn store() -> MemStore {
    let store = MemStore::new(virtual_clock());
    store.create_queue(&queue(), Partitions::default()).await.unwrap();
    store
}

async fn spied() -> Arc<Spy> {
    Arc::new(Spy::new(store().await))
}

async fn put(store: &dyn Store, called: &str, spec: &str) -> Put {
    store.put(&Schedule::new(name(called), Spec::parse(spec).unwrap(), queue())).await.unwrap()
}

/// What a scheduler told, in words.
#[derive(Default)]
struct Ears(Mutex<Vec<String>>);

impl ScheduleObserver for Ears {
    fn hear(&self, event: ScheduleEvent<'_>) {
        let said = match event {
            ScheduleEvent::Leads { .. } => "leads".into(),
            ScheduleEvent::Lost { .. } => "lost".into(),
            ScheduleEvent::Away { error } => format!("away: {}", error.code()),
            ScheduleEvent::Fired { schedule, fired, missed } => {
                format!("{schedule}: {} and {missed} missed", fired.len())
            }
            ScheduleEvent::Unreadable { schedule, .. } => format!("{schedule} is unreadable"),
            ScheduleEvent::TargetGone { schedule, queue } => format!("{schedule} has no {queue}"),
            _ => "something".into(),
        };
        self.0.lock().unwrap().push(said);
    }
}

impl Ears {
    fn heard(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

struct Leading {
    stop: CancellationToken,
    ears: Arc<Ears>,
    task: JoinHandle<Result<()>>,
}

impl Leading {
    fn scheduler(store: Arc<dyn Store>) -> (Scheduler, Arc<Ears>) {
        let ears = Arc::new(Ears::default());
        (Scheduler::new(store, HolderName::new("h").unwrap()).observer(ears.clone()), ears)
    }

    /// One that leads, or fails at once.
    fn run(store: Arc<dyn Store>) -> Self {
        let ((scheduler, ears), stop) = (Self::scheduler(store), CancellationToken::new());
        let stops = stop.clone();
        Self { stop, ears, task: tokio::spawn(async move { scheduler.run_schedules(&stops).await }) }
    }

    fn supervise(store: Arc<dyn Store>) -> Self {
        let ((scheduler, ears), stop) = (Self::scheduler(store), CancellationToken::new());
        let stops = stop.clone();
        Self { stop, ears, task: tokio::spawn(async move { scheduler.supervise(&stops).await }) }
    }

    async fn ended(self) -> Result<()> {
        tokio::time::timeout(PATIENCE, self.task).await.expect("it ends").unwrap()
    }

    async fn stopped(self) {
        self.stop.cancel();
        self.ended().await.unwrap();
    }
}

async fn fired(store: &dyn Store, called: &str) -> Vec<Fired> {
    store.schedule_history(&name(called)).await.unwrap()
}

async fn stored(store: &dyn Store) -> u64 {
    store.queue_status().await.unwrap()[0].stored
}

async fn is_led(store: &dyn Store) -> bool {
    store.lease(&lease()).await.unwrap().is_some_and(|status| status.state.holding.is_some())
}

#[tokio::test(start_paused = true)]
async fn what_is_due_fires_at_its_time_and_a_stop_gives_the_lease_back() {
    let store = store().await;
    put(&store, "s", "@every 7s").await;
    let leading = Leading::run(Arc::new(store.clone()));
    pass(seconds(70) + Duration::from_millis(1)).await;
    let fires = fired(&store, "s").await;
    assert_eq!((fires.len(), stored(&store).await), (10, 10));
    assert!(fires.iter().all(|fired| fired.fired_at == fired.nominal_at), "{fires:?}");
    assert!(fires.windows(2).all(|pair| pair[1].nominal_at.since(pair[0].nominal_at) == seconds(7)));
    assert!(is_led(&store).await);
    leading.stopped().await;
    assert!(!is_led(&store).await);
    pass(seconds(70)).await;
    assert_eq!(stored(&store).await, 10);
}

/// B01: renewals answer `false`, at the loop's top and asleep: that ends it before anything more is fired.
#[tokio::test(start_paused = true)]
async fn b01_a_leader_that_lost_its_lease_fires_nothing_more() {
    for due in ["@every 60s", "@every 1s"] {
        let store = store().await;
        put(&store, "s", due).await;
        let leading = Leading::run(Arc::new(store.clone()));
        pass(Duration::from_millis(5_500)).await;
        let before = stored(&store).await;
        let since = Instant::now();
        store.force_release_lease(&lease(), &Reason::new("it hangs").unwrap()).await.unwrap();
        let ears = leading.ears.clone();
        let error = leading.ended().await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::LeadershipLost, "leadership_lost"));
        assert!(since.elapsed() <= TTL / 3, "{:?}", since.elapsed());
        assert_eq!((stored(&store).await, ears.heard().last().unwrap().as_str()), (before, "lost"));
    }
}

fn injected() -> Error {
    Error::new(Kind::Unavailable, "the storage is away").coded("io_error").caused_by(std::io::Error::other("injected"))
}

/// B02, B06: renewals fail, at the loop's top and asleep: the error arrives as it was, its source too, and the lease is given back.
#[tokio::test(start_paused = true)]
async fn b02_b06_a_renewal_that_fails_ends_it_with_that_error() {
    for due in ["@every 60s", "@every 1s"] {
        let store = spied().await;
        put(&*store, "s", due).await;
        let leading = Leading::run(store.clone());
        pass(Duration::from_millis(5_500)).await;
        *store.failing_renewals.lock().unwrap() = Some(injected);
        let (before, since) = (stored(&*store).await, Instant::now());
        let error = leading.ended().await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "io_error"));
        let source = std::error::Error::source(&error).unwrap().downcast_ref::<std::io::Error>();
        assert_eq!(source.unwrap().to_string(), "injected");
        assert!(since.elapsed() <= TTL / 3 * 2, "{:?}", since.elapsed());
        assert_eq!((stored(&*store).await, is_led(&*store).await), (before, false));
    }
}

/// A renewal that fails once is attempted again before it is anybody's error.
#[tokio::test(start_paused = true)]
async fn b07_a_renewal_is_attempted_again_within_its_budget() {
    let store = spied().await;
    put(&*store, "s", "@every 60s").await;
    let leading = Leading::run(store.clone());
    pass(Duration::from_millis(3_300)).await;
    *store.failing_renewals.lock().unwrap() = Some(injected);
    pass(seconds(1)).await;
    *store.failing_renewals.lock().unwrap() = None;
    pass(seconds(60)).await;
    assert_eq!(stored(&*store).await, 1);
    leading.stopped().await;
}

/// B07: renewals that are not answered, as by a pool that is starved, end it while the lease is surely still its own.
#[tokio::test(start_paused = true)]
async fn b07_a_renewal_that_is_not_answered_ends_it_in_time() {
    let store = spied().await;
    put(&*store, "s", "@every 60s").await;
    let leading = Leading::run(store.clone());
    pass(seconds(1)).await;
    store.hang(Hangs::Renewals);
    let since = Instant::now();
    let error = leading.ended().await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "renewal_timeout"));
    assert!(since.elapsed() < TTL, "{:?}", since.elapsed());
}

/// B03: the store is closed, at the loop's top and asleep.
#[tokio::test(start_paused = true)]
async fn b03_a_closed_store_says_so_at_once() {
    for asleep in [false, true] {
        let store = store().await;
        put(&store, "s", "@every 300s").await;
        if !asleep {
            store.close().await;
        }
        let leading = Leading::run(Arc::new(store.clone()));
        if asleep {
            pass(seconds(100)).await;
            store.close().await;
        }
        let since = Instant::now();
        let error = leading.ended().await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "store_closed"));
        assert!(since.elapsed() <= TTL / 3, "{:?}", since.elapsed());
    }
}

/// B04: a loss is campaigned after; an error and a closed store reach the caller.
#[tokio::test(start_paused = true)]
async fn b04_supervise_leads_again_after_a_loss_only() {
    let store = spied().await;
    put(&*store, "s", "@every 5s").await;
    let leading = Leading::supervise(store.clone());
    for _ in 0..3 {
        pass(seconds(20)).await;
        store.force_release_lease(&lease(), &Reason::new("it hangs").unwrap()).await.unwrap();
    }
    pass(seconds(20)).await;
    let heard = leading.ears.heard();
    let count = |word: &str| heard.iter().filter(|said| *said == word).count();
    assert_eq!((count("leads"), count("lost")), (4, 3), "{heard:?}");
    assert_eq!(fired(&*store, "s").await.len() as u64, stored(&*store).await);
    *store.failing_renewals.lock().unwrap() = Some(injected);
    assert_eq!(leading.ended().await.unwrap_err().code(), "io_error");
    *store.failing_renewals.lock().unwrap() = None;
    let leading = Leading::supervise(store.clone());
    pass(seconds(1)).await;
    store.close().await;
    assert_eq!(leading.ended().await.unwrap_err().code(), "store_closed");
}

/// B05: who would lead while another does is told at once; who campaigns takes over at the stop, and at the expiry.
#[tokio::test(start_paused = true)]
async fn b05_one_leads_and_another_takes_over() {
    let store = store().await;
    put(&store, "s", "@every 5s").await;
    let first = Leading::supervise(Arc::new(store.clone()));
    pass(seconds(1)).await;
    let refused = Leading::run(Arc::new(store.clone())).ended().await.unwrap_err();
    assert_eq!((refused.kind(), refused.fact("holder")), (Kind::LeadershipLost, Some("h")));
    let second = Leading::supervise(Arc::new(store.clone()));
    pass(seconds(60)).await;
    assert_eq!(second.ears.heard(), Vec::<String>::new());
    let since = Instant::now();
    first.stopped().await;
    while second.ears.heard().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(since.elapsed() <= Duration::from_millis(50), "{:?}", since.elapsed());
    second.task.abort();
    let third = Leading::supervise(Arc::new(store.clone()));
    pass(TTL + Duration::from_millis(250)).await;
    assert_eq!(third.ears.heard().first().map(String::as_str), Some("leads"));
    third.stopped().await;
}

/// B08: a commit that is under way while somebody else begins to lead is refused, fires nothing, and ends the term as a loss.
#[tokio::test(start_paused = true)]
async fn b08_a_commit_that_comes_late_fires_nothing() {
    let store = store().await;
    put(&store, "s", "@every 1s").await;
    let spy = Arc::new(Spy::new(store.clone()));
    let old = Leading::run(spy.clone());
    pass(Duration::from_millis(5_500)).await;
    spy.hang(Hangs::Fires);
    pass(seconds(1)).await;
    store.force_release_lease(&lease(), &Reason::new("it hangs").unwrap()).await.unwrap();
    let new = Leading::supervise(Arc::new(store.clone()));
    pass(seconds(1)).await;
    spy.hang(Hangs::Nothing);
    let error = old.ended().await.unwrap_err();
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<Error>());
    assert_eq!((error.kind(), source.map(Error::kind)), (Kind::LeadershipLost, Some(Kind::Fenced)));
    pass(seconds(10)).await;
    new.stopped().await;
    let fires = fired(&store, "s").await;
    assert!(fires.windows(2).all(|pair| pair[0].nominal_at < pair[1].nominal_at), "{fires:?}");
    assert_eq!(fires.len() as u64, stored(&store).await);
}

/// A commit that fails is attempted again under a lease that was renewed; one that goes on failing ends the term with its error.
#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_is_attempted_again() {
    let store = spied().await;
    put(&*store, "s", "@every 5s").await;
    let leading = Leading::run(store.clone());
    pass(seconds(4)).await;
    *store.failing_fires.lock().unwrap() = Some(injected);
    pass(seconds(2)).await;
    *store.failing_fires.lock().unwrap() = None;
    pass(seconds(5)).await;
    assert_eq!(stored(&*store).await, 2);
    *store.failing_fires.lock().unwrap() = Some(injected);
    let before = store.calls("fire_schedules");
    assert_eq!(leading.ended().await.unwrap_err().code(), "io_error");
    assert_eq!((store.calls("fire_schedules") - before, is_led(&*store).await), (3, false));
}

/// Of a commit that is not answered nobody knows whether it was made.
#[tokio::test(start_paused = true)]
async fn a_commit_that_is_not_answered_is_an_unknown_outcome() {
    let store = spied().await;
    put(&*store, "s", "@every 1s").await;
    let leading = Leading::run(store.clone());
    store.hang(Hangs::Fires);
    let error = leading.ended().await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (Kind::UnknownOutcome, Some("fire_schedules")));
}

/// However long its lease is, a leader whose store does not answer stops when it is told to.
#[tokio::test(start_paused = true)]
async fn a_leader_that_waits_for_its_store_can_be_stopped() {
    let store = spied().await;
    let (scheduler, ears) = Leading::scheduler(store.clone());
    let (scheduler, stop) = (scheduler.ttl(Ttl::new(seconds(3_600)).unwrap()), CancellationToken::new());
    let stops = stop.clone();
    let leading = Leading { stop, ears, task: tokio::spawn(async move { scheduler.run_schedules(&stops).await }) };
    pass(seconds(1)).await;
    store.hang(Hangs::Renewals);
    pass(seconds(35)).await;
    let since = Instant::now();
    leading.stopped().await;
    assert!(since.elapsed() < seconds(1), "{:?}", since.elapsed());
}

/// Whoever serves goes on once the store is there again, and tells that it was not.
#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_is_served_on() {
    let store = spied().await;
    put(&*store, "s", "@every 5s").await;
    let ((scheduler, ears), stop) = (Leading::scheduler(store.clone()), CancellationToken::new());
    let stops = stop.clone();
    let leading = Leading { stop, ears, task: tokio::spawn(async move { scheduler.serve(&stops).await }) };
    pass(seconds(6)).await;
    *store.failing_renewals.lock().unwrap() = Some(injected);
    pass(seconds(60)).await;
    let before = stored(&*store).await;
    assert!(leading.ears.heard().iter().any(|said| said == "away: io_error"), "{:?}", leading.ears.heard());
    *store.failing_renewals.lock().unwrap() = None;
    pass(seconds(20)).await;
    assert!(stored(&*store).await >= before + 3);
    let ears = leading.ears.clone();
    store.close().await;
    assert_eq!(leading.ended().await.unwrap_err().code(), "store_closed");
    assert!(!ears.heard().iter().any(|said| said == "away: store_closed"));
}

/// B08: and one whose lease was lost between its look and its commit.
#[tokio::test(start_paused = true)]
async fn b08_a_tick_under_an_old_epoch_is_refused() {
    let store = store().await;
    put(&store, "s", "@every 1s").await;
    let request = AcquireLease::new(lease(), HolderName::new("old").unwrap()).ttl(Ttl::new(TTL).unwrap());
    let Acquired::Granted { token, .. } = store.acquire_lease(&request).await.unwrap() else { panic!() };
    pass(seconds(1)).await;
    let due = store.due_schedules(&token, None, 10).await.unwrap().unwrap();
    let schedule = Schedule::read(&due.schedules[0].definition).unwrap();
    let ticks = [schedule.tick(&due.schedules[0], due.now)];
    store.force_release_lease(&lease(), &Reason::new("it hangs").unwrap()).await.unwrap();
    assert_eq!(store.fire_schedules(&token, &ticks).await.unwrap_err().kind(), Kind::Fenced);
    assert_eq!(stored(&store).await, 0);
}

/// B09: a schedule that is put while the leader sleeps on another one fires in time.
#[tokio::test(start_paused = true)]
async fn b09_a_new_schedule_wakes_the_leader() {
    let store = store().await;
    put(&store, "hourly", "@every 3600s").await;
    let leading = Leading::run(Arc::new(store.clone()));
    pass(seconds(40)).await;
    put(&store, "s", "@every 1s").await;
    pass(Duration::from_millis(1_001)).await;
    assert_eq!(fired(&store, "s").await.len(), 1);
    store.pause_schedule(&name("s")).await.unwrap();
    pass(seconds(100)).await;
    assert_eq!(fired(&store, "s").await.len(), 1);
    assert!(store.resume(&name("s")).await.unwrap());
    pass(Duration::from_millis(1_001)).await;
    assert_eq!(fired(&store, "s").await.len(), 2, "what was due meanwhile is not made up for");
    leading.stopped().await;
}

/// B10: whoever registers his schedules again and again, as each pod that starts does, keeps none of them from firing.
#[tokio::test(start_paused = true)]
async fn b10_the_same_schedule_put_again_keeps_firing() {
    let store = store().await;
    let leading = Leading::run(Arc::new(store.clone()));
    assert_eq!(put(&store, "s", "@every 3s").await, Put::Created);
    for _ in 0..15 {
        pass(seconds(2)).await;
        assert_eq!(put(&store, "s", "@every 3s").await, Put::Unchanged);
    }
    pass(Duration::from_millis(1)).await;
    assert_eq!(fired(&store, "s").await.len(), 10);
    leading.stopped().await;
}

/// B11: one that cannot be read and one whose queue is gone are told of; the others fire.
#[tokio::test(start_paused = true)]
async fn b11_one_bad_schedule_keeps_no_other_from_firing() {
    let store = store().await;
    let gone = QueueName::new("gone").unwrap();
    store.create_queue(&gone, Partitions::default()).await.unwrap();
    let schedule = Schedule::new(name("b"), Spec::parse("@every 5s").unwrap(), gone.clone());
    store.put(&schedule).await.unwrap();
    store.drop_queue(&gone, true).await.unwrap();
    put(&store, "c", "@every 5s").await;
    let next = store.schedule(&name("c")).await.unwrap().unwrap().next;
    let newer = ScheduleDefinition::new(name("a"), "@lunar", queue());
    store.put_schedule(&newer, next, store.now().await.unwrap()).await.unwrap();
    let leading = Leading::run(Arc::new(store.clone()));
    pass(seconds(11)).await;
    assert_eq!((fired(&store, "a").await.len(), fired(&store, "c").await.len()), (0, 2));
    let heard = leading.ears.heard();
    for said in ["a is unreadable", "b has no gone", "c: 1 and 0 missed"] {
        assert!(heard.iter().any(|heard| heard == said), "{said}: {heard:?}");
    }
    assert_eq!(heard.iter().filter(|heard| *heard == "a is unreadable").count(), 1);
    leading.stopped().await;
    for bad in ["a", "b"] {
        assert!(store.schedule(&name(bad)).await.unwrap().unwrap().problem.is_some(), "{bad}");
    }
}

/// Has an older leader stop `s`, which it cannot read.
async fn stop_by_an_older_leader(store: &dyn Store) {
    let request = AcquireLease::new(lease(), HolderName::new("older").unwrap());
    let Acquired::Granted { token, .. } = store.acquire_lease(&request).await.unwrap() else { panic!() };
    let status = store.schedule(&name("s")).await.unwrap().unwrap();
    let (problem, revision) = (Some("it is too new".to_owned()), status.revision);
    let tick = Tick { name: name("s"), revision, fires: vec![], missed: 0, next: None, problem };
    store.fire_schedules(&token, &[tick]).await.unwrap();
    store.release_lease(&token).await.unwrap();
}

/// What an older leader could not read goes on under one that can.
#[tokio::test(start_paused = true)]
async fn a_schedule_that_was_stopped_goes_on_under_a_leader_that_can_read_it() {
    let store = store().await;
    put(&store, "s", "@every 5s").await;
    stop_by_an_older_leader(&store).await;
    let leading = Leading::run(Arc::new(store.clone()));
    pass(seconds(6)).await;
    assert_eq!(fired(&store, "s").await.len(), 1);
    assert_eq!(store.schedule(&name("s")).await.unwrap().unwrap().problem, None);
    leading.stopped().await;
}

/// One that somebody removed while a new leader was about to let it go on stays removed.
#[tokio::test(start_paused = true)]
async fn a_stopped_schedule_that_is_removed_meanwhile_does_not_come_back() {
    let store = spied().await;
    put(&*store, "s", "@every 5s").await;
    stop_by_an_older_leader(&*store).await;
    *store.removed_after_status.lock().unwrap() = Some(name("s"));
    let leading = Leading::run(store.clone());
    pass(seconds(6)).await;
    assert!(store.removed_after_status.lock().unwrap().is_none(), "the leader has looked");
    assert_eq!((store.schedule(&name("s")).await.unwrap(), stored(&*store).await), (None, 0));
    leading.stopped().await;
}

/// B12: nobody led for ten intervals.
#[tokio::test(start_paused = true)]
async fn b12_what_nobody_fired_is_made_up_for_by_policy() {
    for (misfire, made_up) in [(Misfire::Skip, 0), (Misfire::One, 1), (Misfire::All(4), 4), (Misfire::ALL, 10)] {
        let store = store().await;
        let every = Spec::parse("@every 60s").unwrap();
        let schedule = Schedule::new(name("s"), every, queue()).misfire(misfire).unwrap();
        store.put(&schedule).await.unwrap();
        pass(seconds(610)).await;
        let leading = Leading::run(Arc::new(store.clone()));
        pass(seconds(1)).await;
        let fires = fired(&store, "s").await;
        assert_eq!((fires.len(), stored(&store).await), (made_up, made_up as u64), "{misfire}");
        assert!(fires.windows(2).all(|pair| pair[1].nominal_at.since(pair[0].nominal_at) == seconds(60)), "{misfire}");
        assert_eq!(store.schedule(&name("s")).await.unwrap().unwrap().missed, 10 - made_up as u64, "{misfire}");
        pass(seconds(50)).await;
        assert_eq!(fired(&store, "s").await.len(), made_up + 1, "{misfire}");
        leading.stopped().await;
    }
}

/// Whoever leads and has nothing to do makes one call each third of its TTL, which renews and looks.
#[tokio::test(start_paused = true)]
async fn an_idle_leader_makes_one_call_a_renewal() {
    let store = spied().await;
    put(&*store, "s", "@every 86400s").await;
    let leading = Leading::run(store.clone());
    pass(seconds(10)).await;
    let before = (store.all_calls(), store.calls("due_schedules"));
    pass(seconds(1_000)).await;
    let (calls, looks) = (store.all_calls() - before.0, store.calls("due_schedules") - before.1);
    assert!(calls == looks && (299..=301).contains(&looks), "{calls} calls, {looks} looks");
    leading.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn what_never_fires_is_not_put_and_what_has_fired_may_be_put_again() {
    let store = store().await;
    let once = Schedule::new(name("s"), Spec::parse("@at 2026-01-01T00:00:10Z").unwrap(), queue());
    store.put(&once).await.unwrap();
    let leading = Leading::run(Arc::new(store.clone()));
    pass(seconds(20)).await;
    assert_eq!((fired(&store, "s").await.len(), store.put(&once).await.unwrap()), (1, Put::Unchanged));
    let past = Schedule::new(name("t"), Spec::parse("@at 2026-01-01T00:00:10Z").unwrap(), queue());
    let error = store.put(&past).await.unwrap_err();
    assert_eq!((error.kind(), error.fact("argument")), (Kind::InvalidInput, Some("spec")));
    leading.stopped().await;
}
