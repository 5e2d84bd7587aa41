//! The demo as a user runs it: real processes, one killed, one stopped, an exact result, and nobody left behind however it ends.

use std::fs::DirEntry;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};

use crate::place::{Answer, Place, on_each_engine};

on_each_engine![
    the_built_in_demo_comes_out_exactly_right_again_and_again,
    people_are_told_that_the_table_is_right,
    somebodys_own_file_comes_out_exactly_right,
    one_single_key_is_handled_in_order_although_its_owner_dies,
    three_rows_are_enough,
    #[cfg(target_os = "linux")]
    a_second_demo_in_the_same_store_is_refused_and_harms_nothing,
    #[cfg(target_os = "linux")]
    an_interrupted_demo_ends_with_its_workers,
    #[cfg(target_os = "linux")]
    a_killed_demo_leaves_no_worker_behind,
];

/// The fields of the last line, in order: a contract.
const FIELDS: [&str; 8] =
    ["sent", "processed", "lost", "out_of_order", "redelivered", "fenced", "takeovers", "seconds"];

/// How long anything may take that must come.
const PATIENCE: Duration = Duration::from_secs(60);

fn events(answer: &Answer) -> Vec<Value> {
    answer.stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{answer}"))).collect()
}

/// Runs the demo, which must succeed, and returns its events and its figures.
fn play(place: &Place, args: &[&str]) -> (Vec<Value>, Value) {
    let answer = place.run(&[&["demo", "--json"], args].concat());
    assert_eq!(answer.status, 0, "{answer}");
    let mut events = events(&answer);
    let figures = events.pop().expect("a last line");
    let fields: Vec<&String> = figures.as_object().unwrap().keys().collect();
    assert_eq!(fields, FIELDS, "{answer}");
    assert_eq!((&figures["lost"], &figures["out_of_order"]), (&json!(0), &json!(0)), "{answer}");
    assert_eq!(figures["sent"], figures["processed"], "{answer}");
    (events, figures)
}

fn at<'a>(events: &'a [Value], name: &str) -> (usize, &'a Value) {
    let found = events.iter().enumerate().find(|(_, event)| event["event"] == name);
    found.unwrap_or_else(|| panic!("no event `{name}` in {events:#?}"))
}

/// The whole story: killed, stopped, taken over, continued, refused; and again in the same folder.
fn the_built_in_demo_comes_out_exactly_right_again_and_again() {
    let place = Place::new();
    for _ in 0..2 {
        let (events, figures) = play(&place, &[]);
        assert_eq!((&figures["sent"], &figures["processed"]), (&json!(12_208), &json!(12_208)));
        assert!(figures["fenced"].as_u64() >= Some(1) && figures["takeovers"].as_u64() >= Some(2), "{figures}");
        assert!(figures["redelivered"].as_u64() >= Some(2) && figures["seconds"].as_f64() < Some(60.0), "{figures}");
        let (_, begin) = at(&events, "begin");
        assert_eq!((&begin["records"], &begin["workers"], &begin["keys"]), (&json!(12_208), &json!(4), &json!(2_631)));

        let (killed_at, killed) = at(&events, "mid_batch");
        let (stopped_at, stopped) = at(&events, "stopping");
        let (continued_at, continued) = at(&events, "continue");
        let (fenced_at, fenced) = at(&events, "fenced");
        assert!(stopped_at < continued_at && continued_at < fenced_at, "{events:#?}");
        assert_ne!(killed["who"], stopped["who"]);
        assert_eq!((&stopped["who"], &stopped["who"]), (&continued["who"], &fenced["who"]));

        // Every epoch of a slot is higher than the one before.
        for slot in 0..4 {
            let epochs: Vec<i64> = events
                .iter()
                .filter(|event| event["event"] == "claimed" && event["slot"] == slot)
                .map(|event| event["epoch"].as_i64().unwrap())
                .collect();
            assert!(!epochs.is_empty() && epochs.is_sorted_by(|a, b| a < b), "slot {slot}: {epochs:?}");
        }
        for (fault_at, fault) in [(killed_at, killed), (stopped_at, stopped)] {
            let heir = &events[fault_at..];
            let heir = heir.iter().find(|event| event["event"] == "claimed" && event["taken_from"] == fault["epoch"]);
            let heir = heir.unwrap_or_else(|| panic!("nobody takes over: {events:#?}"));
            assert_eq!((&heir["batch"], &heir["redelivered"]), (&fault["batch"], &fault["messages"]));
            assert_ne!(heir["who"], fault["who"]);
        }
        // What was refused is the late ack of the stopped worker, and it says by whom.
        assert_eq!((&fenced["presented"], &fenced["batch"]), (&stopped["epoch"], &stopped["batch"]));
        assert!(fenced["current"].as_str().unwrap().parse::<i64>().unwrap() > fenced["presented"].as_i64().unwrap());
    }
}

