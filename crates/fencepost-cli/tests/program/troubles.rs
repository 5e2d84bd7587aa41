//! What the doctor finds on a server, and the status shows: each trouble is made on a real one, named with what is to be known of it, and gone
//! once it is mended as it says.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_postgres::Client;

use crate::place::{Answer, Place, on_postgres, on_postgres_alone, runtime};
use crate::servers::{codes, connected, database, execute};

fn doctor(place: &Place) -> Answer {
    place.run(&["doctor", "--json"])
}

/// The finding of that code.
fn finding(answer: &Answer, code: &str) -> Value {
    let findings = answer.json()["findings"].as_array().expect("findings").clone();
    findings.into_iter().find(|finding| finding["code"] == code).unwrap_or_else(|| panic!("no `{code}`: {answer}"))
}

/// The first statement or command that the hint says.
fn remedy(finding: &Value) -> String {
    finding["hint"].as_str().unwrap().split('`').nth(1).expect("it says how to mend it").to_owned()
}

/// A store with a queue and a consumer whose slot somebody owns, and sessions that go on for as long as the test.
struct Owned {
    place: Place,
    runtime: tokio::runtime::Runtime,
    epoch: i64,
}

impl Owned {
    fn new() -> Self {
        let place = Place::with_queue("orders");
        assert_eq!(place.run(&["consumer", "create", "orders", "billing", "--slots", "2"]).status, 0);
        let runtime = runtime();
        let epoch = runtime.block_on(async {
            let client = connected(&place).await;
            client.batch_execute("select fencepost.send('orders', 'x')").await.unwrap();
            let claim = "select epoch from fencepost.claim_slot('orders', 'billing', 0, 'w', '10 min')";
            client.query_one(claim, &[]).await.unwrap().get(0)
        });
        Self { place, runtime, epoch }
    }

    /// A session in which the statements were run.
    fn session(&self, statements: &str) -> Client {
        self.runtime.block_on(async {
            let client = connected(&self.place).await;
            client.batch_execute(statements).await.unwrap();
            client
        })
    }

    fn pid(&self, client: &Client) -> i32 {
        self.runtime.block_on(async { client.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0) })
    }
}

/// A24: an owner that hangs inside its ack: status, `slot list` and the metrics say that its slot is blocked, and by which process, whatever the slot's
/// own state is; the doctor says what that runs and for how long; ended as it says, the slot is free of it.
#[test]
fn a24_a_blocked_slot_is_named_with_the_process_everywhere() {
    on_postgres(|| {
        let owned = Owned::new();
        let place = &owned.place;
        let hangs = owned.session("select");
        let pid = owned.pid(&hangs);
        let guard = format!("begin; select fencepost.slot_guard('orders', 'billing', 0, {})", owned.epoch);
        owned.runtime.block_on(hangs.batch_execute(&guard)).unwrap();
        for command in [&["slot", "list", "orders", "billing", "--json"] as &[_], &["status", "--json"]] {
            let slot = place.run(command).json()["slots"][0].clone();
            assert_eq!((&slot["state"], &slot["blocked_by"]), (&"blocked".into(), &pid.into()), "{command:?}: {slot}");
            assert_eq!(slot["holder"], "w");
        }
        let screen = place.run(&["status"]);
        assert!(screen.stdout.contains(&format!("blocked by {pid}")), "{screen}");
        assert!(screen.stdout.contains("1 slot locked by a transaction: `fencepost doctor`"), "{screen}");
        assert!(place.run(&["slot", "list"]).stdout.contains(&format!("blocked by {pid}")));
        let metrics = place.run(&["status", "--prometheus"]);
        let blocked = r#"fencepost_consumer_blocked_slots{queue="orders",consumer="billing"} 1"#;
        assert!(metrics.stdout.lines().any(|line| line == blocked), "{metrics}");

        // Shortly after it began it is no trouble.
        let since = Instant::now();
        let found = loop {
            let answer = doctor(place);
            if codes(&answer).contains(&"slot_blocked".to_owned()) {
                break finding(&answer, "slot_blocked");
            }
            assert!(since.elapsed() < Duration::from_secs(30), "{answer}");
        };
        let facts = &found["facts"];
        assert_eq!((&facts["pid"], &facts["slot"], &facts["consumer"]), (&pid.into(), &0.into(), &"billing".into()));
        assert!(
            facts["query"].as_str().unwrap().contains("slot_guard") && facts["seconds"].as_u64() >= Some(5),
            "{found}"
        );
        assert_eq!(facts["state"], "idle in transaction");
        execute(place, &remedy(&found));
        let since = Instant::now();
        while place.run(&["slot", "list", "--json"]).json()["slots"][0]["state"] != "held" {
            assert!(since.elapsed() < Duration::from_secs(10), "it is ended");
        }
        drop(hangs);
    });
}

