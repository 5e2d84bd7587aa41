//! Commands on leases, slots, queues and consumers that are refused: the exit status, the code, and that nothing changed.

use std::time::Duration;

use fencepost::{
    AcquireLease, BatchSize, ClaimSlot, ConsumerPath, CreateConsumer, HolderName, LeaseName, SlotCount, Ttl, WorkerName,
};

use crate::bad_input::refused;
use crate::place::{Place, on_each_engine};

on_each_engine![
    bad_names_are_refused_by_every_command,
    bad_durations_numbers_and_command_lines_are_usage_errors,
    what_is_absent_is_refused,
    what_is_in_use_is_dropped_by_force_only,
    none_of_them_makes_a_store,
    epochs_rise_by_force_and_the_old_owner_is_refused,
];

const USAGE: (i32, &str) = (2, "invalid_input");
const ABSENT: (i32, &str) = (1, "not_found");

/// A queue `q` with messages, its consumer `c` with two slots, both open, and a lease `l` that `h` holds.
fn held() -> Place {
    let place = Place::with_queue("q");
    // One for every partition, so that each slot has some.
    place.write("messages", "x\n".repeat(16));
    assert_eq!(place.run(&["send", "q", "--file", "messages"]).status, 0);
    place.with_store(async |store| {
        let ttl = Ttl::new(Duration::from_secs(80_000))?;
        let path = ConsumerPath::new("q", "c")?;
        store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(2)?)).await?;
        for _ in 0..2 {
            let claim = ClaimSlot::new(path.clone(), WorkerName::new("w")?).ttl(ttl);
            let grant = store.claim(&claim).await?.expect("a slot is free");
            store.receive(&grant.token, BatchSize::default()).await?;
        }
        store.acquire_lease(&AcquireLease::new(LeaseName::new("l")?, HolderName::new("h")?).ttl(ttl)).await?;
        Ok(())
    });
    place
}

/// Checks the rows, each a command line and what its message says, and that nothing was changed by any of them.
fn all_refused(place: &Place, (status, code): (i32, &str), rows: &[(&[&str], &str)]) {
    let before = place.everything();
    for (args, says) in rows {
        refused(place, args, b"", (status, code, says));
        assert_eq!(place.everything(), before, "{args:?}");
    }
}

fn bad_names_are_refused_by_every_command() {
    let long = "x".repeat(256);
    let place = held();
    for name in ["", " ", "\t", "a\nb", "a\u{85}b", long.as_str()] {
        all_refused(
            &place,
            USAGE,
            &[
                (&["lease", "run", name, "--", "true"], "as a lease name"),
                (&["lease", "run", "l", "--holder", name, "--", "true"], "as a holder name"),
                (&["lease", "show", name], "as a lease name"),
                (&["lease", "release", name, "--reason", "r"], "as a lease name"),
                (&["lease", "release", "l", "--reason", name], "as a reason"),
                (&["slot", "list", name], "as a queue name"),
                (&["slot", "list", "q", name], "as a consumer name"),
                (&["slot", "release", name, "c", "0", "--reason", "r"], "as a queue name"),
                (&["slot", "release", "q", name, "0", "--reason", "r"], "as a consumer name"),
                (&["slot", "release", "q", "c", "0", "--reason", name], "as a reason"),
                (&["queue", "show", name], "as a queue name"),
                (&["queue", "drop", name, "--force"], "as a queue name"),
                (&["consumer", "create", name, "d"], "as a queue name"),
                (&["consumer", "create", "q", name], "as a consumer name"),
                (&["consumer", "list", name], "as a queue name"),
                (&["consumer", "show", "q", name], "as a consumer name"),
                (&["consumer", "drop", "q", name, "--force"], "as a consumer name"),
            ],
        );
    }
}

fn bad_durations_numbers_and_command_lines_are_usage_errors() {
    all_refused(
        &held(),
        USAGE,
        &[
            (&["lease", "run", "new", "--ttl", "0", "--", "true"], "cannot use `0` as a ttl"),
            (&["lease", "run", "new", "--ttl", "0s", "--", "true"], "cannot use `0s` as a ttl"),
            (&["lease", "run", "new", "--ttl", "-1s", "--", "true"], "cannot use `-1s` as a ttl"),
            (&["lease", "run", "new", "--ttl", "1y", "--", "true"], "cannot use `1y` as a ttl"),
            (&["lease", "run", "new", "--ttl", "99ms", "--", "true"], "cannot use `99ms` as a ttl"),
            (&["lease", "run", "new", "--ttl", "30", "--", "true"], "a unit is missing"),
            (&["lease", "run", "new", "--ttl", "", "--", "true"], "it is empty"),
            (&["lease", "run", "new", "--wait", "-1s", "--", "true"], "cannot use `-1s` as a time to wait"),
            (&["lease", "run", "new", "--wait", "1y", "--", "true"], "cannot use `1y` as a time to wait"),
            (&["lease", "run", "new", "--wait", "soon", "--", "true"], "cannot use `soon` as a time to wait"),
            (&["lease", "run", "new"], "required arguments"),
            (&["lease", "run", "new", "true"], "unexpected argument"),
            (&["lease", "run"], "required arguments"),
            (&["lease", "release", "l"], "--reason"),
            (&["slot", "release", "q", "c", "0"], "--reason"),
            (&["slot", "release", "q", "c", "--reason", "r"], "required arguments"),
            (&["slot", "release", "q", "c", "-1", "--reason", "r"], "cannot use `-1` as a slot"),
            (&["slot", "release", "q", "c", "256", "--reason", "r"], "cannot use `256` as a slot"),
            (&["slot", "release", "q", "c", "first", "--reason", "r"], "invalid value"),
            (&["consumer", "create", "q", "d", "--slots", "0"], "cannot use `0` as a number of slots"),
            (&["consumer", "create", "q", "d", "--slots", "-1"], "cannot use `-1` as a number of slots"),
            (&["consumer", "create", "q", "d", "--slots", "10000"], "cannot use `10000` as a number of slots"),
            (&["consumer", "create", "q", "d", "--slots", "17"], "17"),
            (&["consumer", "create", "q", "d", "--start", "yesterday"], "cannot start at `yesterday`"),
            (&["consumer", "create", "q"], "required arguments"),
            (&["consumer", "drop", "q"], "required arguments"),
        ],
    );
}

