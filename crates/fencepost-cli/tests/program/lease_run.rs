//! `lease run` with real commands: one at a time, with its epoch, told and ended when the lease is lost.

use std::io::BufRead;
use std::time::Duration;

use fencepost::{Clock, HostClock};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::place::{Answer, Place, on_each_engine};
use crate::running::{Running, until_gone};

on_each_engine![
    second_of_two_at_once_is_not_granted_and_told_who_holds_it,
    command_sees_its_lease_epoch_and_deadline_and_epochs_rise,
    the_commands_own_status_is_passed_through_and_the_lease_given_back,
    signals_are_passed_on,
    loss_by_force_ends_the_command,
    a_command_that_does_not_stop_is_killed_with_all_that_it_started,
    a_command_that_ends_after_the_loss_does_not_pass_for_a_success,
    wait_gets_it_when_the_first_has_ended_or_says_that_it_did_not,
    wait_gets_it_when_the_first_was_killed,
    wait_gets_it_when_it_is_taken_by_force,
    a_signal_ends_the_wait,
    #[cfg(target_os = "linux")]
    nothing_of_the_command_outlives_a_fencepost_that_is_killed,
];

fn start(place: &Place, args: &[&str]) -> Running {
    Running::start(place, &[&["lease", "run"], args].concat())
}

/// Says who it is and runs until its standard input is closed.
const UNTIL_TOLD: &str = "echo running; read -r line; exit 0";

fn store() -> Place {
    let place = Place::new();
    assert_eq!(place.run(&["init"]).status, 0);
    place
}

fn lease(place: &Place, name: &str) -> Value {
    place.run(&["lease", "show", name, "--json"]).json()
}

fn second_of_two_at_once_is_not_granted_and_told_who_holds_it() {
    let place = store();
    let mut first = start(&place, &["x", "--holder", "the first", "--", "sh", "-c", UNTIL_TOLD]);
    assert_eq!(first.line(), "running");
    let held = lease(&place, "x");
    assert_eq!((&held["state"], &held["holder"]), (&"held".into(), &"the first".into()));

    let second = place.run(&["lease", "run", "x", "--", "touch", "ran"]);
    assert_eq!((second.status, second.stdout.as_str()), (120, ""), "{second}");
    assert!(second.stderr.starts_with("error: cannot acquire the lease `x`: `the first` holds it\n"), "{second}");
    assert!(second.stderr.contains("\nhint: ") && second.stderr.contains("`--wait 1m`"), "{second}");
    let answer = place.run(&["lease", "run", "x", "--json", "--holder", "the first", "--", "touch", "ran"]);
    let error = &answer.json()["error"];
    assert_eq!(
        (answer.status, &error["code"], &error["context"]["holder"]),
        (120, &"lease_held".into(), &"the first".into())
    );
    assert_eq!(error["context"]["epoch"], held["epoch"].to_string());
    assert!(!place.path("ran").exists() && lease(&place, "x")["epoch"] == held["epoch"]);

    assert_eq!(place.run(&["lease", "run", "y", "--", "true"]).status, 0, "another lease is free");
    assert_eq!(first.end().status, 0);
    assert_eq!(place.run(&["lease", "run", "x", "--", "touch", "ran"]).status, 0);
    assert!(place.path("ran").exists());
}

fn command_sees_its_lease_epoch_and_deadline_and_epochs_rise() {
    let place = store();
    let mut last = 0;
    for _ in 0..3 {
        let before = HostClock.boot();
        let script = r#"echo "$FENCEPOST_LEASE|$FENCEPOST_EPOCH|$FENCEPOST_DEADLINE""#;
        let answer = place.run(&["lease", "run", "nightly report", "--ttl", "10s", "--", "sh", "-c", script]);
        let after = HostClock.boot();
        let fields: Vec<_> = answer.stdout.trim_end().split('|').collect();
        let [name, epoch, deadline] = fields[..] else { panic!("{answer}") };
        let (epoch, deadline): (i64, u128) = (epoch.parse().unwrap(), deadline.parse().unwrap());
        assert_eq!((answer.status, name), (0, "nightly report"));
        assert!(epoch > last, "{epoch} after {last}");
        let of_request = |sent: fencepost::BootInstant| sent.since_boot().as_millis() + 9_000;
        assert!((of_request(before)..=of_request(after)).contains(&deadline), "{deadline}");
        last = epoch;
    }
    assert_eq!(lease(&place, "nightly report")["last_epoch"], last);
}

