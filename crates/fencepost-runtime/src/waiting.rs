//! Waiting for a lease: asleep until it is released or its holder's grant expires, and asking again each time. Waiting for messages:
//! asleep until some come or become due. What a waiter is told is a hint; only the call itself decides.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_core::{
    AcquireLease, Acquired, Batch, BatchSize, Kind, LeaseName, Nonce, Result, SlotToken, Store, Topic, WakeReceiver,
    Wakeups,
};
use tokio::time::{Instant, sleep};

/// How long a waiter sleeps at most: wake-ups are hints, and a grant may end sooner than was told.
const CEILING: Duration = Duration::from_secs(5);

/// Waiters for one expiry ask within this time after it, so that they do not ask in step.
const SPREAD: Duration = Duration::from_millis(50);

/// How often who waits for messages looks at least.
const POLL: Duration = Duration::from_secs(1);

/// How soon is looked again for what is due but was not handed out.
const AGAIN: Duration = Duration::from_millis(20);

/// The mean pause where it is not known how long the lease is somebody's.
const PAUSE: Duration = Duration::from_millis(50);

/// Calls that wait, for every store.
#[async_trait]
pub trait Waiting: Store {
    /// Acquires a lease, and waits for it while somebody holds it: for `wait` at most, without bound when that is too long to add
    /// up, such as [`Duration::MAX`].
    ///
    /// A waiter is woken by a release, sleeps until the holder's expiry otherwise, and asks again each time. Waiters have no order.
    /// When the time is over it asks once more, so it takes `wait` and one acquire, which has the store's own bound. Answers the
    /// last refusal then, [`Acquired::Held`] or [`Acquired::Contended`].
    ///
    /// A request without a nonce gets one, so that an unknown outcome is resolved. The grant is not renewed; see
    /// [`KeptLease::acquire_within`](crate::KeptLease::acquire_within) for one that is.
    ///
    /// Cancel-safe: a new grant whose caller has gone away is given back.
    ///
    /// # Errors
    /// `busy` when the store was still locked at the end; `unavailable`; `unknown_outcome` when a second attempt could not tell
    /// either.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// # use fencepost_core::*;
    /// use fencepost_runtime::Waiting;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// # let store = fencepost_mem::MemStore::new(Arc::new(HostClock));
    /// let request = |holder| Ok(AcquireLease::new(LeaseName::new("nightly")?, HolderName::new(holder)?));
    /// let Acquired::Granted { token, .. } = store.acquire_lease(&request("first")?).await? else { unreachable!() };
    ///
    /// let second = request("second")?;
    /// let waiting = store.acquire_within(&second, Duration::from_secs(10));
    /// let (granted, _) = tokio::join!(waiting, store.release_lease(&token));
    /// assert!(matches!(granted?, Acquired::Granted { .. }));
    /// # Result::Ok(())
    /// # }
    /// ```
    async fn acquire_within(&self, request: &AcquireLease, wait: Duration) -> Result<Acquired>;

    /// Receives, and waits for messages while there are none: for `wait` at most. Woken by a send, and when a delayed message or one
    /// that comes again becomes due; it looks at least every second.
    ///
    /// Waiting renews nothing: who waits for longer than the TTL renews the slot meanwhile, as a worker does.
    ///
    /// Cancel-safe: a batch that was opened for a caller who has gone away is the open batch, which the next receive returns.
    ///
    /// # Errors
    /// As [`Slots::receive`](fencepost_core::Slots::receive).
    async fn receive_within(&self, token: &SlotToken, max: BatchSize, wait: Duration) -> Result<Option<Batch>>;
}

#[async_trait]
impl<S: Store + ?Sized> Waiting for S {
    async fn acquire_within(&self, request: &AcquireLease, wait: Duration) -> Result<Acquired> {
        let attempt = || async {
            Ok(match acquire_resolved(self, request).await? {
                granted @ Acquired::Granted { .. } => Ok(granted),
                refused => Err(refused),
            })
        };
        match attempt_within(self, &request.name, wait, attempt).await? {
            Ok(answer) | Err(answer) => Ok(answer),
        }
    }

    async fn receive_within(&self, token: &SlotToken, max: BatchSize, wait: Duration) -> Result<Option<Batch>> {
        let SlotToken { path, slot, .. } = token;
        let ends = Instant::now().checked_add(wait);
        let mut sent = self.wakes(&Topic::Messages(path.queue.clone()));
        let mut rest = DueRest::default();
        loop {
            let received = self.receive(token, max).await?;
            let left = ends.map_or(Duration::MAX, |ends| ends.saturating_duration_since(Instant::now()));
            if received.is_some() || left.is_zero() {
                return Ok(received);
            }
            let due = self.next_due(path, *slot).await?;
            // One that was held back has to be appended before it can be received.
            if due == Some(Duration::ZERO) && self.maintain(Some(&path.queue)).await? > 0 {
                continue;
            }
            tokio::select! {
                _ = sent.woken() => {}
                () = sleep(rest.until(due, POLL).min(left)) => {}
            }
        }
    }
}

