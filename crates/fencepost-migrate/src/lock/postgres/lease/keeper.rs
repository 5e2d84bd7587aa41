//! A lease that is held: it is renewed on another connection than its holder's, and over at its deadline whatever a renewal does.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost_core::{Clock, Deadline, Epoch, Error, HostClock, Kind, Result, Ttl};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::table::Table;
use super::{LeaseFence, Origin, margin};

/// How long a release may take.
const BOUND: Duration = Duration::from_secs(15);

/// A grant, which is given back when this is dropped, by a task of its own.
#[derive(Debug)]
pub(super) struct Held {
    grant: Arc<Grant>,
    runtime: Handle,
}

#[derive(Debug)]
struct Grant {
    fence: LeaseFence,
    ttl: Ttl,
    deadline: Mutex<Deadline>,
    ended: CancellationToken,
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.grant.ended.is_cancelled() {
            self.grant.ended.cancel();
            let grant = self.grant.clone();
            // Who does not hear of it waits for the end of the grant.
            self.runtime.spawn(async move { drop(grant.release().await) });
        }
    }
}

impl Held {
    pub(super) fn new(origin: Arc<Origin>, table: Arc<Table>, epoch: Epoch, ttl: Ttl, deadline: Deadline) -> Self {
        let (fence, ended) = (LeaseFence { origin, table, epoch }, CancellationToken::new());
        let grant = Arc::new(Grant { fence, ttl, deadline: Mutex::new(deadline), ended });
        let runtime = Handle::current();
        runtime.spawn(keep(grant.clone()));
        Self { grant, runtime }
    }

    pub(super) fn is_live(&self) -> bool {
        !self.grant.ended.is_cancelled() && !self.grant.left().is_zero()
    }

    pub(super) fn ended(&self) -> CancellationToken {
        self.grant.ended.clone()
    }

    pub(super) fn fence(&self) -> LeaseFence {
        self.grant.fence.clone()
    }

    pub(super) async fn release(self) -> Result<bool> {
        self.grant.ended.cancel();
        self.grant.release().await
    }
}

impl Grant {
    fn left(&self) -> Duration {
        self.deadline.lock().unwrap_or_else(PoisonError::into_inner).left(HostClock.boot())
    }

    async fn release(&self) -> Result<bool> {
        let LeaseFence { origin, table, epoch } = &self.fence;
        timeout(BOUND, table.release(origin, *epoch)).await.unwrap_or_else(|_| {
            Err(Error::new(Kind::Unavailable, "the server did not answer in time").coded("timeout"))
        })
    }

    /// Asks for more time, after `pause`.
    async fn renew(&self, pause: Duration) -> Result<bool> {
        sleep(pause).await;
        let sent = HostClock.boot();
        let LeaseFence { origin, table, epoch } = &self.fence;
        let bound = self.ttl.get() / 6;
        let answer = timeout(bound, table.renew(origin, *epoch, self.ttl)).await.unwrap_or_else(|_| {
            Err(Error::new(Kind::Unavailable, "the server did not answer in time").coded("timeout"))
        });
        if let Ok(true) = answer {
            let deadline = Deadline::of_request(sent, self.ttl, margin(self.ttl));
            *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
        }
        answer
    }
}

async fn keep(grant: Arc<Grant>) {
    let interval = grant.ttl.get() / 3;
    let mut pause = interval;
    loop {
        let answer = tokio::select! {
            biased;
            () = grant.ended.cancelled() => return,
            // ORDER: before the renewal, which may be stuck.
            () = sleep(grant.left()) => Ok(false),
            answer = grant.renew(pause) => answer,
        };
        pause = match answer {
            Ok(true) => interval,
            Ok(false) => break,
            // What became of it is unknown, which is no loss: the deadline stands.
            Err(error) => {
                tracing::debug!(%error, "a lease could not be renewed, and is tried again");
                interval / 4
            }
        };
    }
    grant.ended.cancel();
}
