//! Keeps callers' closures within bounds on the writer's connection: none runs past its time, and none begins, commits or rolls
//! back the transaction that it shares with others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fencepost_core::Result;
use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, Authorization};

use crate::error::driver_error;

/// The savepoint that one caller's work runs in.
const SAVEPOINT: &str = "fencepost_call";

/// What a caller's closure is held to while it runs. The engine's own statements are free.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    ends: Mutex<Option<Instant>>,
    armed: AtomicBool,
}

impl Guard {
    /// How many virtual machine instructions pass between two looks at the time.
    const STEPS: i32 = 10_000;

    /// Makes `connection` obey.
    pub(crate) fn install(self: &Arc<Self>, connection: &mut Connection) -> Result<()> {
        let guard = self.clone();
        connection.progress_handler(Self::STEPS, Some(move || guard.is_over())).map_err(driver_error)?;

        // Refusing to prepare the statement hurts nobody but the closure that tried.
        let guard = self.clone();
        let judge = move |action: AuthAction<'_>| match action {
            AuthAction::Transaction { .. } => Authorization::Deny,
            AuthAction::Savepoint { savepoint_name, .. } if savepoint_name.eq_ignore_ascii_case(SAVEPOINT) => {
                Authorization::Deny
            }
            _ => Authorization::Allow,
        };
        connection
            .authorizer(Some(
                move |context: rusqlite::hooks::AuthContext<'_>| {
                    if guard.is_armed() { judge(context.action) } else { Authorization::Allow }
                },
            ))
            .map_err(driver_error)?;

        // INVARIANT: nothing commits while a closure runs. After SQLite itself has rolled the transaction back, as for a full disk
        // or `ON CONFLICT ROLLBACK`, a closure that goes on would commit every statement by itself.
        let guard = self.clone();
        connection.commit_hook(Some(move || guard.is_armed())).map_err(driver_error)
    }

    fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.is_armed()
            && self.ends.lock().expect("no panic while the bound is held").is_some_and(|ends| Instant::now() > ends)
    }

    /// Runs a caller's closure, which has `bound` to end.
    pub(crate) fn within<T>(&self, bound: Duration, work: impl FnOnce() -> T) -> T {
        struct Disarm<'a>(&'a Guard);
        impl Drop for Disarm<'_> {
            fn drop(&mut self) {
                self.0.armed.store(false, Ordering::Relaxed);
            }
        }
        *self.ends.lock().expect("no panic while the bound is held") = Some(Instant::now() + bound);
        self.armed.store(true, Ordering::Relaxed);
        let _disarm = Disarm(self);
        work()
    }
}
