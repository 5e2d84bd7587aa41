//! What people and scripts see of pausing, keeping, failing and consuming messages: exit status, standard output, standard error.

use fencepost::{ConsumerPath, QueueName, Reason, SlotIndex};

use crate::place::{Place, on_each_engine, on_postgres_alone};
use crate::snapshots::transcript;

on_each_engine![
    pausing_and_keeping,
    consumers_and_their_failures,
    sending_once_and_later,
    tailing,
    working_and_dead_letters,
];

#[test]
fn doctor_finds_what_is_wrong_and_says_how_to_mend_it_on_sqlite() {
    doctor_finds_what_is_wrong_and_says_how_to_mend_it();
}

#[test]
fn doctor_finds_what_is_wrong_and_says_how_to_mend_it_on_postgres() {
    on_postgres_alone(&[], |_| doctor_finds_what_is_wrong_and_says_how_to_mend_it());
}

/// A command by which `bad` fails, and everything else is done.
const JUDGE: &str = r#"read -r what; case "$what" in bad) echo 'no such account' >&2; exit 3;; esac"#;

fn pausing_and_keeping() {
    let place = Place::new();
    let commands: [&[&str]; 19] = [
        &["queue", "create", "orders", "--retain-for", "7d"],
        &["queue", "create", "orders", "--retain-for", "7d"],
        &["queue", "create", "orders"],
        &["--json", "queue", "create", "orders", "--retain-for", "1d"],
        &["--json", "queue", "create", "logs", "--retain-unread", "90s", "--retain-unread-bytes", "0"],
        &["queue", "retain", "orders", "--retain-unread", "30d"],
        &["--json", "queue", "retain", "orders", "--retain-unread", "30d"],
        &["queue", "retain", "orders"],
        &["queue", "retain", "other", "--retain-for", "1h"],
        &["queue", "pause", "orders"],
        &["queue", "pause", "orders"],
        &["send", "orders", "later", "--delay", "1h"],
        &["queue", "show", "orders"],
        &["queue", "list"],
        &["--json", "queue", "list"],
        &["--json", "queue", "resume", "orders"],
        &["queue", "resume", "orders"],
        &["queue", "pause", "other"],
        &["--json", "queue", "resume", "other"],
    ];
    transcript("pausing_and_keeping", &place, &commands);
}

fn consumers_and_their_failures() {
    let place = Place::with_queue("orders");
    let commands: [&[&str]; 8] = [
        &[
            "consumer",
            "create",
            "orders",
            "ledger",
            "--on-failure",
            "pause",
            "--max-attempts",
            "3",
            "--backoff",
            "250ms",
        ],
        &["consumer", "create", "orders", "ledger"],
        &["--json", "consumer", "create", "orders", "late", "--start", "id:7", "--max-crashes", "2"],
        &["consumer", "create", "orders", "since", "--start", "2026-01-31T08:00:00Z"],
        &["consumer", "create", "orders", "there", "--start", "p0"],
        &["consumer", "show", "orders", "ledger"],
        &["consumer", "list"],
        &["--json", "consumer", "list"],
    ];
    transcript("consumers_and_their_failures", &place, &commands);
}

fn sending_once_and_later() {
    let place = Place::with_queue("orders");
    let commands: [&[&str]; 8] = [
        &["send", "orders", "paid", "--idempotency-key", "payment-1"],
        &["send", "orders", "paid", "--idempotency-key", "payment-1"],
        &["--json", "send", "orders", "paid", "--idempotency-key", "payment-1", "--once-ttl", "1h"],
        &["send", "orders", "other", "--idempotency-key", "payment-1"],
        &["--json", "send", "orders", "remind", "--delay", "1h", "--header", "source=shop", "--header", "empty="],
        &["send", "orders", "--file", "lines", "--expires-in", "1h", "--header", "from=file"],
        &["tail", "orders"],
        &["--json", "tail", "orders"],
    ];
    place.write("lines", "one\n");
    transcript("sending_once_and_later", &place, &commands);
}

fn tailing() {
    let place = Place::with_queue("orders");
    place.write("binary", b"\xff\x00");
    assert_eq!(place.run(&["send", "orders", "paid", "--key", "customer-7", "--kind", "payment"]).status, 0);
    assert_eq!(place.run_with_input(&["send", "orders", "-"], b"two\nlines\x1b[2J").status, 0);
    assert_eq!(place.run_with_input(&["send", "orders", "-"], b"\xff\x00").status, 0);
    let commands: [&[&str]; 9] = [
        &["tail", "orders"],
        &["--json", "tail", "orders"],
        &["tail", "orders", "--from", "id:2"],
        &["tail", "orders", "--from", "p1"],
        &["tail", "orders", "--from", "latest"],
        &["tail", "orders", "--from", "2999-01-01T00:00:00Z"],
        &["tail", "orders", "--from", "yesterday"],
        &["tail", "other"],
        &["--json", "tail", "other"],
    ];
    transcript("tailing", &place, &commands);
}

/// A consumer that gave up two messages, of three.
fn with_dead_letters() -> Place {
    let place = Place::with_queue("orders");
    for payload in ["good", "bad", "bad"] {
        assert_eq!(place.run(&["send", "orders", payload, "--key", "customer-7", "--header", "source=shop"]).status, 0);
    }
    assert_eq!(place.run(&["consumer", "create", "orders", "billing", "--max-attempts", "1"]).status, 0);
    place
}