/// How long who waits for messages sleeps, by what becomes due. What is due now and was not handed out may be so for long, as in a
/// queue that is paused: it is looked for less and less often.
#[derive(Debug, Default)]
pub(crate) struct DueRest(Option<Duration>);

impl DueRest {
    /// How long to sleep at most, polls included.
    pub(crate) fn until(&mut self, due: Option<Duration>, poll: Duration) -> Duration {
        let is_overdue = due == Some(Duration::ZERO);
        self.0 = is_overdue.then(|| self.0.map_or(AGAIN, |before| before * 2).min(poll));
        match (self.0, due) {
            (Some(again), _) => again,
            (None, Some(due)) => due.max(Duration::from_millis(1)).min(poll),
            (None, None) => poll,
        }
    }
}

/// What came of an attempt: what was granted, or how it was refused.
pub(crate) type Attempted<T> = Result<std::result::Result<T, Acquired>>;

/// Attempts until something is granted, an attempt fails, or the time is over.
pub(crate) async fn attempt_within<T, A>(
    store: &(impl Wakeups + ?Sized),
    name: &LeaseName,
    wait: Duration,
    attempt: impl Fn() -> A,
) -> Attempted<T>
where
    A: Future<Output = Attempted<T>>,
{
    let ends = Instant::now().checked_add(wait);
    let mut released: Option<WakeReceiver> = None;
    loop {
        let answer = attempt().await;
        let Some(pause) = pause_after(&answer) else { return answer };
        let left = ends.map_or(Duration::MAX, |ends| ends.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return answer;
        }
        let Some(released) = &mut released else {
            // RACE: of a release before this the sleeper would not hear, so it asks again before it sleeps.
            released = Some(store.wakes(&Topic::Lease(name.clone())));
            continue;
        };
        tokio::select! {
            // A store that was closed is asked as well: it says so.
            _ = released.woken() => {}
            () = sleep(pause.min(left)) => {}
        }
    }
}

/// How long to sleep after an answer, unless woken; `None` after one that ends the wait.
fn pause_after<T>(answer: &Attempted<T>) -> Option<Duration> {
    match answer {
        Ok(Err(Acquired::Held { expires_in, .. })) => Some(CEILING.min(*expires_in + SPREAD.mul_f64(random()))),
        Ok(Err(_)) => Some(PAUSE.mul_f64(0.5 + random())),
        Err(error) if error.kind() == Kind::Busy => Some(PAUSE.mul_f64(0.5 + random())),
        Ok(Ok(_)) | Err(_) => None,
    }
}

/// Acquires once. An unknown outcome is asked for again: the nonce tells whether the first attempt was granted.
pub(crate) async fn acquire_resolved(store: &(impl Store + ?Sized), request: &AcquireLease) -> Result<Acquired> {
    let mut request = request.clone();
    if request.nonce.is_none() {
        request.nonce = Some(Nonce::random()?);
    }
    let answer = store.acquire_lease(&request).await;
    if answer.as_ref().is_err_and(|error| error.kind() == Kind::UnknownOutcome) {
        return store.acquire_lease(&request).await;
    }
    answer
}

/// From 0 to 1. Nothing but the spread of waiters depends on it.
fn random() -> f64 {
    // Each of these hashers has a random seed of its own.
    RandomState::new().hash_one(()) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use fencepost_core::{Epoch, Error, HolderName, Timestamp};

    use super::*;

    fn held(expires_in: Duration) -> Attempted<()> {
        let holder = HolderName::new("h").unwrap();
        Ok(Err(Acquired::Held { holder, epoch: Epoch::new(1).unwrap(), since: Timestamp::from_micros(0), expires_in }))
    }

    #[test]
    fn waiters_sleep_until_the_expiry_and_do_not_ask_in_step() {
        let expires_in = Duration::from_secs(1);
        let pauses: Vec<_> = (0..100).filter_map(|_| pause_after(&held(expires_in))).collect();
        assert_eq!(pauses.len(), 100);
        assert!(pauses.iter().all(|pause| (expires_in..=expires_in + SPREAD).contains(pause)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
        assert_eq!(pause_after(&held(Duration::from_secs(3_600))), Some(CEILING));
    }

    #[test]
    fn a_lock_that_somebody_holds_is_waited_for_and_a_failure_is_not() {
        let busy = Error::new(Kind::Busy, "as asked");
        for answer in [Ok(Err(Acquired::Contended)), Err::<std::result::Result<(), _>, _>(busy)] {
            let pauses: Vec<_> = (0..100).filter_map(|_| pause_after(&answer)).collect();
            assert!(pauses.iter().all(|pause| (PAUSE / 2..=PAUSE * 3 / 2).contains(pause)), "{pauses:?}");
            assert!(pauses.iter().any(|pause| *pause != pauses[0]));
        }
        assert_eq!(pause_after::<()>(&Err(Error::new(Kind::Unavailable, "as asked"))), None);
        assert_eq!(pause_after(&Ok(Ok(()))), None);
    }
}