/// For people: the same figures, the verdict, and nothing on standard error.
fn people_are_told_that_the_table_is_right() {
    let answer = Place::new().run(&["demo", "--workers", "2", "--kill", "0", "--pause", "0"]);
    assert_eq!((answer.status, answer.stderr.as_str()), (0, ""), "{answer}");
    assert!(answer.stdout.contains("12,208"), "{answer}");
    assert!(
        answer.stdout.contains("The table equals a plain single pass over the file, row for row: 2,632 rows."),
        "{answer}"
    );
}

/// CRLF, quotes, line breaks in fields, `NA` and empty keys, unicode: all handled, those without a key too.
fn somebodys_own_file_comes_out_exactly_right() {
    let place = Place::new();
    let mut csv = "\u{feff}id,who,note\r\n".to_owned();
    let mut records = 0;
    for n in 0..300 {
        for who in ["ann", "bo", "\"c, jr\"", "NA", "", "注文"] {
            csv += &format!("{n},{who},\"line\r\nbreak, and \"\"quotes\"\"\"\r\n");
            records += 1;
        }
    }
    place.write("own.csv", csv);
    for (args, faults) in [(&[] as &[&str], true), (&["--workers", "1"], false), (&["--workers", "2"], false)] {
        let (events, figures) = play(&place, &[&["own.csv", "--key", "who"], args].concat());
        assert_eq!(figures["sent"], json!(records));
        let (_, begin) = at(&events, "begin");
        assert_eq!((&begin["records"], &begin["keys"], &begin["key"]), (&json!(records), &json!(4), &json!("who")));
        assert!(!faults || figures["takeovers"].as_u64() >= Some(1), "{figures}");
    }
}

fn one_single_key_is_handled_in_order_although_its_owner_dies() {
    let place = Place::new();
    let rows: String = (0..500).map(|n| format!("{n},only\n")).collect();
    place.write("one.csv", format!("n,k\n{rows}"));
    let (events, figures) = play(&place, &["one.csv", "--key", "k"]);
    // The heir may be the one that is to be stopped.
    assert_eq!(figures["sent"], json!(500));
    assert!((1..=2).contains(&figures["takeovers"].as_u64().unwrap()), "{figures}");
    at(&events, "mid_batch");
}

fn three_rows_are_enough() {
    let place = Place::new();
    place.write("three.csv", "k,v\na,1\nb,2\nc,3\n");
    for workers in ["1", "2", "4"] {
        let (_, figures) = play(&place, &["three.csv", "--key", "k", "--workers", workers]);
        assert_eq!(figures["sent"], json!(3));
    }
}

#[test]
fn impossible_plans_and_inputs_are_usage_errors_and_make_no_store() {
    let place = Place::new();
    place.write("own.csv", "k,v\na,1\n");
    place.write("ragged.csv", "k,v\na,1\nb\n");
    place.write("none.csv", "k,v\n");
    let table: [&[&str]; 15] = [
        &["--workers", "0"],
        &["--workers", "-1"],
        &["--workers", "65"],
        &["--workers", "many"],
        &["--kill", "4"],
        &["--kill", "-1"],
        &["--pause", "-1"],
        &["--kill", "2", "--pause", "2"],
        &["--workers", "1", "--pause", "1"],
        &["own.csv"],
        &["--key", "k"],
        &["own.csv", "--key", "absent"],
        &["absent.csv", "--key", "k"],
        &["ragged.csv", "--key", "k"],
        &["none.csv", "--key", "k"],
    ];
    for args in table {
        let answer = place.run(&[&["demo", "--json"], args].concat());
        assert_eq!(answer.status, 2, "{args:?} {answer}");
        assert!(!place.has_store(), "{args:?}");
    }
}

