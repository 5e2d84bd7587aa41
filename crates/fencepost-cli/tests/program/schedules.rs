//! `fencepost schedule`: what people put and see, and leaders as processes that are killed, stopped and cut off.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::time::{Duration, Instant};

use fencepost::runtime::LEADER;
use fencepost::{
    AcquireLease, Acquired, HolderName, LeaseName, LeaseToken, NextFire, QueueName, ScheduleDefinition, ScheduleName,
    Tick, Timestamp,
};
use fencepost_test_support::Random;
use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::place::{Place, on_each_engine, on_postgres, runtime};
use crate::running::Running;
use crate::servers::{connected, database, execute};

on_each_engine! {
    a_schedule_is_put_listed_paused_resumed_run_and_removed,
    bad_schedules_are_refused_before_anything_is_stored,
    b08_leaders_that_are_killed_stopped_and_cut_off_fire_each_time_once,
    b05_another_leads_when_the_leader_ends,
    a_leader_says_that_its_lease_was_taken_and_that_it_stopped,
    what_a_schedule_has_fired_is_shown,
    b11_what_keeps_schedules_from_firing_is_found,
    why_a_schedule_sent_nothing_is_told_apart,
    that_nobody_leads_is_told_before_anything_is_late,
    what_is_overdue_is_shown_as_that,
    schedules_without_a_queue_are_counted_and_the_queue_is_named,
    the_next_time_is_shown_by_the_clocks_of_the_zone_too,
    the_payload_is_shown_as_messages_have_it,
}

fn schedule(place: &Place, args: &[&str]) -> (i32, Value) {
    let answer = place.run(&[&["schedule"], args, &["--json"]].concat());
    (answer.status, answer.json())
}

/// A place with the queue `q`.
fn place() -> Place {
    Place::with_queue("q")
}

fn a_schedule_is_put_listed_paused_resumed_run_and_removed() {
    let place = place();
    let put = ["put", "report", "0 8 * * mon-fri", "--queue", "q", "--zone", "Europe/Berlin", "--kind", "report"];
    assert_eq!(schedule(&place, &put).1["outcome"], "created");
    assert_eq!(schedule(&place, &put).1["outcome"], "unchanged");
    let (status, listed) = schedule(&place, &["list"]);
    let one = &listed["schedules"][0];
    assert_eq!((status, &one["name"], &one["spec"]), (0, &"report".into(), &"0 8 * * 1-5".into()));
    assert_eq!((&one["misfire"], &one["missed"], &listed["leader"]), (&"one".into(), &0.into(), &Value::Null));
    assert!(place.run(&["schedule", "list"]).stdout.contains("nobody fires them: run `fencepost schedule serve`"));
    assert_eq!(schedule(&place, &["pause", "report"]).1["changed"], true);
    assert_eq!(schedule(&place, &["list"]).1["schedules"][0]["next_at"], Value::Null);
    assert_eq!(schedule(&place, &["resume", "report"]).1["changed"], true);
    let (status, ran) = schedule(&place, &["run", "report"]);
    assert_eq!((status, ran["id"].is_i64()), (0, true));
    let tail = place.run(&["tail", "q", "--json"]).json();
    assert_eq!((&tail["kind"], &tail["headers"]["fencepost-schedule"]), (&"report".into(), &"report".into()));
    assert_eq!(schedule(&place, &["remove", "report"]).0, 0);
    for gone in [["remove", "report"], ["pause", "report"], ["resume", "report"], ["run", "report"]] {
        let (status, answer) = schedule(&place, &gone);
        assert_eq!((status, &answer["error"]["code"]), (1, &"not_found".into()), "{gone:?}: {answer}");
    }
}

