//! Getting the lease, or knowing why not: at once, or within the time that the plan allows.

use fencepost::runtime::KeptLease;
use fencepost::{Acquired, Error, Kind, Result, Store};
use rustix::process::Signal;

use super::plan::Plan;
use super::signals::Signals;
use crate::printer::Printer;
use crate::text;

/// What came of it.
#[derive(Debug)]
pub enum Acquisition {
    /// The lease is ours, kept from now on.
    Granted(KeptLease),
    /// A signal came first.
    Stopped(Signal),
}

/// Acquires the lease, and waits for it while somebody holds it and the plan's time is not over.
///
/// # Errors
/// `busy`, with code `lease_held` and the holder, when somebody holds it; `unavailable`; `unknown_outcome`.
pub async fn acquire(store: &Store, plan: &Plan, signals: &mut Signals, printer: &Printer) -> Result<Acquisition> {
    let refused = match KeptLease::acquire(store.contract(), &plan.request).await {
        Ok(Ok(lease)) => return Ok(Acquisition::Granted(lease)),
        Ok(Err(refused)) => refusal(plan, &refused),
        Err(error) if error.kind() == Kind::Busy => error,
        Err(error) => return Err(error),
    };
    if plan.wait.is_zero() {
        return Err(refused);
    }
    if let Some(holder) = refused.fact("holder") {
        printer.note(&format!("waiting for the lease `{}`, which `{holder}` holds", plan.request.name));
    }
    tokio::select! {
        // A grant that is under way then is given back, or expires when the store is closed before.
        signal = signals.next() => Ok(Acquisition::Stopped(signal)),
        answer = KeptLease::acquire_within(store.contract(), &plan.request, plan.wait) => match answer? {
            Ok(lease) => Ok(Acquisition::Granted(lease)),
            Err(refused) => Err(refusal(plan, &refused)),
        },
    }
}

fn refusal(plan: &Plan, answer: &Acquired) -> Error {
    let name = &plan.request.name;
    let within = if plan.wait.is_zero() { String::new() } else { format!(" within {}", text::duration(plan.wait)) };
    let wait = if plan.wait.is_zero() { "`--wait 1m` waits for it" } else { "a longer `--wait` may get it" };
    let refused = |why: &str, code| {
        Error::new(Kind::Busy, format!("cannot acquire the lease `{name}`{within}: {why}"))
            .coded(code)
            .during("acquire_lease")
            .with("lease", name)
    };
    match answer {
        Acquired::Held { holder, epoch, expires_in, .. } => refused(&format!("`{holder}` holds it"), "lease_held")
            .with("holder", holder)
            .with("epoch", epoch)
            .with("expires_in_ms", expires_in.as_millis())
            .hinted(format!("it is held for {} more, or longer if it is renewed; {wait}", text::duration(*expires_in))),
        Acquired::Contended => refused("somebody else is at it just now", "lease_contended").hinted(wait),
        Acquired::Granted { .. } => {
            Error::new(Kind::Internal, format!("cannot refuse the lease `{name}`: it is granted"))
        }
    }
}

#[cfg(test)]
mod tests {
    use fencepost::{AcquireLease, HolderName, LeaseName};

    use super::*;
    use crate::exit::Exit;

    /// Whoever meets somebody's lock is not granted it, as whoever meets a holder, and is told what to do.
    #[test]
    fn a_lease_that_is_locked_just_now_is_not_granted() {
        let request = AcquireLease::new(LeaseName::new("x").unwrap(), HolderName::new("h").unwrap());
        let plan = Plan { request, wait: std::time::Duration::ZERO, command: Vec::new() };
        let error = refusal(&plan, &Acquired::Contended);
        assert_eq!((error.kind(), error.code()), (Kind::Busy, "lease_contended"));
        assert_eq!(Exit::of_lease_run(error.kind()), Exit::NotGranted);
        assert!(error.hint().unwrap().contains("--wait") && error.fact("lease") == Some("x"));
    }
}