/// A consumer that is a day behind, with nobody who works: the doctor, the status and the metrics say which one, since when, how much, and that its
/// queue keeps it.
#[test]
fn b31_the_consumer_that_pins_its_queue_is_named() {
    on_postgres(|| {
        let owned = Owned::new();
        let place = &owned.place;
        assert_eq!(place.run(&["consumer", "create", "orders", "quick"]).status, 0);
        assert_eq!(place.run(&["work", "orders", "quick", "--until-empty", "--exec", "true"]).status, 0);
        execute(
            place,
            "update fencepost.q1_0 set created_at = created_at - interval '1 day';
             select fencepost.force_release_slot('orders', 'billing', 0, 'its worker is gone')",
        );
        let found = finding(&doctor(place), "nobody_works");
        let facts = &found["facts"];
        assert_eq!((&facts["consumer"], &facts["messages"]), (&"billing".into(), &1.into()), "{found}");
        assert!(found["what"].as_str().unwrap().contains("24 h behind"), "{found}");
        assert!(found["what"].as_str().unwrap().contains("its queue keeps 1 message"), "{found}");
        let status = place.run(&["status", "--json"]).json();
        assert_eq!(status["queues"][0]["pinned_by"], "billing");
        assert_eq!(status["queues"][0]["pinned_since"], facts["since"]);
        assert_eq!((&status["consumers"][0]["lag"], &status["consumers"][1]["lag"]), (&1.into(), &0.into()));
        let metrics = place.run(&["status", "--prometheus"]).stdout;
        let lag = metrics
            .lines()
            .find(|line| line.starts_with("fencepost_consumer_lag_seconds{queue=\"orders\",consumer=\"billing\"}"));
        let seconds: f64 = lag.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
        assert!((86_400.0..87_000.0).contains(&seconds), "{seconds}");
        assert_eq!(place.run(&["work", "orders", "billing", "--until-empty", "--exec", "true"]).status, 0);
        assert!(!codes(&doctor(place)).contains(&"nobody_works".to_owned()));
    });
}

/// Tables that are excepted from autovacuum, and ones that nobody vacuumed.
#[test]
fn what_is_not_vacuumed_is_found() {
    on_postgres_alone(&[("autovacuum_naptime", "1d")], |server| {
        let place = Place::with_queue("q");
        execute(&place, "alter table fencepost.queue set (autovacuum_enabled = off)");
        let found = doctor(&place);
        assert_eq!((found.status, codes(&found)), (1, vec!["autovacuum_off".into()]), "{found}");
        execute(&place, &remedy(&finding(&found, "autovacuum_off")));
        assert_eq!(doctor(&place).status, 0);

        execute(
            &place,
            "insert into fencepost.once select 1, n::text, n, '', now() from generate_series(1, 60000) n; delete from fencepost.once",
        );
        until_found(&place, "dead_rows");
        let found = finding(&doctor(&place), "dead_rows");
        assert_eq!((&found["facts"]["table"], &found["facts"]["rows"]), (&"fencepost.once".into(), &60_000.into()));
        execute(&place, &remedy(&found));
        until_sound(&place);

        runtime().block_on(server.set("autovacuum", "off")).unwrap();
        until_found(&place, "autovacuum_off");
    });
}