fn bad_schedules_are_refused_before_anything_is_stored() {
    let place = place();
    for (spec, more, column) in [
        ("61 * * * *", &[] as &[&str], "1"),
        ("* * 31 2 *", &[], ""),
        ("* * * *", &[], ""),
        ("@every 0s", &[], ""),
        ("* 24 * * *", &[], "3"),
        ("99999-01-01T00:00:00Z", &[], ""),
        ("2020-01-01T00:00:00Z", &[], ""),
        ("* * * * *", &["--zone", "Europe/Berln"], ""),
        ("* * * * *", &["--misfire", "some"], ""),
        ("* * * * *", &["--jitter", "2d"], ""),
        ("* * * * *", &["--from", "tomorrow"], ""),
        ("* * * * *", &["--from", "2026-01-02T00:00:00Z", "--until", "2026-01-01T00:00:00Z"], ""),
        ("* 5,,6 * * *", &[], ""),
    ] {
        let args = [&["put", "s", spec, "--queue", "q"], more].concat();
        let (status, answer) = schedule(&place, &args);
        let error = &answer["error"];
        assert_eq!((status, &error["kind"]), (2, &"invalid_input".into()), "{args:?}: {answer}");
        assert!(error["hint"].is_string(), "{args:?}: {answer}");
        if !column.is_empty() {
            assert_eq!(error["context"]["column"], column, "{args:?}: {answer}");
        }
    }
    assert_eq!(schedule(&place, &["put", "s", "@daily", "--queue", "none"]).1["error"]["code"], "not_found");
    assert_eq!(schedule(&place, &["list"]).1["schedules"], Value::Array(Vec::new()));
}

#[test]
fn a_preview_shows_gaps_and_overlaps() {
    let place = Place::new();
    let of = |from: &str, count: &str| {
        let args = ["preview", "30 2 * * *", "--zone", "Europe/Berlin", "--from", from, "--count", count];
        schedule(&place, &args).1["fires"].clone()
    };
    let gap = of("2026-03-28T12:00:00Z", "2");
    assert_eq!((&gap[0]["at"], &gap[0]["dst"]), (&"2026-03-29T01:00:00.000000Z".into(), &"gap".into()));
    assert_eq!((&gap[0]["local"], &gap[1]["dst"]), (&"2026-03-29T03:00:00+02:00".into(), &Value::Null));
    let overlap = of("2026-10-24T12:00:00Z", "2");
    assert_eq!((&overlap[0]["at"], &overlap[0]["dst"]), (&"2026-10-25T00:30:00.000000Z".into(), &"overlap".into()));
    assert_eq!(overlap[1]["at"], "2026-10-26T01:30:00.000000Z");
    assert_eq!(schedule(&place, &["preview", "nothing"]).0, 1);
    // A spec needs no store, and none that answers.
    let away = "postgres://nobody@127.0.0.1:1/nowhere";
    assert_eq!(schedule(&place, &["preview", "@daily", "--store", away]).0, 0);
    assert_eq!(schedule(&place, &["preview", "nothing", "--store", away]).0, 4);
    assert_eq!(schedule(&place, &["preview", "* * * * *", "--count", "0"]).0, 2);
}

/// Serves until something was told that has this in it.
fn serve_until(place: &Place, word: &str) {
    let mut leader = Running::start(place, &SERVE);
    while !said(&mut leader).contains(word) {}
    kill_process(leader.pid(), Signal::TERM).unwrap();
    assert_eq!(leader.ended().status, 0);
}

fn what_a_schedule_has_fired_is_shown() {
    let place = place();
    let put = ["put", "s", "@every 1s", "--queue", "q", "--payload", "hello", "--key", "k"];
    assert_eq!(schedule(&place, &put).0, 0);
    assert_eq!(schedule(&place, &["show", "s"]).1["fires"], Value::Array(Vec::new()));
    serve_until(&place, "\"fired\"");
    let (status, shown) = schedule(&place, &["show", "s"]);
    let fired = &shown["fires"][0];
    let tail = place.run(&["tail", "q", "--json"]).stdout;
    let message: Value = serde_json::from_str(tail.lines().next().unwrap()).unwrap();
    assert_eq!((status, &shown["key"], &fired["message_id"]), (0, &"k".into(), &message["id"]));
    let at = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    assert_eq!(at(&fired["nominal_at"]), at(&message["headers"]["fencepost-nominal-time"]));
    assert!(at(&fired["fired_at"]) >= at(&fired["nominal_at"]));
    let screen = place.run(&["schedule", "show", "s"]).stdout;
    assert!(["nominal time", "hello", "@every 1s"].iter().all(|text| screen.contains(text)), "{screen}");
    assert_eq!(schedule(&place, &["show", "none"]).1["error"]["code"], "not_found");
}