fn working_and_dead_letters() {
    let place = with_dead_letters();
    let commands: [&[&str]; 22] = [
        &["dead", "list", "orders", "billing"],
        &["--json", "dead", "list", "orders", "billing"],
        &["work", "orders", "billing", "--until-empty", "--exec", JUDGE],
        &["dead", "list", "orders", "billing"],
        &["--json", "dead", "list", "orders", "billing"],
        &["dead", "show", "orders", "billing", "2"],
        &["--json", "dead", "show", "orders", "billing", "2"],
        &["dead", "show", "orders", "billing", "1"],
        &["dead", "replay", "orders", "billing", "2", "1"],
        &["dead", "replay", "orders", "billing", "2"],
        &["--json", "work", "orders", "billing", "--until-empty", "--exec", JUDGE],
        &["--json", "dead", "replay", "orders", "billing", "--all"],
        &["work", "orders", "billing", "--until-empty", "--exec", "true"],
        &["dead", "replay", "orders", "billing", "--all"],
        &["dead", "purge", "orders", "billing", "2"],
        &["--json", "dead", "purge", "orders", "billing", "--all"],
        &["--json", "dead", "show", "orders", "billing", "2"],
        &["dead", "list", "orders", "other"],
        &["dead", "replay", "orders", "other", "--all"],
        &["work", "orders", "other", "--exec", "true"],
        &["work", "orders", "billing", "--exec", "no-such-program --flag"],
        &["work", "orders", "billing", "--until-empty", "--exec", "no such message is left; exit 1"],
    ];
    transcript("working_and_dead_letters", &place, &commands);
}

fn doctor_finds_what_is_wrong_and_says_how_to_mend_it() {
    let place = Place::new();
    if place.database().is_none() {
        transcript("doctor_without_a_store", &place, &[&["doctor"], &["--json", "doctor"]]);
    }
    assert_eq!(place.run(&["init"]).status, 0);
    transcript("doctor_of_a_sound_store", &place, &[&["doctor"], &["--json", "doctor"]]);

    let place = with_dead_letters();
    assert_eq!(place.run(&["work", "orders", "billing", "--until-empty", "--exec", JUDGE]).status, 0);
    assert_eq!(place.run(&["queue", "create", "two words"]).status, 0);
    assert_eq!(place.run(&["send", "two words", "unread"]).status, 0);
    assert_eq!(place.run(&["queue", "pause", "two words"]).status, 0);
    assert_eq!(place.run(&["send", "orders", "in hand"]).status, 0);
    place.with_store(async |store| {
        let path = ConsumerPath::new("orders", "billing")?;
        let claim = fencepost::ClaimSlot::new(path.clone(), fencepost::WorkerName::new("w")?);
        let grant = store.claim(&claim).await?.expect("the slot is free");
        store.maintain(Some(&QueueName::new("orders")?)).await?;
        store.receive(&grant.token, fencepost::BatchSize::ONE).await?.expect("a message waits");
        store.force_release_slot(&path, SlotIndex::new(0)?, &Reason::new("it hangs")?).await?;
        Ok(())
    });
    let commands: [&[&str]; 4] = [&["doctor"], &["--json", "doctor"], &["doctor", "--store", "nonsense"], &["status"]];
    transcript("doctor_of_a_store_with_trouble", &place, &commands);
}

#[test]
fn doctor_finds_damage_and_what_others_left() {
    let place = Place::new();
    place.write("fencepost.db-wal", "x");
    let found = place.run(&["doctor", "--json"]);
    let codes: Vec<_> =
        found.json()["findings"].as_array().unwrap().iter().map(|finding| finding["code"].clone()).collect();
    assert_eq!((found.status, codes), (1, vec!["no_store".into(), "leftover".into()]));

    let place = Place::with_queue("q");
    place.write("messages", "a message of some length, so that several pages are filled\n".repeat(2_000));
    assert_eq!(place.run(&["send", "q", "--file", "messages"]).status, 0);
    let file = std::fs::OpenOptions::new().write(true).open(place.path("fencepost.db")).unwrap();
    let size = file.metadata().unwrap().len();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0x5a; 8_192], size - 16_384).unwrap();
    let found = place.run(&["doctor", "--json"]);
    let finding = found.json()["findings"][0].clone();
    assert_eq!((found.status, &finding["severity"]), (1, &"error".into()), "{found}");
    assert!(["damaged", "corrupt"].contains(&finding["code"].as_str().unwrap()), "{found}");
    place.write("text.db", "this is text and not a database, and it is longer than a header of one hundred bytes is");
    let found = place.run(&["doctor", "--json", "--store", "sqlite:text.db"]);
    assert_eq!((found.status, &found.json()["findings"][0]["code"]), (1, &"not_a_database".into()), "{found}");
}

#[test]
fn completions_and_manual_pages_show_every_command_that_is_shown() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let answer = place.run(&["completions", shell]);
        assert!(answer.status == 0 && answer.stdout.contains("until-empty"), "{shell} {}", answer.stderr);
        assert!(!answer.stdout.contains("demo-worker"), "{shell}");
    }
    let page = place.run(&["man"]);
    assert!(page.status == 0 && page.stdout.contains(".TH fencepost 1"), "{page}");
    assert_eq!(place.run(&["man", "--dir", "pages/man1"]).status, 0);
    let mut pages: Vec<_> =
        std::fs::read_dir(place.path("pages/man1")).unwrap().map(|page| page.unwrap().file_name()).collect();
    pages.sort();
    for page in ["fencepost.1", "fencepost-work.1", "fencepost-dead-replay.1", "fencepost-lease-run.1"] {
        assert!(pages.contains(&page.into()), "{page} {pages:?}");
    }
    assert!(!pages.contains(&"fencepost-child.1".into()) && !pages.contains(&"fencepost-demo-worker.1".into()));
    assert_eq!(place.run(&["man", "--dir", "/proc/none"]).status, 4);
    assert!(!place.has_store());
}