fn the_commands_own_status_is_passed_through_and_the_lease_given_back() {
    let place = store();
    let table: [(&[&str], i32); 9] = [
        (&["true"], 0),
        (&["sh", "-c", "exit 1"], 1),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "exit 255"], 255),
        (&["sh", "-c", "kill -9 $$"], 137),
        (&["sh", "-c", "kill -15 $$"], 143),
        (&["sh", "-c", "test \"$1\" = '--json'", "sh", "--json"], 0),
        (&["no-such-program"], 127),
        (&["/"], 126),
    ];
    for (command, status) in table {
        let answer = place.run(&[&["lease", "run", "x", "--"], command].concat());
        assert_eq!((answer.status, answer.stdout.as_str()), (status, ""), "{command:?} {answer}");
        assert_eq!(answer.stderr.contains("error: cannot run `"), status == 126 || status == 127, "{answer}");
        assert_eq!(lease(&place, "x")["state"], "free", "{command:?}");
    }
    let recorded = place.run(&["lease", "run", "x", "--json", "--", "sh", "-c", "exit 7"]);
    let (told, last) = (recorded.json(), lease(&place, "x")["last_epoch"].clone());
    assert_eq!(told, serde_json::json!({"name": "x", "epoch": last, "status": 7, "signal": null}));
}

fn signals_are_passed_on() {
    let place = store();
    // RACE: what the shell starts may get the signal before it has become `sleep`, and live on; it must not hold our pipes.
    let script = "trap 'kill $!; echo told; exit 9' TERM; sleep 60 >/dev/null 2>&1 & echo running; wait";
    let mut running = start(&place, &["x", "--", "sh", "-c", script]);
    assert_eq!(running.line(), "running");
    kill_process(running.pid(), Signal::TERM).unwrap();
    assert_eq!(running.line(), "told");
    assert_eq!(running.ended().status, 9);
    assert_eq!(lease(&place, "x")["state"], "free");
}

fn loss_by_force_ends_the_command() {
    let place = store();
    let script = "trap 'echo told; exit 5' TERM; sleep 1000 & echo running; wait";
    let mut running = start(&place, &["x", "--ttl", "1s", "--", "sh", "-c", script]);
    assert_eq!(running.line(), "running");
    let epoch = place.run(&["lease", "release", "x", "--reason", "the host is gone", "--json"]).json()["epoch"].clone();
    assert_eq!(running.line(), "told");
    let answer = running.ended();
    assert_eq!(answer.status, 121, "{answer}");
    assert!(answer.stderr.contains("lost the lease `x`: it was taken by force: `the host is gone`"), "{answer}");
    assert!(
        answer.stderr.contains("the command ended with status 5") && answer.stderr.contains("\nhint: "),
        "{answer}"
    );
    let now = lease(&place, "x");
    assert_eq!((&now["state"], &now["last_epoch"]), (&"free".into(), &epoch), "nothing of the heir's is released");
}

/// Somebody keeps the store busy for longer than the lease lasts.
#[test]
fn a_lease_that_cannot_be_renewed_ends_the_command_before_it_expires() {
    let place = store();
    let script = "trap 'echo told; exit 5' TERM; sleep 1000 & echo running; wait";
    let mut running = start(&place, &["x", "--ttl", "1s", "--", "sh", "-c", script]);
    assert_eq!(running.line(), "running");
    let running = place.with_store(async |store| {
        let sqlite = store.as_sqlite().expect("it is one");
        let busy = sqlite.write(move |_| {
            assert_eq!(running.line(), "told");
            fencepost::Result::Ok(running)
        });
        busy.await
    });
    let answer = running.ended();
    assert_eq!(answer.status, 121, "{answer}");
    assert!(answer.stderr.contains("it could not be renewed in time; the command ended with status 5"), "{answer}");
    assert_eq!(lease(&place, "x")["state"], "free", "it was still ours to give back");
}

fn a_command_that_does_not_stop_is_killed_with_all_that_it_started() {
    let place = store();
    let script = "trap '' TERM; sleep 1000 & echo $!; while :; do wait; done";
    let mut running = start(&place, &["x", "--ttl", "1s", "--json", "--", "sh", "-c", script]);
    let started: i32 = running.line().parse().unwrap();
    assert_eq!(place.run(&["lease", "release", "x", "--reason", "r"]).status, 0);
    let answer = running.ended();
    let error = &answer.json()["error"];
    assert_eq!((answer.status, &error["code"]), (121, &"lease_lost".into()), "{answer}");
    assert_eq!(error["context"]["command_status"], "137");
    #[cfg(target_os = "linux")]
    until_gone(started);
}

fn a_command_that_ends_after_the_loss_does_not_pass_for_a_success() {
    let place = store();
    let mut running = start(&place, &["x", "--ttl", "24h", "--", "sh", "-c", UNTIL_TOLD]);
    assert_eq!(running.line(), "running");
    assert_eq!(place.run(&["lease", "release", "x", "--reason", "r"]).status, 0);
    assert_eq!(place.run(&["lease", "run", "x", "--", "true"]).status, 0, "somebody else had it meanwhile");
    let answer = running.end();
    assert_eq!(answer.status, 121, "{answer}");
    assert!(answer.stderr.contains("before the command had ended; the command ended with status 0"), "{answer}");
}