/// Makes a role that may do this, runs with the URL by which it opens the store, and removes it.
fn as_role(place: &Place, grants: &str, run: impl FnOnce(&str)) {
    let role = format!("weak_{}", database(place).name());
    execute(place, &format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'; {}", grants.replace("{role}", &role)));
    let administrator = format!("//postgres:{}@", database(place).server().password());
    let url = place.url().replacen(&administrator, &format!("//{role}:secret@"), 1);
    run(&url);
    execute(place, &format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

/// Who may consume the queue of a schedule sees what it has fired.
#[test]
fn a_consumer_is_shown_a_schedule_of_its_queue() {
    on_postgres(|| {
        let place = place();
        assert_eq!(schedule(&place, &["put", "s", "@every 1s", "--queue", "q"]).0, 0);
        serve_until(&place, "\"fired\"");
        as_role(&place, "SELECT fencepost.grant_queue('q', '{role}', 'consumer')", |url| {
            let (status, shown) = schedule(&place, &["show", "s", "--store", url]);
            assert_eq!((status, shown["fires"][0]["message_id"].is_i64()), (0, true), "{shown}");
        });
        assert_eq!(place.run(&["queue", "create", "other"]).status, 0);
        as_role(&place, "SELECT fencepost.grant_queue('other', '{role}', 'consumer')", |url| {
            let (status, shown) = schedule(&place, &["show", "s", "--store", url]);
            assert_eq!((status, &shown["error"]["code"]), (1, &"not_found".into()), "{shown}");
        });
    });
}

/// A role that may not see the leader's lease is told nothing about who fires, instead of that nobody does.
#[test]
fn who_may_not_see_the_lease_is_told_of_no_leader() {
    on_postgres(|| {
        let place = place();
        assert_eq!(schedule(&place, &["put", "s", "@daily", "--queue", "q"]).0, 0);
        as_role(&place, "SELECT fencepost.grant_queue('q', '{role}', 'consumer')", |url| {
            let (status, listed) = schedule(&place, &["list", "--store", url]);
            assert_eq!((status, &listed["schedules"][0]["name"], &listed["leader"]), (0, &"s".into(), &Value::Null));
            let told = place.run(&["schedule", "list", "--store", url]);
            assert!(told.status == 0 && told.stdout.contains("waiting"), "{told}");
            assert!(!told.stdout.contains("fire"), "{told}");
        });
        let told = place.run(&["schedule", "list"]).stdout;
        assert!(told.ends_with("\nnobody fires them: run `fencepost schedule serve`\n"), "{told}");
    });
}

/// The codes of what `doctor` finds, in their order.
fn found(place: &Place) -> Vec<String> {
    let answer = place.run(&["doctor", "--json"]).json();
    let findings = answer["findings"].as_array().unwrap().iter();
    let of_schedules = |code: &&str| {
        ["schedule_problem", "schedule_ahead", "schedules_late", "nobody_fires", "nobody_leads"].contains(code)
    };
    findings.filter_map(|finding| finding["code"].as_str()).filter(of_schedules).map(str::to_owned).collect()
}

/// B11: what a leader cannot fire is told of by every command that says how things are, and so is that there is none.
fn b11_what_keeps_schedules_from_firing_is_found() {
    let place = place();
    assert_eq!(place.run(&["queue", "create", "gone"]).status, 0);
    assert_eq!(schedule(&place, &["put", "s", "@every 1s", "--queue", "gone"]).0, 0);
    assert_eq!(found(&place), ["nobody_leads"]);
    assert_eq!(place.run(&["queue", "drop", "gone", "--force"]).status, 0);
    serve_until(&place, "\"target_gone\"");
    assert_eq!(found(&place), ["schedule_problem", "nobody_leads"]);
    let screen = place.run(&["status"]).stdout;
    assert!(screen.contains("1 schedule with a problem: `fencepost doctor` says what to do"), "{screen}");
    let metrics = place.run(&["status", "--prometheus"]).stdout;
    assert!(metrics.contains("fencepost_schedules{state=\"problem\"} 1\n"), "{metrics}");
    assert_eq!(schedule(&place, &["remove", "s"]).0, 0);

    put_late(&place, "@every 1s", Duration::from_secs(120));
    assert_eq!(found(&place), ["nobody_fires"]);
    let leader = lead(&place);
    assert_eq!(found(&place), ["schedules_late"]);
    tick(&place, &leader, Duration::from_secs(3_600), None);
    assert_eq!(found(&place), ["schedule_ahead"]);
}

/// Puts the schedule `late` into `q`, due so long ago.
fn put_late(place: &Place, spec: &str, ago: Duration) {
    place.with_store(async |store| {
        let nominal_at = Timestamp::from_micros(store.now().await?.as_micros() - ago.as_micros() as i64);
        let mut definition = ScheduleDefinition::new(ScheduleName::new("late")?, spec, QueueName::new("q")?);
        definition.payload = vec![0xff];
        let next = NextFire { nominal_at, due_at: nominal_at };
        store.put_schedule(&definition, Some(next), nominal_at).await.map(drop)
    });
}

/// Holds the leader's lease and does nothing.
fn lead(place: &Place) -> LeaseToken {
    place.with_store(async |store| {
        let leads = AcquireLease::new(LeaseName::new(LEADER)?, HolderName::new("stuck")?);
        match store.acquire_lease(&leads).await? {
            Acquired::Granted { token, .. } => Ok(token),
            refused => panic!("nobody leads: {refused:?}"),
        }
    })
}

/// Fires the last time of `late`, which comes in so long, or stops it with a problem.
fn tick(place: &Place, leader: &LeaseToken, ahead: Duration, problem: Option<&str>) {
    place.with_store(async |store| {
        let name = ScheduleName::new("late")?;
        let revision = store.schedule(&name).await?.expect("it is there").revision;
        let fires = if problem.is_none() { vec![store.now().await? + ahead] } else { Vec::new() };
        let tick = Tick { name, revision, fires, missed: 0, next: None, problem: problem.map(str::to_owned) };
        store.fire_schedules(leader, &[tick]).await.map(drop)
    });
}

/// The hint of the one finding about a problem; none without.
fn hint(place: &Place) -> Option<String> {
    let answer = place.run(&["doctor", "--json"]).json();
    let mut findings = answer["findings"].as_array().unwrap().iter();
    let found = findings.find(|finding| finding["code"] == "schedule_problem")?;
    Some(found["hint"].as_str().unwrap().to_owned())
}

/// That a queue is gone is nothing that another version mends, and nothing that is to be mended once the queue is there.
fn why_a_schedule_sent_nothing_is_told_apart() {
    let place = place();
    put_late(&place, "2026-01-01T00:00:00Z", Duration::from_secs(1));
    let leader = lead(&place);
    assert_eq!(place.run(&["queue", "drop", "q", "--force"]).status, 0);
    tick(&place, &leader, Duration::ZERO, None);
    let of_a_queue = hint(&place).unwrap();
    assert!(of_a_queue.contains("`fencepost queue create q`") && !of_a_queue.contains("version"), "{of_a_queue}");
    assert!(place.run(&["status"]).stdout.contains("1 schedule with a problem"));
    assert_eq!(place.run(&["queue", "create", "q"]).status, 0);
    assert_eq!(hint(&place), None);
    assert!(!place.run(&["status"]).stdout.contains("doctor"));
    put_late(&place, "@lunar", Duration::from_secs(1));
    tick(&place, &leader, Duration::ZERO, Some("cannot read the schedule `late`"));
    let of_a_version = hint(&place).unwrap();
    assert!(of_a_version.contains("version"), "{of_a_version}");
}

fn that_nobody_leads_is_told_before_anything_is_late() {
    let place = place();
    let put = || place.run(&["schedule", "put", "s", "@daily", "--queue", "q"]).stdout;
    let (first, doctor) = (put(), place.run(&["doctor"]));
    assert!(first.ends_with("Z\nnobody fires it yet: run `fencepost schedule serve`\n"), "{first}");
    assert!(doctor.stdout.contains("note: nobody leads the schedules"), "{doctor}");
    assert_eq!(found(&place), ["nobody_leads"]);
    lead(&place);
    let again = put();
    assert!(again.contains("is like that already") && !again.contains("nobody"), "{again}");
    assert_eq!(found(&place), Vec::<String>::new());
}

fn what_is_overdue_is_shown_as_that() {
    let place = place();
    for state in ["waiting", "overdue"] {
        match state {
            "waiting" => assert_eq!(schedule(&place, &["put", "late", "@daily", "--queue", "q"]).0, 0),
            _ => put_late(&place, "@every 30s", Duration::from_secs(30)),
        }
        for args in [&["schedule", "list"] as &[_], &["schedule", "show", "late"], &["status"]] {
            let shown = place.run(args).stdout;
            assert!(shown.lines().any(|line| line.ends_with(&format!("  {state}"))), "{state}: {shown}");
        }
        let metrics = place.run(&["status", "--prometheus"]).stdout;
        assert!(metrics.contains(&format!("fencepost_schedules{{state=\"{state}\"}} 1\n")), "{metrics}");
    }
}

fn schedules_without_a_queue_are_counted_and_the_queue_is_named() {
    let place = place();
    assert_eq!(schedule(&place, &["put", "s", "@daily", "--queue", "q"]).0, 0);
    assert_eq!(place.run(&["queue", "drop", "q", "--force"]).status, 0);
    let screen = place.run(&["status"]).stdout;
    assert!(screen.contains("in all 0 queues") && screen.contains(", 1 schedule\n"), "{screen}");
    assert!(!screen.contains("Nothing is here") && screen.contains("fencepost queue create q\n"), "{screen}");
}

fn the_next_time_is_shown_by_the_clocks_of_the_zone_too() {
    let place = place();
    let at_eight = ["0 8 * * *", "--queue", "q", "--zone"];
    for (zone, local) in [("Asia/Kathmandu", Some("T08:00:00+05:45 +0545")), ("UTC", None), ("Etc/UTC", None)] {
        let put = place.run(&[&["schedule", "put", "s"], &at_eight[..], &[zone]].concat()).stdout;
        let [show, list] =
            [&["schedule", "show", "s"] as &[_], &["schedule", "list"]].map(|args| place.run(args).stdout);
        assert_eq!(place.run(&["schedule", "pause", "s"]).status, 0);
        let resumed = place.run(&["schedule", "resume", "s"]).stdout;
        for shown in [&put, &show, &list, &resumed] {
            match local {
                Some(local) => assert!(shown.contains(local), "{zone}: {shown}"),
                None => assert!(!shown.contains("+00:00"), "{zone}: {shown}"),
            }
        }
        assert!(resumed.starts_with("resumed schedule `s`: it fires in "), "{resumed}");
        let again = schedule(&place, &["resume", "s"]).1;
        assert_eq!((&again["changed"], again["next_at"].is_string()), (&false.into(), true));
    }
}

fn the_payload_is_shown_as_messages_have_it() {
    let place = place();
    assert_eq!(schedule(&place, &["put", "s", "@daily", "--queue", "q", "--payload", "größe"]).0, 0);
    assert_eq!(schedule(&place, &["show", "s"]).1["payload"], "größe");
    put_late(&place, "@daily", Duration::ZERO);
    let bytes = schedule(&place, &["show", "late"]).1;
    assert_eq!((&bytes["payload_base64"], bytes.get("payload")), (&"/w==".into(), None));
}

/// Three leaders at once, and a second of trouble after the other.
fn b08_leaders_that_are_killed_stopped_and_cut_off_fire_each_time_once() {
    let seeds = std::env::var("FENCEPOST_SEEDS").map_or(5, |seeds| seeds.parse().unwrap());
    let first: u64 = std::env::var("FENCEPOST_SEED").map_or(1, |seed| seed.parse().unwrap());
    for seed in first..first + seeds {
        trouble(seed);
    }
}

const SERVE: [&str; 5] = ["schedule", "serve", "--ttl", "1s", "--json"];

fn trouble(seed: u64) {
    let (place, mut random) = (place(), Random::seeded(seed));
    for name in ["a", "b", "c"] {
        let put = ["put", name, "@every 1s", "--queue", "q", "--misfire", "all:10000"];
        assert_eq!(schedule(&place, &put).0, 0);
    }
    let mut leaders: Vec<_> = (0..3).map(|_| Running::start(&place, &SERVE)).collect();
    for _ in 0..4 {
        let one = usize::try_from(random.below(3)).unwrap();
        let pause = Duration::from_millis(300 + random.below(1_500));
        match random.below(3) {
            0 => {
                kill_process(leaders[one].pid(), Signal::KILL).unwrap();
                std::mem::replace(&mut leaders[one], Running::start(&place, &SERVE)).ended();
                std::thread::sleep(pause); // TIME: the moment of what comes next is what is tried
            }
            1 => {
                kill_process(leaders[one].pid(), Signal::STOP).unwrap();
                std::thread::sleep(pause * 2); // TIME: for longer than the TTL, or not
                kill_process(leaders[one].pid(), Signal::CONT).unwrap();
            }
            _ => {
                cut(&place);
                std::thread::sleep(pause); // TIME: the moment of what comes next is what is tried
            }
        }
    }
    std::thread::sleep(Duration::from_millis(2_500)); // TIME: a term and a half, so that somebody leads at the end
    for leader in &leaders {
        kill_process(leader.pid(), Signal::TERM).unwrap();
    }
    for leader in leaders {
        let answer = leader.ended();
        // One that had just been started may have been cut off before it had a store.
        let was_opening = answer.status == 4 && answer.json()["error"]["operation"] == "open";
        assert!(answer.status == 0 || was_opening, "seed {seed}: {answer}");
    }
    let mut fired: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for line in place.run(&["tail", "q", "--json"]).stdout.lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        let header = |name: &str| message["headers"][name].as_str().unwrap().to_owned();
        let at: Timestamp = header("fencepost-nominal-time").parse().unwrap();
        fired.entry(header("fencepost-schedule")).or_default().push(at.as_micros());
    }
    assert_eq!(fired.len(), 3, "seed {seed}: {fired:?}");
    for (name, times) in fired {
        let steps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| *step == 1_000_000), "seed {seed}: `{name}` fired at {times:?}");
        assert!(times.len() >= 4, "seed {seed}: `{name}` fired {} times", times.len());
    }
}

