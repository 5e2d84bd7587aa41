//! What a runner tells while it works, for whoever shows it.

use std::time::Duration;

/// Somebody whose locks a statement waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// The process of the server.
    pub pid: i32,
    /// Its role.
    pub role: String,
    /// What its connection calls itself.
    pub application: String,
    /// What it does: `active`, `idle in transaction`, ...
    pub state: String,
    /// What it runs, or ran last.
    pub query: String,
    /// For how long its transaction is open.
    pub open_for: Duration,
}

impl std::fmt::Display for Blocker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let query: String = self.query.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(120).collect();
        let open_for = Duration::from_secs(self.open_for.as_secs());
        write!(
            f,
            "process {} of `{}`, {} for {}",
            self.pid,
            self.role,
            self.state,
            humantime::format_duration(open_for)
        )?;
        if self.application.is_empty() { Ok(()) } else { write!(f, " ({})", self.application) }?;
        write!(f, ": {query}")
    }
}

/// A step of a run. Numbers of statements count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Another runner holds the lock, and is waited for. Told anew when it has got on.
    Waiting {
        /// Who, since when, and what it does.
        holder: String,
    },
    /// What is to be done was found out.
    Planned {
        /// How many files.
        files: usize,
        /// How many statements are in them that are not done.
        statements: usize,
    },
    /// A file is begun, or gone on with.
    FileStarted {
        /// Its number.
        number: u64,
        /// Its name.
        name: String,
        /// How many statements it has.
        statements: usize,
        /// How many of them are done.
        done: usize,
    },
    /// A statement is sent.
    StatementStarted {
        /// Of which migration.
        number: u64,
        /// Which.
        statement: usize,
        /// What it begins with: `CREATE TABLE`.
        words: String,
    },
    /// A statement is done.
    StatementDone {
        /// Of which migration.
        number: u64,
        /// Which.
        statement: usize,
        /// How long it took.
        took: Duration,
    },
    /// A statement waits for locks of others.
    Blocked {
        /// Of which migration.
        number: u64,
        /// Which.
        statement: usize,
        /// Theirs.
        by: Vec<Blocker>,
    },
    /// The locks did not come in time: everything of the transaction is undone, and is made again after a pause.
    Retried {
        /// Of which migration.
        number: u64,
        /// The statement that waited.
        statement: usize,
        /// How often it was tried.
        attempt: u32,
        /// How long is waited now.
        pause: Duration,
        /// Who was in the way.
        by: Vec<Blocker>,
    },
    /// An index that a failed build left behind INVALID was removed and is built anew.
    IndexRebuilt {
        /// Of which migration.
        number: u64,
        /// Which statement builds it.
        statement: usize,
        /// The index.
        index: String,
    },
    /// Who ran this statement was gone before it could be recorded, and it turned out to be done.
    AlreadyDone {
        /// Of which migration.
        number: u64,
        /// Which.
        statement: usize,
    },
    /// The server says something.
    Notice {
        /// `NOTICE`, `WARNING`, ...
        severity: String,
        /// What.
        message: String,
    },
    /// A file is done and recorded.
    FileDone {
        /// Its number.
        number: u64,
        /// How long it took.
        took: Duration,
    },
}

/// Who hears of it.
pub type Listener<'a> = &'a mut (dyn FnMut(Event) + Send);

/// Who was told of last, of those who are waited for.
#[derive(Debug, Default)]
pub(crate) struct Told(String);

impl Told {
    pub(crate) fn tell(&mut self, holder: String, listener: &mut (dyn FnMut(Event) + Send)) {
        if self.0 != holder {
            self.0.clone_from(&holder);
            listener(Event::Waiting { holder });
        }
    }
}
