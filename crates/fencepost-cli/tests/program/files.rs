//! Sending files: every format, standard input as it flows, and files of any size in bounded memory.

use std::fmt::Write as _;
use std::io::Write;
use std::process::Stdio;

use fencepost::{BatchSize, ClaimSlot, ConsumerPath, CreateConsumer, Message, SlotCount, WorkerName};
use serde_json::json;

use crate::place::{Answer, Place, on_each_engine};

on_each_engine![
    csv_is_sent_as_it_stands_with_its_key,
    json_and_lines_are_sent_line_by_line,
    what_arrives_on_standard_input_is_sent_before_it_ends,
];

/// Everything that the queue `q` holds, in order of a single slot.
fn messages(place: &Place) -> Vec<Message> {
    place.with_store(async |store| {
        let path = ConsumerPath::new("q", "test")?;
        store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(1)?)).await?;
        let grant = store.claim(&ClaimSlot::new(path, WorkerName::new("test")?)).await?.expect("the slot is free");
        Ok(store.receive(&grant.token, BatchSize::new(10_000)?).await?.map_or_else(Vec::new, |batch| batch.messages))
    })
}

fn sent(place: &Place) -> Vec<(String, Option<String>)> {
    let text = |message: &Message| String::from_utf8(message.payload.clone()).unwrap();
    messages(place).iter().map(|message| (text(message), message.key.as_ref().map(ToString::to_string))).collect()
}

fn expected(rows: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
    rows.iter().map(|(text, key)| ((*text).to_owned(), (!key.is_empty()).then(|| (*key).to_owned()))).collect()
}

fn csv_is_sent_as_it_stands_with_its_key() {
    let place = Place::with_queue("q");
    place.write("f.csv", "id,who\r\n1,ann\r\n2,\"bo\r\nb, jr\"\r\n\r\n3,NA\r\n4,");
    let answer = place.run(&["send", "q", "--file", "f.csv", "--key-field", "id", "--json"]).json();
    assert_eq!((&answer["sent"], &answer["with_key"], &answer["empty_lines"]), (&json!(4), &json!(4), &json!(1)));
    assert_eq!(sent(&place), expected(&[("1,ann", "1"), ("2,\"bo\r\nb, jr\"", "2"), ("3,NA", "3"), ("4,", "4")]));
}

fn json_and_lines_are_sent_line_by_line() {
    let place = Place::with_queue("q");
    place.write("f.jsonl", "{\"k\":\"a\"}\n{\"k\":7}\n{}\n");
    place.write("f.txt", "one\n\ntwo");
    assert_eq!(place.run(&["send", "q", "--file", "f.jsonl", "--key-field", "k"]).status, 0);
    assert_eq!(place.run(&["send", "q", "--file", "f.txt", "--key", "all", "--kind", "note"]).status, 0);
    assert_eq!(place.run_with_input(&["send", "q", "-"], b"a\nb\n").status, 0);
    let rows = [("{\"k\":\"a\"}", "a"), ("{\"k\":7}", "7"), ("{}", ""), ("one", "all"), ("two", "all"), ("a\nb\n", "")];
    assert_eq!(sent(&place), expected(&rows));
    let kinds: Vec<_> = {
        let place = Place::with_queue("q");
        assert_eq!(place.run(&["send", "q", "x", "--kind", "note"]).status, 0);
        messages(&place).iter().map(|message| message.kind.to_string()).collect()
    };
    assert_eq!(kinds, ["note"]);
}

fn what_arrives_on_standard_input_is_sent_before_it_ends() {
    let place = Place::with_queue("q");
    let mut command = place.command(&["send", "q", "--file", "-", "--json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"first\nsecond\nthe beginning of a third").unwrap();
    while place.stored("q") < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it goes on until its input ends");
    }
    input.write_all(b" line").unwrap();
    drop(input);
    let answer = Answer::from(child.wait_with_output().unwrap()).json();
    let id = |name: &str| answer[name].as_i64().unwrap();
    assert_eq!((&answer["sent"], id("last_id") - id("first_id")), (&json!(3), 2));
    assert_eq!(sent(&place).last().unwrap().0, "the beginning of a third line");
}

/// 50 MB in 50,000 records; the program holds a few batches of it at a time, beside what it takes to run at all.
#[test]
#[cfg(target_os = "linux")]
fn memory_is_bounded_whatever_the_size_of_the_file() {
    const RECORDS: u64 = 50_000;
    const BOUND_KIB: u64 = 64 << 10;

    let place = Place::with_queue("q");
    let mut content = String::from("id,text\n");
    for record in 0..RECORDS {
        let _ = writeln!(content, "{record},{}", "x".repeat(1_000));
    }
    assert!(content.len() > 50_000_000);
    place.write("large.csv", &content);
    let mut command = place.command(&["send", "q", "--file", "large.csv", "--key-field", "id", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut peak = 0;
    // The peak only rises, so the last reading before the end is the peak but for the last moment.
    while child.try_wait().unwrap().is_none() {
        peak = peak_kib(child.id()).unwrap_or(peak);
        std::thread::yield_now();
    }
    let answer = Answer::from(child.wait_with_output().unwrap()).json();
    assert_eq!((&answer["sent"], &answer["with_key"]), (&json!(RECORDS), &json!(RECORDS)));
    assert!(0 < peak && peak < BOUND_KIB, "{peak} KiB");
}

#[cfg(target_os = "linux")]
fn peak_kib(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
