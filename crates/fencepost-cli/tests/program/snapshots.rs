//! Everything that people and scripts see, command by command: exit status, standard output and standard error.

use std::fmt::Write as _;
use std::time::Duration;

use fencepost::{
    AcquireLease, BatchSize, ClaimSlot, ConsumerPath, CreateConsumer, Heartbeat, HolderName, LeaseName, Nonce, Result,
    SlotCount, Store, Ttl, WorkerName,
};

use crate::place::{Place, on_each_engine, on_postgres_alone};

on_each_engine![
    queue,
    queue_show_and_drop,
    consumer,
    slot,
    lease,
    lists_of_an_empty_store,
    queue_list_of_an_empty_store,
    send,
    status_says_what_to_do_next,
    status,
];

/// Runs the commands, one line each, and compares what they answer with the snapshot of that name. It is the same on every engine, but
/// for the engine's name and the place: those of a file stand for all.
pub fn transcript(name: &str, place: &Place, commands: &[&[&str]]) {
    let of_a_file = [
        (r#"postgres://postgres@127\.0\.0\.1[^ `"]+"#, "fencepost.db"),
        (r"postgres \d+(\.\d+)*( \([^)]*\))?", "sqlite [version]"),
        (r#""engine":"postgres""#, r#""engine":"sqlite""#),
    ];
    transcript_as(name, &of_a_file, place, commands);
}

/// The same with filters of its own.
fn transcript_as(name: &str, filters: &[(&str, &str)], place: &Place, commands: &[&[&str]]) {
    let mut text = String::new();
    for args in commands {
        let shown: Vec<_> =
            args.iter().map(|arg| if arg.contains(' ') { format!("'{arg}'") } else { (*arg).into() }).collect();
        let line = format!("$ fencepost {}", shown.join(" "));
        let _ = writeln!(text, "{}\n{}", line.trim_end(), place.run(args));
    }
    let usual = [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "[time]"),
        (r"\b\d{16}\b", "[epoch]"),
        (r"\b\d+ (ms|s) ago +", "[age] ago  "),
        (r"\b\d+ (ms|s) ago", "[age] ago"),
        (r"(?m)in \d+\.\d\d s$", "in [seconds] s"),
        // The column of an age is as wide as the age.
        (r"\b(oldest|died|since) {2,}", "$1  "),
        (r"\b\d{1,2} s {2,}", "[age]  "),
        (r"sqlite \d+\.\d+\.\d+", "sqlite [version]"),
        (r"(?m)^storage .*$", "storage [storage]"),
        (r#""storage":\{[^}]*\}"#, r#""storage":"[storage]""#),
        (r#""engine_version":"[^"]*""#, r#""engine_version":"[version]""#),
        // Each engine counts its own changes.
        (r"schema version \d+", "schema version [schema]"),
        (r#""schema_version":\d+"#, r#""schema_version":[schema]"#),
        (r"in \d+\.\d\d s \([\d,]+/s\)", "in [seconds] s ([rate]/s)"),
        (r#""seconds":[\d.]+"#, r#""seconds":"[seconds]""#),
        (r#""messages_per_second":[\d.]+"#, r#""messages_per_second":"[rate]""#),
    ];
    let filters = [filters, &usual].concat();
    insta::with_settings!({ filters => filters, omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn help() {
    let commands: [&[&str]; 45] = [
        &["--help"],
        &["demo", "--help"],
        &["init", "--help"],
        &["status", "--help"],
        &["queue", "--help"],
        &["queue", "create", "--help"],
        &["queue", "list", "--help"],
        &["queue", "show", "--help"],
        &["queue", "pause", "--help"],
        &["queue", "resume", "--help"],
        &["queue", "retain", "--help"],
        &["queue", "drop", "--help"],
        &["consumer", "--help"],
        &["consumer", "create", "--help"],
        &["consumer", "list", "--help"],
        &["consumer", "show", "--help"],
        &["consumer", "drop", "--help"],
        &["send", "--help"],
        &["tail", "--help"],
        &["work", "--help"],
        &["dead", "--help"],
        &["dead", "list", "--help"],
        &["dead", "show", "--help"],
        &["dead", "replay", "--help"],
        &["dead", "purge", "--help"],
        &["doctor", "--help"],
        &["completions", "--help"],
        &["man", "--help"],
        &["slot", "--help"],
        &["slot", "list", "--help"],
        &["slot", "release", "--help"],
        &["lease", "--help"],
        &["lease", "list", "--help"],
        &["lease", "show", "--help"],
        &["lease", "release", "--help"],
        &["schedule", "--help"],
        &["schedule", "put", "--help"],
        &["schedule", "list", "--help"],
        &["schedule", "remove", "--help"],
        &["schedule", "pause", "--help"],
        &["schedule", "resume", "--help"],
        &["schedule", "run", "--help"],
        &["schedule", "preview", "--help"],
        &["schedule", "serve", "--help"],
        &["--version"],
    ];
    transcript("help", &Place::new(), &commands);
}

#[test]
fn help_of_lease_run() {
    transcript("help_of_lease_run", &Place::new(), &[&["lease", "run", "--help"]]);
}

#[test]
fn usage() {
    let commands: [&[&str]; 6] =
        [&[], &["queue"], &["--json", "queue"], &["statsu"], &["--json", "send", "q"], &["--json", "status", "--jsn"]];
    transcript("usage", &Place::new(), &commands);
}

#[test]
fn init() {
    let commands: [&[&str]; 6] = [
        &["status"],
        &["--json", "status"],
        &["init"],
        &["init"],
        &["--json", "init"],
        &["--json", "init", "--store", "sqlite:other.db"],
    ];
    transcript("init", &Place::new(), &commands);
}

/// What differs on PostgreSQL: how the place and the server are named, and what is missing where nothing is installed.
#[test]
fn init_on_postgres() {
    on_postgres_alone(&[], |_| {
        let filters = [
            (r"127\.0\.0\.1:\d+/test_\w+", "[server]/[database]"),
            (r"postgres \d+(\.\d+)*( \([^)]*\))?", "postgres [version]"),
        ];
        let commands: [&[&str]; 9] = [
            &["status"],
            &["--json", "status"],
            &["doctor"],
            &["init"],
            &["init"],
            &["--json", "init"],
            &["status"],
            &["--json", "status"],
            &["doctor"],
        ];
        transcript_as("init_on_postgres", &filters, &Place::new(), &commands);
    });
}

fn queue() {
    let commands: [&[&str]; 9] = [
        &["queue", "create", "orders"],
        &["queue", "create", "orders"],
        &["queue", "create", "orders", "--partitions", "4"],
        &["--json", "queue", "create", "orders", "--partitions", "4"],
        &["queue", "create", "two words", "--partitions", "1"],
        &["--json", "queue", "create", "invoices", "--partitions", "256"],
        &["queue", "create", " "],
        &["queue", "list"],
        &["--json", "queue", "list"],
    ];
    transcript("queue", &Place::new(), &commands);
}

fn queue_show_and_drop() {
    let place = populated();
    assert_eq!(place.run(&["queue", "create", "idle"]).status, 0);
    let commands: [&[&str]; 10] = [
        &["queue", "show", "orders"],
        &["--json", "queue", "show", "orders"],
        &["queue", "show", "idle"],
        &["queue", "drop", "orders"],
        &["--json", "queue", "drop", "orders"],
        &["queue", "drop", "orders", "--force"],
        &["--json", "queue", "drop", "idle"],
        &["queue", "drop", "idle"],
        &["queue", "show", "idle"],
        &["queue", "list"],
    ];
    transcript("queue_show_and_drop", &place, &commands);
}

fn consumer() {
    let place = populated();
    let commands: [&[&str]; 19] = [
        &["consumer", "create", "orders", "audit", "--slots", "2"],
        &["consumer", "create", "orders", "audit", "--slots", "2"],
        &["consumer", "create", "orders", "audit"],
        &["consumer", "create", "orders", "many", "--slots", "17"],
        &["--json", "consumer", "create", "orders", "late", "--start", "latest"],
        &["consumer", "list"],
        &["consumer", "list", "orders"],
        &["--json", "consumer", "list", "orders"],
        &["slot", "release", "orders", "billing", "1", "--reason", "it hangs"],
        &["consumer", "show", "orders", "billing"],
        &["--json", "consumer", "show", "orders", "billing"],
        &["consumer", "show", "orders", "late"],
        &["consumer", "drop", "orders", "billing"],
        &["consumer", "drop", "orders", "billing", "--force"],
        &["--json", "consumer", "drop", "orders", "late"],
        &["consumer", "drop", "orders", "late"],
        &["consumer", "show", "orders", "late"],
        &["consumer", "list", "other"],
        &["consumer", "create", "other", "audit"],
    ];
    transcript("consumer", &place, &commands);
}

fn slot() {
    let place = populated();
    let commands: [&[&str]; 10] = [
        &["slot", "list"],
        &["slot", "list", "orders", "search"],
        &["--json", "slot", "list", "orders", "search"],
        &["slot", "release", "orders", "billing", "0", "--reason", "worker-1 hangs"],
        &["--json", "slot", "release", "orders", "billing", "0", "--reason", "once more"],
        &["slot", "list", "orders", "billing"],
        &["slot", "release", "orders", "billing", "3", "--reason", "x"],
        &["slot", "list", "other"],
        &["slot", "list", "orders", "other"],
        &["slot", "release", "orders", "other", "0", "--reason", "x"],
    ];
    transcript("slot", &place, &commands);
}

fn lease() {
    let place = populated();
    let commands: [&[&str]; 13] = [
        &["lease", "list"],
        &["--json", "lease", "list"],
        &["lease", "show", "nightly report"],
        &["--json", "lease", "show", "nightly report"],
        &["lease", "show", "migration"],
        &["lease", "run", "nightly report", "--", "true"],
        &["lease", "release", "nightly report", "--reason", "host-1 is gone"],
        &["--json", "lease", "release", "nightly report", "--reason", "to be sure"],
        &["lease", "show", "nightly report"],
        &["--json", "lease", "show", "nightly report"],
        &["--json", "lease", "run", "nightly report", "--", "true"],
        &["lease", "release", "other", "--reason", "x"],
        &["lease", "show", "other"],
    ];
    transcript("lease", &place, &commands);
}

fn lists_of_an_empty_store() {
    let place = Place::new();
    assert_eq!(place.run(&["init"]).status, 0);
    let commands: [&[&str]; 6] = [
        &["consumer", "list"],
        &["--json", "consumer", "list"],
        &["slot", "list"],
        &["--json", "slot", "list"],
        &["lease", "list"],
        &["--json", "lease", "list"],
    ];
    transcript("lists_of_an_empty_store", &place, &commands);
}

fn queue_list_of_an_empty_store() {
    let place = Place::new();
    assert_eq!(place.run(&["init"]).status, 0);
    transcript("queue_list_empty", &place, &[&["queue", "list"], &["--json", "queue", "list"]]);
}

fn send() {
    let place = Place::with_queue("orders");
    place.write("flights.csv", "flight,tailnum\n1545,N14228\n\n1714,NA\n1141,N619AA\n");
    place.write("ragged.csv", "flight,tailnum\n1545,N14228\n1714\n");
    let commands: [&[&str]; 8] = [
        &["send", "orders", "paid", "--key", "customer-7"],
        &["--json", "send", "orders", "-5"],
        &["send", "orders", "--file", "flights.csv", "--key-field", "tailnum"],
        &["--json", "send", "orders", "--file", "flights.csv"],
        &["send", "orders", "--file", "ragged.csv"],
        &["--json", "send", "orders", "--file", "ragged.csv"],
        &["send", "orders", "--file", "flights.csv", "--key-field", "tail"],
        &["send", "other", "x"],
    ];
    transcript("send", &place, &commands);
}

fn status_says_what_to_do_next() {
    let place = Place::new();
    assert_eq!(place.run(&["init"]).status, 0);
    transcript("status_of_an_empty_store", &place, &[&["status"], &["--json", "status"]]);
    assert_eq!(place.run(&["queue", "create", "it's new"]).status, 0);
    transcript("status_of_an_empty_queue", &place, &[&["status"]]);
}

fn status() {
    transcript("status", &populated(), &[&["status"], &["--json", "status"]]);
}

/// A store with 1,200 messages in a queue, and what [`populate`] makes.
fn populated() -> Place {
    let place = Place::with_queue("orders");
    let rows: String = (0..1_200).map(|row| format!("customer-{},{row}\n", row % 40)).collect();
    place.write("orders.csv", format!("customer,total\n{rows}"));
    assert_eq!(place.run(&["send", "orders", "--file", "orders.csv", "--key-field", "customer"]).status, 0);
    place.with_store(async |store| populate(store).await);
    place
}

/// A consumer with an open, a held and a free slot, one with an orphan, and two leases, one of them given back.
async fn populate(store: &Store) -> Result<()> {
    let ttl = Ttl::new(Duration::from_secs(80_000))?;
    let claim =
        |path: &ConsumerPath, worker| Result::Ok(ClaimSlot::new(path.clone(), WorkerName::new(worker)?).ttl(ttl));

    let billing = ConsumerPath::new("orders", "billing")?;
    store.create_consumer(&CreateConsumer::ordered(billing.clone(), SlotCount::new(3)?)).await?;
    let first = store.claim(&claim(&billing, "worker-1")?).await?.expect("a slot is free");
    let second = store.claim(&claim(&billing, "worker-2")?).await?.expect("a slot is free");
    for grant in [&first, &second] {
        if let Some(batch) = store.receive(&grant.token, BatchSize::new(100)?).await? {
            store.ack(&grant.token, batch.id).await?;
        }
    }
    store.receive(&first.token, BatchSize::new(50)?).await?.expect("messages wait");
    let (member, worker) = (Nonce::random()?, WorkerName::new("worker-1")?);
    let held = vec![(first.token.slot, first.token.epoch)];
    store.heartbeat(&Heartbeat { path: billing, member, worker, ttl, held }).await?;

    let search = ConsumerPath::new("orders", "search")?;
    store.create_consumer(&CreateConsumer::ordered(search.clone(), SlotCount::new(1)?)).await?;
    let given_up = store.claim(&claim(&search, "worker-3")?).await?.expect("the slot is free");
    store.receive(&given_up.token, BatchSize::default()).await?.expect("messages wait");
    store.abandon_slot(&given_up.token).await?;

    for (name, release) in [("nightly report", false), ("migration", true)] {
        let request = AcquireLease::new(LeaseName::new(name)?, HolderName::new("host-1")?).ttl(ttl);
        match store.acquire_lease(&request).await? {
            fencepost::Acquired::Granted { token, .. } if release => drop(store.release_lease(&token).await?),
            granted => assert!(matches!(granted, fencepost::Acquired::Granted { .. })),
        }
    }
    Ok(())
}