/// A demo under way, with a place and processes of its own.
struct Show {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// What the environment of its processes holds and no other's.
    store: String,
}

impl Show {
    fn start(place: &Place) -> Self {
        let store = format!("FENCEPOST_STORE={}", place.url());
        let mut command = place.command(&["demo", "--json"]);
        command.env("FENCEPOST_STORE", place.url());
        // A group of its own, as a shell gives it to a command, so that it can be interrupted as by a terminal.
        let mut child = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, store }
    }

    /// Waits until it tells of an event.
    fn tells(&mut self, name: &str) {
        let found = self.lines.by_ref().map_while(Result::ok).any(|line| {
            let event: Value = serde_json::from_str(&line).unwrap();
            event["event"] == name
        });
        assert!(found, "the demo tells of `{name}`");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The processes of this show, itself and its workers, as anybody on the host sees them: those that have its store in their
    /// environment.
    fn processes(&self) -> Vec<String> {
        let read = |entry: &DirEntry, file| std::fs::read(entry.path().join(file)).unwrap_or_default();
        let is_of_this = |entry: &DirEntry| {
            read(entry, "environ").split(|byte| *byte == 0).any(|variable| variable == self.store.as_bytes())
        };
        let all = std::fs::read_dir("/proc").unwrap().map_while(Result::ok).filter(is_of_this);
        all.map(|entry| String::from_utf8_lossy(&read(&entry, "cmdline")).into_owned()).collect()
    }

    fn ends(mut self) -> (Option<i32>, String) {
        let rest: String = self.lines.by_ref().map_while(Result::ok).map(|line| line + "\n").collect();
        let status = self.child.wait().unwrap();
        let left = self.processes();
        assert!(left.is_empty(), "left behind: {left:?}");
        (status.code(), rest)
    }
}

impl Drop for Show {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(target_os = "linux")]
fn a_second_demo_in_the_same_store_is_refused_and_harms_nothing() {
    let place = Place::new();
    let mut first = Show::start(&place);
    first.tells("claimed");
    // Itself and four workers, of which one may have been killed by now.
    assert!((4..=5).contains(&first.processes().len()), "{:?}", first.processes());
    // What a command line holds everybody can see, a password of the store's URL too.
    assert!(first.processes().iter().all(|line| !line.contains(&place.url())), "{:?}", first.processes());
    let second = place.run(&["demo", "--json"]);
    assert_eq!((second.status, &second.json()["error"]["code"]), (1, &json!("conflict")), "{second}");
    let (status, rest) = first.ends();
    assert_eq!(status, Some(0), "{rest}");
    let figures: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
    assert_eq!(figures["processed"], json!(12_208));
}

/// Ctrl-C reaches every process of the terminal's group; `kill` reaches the demo alone. Either way it ends, and so do its workers,
/// the stopped one included, and the store is free for the next.
#[cfg(target_os = "linux")]
fn an_interrupted_demo_ends_with_its_workers() {
    let place = Place::new();
    for (signal, whole_group) in [(Signal::INT, true), (Signal::INT, false), (Signal::TERM, false)] {
        let mut show = Show::start(&place);
        show.tells("stopping");
        if whole_group {
            kill_process_group(show.pid(), signal).unwrap();
        } else {
            kill_process(show.pid(), signal).unwrap();
        }
        let (status, rest) = show.ends();
        assert_eq!(status, Some(4), "{rest}");
        let last: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
        assert_eq!(last["error"]["code"], json!("interrupted"), "{rest}");
    }
    play(&place, &[]);
}

/// Killed without a word: its workers go with it, the stopped one too.
#[cfg(target_os = "linux")]
fn a_killed_demo_leaves_no_worker_behind() {
    let place = Place::new();
    let mut show = Show::start(&place);
    show.tells("stopping");
    show.child.kill().unwrap();
    show.child.wait().unwrap();
    let since = Instant::now();
    while !show.processes().is_empty() {
        assert!(since.elapsed() < PATIENCE, "left behind: {:?}", show.processes());
        std::thread::yield_now();
    }
    // Its lease expires by itself, and the next demo cleans up after it.
    let again = loop {
        let answer = place.run(&["demo", "--json"]);
        if answer.status != 1 {
            break answer;
        }
        assert!(since.elapsed() < PATIENCE, "{answer}");
    };
    assert_eq!(again.status, 0, "{again}");
}