/// What the server counts, it tells a moment later.
fn until_found(place: &Place, code: &str) {
    let since = Instant::now();
    while !codes(&doctor(place)).contains(&code.to_owned()) {
        assert!(since.elapsed() < Duration::from_secs(20), "{}", doctor(place));
    }
}

fn until_sound(place: &Place) {
    let since = Instant::now();
    while doctor(place).status != 0 {
        assert!(since.elapsed() < Duration::from_secs(20), "{}", doctor(place));
    }
}

/// Settings by which a crash loses what was answered.
#[test]
fn settings_that_are_not_durable_are_found() {
    on_postgres_alone(&[("fsync", "off"), ("full_page_writes", "off")], |server| {
        let place = Place::with_queue("q");
        execute(&place, &format!("alter database {} set synchronous_commit = off", database(&place).name()));
        let answer = doctor(&place);
        assert_eq!(
            (answer.status, codes(&answer)),
            (1, ["not_durable", "not_durable", "commits_late"].map(String::from).into())
        );
        assert_eq!(finding(&answer, "not_durable")["severity"], "error");
        for (setting, value) in [("fsync", "on"), ("full_page_writes", "on")] {
            runtime().block_on(server.set(setting, value)).unwrap();
        }
        execute(&place, &format!("alter database {} reset synchronous_commit", database(&place).name()));
        until_sound(&place);
    });
}

/// Begins so many transactions, as the server counts them: each savepoint that writes takes a number.
fn spend(place: &Place, numbers: u32) {
    execute(place, "create unlogged table if not exists public.spent (n int)");
    let block = format!(
        "do $$ begin for n in 1..{numbers} loop
             begin insert into public.spent values (1); exception when division_by_zero then null; end;
         end loop; end $$"
    );
    execute(place, &block);
    execute(place, "drop table public.spent");
}

/// Who keeps dead rows: an old snapshot, a transaction that was prepared and forgotten, a replication slot that nobody reads. Young ones are no
/// trouble; a million transactions later each is named, with what ends it.
#[test]
fn what_keeps_dead_rows_is_found_and_ended_as_it_says() {
    on_postgres_alone(&[("wal_level", "logical"), ("autovacuum", "on")], |_| {
        let place = Place::with_queue("q");
        let owned = Owned { place, runtime: runtime(), epoch: 0 };
        let place = &owned.place;
        let old = owned.session("begin isolation level repeatable read; select count(*) from fencepost.queue");
        let pid = owned.pid(&old);
        // ORDER: to make a slot, the server waits for every transaction that writes.
        execute(place, "select pg_create_logical_replication_slot('unread', 'pgoutput')");
        execute(place, "begin; create table half (); prepare transaction 'forgot''n'");
        assert_eq!(codes(&doctor(place)), Vec::<String>::new(), "they are young");
        spend(place, 1_000_100);
        let answer = doctor(place);
        let told = ["transaction_old", "transaction_prepared", "replication_behind"];
        assert_eq!((answer.status, codes(&answer)), (1, told.map(String::from).into()), "{answer}");
        let found = finding(&answer, "transaction_old");
        assert_eq!(found["facts"]["pid"], pid);
        assert!(found["facts"]["transactions"].as_u64() > Some(1_000_000), "{found}");
        for code in told {
            let remedy = remedy(&finding(&answer, code));
            execute(place, &remedy);
        }
        until_sound(place);
        drop(old);
    });
}

