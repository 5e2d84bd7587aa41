//! What is wrong with the server that the data is kept on.

use std::time::Duration;

use fencepost::postgres::{OpenTransaction, ServerCheck};
use fencepost::{Result, Store};

use super::Finding;
use crate::text;

/// How long a transaction may keep a slot locked.
const BRIEF: Duration = Duration::from_secs(5);

/// How long any transaction may be open.
const LONG: Duration = Duration::from_secs(10 * 60);

/// How many transactions a replication slot may be behind.
const BEHIND: u32 = 1_000_000;

/// What the clocks may differ by.
const APART: Duration = Duration::from_secs(1);

/// Examines the server, if the store is on one.
pub async fn examine(store: &Store) -> Result<Vec<Finding>> {
    match store.as_postgres() {
        Some(postgres) => Ok(judge(&postgres.check().await?)),
        None => Ok(Vec::new()),
    }
}

fn judge(check: &ServerCheck) -> Vec<Finding> {
    let mut findings = of_settings(check);
    for blocked in check.blocked.iter().filter(|blocked| blocked.by.age > BRIEF) {
        let pid = blocked.by.pid;
        findings.push(Finding::warning(
            "slot_blocked",
            format!("slot {} of `{}` is locked by {}", blocked.slot, blocked.path, described(&blocked.by)),
            format!(
                "the server ends it at the end of the slot's lease; `SELECT pg_terminate_backend({pid})` does at once"
            ),
        ));
    }
    if let Some(oldest) = check.oldest.as_ref().filter(|oldest| oldest.age > LONG) {
        let pid = oldest.pid;
        findings.push(Finding::warning(
            "transaction_old",
            format!("nothing that was deleted meanwhile can be removed because of {}", described(oldest)),
            format!("commit or roll it back, or end it by `SELECT pg_terminate_backend({pid})`; meanwhile tables grow"),
        ));
    }
    for (name, age) in check.prepared.iter().filter(|(_, age)| *age > LONG) {
        let since = text::duration(*age);
        findings.push(Finding::warning(
            "transaction_prepared",
            format!(
                "the transaction `{name}` was prepared {since} ago and never ended: it keeps its locks, and dead rows"
            ),
            format!("`ROLLBACK PREPARED '{}'`, or `COMMIT PREPARED`", name.replace('\'', "''")),
        ));
    }
    for (name, behind) in check.replication.iter().filter(|(_, behind)| *behind > BEHIND) {
        let behind = text::count(u64::from(*behind));
        findings.push(Finding::warning(
            "replication_behind",
            format!("the replication slot `{name}` is {behind} transactions behind and keeps dead rows"),
            format!("start what reads it, or `SELECT pg_drop_replication_slot('{}')`", name.replace('\'', "''")),
        ));
    }
    findings
}

fn of_settings(check: &ServerCheck) -> Vec<Finding> {
    let mut findings = Vec::new();
    if check.in_recovery {
        findings.push(Finding::error(
            "read_only",
            "the server follows another one and takes no writes",
            "connect to the primary; with several hosts in the url the one that takes writes is found",
        ));
    }
    if !check.vacuums {
        findings.push(Finding::warning(
            "autovacuum_off",
            "the server does not remove dead rows by itself: its tables grow, and calls get slow",
            "set `autovacuum = on` and `track_counts = on` in its configuration",
        ));
    }
    if let [first, ..] = &*check.not_vacuumed {
        findings.push(Finding::warning(
            "autovacuum_off",
            format!(
                "{} of the store, such as `{first}`, are excepted from autovacuum",
                text::counted(check.not_vacuumed.len() as u64, "table")
            ),
            format!("`ALTER TABLE {first} RESET (autovacuum_enabled)`, for each of them"),
        ));
    }
    if check.is_public {
        findings.push(Finding::warning(
            "schema_public",
            "PUBLIC may use the schema `fencepost`: everybody who connects reaches what was granted to PUBLIC in it",
            "`REVOKE ALL ON SCHEMA fencepost FROM PUBLIC`; rights are granted by fencepost.grant_queue and grant_lease",
        ));
    }
    if let [first, ..] = &*check.missing_roles {
        findings.push(Finding::note(
            "roles_missing",
            format!("the role `{first}` and its like are not there, as who installed the schema may make no roles"),
            format!(
                "to have them: `CREATE ROLE {}`, then as the schema's owner `SELECT fencepost.grant_roles()`",
                check.missing_roles.join("; CREATE ROLE ")
            ),
        ));
    }
    if !check.notifies {
        findings.push(Finding::note(
            "no_notifications",
            "notifications do not arrive, as behind a pooler in transaction mode: sleepers look by themselves, up to 250 ms late",
            "nothing has to be done; a url that leads to the server itself, or to a pool in session mode, wakes them at once",
        ));
    }
    for (apart, word) in [(check.clock_ahead, "ahead of"), (check.clock_behind, "behind")] {
        if apart > APART {
            findings.push(Finding::warning(
                "clock_apart",
                format!("the clock of the server is {} {word} this host's", text::duration(apart)),
                "have both set by NTP; the server's alone decides who owns what, and this host's is only shown beside it",
            ));
        }
    }
    findings
}

