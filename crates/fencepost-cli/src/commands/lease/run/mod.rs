//! `fencepost lease run`: a command that runs while a lease is held, and ends before the lease can belong to somebody else.
//!
//! `plan` is what was asked for, `acquire` gets the lease, `child` is the running command, `tie` what starts it, `signals` what
//! other processes tell us. Ending is always: tell the command, join it, give the lease back.

mod acquire;
mod child;
mod plan;
mod signals;
pub mod tie;

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use fencepost::runtime::{KeptLease, LossReason};
use fencepost::{Clock, Error, HostClock, Kind, LeaseToken, Release, Result, Store};
use serde_json::json;

use self::acquire::Acquisition;
use self::child::{Child, exit_number, in_words};
use self::plan::Plan;
use self::signals::Signals;
use crate::cli::LeaseRunArgs;
use crate::exit::Exit;
use crate::open;
use crate::printer::Printer;

/// Runs the command. Its errors are printed here, because they have exit statuses of their own.
pub async fn run(url: &str, args: LeaseRunArgs, printer: &Printer) -> ExitCode {
    match run_plan(url, args, printer).await {
        Ok(code) => code,
        Err(error) => printer.error_of(&error, Exit::of_lease_run).into(),
    }
}

async fn run_plan(url: &str, args: LeaseRunArgs, printer: &Printer) -> Result<ExitCode> {
    let plan = Plan::new(args)?;
    let mut signals = Signals::listen()?;
    open::existing(url, async |store| match acquire::acquire(store, &plan, &mut signals, printer).await? {
        Acquisition::Granted(lease) => hold(store, &plan, lease, &mut signals, printer).await,
        Acquisition::Stopped(signal) => {
            printer.note(&format!("stopped by a signal while waiting for the lease `{}`", plan.request.name));
            Ok(ExitCode::from(signals::exit_number(signal)))
        }
    })
    .await
}

/// How the command ended.
enum Ended {
    /// While the lease was held, as far as we knew.
    Held(ExitStatus),
    /// After it was told to, because the lease was lost.
    Lost(ExitStatus),
}

async fn hold(
    store: &Store,
    plan: &Plan,
    lease: KeptLease,
    signals: &mut Signals,
    printer: &Printer,
) -> Result<ExitCode> {
    let (token, loss) = (lease.token().clone(), lease.loss().clone());
    // Until when it may be believed in if it is never renewed.
    let deadline = HostClock.boot() + lease.time_left();
    let ended = match Child::start(&plan.command, &token, deadline) {
        Ok(child) => attend(child, plan, &lease, signals).await,
        Err(error) => Err(error),
    };
    // ORDER: the command has ended, whichever way, before the lease is given back.
    let released = lease.release().await;
    match (ended?, released) {
        (Ended::Held(status), Ok(Release::Released)) => Ok(done(&token, status, printer)),
        (Ended::Held(status), Err(error)) => {
            printer
                .note(&format!("note: the lease `{}` was not given back, it expires by itself: {error}", token.name));
            Ok(done(&token, status, printer))
        }
        (Ended::Held(status), Ok(Release::NotHeld)) => {
            let why = who_took_it(store, &token).await;
            Err(lost(&token, &format!("{why}, before the command had ended"), status))
        }
        (Ended::Lost(status), released) => {
            let is_taken = loss.reason() == Some(LossReason::Taken) || matches!(released, Ok(Release::NotHeld));
            let why =
                if is_taken { who_took_it(store, &token).await } else { "it could not be renewed in time".to_owned() };
            Err(lost(&token, &why, status))
        }
    }
}

/// Waits for the command's end, passes signals on, and ends it when the lease is lost.
async fn attend(mut child: Child, plan: &Plan, lease: &KeptLease, signals: &mut Signals) -> Result<Ended> {
    loop {
        tokio::select! {
            status = child.wait() => return status.map(Ended::Held),
            () = lease.lost().cancelled() => return child.end_within(plan.grace()).await.map(Ended::Lost),
            signal = signals.next() => child.pass_on(signal),
        }
    }
}

fn done(token: &LeaseToken, status: ExitStatus, printer: &Printer) -> ExitCode {
    let told = printer.record(|| {
        json!({
            "name": token.name.as_str(),
            "epoch": token.epoch.get(),
            "status": status.code(),
            "signal": status.signal(),
        })
    });
    if let Err(error) = told {
        printer.error(&error);
    }
    ExitCode::from(exit_number(status))
}

fn lost(token: &LeaseToken, why: &str, status: ExitStatus) -> Error {
    Error::new(
        Kind::LeadershipLost,
        format!("lost the lease `{}`: {why}; the command {}", token.name, in_words(status)),
    )
    .coded("lease_lost")
    .during("lease_run")
    .with("lease", &token.name)
    .with("epoch", token.epoch)
    .with("command_status", exit_number(status))
    .hinted(format!(
        "somebody else may be at it by now; `fencepost lease show {}` tells who",
        crate::text::shell_word(token.name.as_str())
    ))
}

/// Best effort: it only makes the message better.
async fn who_took_it(store: &Store, token: &LeaseToken) -> String {
    let history = store.lease_history(&token.name).await.unwrap_or_default();
    match history.iter().rev().find(|forced| forced.epoch > token.epoch) {
        Some(forced) => format!("it was taken by force: `{}`", forced.reason),
        None => "it was granted to somebody else".into(),
    }
}
