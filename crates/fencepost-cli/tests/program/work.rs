//! `work` with real commands: order, attempts, reasons, batches, and what becomes of it all when processes end.

use std::io::{BufRead, Read};
use std::process::Stdio;

use fencepost::{Clock, HostClock};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::place::{Answer, Place, on_each_engine};
use crate::running::{Running, until_gone};

on_each_engine![
    messages_of_a_key_are_run_one_at_a_time_in_order_however_many_workers,
    the_command_reads_the_payload_and_finds_its_message_in_the_environment,
    a_command_finds_the_schedule_that_sent_its_message_and_the_nominal_time,
    a_failed_message_comes_again_with_the_next_attempt_until_it_is_dead_with_the_reason,
    a_consumer_that_pauses_keys_keeps_their_order_across_failures,
    status_75_puts_a_message_off_without_spending_an_attempt,
    every_other_end_of_a_command_is_a_failure_that_says_how_it_ended,
    a_command_that_leaves_something_running_or_reads_nothing_is_not_waited_for,
    a_batch_is_a_line_of_json_each_and_single_messages_can_be_told_of,
    messages_of_a_batch_without_a_result_follow_the_exit_status,
    what_expired_or_is_not_due_yet_is_nothing_that_is_left,
    another_worker_takes_over_when_one_is_killed_and_its_command_ends_with_it,
    sigterm_lets_what_runs_end_and_begins_nothing_new,
    what_does_not_end_within_the_grace_is_ended_and_handed_back,
    a_command_that_is_told_to_end_with_its_worker_has_not_failed,
    a_second_signal_kills_what_runs_with_all_that_it_forked,
    a_worker_whose_consumer_is_dropped_ends_with_one_error,
    a_reader_that_does_not_read_costs_lines_and_no_slot,
    a_slot_taken_by_force_ends_its_command,
];

/// A queue `q` with these messages, key and payload each, and its consumer `c`.
fn place(messages: &[(&str, &str)], consumer: &[&str]) -> Place {
    let place = Place::with_queue("q");
    let lines: String =
        messages.iter().map(|(key, payload)| format!("{{\"key\":\"{key}\",\"n\":\"{payload}\"}}\n")).collect();
    if !messages.is_empty() {
        place.write("messages.json", lines);
        assert_eq!(place.run(&["send", "q", "--file", "messages.json", "--key-field", "key"]).status, 0);
    }
    assert_eq!(place.run(&[&["consumer", "create", "q", "c", "--backoff", "10ms"], consumer].concat()).status, 0);
    place
}

fn work(place: &Place, command: &str, more: &[&str]) -> Answer {
    place.run(&[&["work", "q", "c", "--until-empty", "--json", "--exec", command], more].concat())
}

/// The figures at the end, less the time.
fn figures(answer: &Answer) -> Value {
    let mut figures = answer.json();
    assert_eq!(answer.status, 0, "{answer}");
    assert!(figures["seconds"].take().is_f64());
    figures
}

fn counts(acked: u64, failed: u64, dead: u64, snoozed: u64) -> Value {
    json!({"acked": acked, "failed": failed, "dead": dead, "snoozed": snoozed, "lost": 0, "seconds": null})
}