/// `the transaction of process 42 (`psql`), open for 3 min, idle in transaction`.
fn described(OpenTransaction { pid, application, state, age }: &OpenTransaction) -> String {
    let application = if application.is_empty() { String::new() } else { format!(" (`{application}`)") };
    let state = if state.is_empty() { String::new() } else { format!(", {state}") };
    format!("the transaction of process {pid}{application}, open for {}{state}", text::duration(*age))
}

#[cfg(test)]
mod tests {
    use fencepost::ConsumerPath;
    use fencepost::postgres::BlockedSlot;

    use super::*;
    use crate::commands::doctor::Severity;

    fn fine() -> ServerCheck {
        ServerCheck {
            clock_ahead: Duration::ZERO,
            clock_behind: Duration::ZERO,
            in_recovery: false,
            vacuums: true,
            not_vacuumed: vec![],
            is_public: false,
            missing_roles: vec![],
            notifies: true,
            blocked: vec![],
            oldest: None,
            prepared: vec![],
            replication: vec![],
        }
    }

    fn open_for(age: Duration) -> OpenTransaction {
        OpenTransaction { pid: 42, application: "psql".into(), state: "idle in transaction".into(), age }
    }

    #[test]
    fn each_trouble_of_the_server_is_a_finding() {
        assert!(judge(&fine()).is_empty());
        let path = ConsumerPath::new("orders", "billing").unwrap();
        let bad = ServerCheck {
            clock_ahead: APART * 2,
            clock_behind: Duration::ZERO,
            in_recovery: true,
            vacuums: false,
            not_vacuumed: vec!["fencepost.queue".into()],
            is_public: true,
            missing_roles: vec!["fencepost_admin".into(), "fencepost_producer".into()],
            notifies: false,
            blocked: vec![BlockedSlot { path, slot: 3, by: open_for(BRIEF * 2) }],
            oldest: Some(open_for(LONG * 2)),
            prepared: vec![("it's".into(), LONG * 2)],
            replication: vec![("standby".into(), BEHIND + 1)],
        };
        let found = judge(&bad);
        let codes: Vec<_> = found.iter().map(|finding| finding.code).collect();
        assert_eq!(
            codes,
            [
                "read_only",
                "autovacuum_off",
                "autovacuum_off",
                "schema_public",
                "roles_missing",
                "no_notifications",
                "clock_apart",
                "slot_blocked",
                "transaction_old",
                "transaction_prepared",
                "replication_behind"
            ]
        );
        // Exactly those that nothing has to be done about.
        let notes = found.iter().filter(|finding| finding.severity == Severity::Note);
        assert_eq!(notes.map(|finding| finding.code).collect::<Vec<_>>(), ["roles_missing", "no_notifications"]);
        assert!(found[9].hint.contains("ROLLBACK PREPARED 'it''s'"), "{}", found[9].hint);
        assert!(
            found[4].hint.contains("CREATE ROLE fencepost_admin; CREATE ROLE fencepost_producer"),
            "{}",
            found[4].hint
        );
    }

    #[test]
    fn what_goes_on_all_the_time_is_no_trouble() {
        let path = ConsumerPath::new("orders", "billing").unwrap();
        let busy = ServerCheck {
            clock_behind: APART,
            blocked: vec![BlockedSlot { path, slot: 3, by: open_for(BRIEF) }],
            oldest: Some(open_for(LONG)),
            prepared: vec![("g".into(), LONG)],
            replication: vec![("standby".into(), BEHIND)],
            ..fine()
        };
        assert!(judge(&busy).is_empty());
    }
}
