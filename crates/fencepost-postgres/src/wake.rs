//! Wake-ups across processes: while somebody sleeps, one task listens for notifications and looks each quarter of a second whether
//! something has happened to what is slept on. Nobody asleep, nobody looks. The looks are the truth, notifications only save time.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fencepost_core::{Result, Topic, WakeHub, WakeReceiver, Wakeups};
use tokio::sync::Notify;
use tokio_postgres::types::Type;

use crate::listen::{Deaf, Hearing, Hears, Listener};
use crate::notice::{Seen as SeenNotices, hash, one_of_each_group};
use crate::store::{PostgresStore, column};

/// How often is looked, unless a look takes long.
const LOOK: Duration = Duration::from_millis(250);

/// How often, once everybody who commits notifies: it is heard here, and the sleepers have been known for [`KNOWN`].
const LOOK_WHEN_TOLD: Duration = Duration::from_secs(1);

/// How long a sleeper is looked after more often: a transaction that is older than its registration does not notify.
const KNOWN: Duration = Duration::from_secs(5);

/// How many times as long as a look took is waited for the next, so that many sleepers do not keep the server busy by sleeping.
const REST: u32 = 50;

/// How long is waited at most.
const LONGEST: Duration = Duration::from_secs(5);

/// How long after a sleeper came, or was woken, it is woken once more where something may have been overlooked.
const MAKE_SURE: Duration = Duration::from_secs(1);

/// How long a topic is followed after its last sleeper went: most come again, and what happens meanwhile is theirs.
const LINGER: Duration = Duration::from_secs(5);

/// How often the server is told that somebody sleeps. It believes so for longer.
const REGISTER: Duration = Duration::from_secs(5);

const MARKS: &str = "select * from fencepost._marks($1)";
const SLEEP: &str = "select fencepost._sleep($1)";

impl Wakeups for PostgresStore {
    fn wakes(&self, topic: &Topic) -> WakeReceiver {
        let receiver = self.hub().receiver(topic);
        self.watcher().came();
        receiver
    }
}

/// How sleepers make themselves known to the task.
#[derive(Debug)]
pub(crate) struct Watcher {
    came: Arc<Notify>,
    own: Arc<Own>,
    /// Whether a call of this store has made notices that listeners in this process wait for.
    hurries: Arc<AtomicBool>,
    /// Up to where listeners were given notices.
    pub(crate) notices: tokio::sync::Mutex<SeenNotices>,
    /// Whether notifications arrive, as far as is known.
    pub(crate) hearing: Hears,
}

/// The marks that calls of this store have made, whose sleepers they have woken, since the last look.
type Own = Mutex<HashMap<Topic, Option<i64>>>;

/// So many of them are remembered at most; without one a sleeper may be woken twice.
const REMEMBERED: usize = 1024;

impl Default for Watcher {
    fn default() -> Self {
        let hearing = Arc::new(Mutex::new(Hearing::NotYet));
        let (came, own, hurries, notices) = Default::default();
        Self { came, own, hurries, notices, hearing }
    }
}

impl Watcher {
    /// Wakes who sleeps on a topic in this process, after a call of this store has committed, and keeps the task from doing so again.
    /// `mark` is what `_topic_mark` tells from now on, where the call knows.
    pub(crate) fn wake(&self, hub: &WakeHub, topic: &Topic, mark: Option<i64>) {
        let mut own = self.own.lock().expect("no panic while marks are held");
        if own.len() >= REMEMBERED {
            own.clear();
        }
        own.insert(topic.clone(), mark);
        drop(own);
        hub.wake(topic);
    }

    /// Has the task take up who sleeps, as somebody came.
    pub(crate) fn came(&self) {
        self.came.notify_one();
    }

    /// Has the task look at once.
    pub(crate) fn hurry(&self) {
        self.hurries.store(true, Ordering::Relaxed);
        self.came.notify_one();
    }

    /// Ends the task, which finds the store gone or closed.
    pub(crate) fn end(&self) {
        self.came.notify_one();
    }
}