fn wait_gets_it_when_the_first_has_ended_or_says_that_it_did_not() {
    let place = store();
    let mut first = start(&place, &["x", "--holder", "first", "--", "sh", "-c", UNTIL_TOLD]);
    assert_eq!(first.line(), "running");
    let bounded = place.run(&["lease", "run", "x", "--wait", "200ms", "--", "true"]);
    assert_eq!(bounded.status, 120, "{bounded}");
    assert!(bounded.stderr.contains("within 200 ms: `first` holds it"), "{bounded}");

    let mut second = start(&place, &["x", "--wait", "1h", "--", "echo", "mine"]);
    let mut told = String::new();
    second.stderr.read_line(&mut told).unwrap();
    assert_eq!(told, "waiting for the lease `x`, which `first` holds\n");
    assert!(second.child.try_wait().unwrap().is_none());
    assert_eq!(first.end().status, 0);
    assert_eq!(second.line(), "mine");
    assert_eq!(second.ended().status, 0);
}

/// B05: whoever waits gets the lease of a process that was killed, when the lease has expired and not before.
fn wait_gets_it_when_the_first_was_killed() {
    let place = store();
    let mut first = start(&place, &["x", "--ttl", "1s", "--holder", "first", "--", "sh", "-c", UNTIL_TOLD]);
    assert_eq!(first.line(), "running");
    let mut second = start(&place, &["x", "--wait", "1h", "--", "echo", "mine"]);
    second.stderr.read_line(&mut String::new()).unwrap();
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let killed = HostClock.boot();
    let held = lease(&place, "x");
    assert_eq!(second.line(), "mine");
    let waited = HostClock.boot().since(killed);
    assert!(waited < Duration::from_secs(3), "{waited:?} after a ttl of 1 s");
    assert_eq!(second.ended().status, 0);
    assert_eq!(held["holder"], "first", "it was held until it expired");
    assert!(lease(&place, "x")["last_epoch"].as_i64() > held["epoch"].as_i64());
}

/// It would be held for an hour, and the waiter asks again every few seconds: that it comes at once is the wake-up's doing.
fn wait_gets_it_when_it_is_taken_by_force() {
    let place = store();
    let mut first = start(&place, &["x", "--ttl", "1h", "--", "sh", "-c", UNTIL_TOLD]);
    assert_eq!(first.line(), "running");
    let mut second = start(&place, &["x", "--wait", "1h", "--", "echo", "mine"]);
    second.stderr.read_line(&mut String::new()).unwrap();
    assert_eq!(place.run(&["lease", "release", "x", "--reason", "it hangs"]).status, 0);
    assert_eq!(second.line(), "mine");
    assert_eq!(second.ended().status, 0);
    assert_eq!(first.end().status, 121);
}

fn a_signal_ends_the_wait() {
    let place = store();
    let mut first = start(&place, &["x", "--", "sh", "-c", UNTIL_TOLD]);
    assert_eq!(first.line(), "running");
    let mut second = start(&place, &["x", "--wait", "1h", "--", "touch", "ran"]);
    second.stderr.read_line(&mut String::new()).unwrap();
    kill_process(second.pid(), Signal::TERM).unwrap();
    assert_eq!(second.ended().status, 143);
    assert_eq!(first.end().status, 0);
    assert!(!place.path("ran").exists());
}

/// A file that may not grow stands for a full disk.
#[test]
fn a_store_that_cannot_take_the_grant_is_unavailable() {
    let place = store();
    let program = env!("CARGO_BIN_EXE_fencepost");
    let script = format!("trap '' XFSZ; ulimit -f 0; exec '{program}' lease run x -- touch ran");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).current_dir(place.path(".")).env_clear();
    let answer = Answer::from(command.output().unwrap());
    assert_eq!(answer.status, 122, "{answer}");
    assert!(answer.stderr.starts_with("error: ") && !place.path("ran").exists(), "{answer}");
}

#[cfg(target_os = "linux")]
fn nothing_of_the_command_outlives_a_fencepost_that_is_killed() {
    let place = store();
    let mut running = start(&place, &["x", "--", "sh", "-c", "sleep 1000 & echo $!; wait; exit"]);
    let forked: i32 = running.line().parse().unwrap();
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    until_gone(forked);
    assert_eq!(lease(&place, "x")["state"], "held", "it expires by itself");
}

/// What `nohup` makes be ignored stays ignored, in the command too.
#[test]
#[cfg(target_os = "linux")]
fn signals_that_were_ignored_stay_ignored() {
    let place = store();
    let program = env!("CARGO_BIN_EXE_fencepost");
    let script = format!("trap '' HUP; exec '{program}' lease run x -- grep SigIgn: /proc/self/status");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).current_dir(place.path(".")).env_clear();
    let answer = Answer::from(command.output().unwrap());
    let mask = u64::from_str_radix(answer.stdout.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!((answer.status, mask & 1), (0, 1), "{answer}");
}