fn lines(place: &Place, file: &str) -> Vec<String> {
    std::fs::read_to_string(place.path(file)).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn letters(place: &Place) -> Vec<Value> {
    place.run(&["dead", "list", "q", "c", "--json"]).json()["dead_letters"].as_array().unwrap().clone()
}

fn messages_of_a_key_are_run_one_at_a_time_in_order_however_many_workers() {
    let keys = ["ann", "bo", "cy", "di"];
    let messages: Vec<_> = (0..40).map(|n| (keys[n % 4], ["a", "b", "c", "d", "e"][n / 4 % 5])).collect();
    for workers in ["1", "8"] {
        let place = place(&messages, &["--slots", "3"]);
        // Two of one key at once would find the other's folder.
        let command = r#"mkdir "$FENCEPOST_KEY" || exit 1; echo "$FENCEPOST_KEY $FENCEPOST_MESSAGE_ID" >>log; rmdir "$FENCEPOST_KEY""#;
        assert_eq!(figures(&work(&place, command, &["--workers", workers])), counts(40, 0, 0, 0));
        assert_eq!(place.stored("q"), 0, "what was consumed is not left to others");
        let log = lines(&place, "log");
        assert_eq!(log.len(), 40);
        for key in keys {
            let ids: Vec<u64> =
                log.iter().filter_map(|line| line.strip_prefix(key)).map(|id| id.trim().parse().unwrap()).collect();
            assert!(ids.len() == 10 && ids.is_sorted(), "{key} {ids:?}");
        }
    }
}

fn the_command_reads_the_payload_and_finds_its_message_in_the_environment() {
    let place = Place::with_queue("q");
    assert_eq!(place.run(&["consumer", "create", "q", "c"]).status, 0);
    let large = vec![b'x'; 1 << 20];
    assert_eq!(place.run_with_input(&["send", "q", "-", "--kind", "invoice"], &large).status, 0);
    let command = r#"wc -c >size; env | grep ^FENCEPOST_ | grep -v ^FENCEPOST_STORE= | sort >environment"#;
    let before = HostClock.boot().since_boot().as_millis();
    let answer = place.run(&["work", "q", "c", "--until-empty", "--ttl", "20s", "--exec", command]);
    assert_eq!((answer.status, answer.stdout.as_str()), (0, ""), "{answer}");
    assert_eq!(lines(&place, "size")[0].trim(), "1048576");
    let found = lines(&place, "environment");
    let names: Vec<_> = found.iter().map(|line| line.split_once('=').unwrap().0).collect();
    let expected = ["ATTEMPT", "BATCH", "CONSUMER", "DEADLINE", "EPOCH", "KEY", "KIND", "MESSAGE_ID", "QUEUE", "SLOT"];
    assert_eq!(names, expected.map(|name| format!("FENCEPOST_{name}")));
    let value = |name: &str| found.iter().find_map(|line| line.strip_prefix(&format!("FENCEPOST_{name}="))).unwrap();
    assert_eq!([value("ATTEMPT"), value("CONSUMER"), value("KEY"), value("KIND")], ["1", "c", "", "invoice"]);
    assert_eq!([value("MESSAGE_ID"), value("QUEUE"), value("SLOT")], ["1", "q", "0"]);
    let left = value("DEADLINE").parse::<u128>().unwrap() - before;
    assert!((1..=20_000).contains(&left) && value("EPOCH").parse::<u64>().is_ok(), "{left}");
}

/// Only of a message that a schedule sent, and never what the worker itself was given.
fn a_command_finds_the_schedule_that_sent_its_message_and_the_nominal_time() {
    let place = place(&[("k", "x")], &[]);
    let sent = [
        &["schedule", "put", "daily report", "@daily", "--queue", "q"] as &[_],
        &["schedule", "run", "daily report"],
        &["send", "q", "x", "--header", "fencepost-schedule=s", "--header", "fencepost-nominal-time=soon"],
    ];
    for args in sent {
        assert_eq!(place.run(args).status, 0, "{args:?}");
    }
    let fired = place.run(&["tail", "q", "--json"]).stdout;
    let fired: Value = serde_json::from_str(fired.lines().nth(1).unwrap()).unwrap();
    let nominal_at = fired["headers"]["fencepost-nominal-time"].as_str().unwrap();
    let told = r#"echo "${FENCEPOST_SCHEDULE-none} ${FENCEPOST_NOMINAL_TIME-none}" >>log"#;
    let work = |more: &[&str]| {
        let mut work = place.command(&[&["work", "q", "c", "--until-empty", "--exec", told], more].concat());
        work.env("FENCEPOST_SCHEDULE", "outer").env("FENCEPOST_NOMINAL_TIME", "outer");
        assert!(work.status().unwrap().success());
        lines(&place, "log")
    };
    assert_eq!(work(&[]), ["none none", &format!("daily report {nominal_at}"), "none none"]);
    assert_eq!(place.run(&["schedule", "run", "daily report"]).status, 0);
    assert_eq!(work(&["--batch", "10"])[3..], ["none none"]);
}

fn a_failed_message_comes_again_with_the_next_attempt_until_it_is_dead_with_the_reason() {
    let place = place(&[("a", "1"), ("b", "2")], &["--max-attempts", "3"]);
    let command = r#"echo "$FENCEPOST_KEY $FENCEPOST_ATTEMPT" >>log
        if [ "$FENCEPOST_KEY" = a ]; then echo first >&2; echo "attempt $FENCEPOST_ATTEMPT" >&2; exit 7; fi"#;
    let answer = work(&place, command, &[]);
    assert_eq!(figures(&answer), counts(1, 3, 1, 0));
    let of_a: Vec<_> = lines(&place, "log").into_iter().filter(|line| line.starts_with('a')).collect();
    assert_eq!(of_a, ["a 1", "a 2", "a 3"]);
    let [letter] = &letters(&place)[..] else { panic!("{answer}") };
    assert_eq!((&letter["cause"], &letter["attempts"]), (&"attempts".into(), &3.into()));
    assert_eq!(letter["reason"], "first\nattempt 3");
    let told = answer.stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let outcomes: Vec<_> = told.map(|told| told["outcome"].clone()).collect();
    assert_eq!(outcomes, ["retry", "retry", "dead"], "{answer}");
}

fn a_consumer_that_pauses_keys_keeps_their_order_across_failures() {
    let place = place(&[("a", "1"), ("a", "2"), ("b", "3"), ("a", "4")], &["--on-failure", "pause"]);
    let command = r#"echo "$FENCEPOST_MESSAGE_ID" >>log; [ "$FENCEPOST_MESSAGE_ID$FENCEPOST_ATTEMPT" != 11 ]"#;
    assert_eq!(figures(&work(&place, command, &["--workers", "4"])), counts(4, 1, 0, 0));
    let of_a: Vec<_> = lines(&place, "log").into_iter().filter(|id| id != "3").collect();
    assert_eq!(of_a, ["1", "1", "2", "4"]);
}

fn status_75_puts_a_message_off_without_spending_an_attempt() {
    let place = place(&[("a", "1")], &["--max-attempts", "1"]);
    let command = r#"echo "$FENCEPOST_ATTEMPT" >>log; [ "$(wc -l <log)" -eq 4 ] || exit 75"#;
    assert_eq!(figures(&work(&place, command, &[])), counts(1, 0, 0, 3));
    assert_eq!(lines(&place, "log"), ["1", "1", "1", "1"]);
}

fn every_other_end_of_a_command_is_a_failure_that_says_how_it_ended() {
    let table = [
        ("exit 1", "the command ended with status 1"),
        ("kill -9 $$", "the command was ended by signal 9"),
        ("echo why >&2; kill -15 $$", "why\nthe command was ended by signal 15"),
        (": ; no-such-program", "no-such-program"),
        ("head -c 100000 /dev/zero | tr '\\0' x >&2; echo end >&2; exit 1", "xend"),
    ];
    for (command, reason) in table {
        let place = place(&[("a", "1")], &["--max-attempts", "1"]);
        assert_eq!(figures(&work(&place, command, &[])), counts(0, 1, 1, 0), "{command}");
        let found = letters(&place)[0]["reason"].as_str().unwrap().to_owned();
        assert!(found.contains(reason) && found.len() <= 8 << 10, "{command} {found}");
    }
}

fn a_command_that_leaves_something_running_or_reads_nothing_is_not_waited_for() {
    let place = Place::with_queue("q");
    assert_eq!(place.run(&["consumer", "create", "q", "c"]).status, 0);
    assert_eq!(place.run_with_input(&["send", "q", "-"], &vec![b'x'; 1 << 20]).status, 0);
    assert_eq!(figures(&work(&place, "sleep 1000 >/dev/null & echo $! >left", &[])), counts(1, 0, 0, 0));
    let left = lines(&place, "left")[0].parse().unwrap();
    kill_process(rustix::process::Pid::from_raw(left).unwrap(), Signal::KILL).expect("it goes on by itself");
}

fn a_batch_is_a_line_of_json_each_and_single_messages_can_be_told_of() {
    let place = place(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")], &["--max-attempts", "2"]);
    let command = r#"cat >>log; echo "said by the command"
        [ "$(wc -l <log)" -gt 4 ] && exit 0
        echo '{"id":2,"result":"retry","reason":"the bank is closed"}'
        echo '{"id":3,"result":"dead","reason":"no such account"}'
        echo '{"id":4,"result":"retry"}'; echo '{"id":4,"result":"ok"}'"#;
    let answer = work(&place, command, &["--batch", "10"]);
    assert_eq!(figures(&answer), counts(3, 2, 1, 0), "{answer}");
    assert!(answer.stderr.contains("said by the command\n"), "{answer}");
    let log: Vec<Value> = lines(&place, "log").iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<_> = log.iter().map(|message| message["id"].as_i64().unwrap()).collect();
    assert_eq!((ids, &log[4]["attempt"]), (vec![1, 2, 3, 4, 2], &2.into()));
    let fields: Vec<_> = log[0].as_object().unwrap().keys().cloned().collect();
    let expected = ["batch_id", "id", "position", "key", "kind", "payload", "headers", "attempt", "deliveries"];
    assert_eq!(fields, [&expected[..], &["created_at"]].concat());
    let [letter] = &letters(&place)[..] else { panic!("{answer}") };
    assert_eq!((&letter["id"], &letter["reason"]), (&3.into(), &"no such account".into()));
    assert_eq!(letter["cause"], "rejected");
}

fn messages_of_a_batch_without_a_result_follow_the_exit_status() {
    let messages = [("a", "1"), ("b", "2")];
    let ok = r#"echo '{"id":1,"result":"ok"}'"#;
    for (command, expected, reason) in [
        (format!("{ok}; echo why >&2; exit 1"), counts(1, 1, 1, 0), "why"),
        (format!("{ok}; echo '{{\"id\":9,\"result\":\"ok\"}}'"), counts(1, 1, 1, 0), "not of the batch"),
        (format!("{ok}; echo '{{\"id\":2,\"resu'"), counts(1, 1, 1, 0), "is no JSON"),
        (format!("{ok}; echo '{{\"id\":2,\"result\":\"fine\"}}'"), counts(1, 1, 1, 0), "a result is not"),
        (format!("[ -e once ] || {{ {ok}; touch once; exit 75; }}"), counts(2, 0, 0, 1), ""),
    ] {
        let place = place(&messages, &["--max-attempts", "1"]);
        let answer = work(&place, &command, &["--batch", "10"]);
        assert_eq!(figures(&answer), expected, "{command} {answer}");
        let found = letters(&place).first().map(|letter| letter["reason"].as_str().unwrap().to_owned());
        assert!(found.unwrap_or_default().contains(reason), "{command} {answer}");
    }
}

fn what_expired_or_is_not_due_yet_is_nothing_that_is_left() {
    let place = place(&[], &[]);
    assert_eq!(place.run(&["send", "q", "gone", "--expires-in", "1ms"]).status, 0);
    assert_eq!(place.run(&["send", "q", "later", "--delay", "1h"]).status, 0);
    assert_eq!(figures(&work(&place, "exit 1", &[])), counts(0, 0, 0, 0));
}

/// Says that it runs, and runs until it is killed.
const HANGS: &str = "echo $$ >>pids; echo running; sleep 1000";

/// The same in a process that the command's shell has forked, at the head of a pipeline.
const FORKED_HANGS: &str = "sh -c 'echo $$ >>pids; echo running; sleep 1000; exit' && true | cat";

fn start(place: &Place, command: &str, more: &[&str]) -> Running {
    Running::start(place, &[&["work", "q", "c", "--exec", command], more].concat())
}

fn another_worker_takes_over_when_one_is_killed_and_its_command_ends_with_it() {
    let place = place(&[("a", "1"), ("a", "2")], &[]);
    let mut killed = start(&place, FORKED_HANGS, &["--ttl", "1s"]);
    assert_eq!(killed.line(), "running");
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    #[cfg(target_os = "linux")]
    until_gone(lines(&place, "pids")[0].parse().unwrap());
    let command = r#"echo "$FENCEPOST_MESSAGE_ID $FENCEPOST_ATTEMPT" >>log"#;
    assert_eq!(figures(&work(&place, command, &["--ttl", "1s"])), counts(2, 0, 0, 0));
    assert_eq!(lines(&place, "log"), ["1 1", "2 1"], "a crash spends no attempt");
}

fn sigterm_lets_what_runs_end_and_begins_nothing_new() {
    let place = place(&[("a", "1"), ("a", "2"), ("a", "3")], &[]);
    let mut worker = start(&place, "echo running; while [ ! -e go ]; do sleep 0.01; done; echo done", &[]);
    assert_eq!(worker.line(), "running");
    kill_process(worker.pid(), Signal::TERM).unwrap();
    let mut told = String::new();
    worker.stderr.read_line(&mut told).unwrap();
    assert!(told.starts_with("stopping: "), "{told}");
    place.write("go", "");
    assert_eq!(worker.line(), "done");
    let answer = worker.ended();
    assert_eq!((answer.status, answer.stdout.as_str()), (0, ""), "{answer}");
    assert!(answer.stderr.contains("q/c: 1 message acked in "), "{answer}");
    let slots = place.run(&["slot", "list", "q", "--json"]).json()["slots"].clone();
    assert_eq!((&slots[0]["state"], &slots[0]["lag"]), (&"free".into(), &2.into()));
}

fn what_does_not_end_within_the_grace_is_ended_and_handed_back() {
    let place = place(&[("a", "1")], &[]);
    let mut worker = start(&place, &format!("trap '' TERM; {HANGS}"), &["--grace", "400ms"]);
    assert_eq!(worker.line(), "running");
    kill_process(worker.pid(), Signal::TERM).unwrap();
    assert_eq!(worker.ended().status, 0);
    #[cfg(target_os = "linux")]
    until_gone(lines(&place, "pids")[0].parse().unwrap());
    assert_eq!(figures(&work(&place, "test \"$FENCEPOST_ATTEMPT\" = 1", &[])), counts(1, 0, 0, 0));
}

/// As service managers end a service: every process of it gets the signal.
fn a_command_that_is_told_to_end_with_its_worker_has_not_failed() {
    for more in [&["--workers", "2"][..], &["--batch", "10"]] {
        let place = place(&[("a", "1"), ("b", "2")], &["--max-attempts", "1"]);
        // The second command ends in its own time, which the end of the first does not take from it.
        let command = r#"echo $$ >>pids; [ "$FENCEPOST_KEY" = b ] || { echo running; sleep 1000; exit; }
            trap '' TERM; echo running; while [ ! -e go ]; do sleep 0.01; done"#;
        let mut worker = start(&place, command, &[&["--grace", "1h"], more].concat());
        assert_eq!(worker.line(), "running");
        let are_two = more[0] == "--workers";
        if are_two {
            assert_eq!(worker.line(), "running");
        }
        // The commands first: which signal comes first must not matter.
        for pid in lines(&place, "pids") {
            let group = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
            rustix::process::kill_process_group(group, Signal::TERM).unwrap();
        }
        kill_process(worker.pid(), Signal::TERM).unwrap();
        if are_two {
            std::thread::sleep(std::time::Duration::from_millis(200)); // TIME: it waits for the other command
            assert!(worker.child.try_wait().unwrap().is_none());
            place.write("go", "");
        }
        let answer = worker.ended();
        assert!(answer.status == 0 && !answer.stderr.contains("failed"), "{answer}");
        assert_eq!(figures(&work(&place, "test \"$FENCEPOST_ATTEMPT\" = 1", &[])), counts(2, 0, 0, 0), "{answer}");
    }
}

fn a_second_signal_kills_what_runs_with_all_that_it_forked() {
    let place = place(&[("a", "1")], &[]);
    let mut worker = start(&place, FORKED_HANGS, &[]);
    assert_eq!(worker.line(), "running");
    kill_process(worker.pid(), Signal::TERM).unwrap();
    worker.stderr.read_line(&mut String::new()).unwrap();
    // One that follows at once is taken for the same: the worker still drains.
    kill_process(worker.pid(), Signal::TERM).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1_100)); // TIME: a second one counts after a second
    assert!(worker.child.try_wait().unwrap().is_none());
    kill_process(worker.pid(), Signal::TERM).unwrap();
    assert_eq!(worker.ended().status, 130);
    #[cfg(target_os = "linux")]
    until_gone(lines(&place, "pids")[0].parse().unwrap());
}