/// Starts the task. It ends when the store is closed or dropped, and keeps neither from happening.
pub(crate) fn watch(store: &PostgresStore, hub: WakeHub) {
    let (watcher, weak) = (store.watcher(), store.downgrade());
    let (came, own, hurries) = (watcher.came.clone(), watcher.own.clone(), watcher.hurries.clone());
    store.runtime().spawn(async move {
        let mut view = View::default();
        while let Some(store) = weak.upgrade() {
            view.follow(&hub.topics());
            if view.topics.is_empty() {
                view.listener = None;
                drop(store);
                came.notified().await;
                continue;
            }
            let since = Instant::now();
            let cost = view.look(&store, &hub).await.unwrap_or_else(|error| {
                // Polling stays the truth, so a look that failed costs time, not messages.
                tracing::debug!(%error, "cannot look for what others have done");
                since.elapsed()
            });
            drop(store);
            // One that took long by chance, as when a connection had to be made for it, puts nothing off.
            let usual = cost.min(std::mem::replace(&mut view.cost, cost));
            let rest = (usual * REST).clamp(view.pace(), LONGEST);
            view.rest(rest, &hub, &own, &came, &hurries).await;
        }
    });
}

/// What is slept on, as it was last seen.
#[derive(Default)]
struct View {
    topics: HashMap<Topic, Seen>,
    listener: Option<Listener>,
    deaf: Deaf,
    registered: Option<Instant>,
    /// What the last look has cost.
    cost: Duration,
    /// Whose sleepers a notification has woken since the last look.
    told: HashSet<Topic>,
}

struct Seen {
    /// By what the server calls it in a notification; unknown before the first look.
    hash: Option<i64>,
    mark: Option<i64>,
    /// When a sleeper is woken to make sure: something may have happened between its coming and the first look.
    to_make_sure: Option<Instant>,
    since: Instant,
    last_slept_on: Instant,
}

impl View {
    /// Takes up what somebody sleeps on, and drops what nobody has slept on for a while.
    fn follow(&mut self, topics: &[Topic]) {
        let now = Instant::now();
        for topic in topics {
            if let Some(seen) = self.topics.get_mut(topic) {
                seen.last_slept_on = now;
            } else {
                let hash = is_channel(topic).then(|| hash(&name(topic)));
                let seen = Seen { hash, mark: None, to_make_sure: None, since: now, last_slept_on: now };
                self.topics.insert(topic.clone(), seen);
                self.registered = None;
            }
        }
        // A listener gets what it missed by the next look, whenever it comes again.
        let lingers = |topic: &Topic| if is_channel(topic) { Duration::ZERO } else { LINGER };
        self.topics
            .retain(|topic, seen| seen.last_slept_on == now || now.duration_since(seen.last_slept_on) < lingers(topic));
    }

    /// Wakes whom what has happened since the last look concerns. Returns how long the server took to tell.
    async fn look(&mut self, store: &PostgresStore, hub: &WakeHub) -> Result<Duration> {
        let is_told = self.is_told();
        let is_looked_at = |topic: &Topic| match topic {
            Topic::Channel(_) => false,
            // Whoever sleeps on them looks itself from time to time: a notification that is lost is made up for.
            Topic::Schedules => !is_told,
            _ => true,
        };
        let topics: Vec<Topic> = self.topics.keys().filter(|topic| is_looked_at(topic)).cloned().collect();
        let channels = || self.topics.keys().filter(|topic| is_channel(topic)).map(name);
        let names: Vec<String> = topics.iter().map(name).collect();
        if self.registered.is_none_or(|at| at.elapsed() >= REGISTER) {
            // ORDER: registered before the look, so that who commits after the look knows of the sleeper.
            let sleepers = topics.iter().filter(|topic| **topic != Topic::Schedules).map(name);
            let names: Vec<String> = sleepers.chain(one_of_each_group(channels())).collect();
            if !names.is_empty() {
                store.write("sleep", SLEEP, &[(&names, Type::TEXT_ARRAY)]).await?;
            }
            self.registered = Some(Instant::now());
        }
        let checks = self.topics.keys().any(|topic| *topic != Topic::Schedules);
        let listener = self.listener.get_or_insert_with(|| Listener::start(store, self.deaf.clone()));
        listener.checks(checks);
        // ORDER: taken before the look, which shows all of them, or what came after.
        let own = std::mem::take(&mut *store.watcher().own.lock().expect("no panic while marks are held"));
        let since = Instant::now();
        if channels().next().is_some()
            && let Err(error) = store.watcher().notices.lock().await.look(store).await
        {
            tracing::debug!(%error, "cannot look for notices");
        }
        let rows = match &names[..] {
            [] => Vec::new(),
            names => store.read("wakes", MARKS, &[(&names, Type::TEXT_ARRAY)]).await?,
        };
        let cost = since.elapsed();
        let told = std::mem::take(&mut self.told);
        // A call whose answer came during the look has made the mark that the look shows, or an earlier one.
        let late = store.watcher().own.lock().expect("no panic while marks are held").clone();
        let now = Instant::now();
        for (topic, row) in topics.iter().zip(&rows) {
            let (hash, mark, quiet) = (column::<i64>(row, 0)?, column::<Option<i64>>(row, 1)?, column::<bool>(row, 2)?);
            let Some(seen) = self.topics.get_mut(topic) else { continue };
            let is_first = seen.hash.replace(hash).is_none();
            let is_own = mark.is_some() && [&own, &late].into_iter().any(|own| own.get(topic) == Some(&mark));
            let has_risen = mark.is_some() && mark > seen.mark;
            if mark.is_some() {
                seen.mark = mark;
            }
            if quiet {
                seen.to_make_sure = None;
            }
            if is_first {
                seen.to_make_sure = (!quiet && !is_own).then_some(now + MAKE_SURE);
            } else if has_risen {
                match own.get(topic) {
                    _ if is_own => {}
                    // Its own doing, as far as can be told, or woken by the notification.
                    Some(None) => seen.to_make_sure = Some(now + MAKE_SURE),
                    None if told.contains(topic) => seen.to_make_sure = Some(now + MAKE_SURE),
                    _ => {
                        hub.wake(topic);
                        // What was numbered before it was committed may be there only now.
                        seen.to_make_sure = (!quiet).then_some(now + MAKE_SURE);
                    }
                }
            } else if seen.to_make_sure.is_some_and(|at| at <= now) {
                seen.to_make_sure = None;
                hub.wake(topic);
            }
        }
        Ok(cost)
    }

