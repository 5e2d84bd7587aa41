//! `tail --follow` beside other processes: it sees what they send, and ends when it is told to or nobody reads it any more.

use std::io::{BufRead, Read};
use std::process::Stdio;

use fencepost::{QueueName, Retention};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::place::{Place, on_each_engine};
use crate::running::Running;

on_each_engine![
    following_sees_what_other_processes_send_and_ends_when_it_is_told_to,
    following_from_the_latest_shows_only_what_comes_after,
    following_ends_when_nobody_reads_it_any_more,
    following_goes_on_when_messages_are_removed_before_they_are_shown,
    a_position_whose_messages_are_gone_is_refused_with_the_first_that_is_there,
    a_large_queue_is_shown_whole_and_in_order,
];

fn following_sees_what_other_processes_send_and_ends_when_it_is_told_to() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::with_queue("q");
        assert_eq!(place.run(&["send", "q", "before", "--key", "k"]).status, 0);
        let mut tail = Running::start(&place, &["tail", "q", "--follow", "--json"]);
        let read = |tail: &mut Running| serde_json::from_str::<Value>(&tail.line()).expect("a line is an object");
        let first = read(&mut tail);
        assert_eq!((&first["payload"], &first["key"], &first["id"]), (&"before".into(), &"k".into(), &1.into()));
        for payload in ["one", "two"] {
            assert_eq!(place.run(&["send", "q", payload]).status, 0);
            assert_eq!(read(&mut tail)["payload"], payload);
        }
        assert_eq!(place.run(&["send", "q", "delayed", "--delay", "300ms"]).status, 0);
        assert_eq!(read(&mut tail)["payload"], "delayed", "also when nobody else maintains the queue");
        kill_process(tail.pid(), signal).unwrap();
        let answer = tail.ended();
        assert_eq!((answer.status, answer.stdout.as_str(), answer.stderr.as_str()), (0, "", ""), "{answer}");
    }
}

fn following_from_the_latest_shows_only_what_comes_after() {
    let place = Place::with_queue("q");
    assert_eq!(place.run(&["send", "q", "before"]).status, 0);
    let mut tail = Running::start(&place, &["tail", "q", "--follow", "--from", "id:1"]);
    assert_eq!(place.run(&["send", "q", "after"]).status, 0);
    assert!(tail.line().ends_with("  -  default  after"));
    kill_process(tail.pid(), Signal::TERM).unwrap();
    assert_eq!(tail.ended().status, 0);
}

fn following_ends_when_nobody_reads_it_any_more() {
    let place = Place::with_queue("q");
    let mut child = place.command(&["tail", "q", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0), "although no message came");
}

/// Removes all but the latest messages.
fn keep_five_bytes(place: &Place) {
    place.with_store(async |store| {
        let queue = QueueName::new("q")?;
        store.set_retention(&queue, Retention { unread_bytes: 5, ..Retention::default() }).await?;
        while store.maintain(Some(&queue)).await? > 0 {}
        Ok(())
    });
}

fn following_goes_on_when_messages_are_removed_before_they_are_shown() {
    let place = Place::with_queue("q");
    assert_eq!(place.run(&["send", "q", "before"]).status, 0);
    let mut tail = Running::start(&place, &["tail", "q", "--follow"]);
    assert!(tail.line().ends_with("before"));
    // It waits now, and holds nothing that others need.
    std::thread::sleep(std::time::Duration::from_millis(100)); // TIME: it sleeps in the store by then
    kill_process(tail.pid(), Signal::STOP).unwrap();
    for payload in ["one", "two", "three"] {
        assert_eq!(place.run(&["send", "q", payload]).status, 0);
    }
    keep_five_bytes(&place);
    kill_process(tail.pid(), Signal::CONT).unwrap();
    assert!(tail.line().ends_with("three"));
    let mut told = String::new();
    tail.stderr.read_line(&mut told).unwrap();
    assert!(told.starts_with("messages of the queue `q` are gone"), "{told}");
    kill_process(tail.pid(), Signal::TERM).unwrap();
    assert_eq!(tail.ended().status, 0);
}

fn a_position_whose_messages_are_gone_is_refused_with_the_first_that_is_there() {
    let place = Place::with_queue("q");
    for payload in ["one", "two", "three"] {
        assert_eq!(place.run(&["send", "q", payload]).status, 0);
    }
    keep_five_bytes(&place);
    let answer = place.run(&["--json", "tail", "q", "--from", "p0"]);
    let error = &answer.json()["error"];
    assert_eq!((answer.status, &error["code"]), (1, &"position_gone".into()), "{answer}");
    assert_eq!(error["context"]["first_position"], "p3");
    assert!(place.run(&["tail", "q"]).stdout.ends_with("three\n"), "the earliest is what is there");
}

fn a_large_queue_is_shown_whole_and_in_order() {
    let place = Place::with_queue("q");
    place.write("lines", (0..2_500).map(|line| format!("{line}\n")).collect::<String>());
    assert_eq!(place.run(&["send", "q", "--file", "lines"]).status, 0);
    let mut tail = Running::start(&place, &["tail", "q", "--json"]);
    let mut shown = String::new();
    tail.stdout.read_to_string(&mut shown).unwrap();
    let payloads = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["payload"].clone());
    assert!(payloads.eq((0..2_500).map(|line| Value::from(line.to_string()))));
    assert_eq!(tail.ended().status, 0);
}