/// Most connections are taken, the last one too: the doctor says so, or that it gets none itself.
#[test]
fn connections_that_run_out_are_found() {
    on_postgres_alone(&[("max_connections", "20"), ("max_wal_senders", "0")], |_| {
        let owned = {
            let place = Place::with_queue("q");
            Owned { place, runtime: runtime(), epoch: 0 }
        };
        assert_eq!(doctor(&owned.place).status, 0);
        let taken: Vec<Client> = (0..15).map(|_| owned.session("select 1")).collect();
        let found = finding(&doctor(&owned.place), "connections_few");
        assert_eq!(found["facts"]["max_connections"], 17, "without those for superusers");
        drop(taken);
        until_sound(&owned.place);
        let all: Vec<Client> = (0..20).map_while(|_| another(&owned)).collect();
        assert_eq!(codes(&doctor(&owned.place)), ["too_many_connections"]);
        drop(all);
    });
}

fn another(owned: &Owned) -> Option<Client> {
    owned.runtime.block_on(database(&owned.place).connect()).ok()
}

/// A server whose clock was set back is behind the epochs that it granted before.
#[test]
fn a_server_whose_clock_was_set_back_is_found() {
    on_postgres_alone(&[], |_| {
        let place = Place::with_queue("q");
        // As a grant does an hour later.
        execute(
            &place,
            "select setval('fencepost.epoch', (extract(epoch from clock_timestamp()) * 1000000)::bigint + 3660000000)",
        );
        let found = finding(&doctor(&place), "clock_behind");
        assert!(found["what"].as_str().unwrap().contains("60 min behind"), "{found}");
        // What it granted before is live for the longer, and nothing repeats.
        let granted = place.run(&["lease", "run", "l", "--", "true"]);
        assert_eq!(granted.status, 0, "{granted}");
    });
}

/// Row numbers that were not frozen in time, on a server that freezes early and was told not to.
#[test]
fn numbers_that_run_out_are_found() {
    on_postgres_alone(&[("autovacuum", "off"), ("autovacuum_freeze_max_age", "100000")], |_| {
        let place = Place::with_queue("q");
        assert!(!codes(&doctor(&place)).contains(&"wraparound_near".to_owned()));
        // The server freezes by itself what is so old, whatever it was told, but not what a snapshot may need.
        let runtime = runtime();
        let reader = runtime.block_on(connected(&place));
        runtime.block_on(reader.batch_execute("begin isolation level repeatable read; select 1")).unwrap();
        spend(&place, 160_000);
        let found = finding(&doctor(&place), "wraparound_near");
        runtime.block_on(reader.batch_execute("commit")).unwrap();
        assert_eq!(found["severity"], "warning");
        assert!(found["facts"]["transactions"].as_u64() > Some(150_000), "{found}");
        execute(&place, &remedy(&found));
        assert!(!codes(&doctor(&place)).contains(&"wraparound_near".to_owned()));
    });
}

/// An older schema is named with the command that upgrades it.
#[test]
fn an_older_schema_is_found_and_upgraded() {
    on_postgres(|| {
        let place = Place::with_queue("q");
        execute(&place, "update fencepost.installed set checksum = '', name = '0.0.1' where version = 0");
        let found = doctor(&place);
        assert_eq!((found.status, codes(&found)), (1, vec!["schema_older".into()]), "{found}");
        let command = remedy(&finding(&found, "schema_older"));
        assert_eq!(command, "fencepost init");
        assert_eq!(place.run(&["init"]).status, 0);
        assert!(!codes(&doctor(&place)).contains(&"schema_older".to_owned()));
    });
}

/// A replication slot that nobody reads keeps nothing yet, and a standby is no place to write: what the doctor says there.
#[test]
fn a_standby_is_told_from_its_primary() {
    on_postgres_alone(&[], |server| {
        let place = Place::with_queue("q");
        let standby = runtime().block_on(server.standby("follower"));
        let Some(standby) = fencepost_test_support::skip_or_fail(standby) else { return };
        let url = place.url().replace(&server.address().to_string(), &standby.address().to_string());
        let answer = place.run(&["doctor", "--json", "--store", &url]);
        assert_eq!((answer.status, codes(&answer)), (1, vec!["read_only".to_owned()]), "{answer}");
        assert_eq!(place.run(&["status", "--json"]).json()["storage"]["role"], "primary");
    });
}
