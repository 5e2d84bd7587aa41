//! Getting the lease: at once, or by asking again until a bound.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use fencepost::runtime::KeptLease;
use fencepost::{Acquired, Clock, Deadline, Error, HostClock, Kind, Result, Store};
use rustix::process::Signal;

use super::plan::Plan;
use super::signals::Signals;
use crate::printer::Printer;
use crate::text;

/// How long a waiter sleeps between two attempts, on average.
const PAUSE: Duration = Duration::from_millis(100);

/// A lease, kept from now on.
#[derive(Debug)]
pub struct Granted {
    /// The lease.
    pub lease: KeptLease,
    /// Until when it may be believed in if it is never renewed.
    pub deadline: Deadline,
}

/// What came of it.
#[derive(Debug)]
pub enum Acquisition {
    /// The lease is ours.
    Granted(Granted),
    /// A signal came first.
    Stopped(Signal),
}

/// Acquires the lease, asking again while somebody holds it and the plan's wait is not over.
///
/// # Errors
/// `busy`, with code `lease_held` and the holder, when somebody holds it; `unavailable`; `unknown_outcome`.
pub async fn acquire(store: &Store, plan: &Plan, signals: &mut Signals, printer: &Printer) -> Result<Acquisition> {
    let begun = HostClock.boot();
    let mut told = false;
    loop {
        // ORDER: the deadline is anchored before the request is sent.
        let sent = HostClock.boot();
        let refusal = match KeptLease::acquire(store.contract(), &plan.request).await {
            Ok(Ok(lease)) => {
                let ttl = plan.request.ttl;
                return Ok(Acquisition::Granted(Granted {
                    lease,
                    deadline: Deadline::of_request(sent, ttl, ttl.get() / 10),
                }));
            }
            Ok(Err(held)) => refused(plan, &held),
            Err(error) if error.kind() == Kind::Busy => error,
            Err(error) => return Err(error),
        };
        let left = plan.wait.saturating_sub(HostClock.boot().since(begun));
        if left.is_zero() {
            return Err(refusal);
        }
        if !told && let Some(holder) = refusal.fact("holder") {
            printer.note(&format!("waiting for the lease `{}`, which `{holder}` holds", plan.request.name));
            told = true;
        }
        // RACE: a signal is looked for between attempts only, so that no grant is left behind by one that was cut short.
        tokio::select! {
            signal = signals.next() => return Ok(Acquisition::Stopped(signal)),
            () = tokio::time::sleep(jittered(PAUSE).min(left)) => {}
        }
    }
}

fn refused(plan: &Plan, answer: &Acquired) -> Error {
    let name = &plan.request.name;
    let Acquired::Held { holder, epoch, expires_in, .. } = answer else {
        return Error::new(Kind::Internal, format!("cannot tell who holds the lease `{name}`"));
    };
    let within = if plan.wait.is_zero() { String::new() } else { format!(" within {}", text::duration(plan.wait)) };
    let wait = if plan.wait.is_zero() { "`--wait 1m` waits for it" } else { "a longer `--wait` may get it" };
    Error::new(Kind::Busy, format!("cannot acquire the lease `{name}`{within}: `{holder}` holds it"))
        .coded("lease_held")
        .during("acquire_lease")
        .with("lease", name)
        .with("holder", holder)
        .with("epoch", epoch)
        .with("expires_in_ms", expires_in.as_millis())
        .hinted(format!("it is held for {} more, or longer if it is renewed; {wait}", text::duration(*expires_in)))
}

/// Half to one and a half of `pause`, so that waiters do not ask in step.
fn jittered(pause: Duration) -> Duration {
    // Each of these hashers has a random seed of its own.
    let random = RandomState::new().hash_one(()) % 1_000;
    pause / 2 + pause * u32::try_from(random).unwrap_or(0) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_differ_and_stay_near_their_mean() {
        let pauses: Vec<_> = (0..100).map(|_| jittered(PAUSE)).collect();
        assert!(pauses.iter().all(|pause| (PAUSE / 2..PAUSE * 3 / 2).contains(pause)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
    }
}
