//! What is wrong with the server that the data is kept on.

use std::time::Duration;

use fencepost::postgres::{OpenTransaction, PreparedTransaction, ServerCheck};
use fencepost::{Result, Store};

use super::Finding;
use crate::text;

/// How long a transaction may keep a slot locked.
const BRIEF: Duration = Duration::from_secs(5);

/// How long any transaction may be open.
const LONG: Duration = Duration::from_secs(10 * 60);

/// How many transactions may have begun since something that keeps dead rows did.
const BEHIND: u32 = 1_000_000;

/// What the clocks may differ by.
const APART: Duration = Duration::from_secs(1);

/// Epochs run ahead of the clock by a minute and three seconds at most.
const STEPPED: Duration = Duration::from_secs(70);

/// As much of a statement as fits a line.
const STATEMENT: usize = 60;

/// Beyond this many transactions the server is close to refusing writes, which it does at two thousand million.
const WRAPAROUND: u64 = 1_500_000_000;

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
        let finding = Finding::warning(
            "slot_blocked",
            format!("slot {} of `{}` is locked by {}", blocked.slot, blocked.path, described(&blocked.by)),
            format!(
                "the server ends it at the end of the slot's lease; `SELECT pg_terminate_backend({pid})` does at once"
            ),
        );
        let (queue, consumer) = (blocked.path.queue.as_str(), blocked.path.consumer.as_str());
        let finding = finding.with("queue", queue).with("consumer", consumer).with("slot", blocked.slot);
        findings.push(about(finding, &blocked.by));
    }
    if let Some(oldest) = check.oldest.as_ref().filter(|oldest| oldest.age > LONG || oldest.behind > BEHIND) {
        let pid = oldest.pid;
        let finding = Finding::warning(
            "transaction_old",
            format!("nothing that was deleted meanwhile can be removed because of {}", described(oldest)),
            format!("commit or roll it back, or end it by `SELECT pg_terminate_backend({pid})`; meanwhile tables grow"),
        );
        findings.push(about(finding, oldest));
    }
    for PreparedTransaction { name, age, behind } in &check.prepared {
        if *age <= LONG && *behind <= BEHIND {
            continue;
        }
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
    if let [first, ..] = &*check.dead_rows {
        let rows = text::count(first.rows);
        let vacuumed = first.vacuumed.map_or_else(
            || "was never vacuumed since statistics are kept".to_owned(),
            |age| format!("was vacuumed {} ago", text::duration(age)),
        );
        let table = &first.table;
        let finding = Finding::warning(
            "dead_rows",
            format!("`{table}` has about {rows} dead rows, more than live ones, and {vacuumed}"),
            format!(
                "see that nothing old is open, then `VACUUM {table}`; if it comes again, autovacuum is off or cannot keep up"
            ),
        );
        findings.push(finding.with("table", &**table).with("rows", first.rows));
    }
    findings.extend(check.risky_settings.iter().filter_map(|setting| of_setting(setting)));
    if check.unfrozen > WRAPAROUND || check.unfrozen > check.freezes_at + check.freezes_at / 2 {
        let (unfrozen, freezes_at) = (text::count(check.unfrozen), text::count(check.freezes_at));
        let what = format!(
            "the oldest rows of the database are {unfrozen} transactions old; autovacuum was to freeze them at {freezes_at}"
        );
        let mend = "find what is old (transactions, prepared ones, replication slots), then `VACUUM (FREEZE)` the database; at \
            two thousand million it takes no more writes";
        let finding = match check.unfrozen > WRAPAROUND {
            true => Finding::error("wraparound_near", what, mend),
            false => Finding::warning("wraparound_near", what, mend),
        };
        findings.push(finding.with("transactions", check.unfrozen));
    }
    if check.connections * 10 >= check.max_connections * 9 {
        let (used, most) = (text::count(check.connections), text::count(check.max_connections));
        let finding = Finding::warning(
            "connections_few",
            format!("{used} of {most} connections are in use: soon nobody else gets one"),
            "smaller pools, a pooler in transaction mode, or a larger `max_connections`",
        );
        findings.push(finding.with("connections", check.connections).with("max_connections", check.max_connections));
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
    if check.behind_epochs > STEPPED {
        let behind = text::duration(check.behind_epochs);
        findings.push(Finding::warning(
            "clock_behind",
            format!("the clock of the server is {behind} behind what the store has recorded: it was set back"),
            "nothing repeats, and epochs go on from the recorded one; what was granted before may take longer to expire: set the clock right",
        ));
    }
    findings
}

/// A setting that is off and puts what was answered in danger.
fn of_setting(setting: &str) -> Option<Finding> {
    let (what, mend) = match setting {
        "fsync" => (
            "`fsync` is off: a power cut loses what was answered, and may leave the database damaged",
            "set `fsync = on` in the server's configuration",
        ),
        "full_page_writes" => (
            "`full_page_writes` is off: a power cut may leave pages half written, and the database damaged",
            "set `full_page_writes = on`, unless the file system writes pages whole",
        ),
        "synchronous_commit" => {
            return Some(
                Finding::warning(
                    "commits_late",
                    "`synchronous_commit` is off: sends and acks of the last moment before a crash are lost although answered",
                    "set it to `on` or `local` for the server, the database and the role; grants are durable anyhow",
                )
                .with("setting", setting),
            );
        }
        _ => return None,
    };
    Some(Finding::error("not_durable", what, mend).with("setting", setting))
}

/// The finding with what programs need of the transaction that it is about.
fn about(finding: Finding, transaction: &OpenTransaction) -> Finding {
    let OpenTransaction { pid, application, state, age, query, behind } = transaction;
    let finding = finding.with("pid", *pid).with("application", &**application).with("state", &**state);
    finding.with("seconds", age.as_secs()).with("transactions", *behind).with("query", &**query)
}

/// `the transaction of process 42 (`psql`), open for 3 min, idle in transaction`.
fn described(OpenTransaction { pid, application, state, age, query, .. }: &OpenTransaction) -> String {
    let application = if application.is_empty() { String::new() } else { format!(" (`{application}`)") };
    let state = if state.is_empty() { String::new() } else { format!(", {state}") };
    let query = match text::excerpt(&query.split_whitespace().collect::<Vec<_>>().join(" "), STATEMENT) {
        none if none.is_empty() => none,
        query => format!(", last statement `{query}`"),
    };
    format!("the transaction of process {pid}{application}, open for {}{state}{query}", text::duration(*age))
}

#[cfg(test)]
mod tests {
    use fencepost::ConsumerPath;
    use fencepost::postgres::{BlockedSlot, DeadRows};

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
            dead_rows: vec![],
            risky_settings: vec![],
            behind_epochs: Duration::ZERO,
            unfrozen: 1_000,
            freezes_at: 200_000_000,
            connections: 10,
            max_connections: 97,
            notifies: true,
            blocked: vec![],
            oldest: None,
            prepared: vec![],
            replication: vec![],
        }
    }

    fn open_for(age: Duration) -> OpenTransaction {
        OpenTransaction {
            pid: 42,
            application: "psql".into(),
            state: "idle in transaction".into(),
            age,
            query: "select 1\n  from x".into(),
            behind: 1,
        }
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
            dead_rows: vec![DeadRows { table: "fencepost.aside".into(), rows: 60_000, vacuumed: None }],
            risky_settings: ["fsync", "full_page_writes", "synchronous_commit"].map(String::from).into(),
            behind_epochs: STEPPED * 2,
            unfrozen: WRAPAROUND + 1,
            freezes_at: 200_000_000,
            connections: 90,
            max_connections: 97,
            notifies: false,
            blocked: vec![BlockedSlot { path, slot: 3, by: open_for(BRIEF * 2) }],
            oldest: Some(open_for(LONG * 2)),
            prepared: vec![PreparedTransaction { name: "it's".into(), age: LONG * 2, behind: 1 }],
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
                "dead_rows",
                "not_durable",
                "not_durable",
                "commits_late",
                "wraparound_near",
                "connections_few",
                "no_notifications",
                "clock_apart",
                "clock_behind",
                "slot_blocked",
                "transaction_old",
                "transaction_prepared",
                "replication_behind"
            ]
        );
        // Exactly those that nothing has to be done about.
        let notes = found.iter().filter(|finding| finding.severity == Severity::Note);
        assert_eq!(notes.map(|finding| finding.code).collect::<Vec<_>>(), ["roles_missing", "no_notifications"]);
        let hint = |code| found.iter().find(|finding| finding.code == code).unwrap().hint.as_ref();
        let roles: &str = hint("roles_missing");
        assert!(roles.contains("CREATE ROLE fencepost_admin; CREATE ROLE fencepost_producer"), "{roles}");
        let prepared: &str = hint("transaction_prepared");
        assert!(prepared.contains("ROLLBACK PREPARED 'it''s'"), "{prepared}");
        let blocked = found.iter().find(|finding| finding.code == "slot_blocked").unwrap();
        assert!(blocked.what.ends_with("idle in transaction, last statement `select 1 from x`"), "{}", blocked.what);
        assert_eq!(blocked.as_json()["facts"]["pid"], 42);
    }

    #[test]
    fn what_goes_on_all_the_time_is_no_trouble() {
        let path = ConsumerPath::new("orders", "billing").unwrap();
        let busy = ServerCheck {
            clock_behind: APART,
            blocked: vec![BlockedSlot { path, slot: 3, by: open_for(BRIEF) }],
            oldest: Some(open_for(LONG)),
            prepared: vec![PreparedTransaction { name: "g".into(), age: LONG, behind: BEHIND }],
            replication: vec![("standby".into(), BEHIND)],
            behind_epochs: STEPPED,
            unfrozen: 300_000_000,
            connections: 87,
            ..fine()
        };
        assert!(judge(&busy).is_empty());
    }
}