    /// How soon to look again.
    fn pace(&self) -> Duration {
        if self.is_told() { LOOK_WHEN_TOLD } else { LOOK }
    }

    /// Whether everybody who commits notifies, and is heard.
    fn is_told(&self) -> bool {
        let hears = self.listener.as_ref().is_some_and(Listener::hears);
        hears && self.topics.values().all(|seen| seen.since.elapsed() > KNOWN)
    }

    /// Waits until it is time for the next look: soon, or at once when a topic that is followed was notified of or a new one came.
    ///
    /// Messages of others wake before the look, which would show the same: a message is waited for by the millisecond. What this store has
    /// done itself has woken already.
    async fn rest(&mut self, rest: Duration, hub: &WakeHub, own: &Own, came: &Notify, hurries: &AtomicBool) {
        let until = tokio::time::Instant::now() + rest;
        loop {
            let notified = async {
                match &mut self.listener {
                    Some(listener) => listener.heard().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = tokio::time::sleep_until(until) => return,
                hash = notified => {
                    let mut concerns = self.hear(hash, hub, own);
                    // One look serves all that have come.
                    while let Some(hash) = self.listener.as_mut().and_then(Listener::heard_already) {
                        concerns |= self.hear(hash, hub, own);
                    }
                    if concerns {
                        return;
                    }
                }
                () = came.notified() => {
                    let is_new = hub.topics().iter().any(|topic| !self.topics.contains_key(topic));
                    if is_new || hub.is_empty() || hurries.swap(false, Ordering::Relaxed) {
                        return;
                    }
                }
            }
        }
    }

    /// Whether a notification is about a topic that is followed.
    fn hear(&mut self, hash: i64, hub: &WakeHub, own: &Own) -> bool {
        let found = self.topics.iter().find_map(|(topic, seen)| (seen.hash == Some(hash)).then_some(topic));
        let Some(topic) = found else { return false };
        let is_own = own.lock().expect("no panic while marks are held").contains_key(topic);
        match topic {
            // No look would tell a change of others beside one of this store's.
            Topic::Schedules => hub.wake(topic),
            Topic::Messages(_) if !is_own => {
                hub.wake(topic);
                self.told.insert(topic.clone());
            }
            _ => {}
        }
        true
    }
}

/// Whether notices tell what has happened, and no mark does.
fn is_channel(topic: &Topic) -> bool {
    matches!(topic, Topic::Channel(_))
}

/// What the server calls a topic.
fn name(topic: &Topic) -> String {
    match topic {
        Topic::Channel(name) => format!("channel/{name}"),
        Topic::Lease(name) => format!("lease/{name}"),
        Topic::Schedules => "schedules".into(),
        Topic::Messages(queue) => format!("messages/{queue}"),
        Topic::Slots(path) => format!("slots/{}/{}/{}", path.queue.as_str().chars().count(), path.queue, path.consumer),
    }
}
