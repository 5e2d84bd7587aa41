//! The session that holds the lock, who may use it meanwhile, and who watches that it is there.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use fencepost_core::{Error, Kind, Result};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use super::attempt::Armed;
use super::call::bounded;

/// How often it is looked whether the connection was closed, which costs nothing.
const LOOK: Duration = Duration::from_millis(50);

/// How often a session that does nothing is asked whether it is there, and how long it may take to say so.
const ASK: Duration = Duration::from_secs(5);

/// What holds the lock. Dropped, it closes the session.
pub(super) struct Held {
    /// None once it was given back or lost.
    session: Arc<Mutex<Option<Armed>>>,
    ended: CancellationToken,
    was_lent: AtomicBool,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("ended", &self.ended.is_cancelled()).finish_non_exhaustive()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl Held {
    pub(super) fn new(armed: Armed) -> Arc<Self> {
        let (session, ended) = (Arc::new(Mutex::new(Some(armed))), CancellationToken::new());
        let held = Arc::new(Self { session, ended, was_lent: AtomicBool::new(false) });
        tokio::spawn(watch(Arc::downgrade(&held), held.ended.clone()));
        held
    }

    pub(super) fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// Whether the session is gone, as far as can be seen without asking it.
    pub(super) fn is_lost(&self) -> bool {
        if let Ok(session) = self.session.try_lock()
            && session.as_ref().is_none_or(|armed| armed.client().is_closed())
        {
            self.ended.cancel();
        }
        self.ended.is_cancelled()
    }

    pub(super) async fn lend(&self) -> Result<LockedSession> {
        let session = self.session.clone().lock_owned().await;
        if self.ended.is_cancelled() || session.is_none() {
            return Err(not_held());
        }
        self.was_lent.store(true, Ordering::Relaxed);
        Ok(LockedSession { session, ended: self.ended.clone() })
    }

    /// Takes the session for its end, and says whether others have used it.
    pub(super) async fn end(&self) -> (Option<Armed>, bool) {
        let armed = self.session.lock().await.take();
        (armed, self.was_lent.load(Ordering::Relaxed))
    }
}

/// Watches a session until it is given back or lost.
async fn watch(held: Weak<Held>, ended: CancellationToken) {
    let mut asked = Instant::now();
    loop {
        tokio::select! {
            () = ended.cancelled() => return,
            () = sleep(LOOK) => {}
        }
        let Some(held) = held.upgrade() else { return };
        let mut is_lost = held.is_lost();
        if !is_lost && asked.elapsed() >= ASK {
            asked = Instant::now();
            if let Ok(mut session) = held.session.try_lock()
                && let Some(armed) = session.as_ref()
                && bounded(ASK, armed.client().simple_query("")).await.is_err()
            {
                is_lost = true;
                session.take();
            }
        }
        if is_lost {
            ended.cancel();
            return;
        }
    }
}

/// The session that holds the lock, lent to what is done under it. It goes back to the lock when this is dropped.
pub struct LockedSession {
    session: OwnedMutexGuard<Option<Armed>>,
    ended: CancellationToken,
}

impl std::fmt::Debug for LockedSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockedSession").finish_non_exhaustive()
    }
}

impl LockedSession {
    /// Whether the session is gone, and the lock with it.
    pub fn is_lost(&self) -> bool {
        self.ended.is_cancelled() || self.is_closed()
    }

    fn armed(&self) -> &Armed {
        self.session.as_ref().expect("only a session that is there is lent")
    }
}

impl Deref for LockedSession {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.armed().client()
    }
}

impl DerefMut for LockedSession {
    fn deref_mut(&mut self) -> &mut Client {
        self.session.as_mut().expect("only a session that is there is lent").session.client_mut()
    }
}

pub(super) fn not_held() -> Error {
    Error::new(Kind::Conflict, "the lock is not held, or no longer").coded("lock_not_held")
}
