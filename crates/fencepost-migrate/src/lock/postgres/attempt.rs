//! Asking for the lock: one session, looked at before it is trusted, that waits in slices. Until the lock is known to be its own the session
//! is closed wherever the attempt ends, and whoever drops it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use fencepost_core::{Error, Kind, LockName, Result};
use tokio::time::Instant;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::call::{self, ANSWER, bounded, column};
use super::setting::Was;
use super::source::Session;
use super::{LockHolder, LockKey, MigrationLock, pooler};

/// The longest slice of a wait. It is shorter where the server looks for deadlocks earlier.
const SLICE: Duration = Duration::from_millis(500);

/// How often who waits looks who is in the way, if he wants to know.
const LOOK: Duration = Duration::from_secs(1);

/// So many sessions that somebody left locked are closed before it is said.
const LEFT_LOCKED: usize = 8;

/// `migrate NAME since TIME` has at most 63 bytes.
const SHOWN: usize = 28;

/// How long an attempt goes on while somebody else holds the lock.
pub(super) enum Until<'a> {
    Granted,
    Now,
    Then(Instant),
    /// For as long as it says so, and until an instant at most.
    Told(&'a mut (dyn FnMut(Option<&LockHolder>) -> bool + Send), Option<Instant>),
}

/// What the one call that asks for the lock does, for those who come after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is none, or it does not know yet whether somebody holds the lock.
    Idle,
    /// Somebody does.
    Waits,
}

/// A session that holds the lock, or is about to, and what it was before.
pub(super) struct Armed {
    pub(super) session: Session,
    was: Was,
}

impl Armed {
    pub(super) fn client(&self) -> &Client {
        self.session.client()
    }

    /// Gives the session back as it was, without the lock. It is closed if that cannot be.
    pub(super) async fn give_back(self) {
        if self.was.restore(self.client()).await.is_ok() {
            self.session.give_back();
        }
    }
}

/// What was seen of a session.
struct Seen {
    process: i32,
    is_held: bool,
    slice: Duration,
}

impl MigrationLock {
    /// Asks for the lock; nothing when somebody else held it to the end.
    pub(super) async fn attempt(&self, until: Until<'_>) -> Result<Option<Armed>> {
        let (session, seen) = self.unlocked_session().await?;
        if !self.source.has_session_pooler() {
            pooler::refuse_told_otherwise(session.client(), seen.process).await?;
            if !self.is_direct.load(Ordering::Relaxed) {
                pooler::refuse_shared(&session, seen.process, &self.source).await?;
                self.is_direct.store(true, Ordering::Relaxed);
            }
        }
        let was = Was::change(session.client()).await?;
        let armed = Armed { session, was };
        if !self.is_granted(armed.client(), until, seen.slice).await? {
            armed.give_back().await;
            return Ok(None);
        }
        let name = include_str!("../../../sql/lock/name.sql");
        call::row(armed.client(), name, &[(&shown(&self.name), Type::TEXT)]).await?;
        Ok(Some(armed))
    }

    /// A session that has not got the lock already. One that has would get it again, beside whoever believes to have it alone.
    async fn unlocked_session(&self) -> Result<(Session, Seen)> {
        for _ in 0..LEFT_LOCKED {
            let session = self.source.lend().await?;
            let seen = look(session.client(), self.key).await?;
            if !seen.is_held {
                return Ok((session, seen));
            }
        }
        Err(Error::new(Kind::Conflict, "cannot take the lock: connections of the pool hold it already")
            .coded("left_locked")
            .with("key", self.key)
            .hinted("something else takes advisory locks with this key; they were closed, try again"))
    }

    async fn is_granted(&self, client: &Client, mut until: Until<'_>, longest: Duration) -> Result<bool> {
        let key = self.key.as_i64();
        let taken = call::row(client, include_str!("../../../sql/lock/try.sql"), &[(&key, Type::INT8)]).await?;
        if column(&taken, "is_taken")? {
            // The session has to have what it was told: behind a pooler that hides well, another one has it.
            return look(client, self.key).await?.is_held.then_some(true).ok_or_else(|| pooler::refused("lock"));
        }
        let _waits = Waits::begin(self);
        let (mut told, mut looked) = (None, None::<Instant>);
        loop {
            let slice = match &mut until {
                Until::Granted => longest,
                Until::Now => return Ok(false),
                Until::Then(end) => longest.min(end.saturating_duration_since(Instant::now())),
                Until::Told(go_on, end) => {
                    if looked.is_none_or(|at| at.elapsed() >= LOOK) {
                        looked = Some(Instant::now());
                        if !go_on(LockHolder::read(client, self.key).await?.as_ref()) {
                            return Ok(false);
                        }
                    }
                    end.map_or(longest, |end| longest.min(end.saturating_duration_since(Instant::now())))
                }
            };
            if slice < Duration::from_millis(1) {
                return Ok(false);
            }
            if told != Some(slice) {
                let (key, wait) = (self.key.to_string(), slice.as_millis().to_string());
                let sql = include_str!("../../../sql/lock/wait_for.sql");
                call::row(client, sql, &[(&key, Type::TEXT), (&wait, Type::TEXT)]).await?;
                told = Some(slice);
            }
            bounded(slice + ANSWER, client.batch_execute(include_str!("../../../sql/lock/wait.sql"))).await?;
            // RACE: a wait may end and be granted at once. What the session has, the list of locks says.
            if look(client, self.key).await?.is_held {
                return Ok(true);
            }
        }
    }
}

/// While it is there, whoever tries need not wait for the one that waits.
struct Waits<'a>(&'a MigrationLock);

impl<'a> Waits<'a> {
    fn begin(lock: &'a MigrationLock) -> Self {
        lock.phase.send_replace(Phase::Waits);
        Self(lock)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.phase.send_replace(Phase::Idle);
    }
}

async fn look(client: &Client, key: LockKey) -> Result<Seen> {
    let row = call::row(client, include_str!("../../../sql/lock/look.sql"), &[(&key.as_i64(), Type::INT8)]).await?;
    if column(&row, "in_recovery")? {
        return Err(Error::new(Kind::Unavailable, "cannot take the lock: the server follows another one")
            .coded("read_only")
            .hinted("connect to the primary: each server has locks of its own"));
    }
    let deadlock = Duration::from_millis(column::<i64>(&row, "deadlock_timeout_ms")?.unsigned_abs());
    // ORDER: who waits for us must not find us still waiting when he looks for deadlocks.
    let slice = SLICE.min(deadlock / 2).max(Duration::from_millis(1));
    Ok(Seen { process: column(&row, "pid")?, is_held: column(&row, "is_held")?, slice })
}

/// As much of a name as the server shows.
fn shown(name: &LockName) -> &str {
    let (name, mut end) = (name.as_str(), SHOWN.min(name.as_str().len()));
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}