fn a_worker_whose_consumer_is_dropped_ends_with_one_error() {
    let place = place(&[("a", "1")], &[]);
    let mut worker = start(&place, "echo done", &["--json", "--ttl", "1s"]);
    let mut told = String::new();
    worker.stderr.read_line(&mut told).unwrap();
    assert_eq!(told, "done\n");
    assert_eq!(place.run(&["consumer", "drop", "q", "c", "--force"]).status, 0);
    let answer = worker.ended();
    let told: Vec<Value> = answer.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [figures, error] = &told[..] else { panic!("{answer}") };
    assert_eq!((answer.status, &error["error"]["code"]), (1, &"not_found".into()), "{answer}");
    assert!(figures["acked"].is_u64() && answer.stderr.lines().count() <= 3, "{answer}");
}

fn a_reader_that_does_not_read_costs_lines_and_no_slot() {
    let place = place(&[("a", "1")], &[]);
    // More than the pipes and the queue take, for longer than the slot lasts without renewal.
    let command = "head -c 16777216 /dev/zero | tr '\\0' '\\n' >&2; sleep 2; touch done";
    let mut worker = place.command(&["work", "q", "c", "--until-empty", "--ttl", "1s", "--exec", command]);
    let mut worker = worker.stderr(Stdio::piped()).spawn().unwrap();
    while !place.path("done").exists() {
        assert!(worker.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(10)); // TIME: for another process
    }
    let mut told = String::new();
    worker.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(worker.wait().unwrap().code(), Some(0));
    let told = told.trim_start();
    assert!(told.contains(" lines of output dropped: nobody read them in time\n"), "{told}");
    assert!(told.contains("q/c: 1 message acked in ") && !told.contains("lost"), "{told}");
}

fn a_slot_taken_by_force_ends_its_command() {
    let place = place(&[("a", "1")], &[]);
    let mut worker = start(&place, &format!("trap 'echo told; exit 0' TERM; {HANGS} & wait"), &["--ttl", "1s"]);
    assert_eq!(worker.line(), "running");
    assert_eq!(place.run(&["slot", "release", "q", "c", "0", "--reason", "it hangs"]).status, 0);
    assert_eq!(worker.line(), "told");
    let mut told = String::new();
    worker.stderr.read_line(&mut told).unwrap();
    assert!(told.contains("lost slot 0 of `q/c`"), "{told}");
    worker.child.kill().unwrap();
    worker.child.wait().unwrap();
}