fn what_is_absent_is_refused() {
    all_refused(
        &held(),
        ABSENT,
        &[
            (&["lease", "show", "other"], "the lease `other`"),
            (&["lease", "release", "other", "--reason", "r"], "the lease `other`"),
            (&["slot", "list", "other"], "the queue `other`"),
            (&["slot", "list", "other", "c"], "the queue `other`"),
            (&["slot", "list", "q", "other"], "the consumer `other`"),
            (&["slot", "release", "other", "c", "0", "--reason", "r"], "the queue `other`"),
            (&["slot", "release", "q", "other", "0", "--reason", "r"], "the consumer `other`"),
            (&["slot", "release", "q", "c", "99", "--reason", "r"], "slot `99`"),
            (&["queue", "show", "other"], "the queue `other`"),
            (&["queue", "drop", "other"], "the queue `other`"),
            (&["queue", "drop", "other", "--force"], "the queue `other`"),
            (&["consumer", "create", "other", "c"], "the queue `other`"),
            (&["consumer", "list", "other"], "the queue `other`"),
            (&["consumer", "show", "other", "c"], "the queue `other`"),
            (&["consumer", "show", "q", "other"], "the consumer `other`"),
            (&["consumer", "drop", "other", "c"], "the queue `other`"),
            (&["consumer", "drop", "q", "other", "--force"], "the consumer `other`"),
        ],
    );
}

fn what_is_in_use_is_dropped_by_force_only() {
    let place = held();
    all_refused(&place, (1, "conflict"), &[(&["queue", "drop", "q"], "cannot drop the queue `q`")]);
    all_refused(&place, (1, "open_batch"), &[(&["consumer", "drop", "q", "c"], "`q/c`")]);
    all_refused(&place, (1, "conflict"), &[(&["consumer", "create", "q", "c", "--slots", "3"], "`q/c`")]);
    assert_eq!(place.run(&["consumer", "drop", "q", "c", "--force"]).status, 0);
    all_refused(&place, (1, "conflict"), &[(&["queue", "drop", "q"], "it holds messages")]);
    assert_eq!(place.run(&["queue", "drop", "q", "--force"]).status, 0);
    let everything = place.everything();
    assert_eq!((&everything["queues"], &everything["consumers"]), (&serde_json::json!([]), &serde_json::json!([])));
}

fn none_of_them_makes_a_store() {
    let place = Place::new();
    let rows: [&[&str]; 11] = [
        &["lease", "run", "l", "--", "true"],
        &["lease", "list"],
        &["lease", "show", "l"],
        &["lease", "release", "l", "--reason", "r"],
        &["slot", "list"],
        &["slot", "release", "q", "c", "0", "--reason", "r"],
        &["queue", "show", "q"],
        &["queue", "drop", "q"],
        &["consumer", "create", "q", "c"],
        &["consumer", "list"],
        &["consumer", "drop", "q", "c"],
    ];
    for args in rows {
        refused(&place, args, b"", (1, "no_store", place.says_no_store()));
        assert!(!place.has_store(), "{args:?}");
    }
}

fn epochs_rise_by_force_and_the_old_owner_is_refused() {
    let place = held();
    let before = place.everything();
    let slot = place.run(&["slot", "release", "q", "c", "0", "--reason", "hangs", "--json"]).json();
    let lease = place.run(&["lease", "release", "l", "--reason", "gone", "--json"]).json();
    let again = place.run(&["lease", "release", "l", "--reason", "again", "--json"]).json();
    let epoch = |value: &serde_json::Value| value["epoch"].as_i64().expect("an epoch is a number");
    assert!(epoch(&slot) > epoch(&before["leases"][0]));
    assert!(epoch(&lease) > epoch(&slot) && epoch(&again) > epoch(&lease));
    assert_eq!((&slot["from"], &lease["from"], &again["from"]), (&"w".into(), &"h".into(), &serde_json::Value::Null));
    let now = place.everything();
    assert_eq!((&now["leases"][0]["state"], &now["slots"][1]), (&"free".into(), &before["slots"][1]));
    let history = place.run(&["lease", "show", "l", "--json"]).json()["history"].clone();
    let reasons: Vec<_> = history.as_array().unwrap().iter().map(|forced| forced["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["gone", "again"]);
    assert_eq!(epoch(&history[1]), epoch(&again));
}