/// Ends every session of the database, where there is one.
fn cut(place: &Place) {
    if place.database().is_some() {
        let others = "select count(pg_terminate_backend(pid)) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()";
        runtime().block_on(async { connected(place).await.execute(others, &[]).await.unwrap() });
    }
}

/// At once when it stops, and after its TTL when it is killed.
fn b05_another_leads_when_the_leader_ends() {
    for (signal, ttl, bound) in [(Signal::TERM, "60s", 10), (Signal::KILL, "1s", 10)] {
        let place = place();
        let serve = ["schedule", "serve", "--ttl", ttl, "--json"];
        let mut first = Running::start(&place, &serve);
        assert!(said(&mut first).contains("\"leads\""));
        let mut second = Running::start(&place, &serve);
        kill_process(first.pid(), signal).unwrap();
        let since = Instant::now();
        assert!(said(&mut second).contains("\"leads\""));
        assert!(since.elapsed() < Duration::from_secs(bound), "{:?}", since.elapsed());
        first.ended();
        kill_process(second.pid(), Signal::TERM).unwrap();
        let answer = second.ended();
        assert_eq!((answer.status, answer.stdout.trim()), (0, "{\"outcome\":\"stopped\"}"), "{answer}");
    }
}

/// People are told what is known, and no more.
fn a_leader_says_that_its_lease_was_taken_and_that_it_stopped() {
    let place = place();
    let mut leader = Running::start(&place, &["schedule", "serve", "--ttl", "1s"]);
    assert!(said(&mut leader).starts_with("waiting for its turn"));
    assert!(said(&mut leader).starts_with("leads under epoch "));
    assert_eq!(place.run(&["lease", "release", LEADER, "--reason", "a test"]).status, 0);
    assert_eq!(said(&mut leader), "leads no more: its lease was taken; waiting for its turn\n");
    kill_process(leader.pid(), Signal::INT).unwrap();
    let answer = leader.ended();
    assert_eq!((answer.status, &*answer.stdout), (0, "stopped\n"), "{answer}");
}

fn said(running: &mut Running) -> String {
    let mut line = String::new();
    running.stderr.read_line(&mut line).unwrap();
    line
}
