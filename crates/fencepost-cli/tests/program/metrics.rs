//! `status --prometheus`: read by a parser of its text format that takes nothing else.

use std::collections::BTreeMap;

use fencepost::{AcquireLease, ConsumerPath, CreateConsumer, HolderName, Key, LeaseName, NewMessage, SlotCount};

use crate::place::{Place, on_each_engine, on_postgres_alone};

on_each_engine![metrics_are_what_prometheus_reads, series_do_not_grow_with_the_work];

type Labels = BTreeMap<String, String>;

/// The samples by the name of their family and their labels.
type Samples = BTreeMap<(String, Labels), f64>;

fn metrics(place: &Place) -> Samples {
    let answer = place.run(&["status", "--prometheus"]);
    assert_eq!((answer.status, &*answer.stderr), (0, ""), "{answer}");
    parsed(&answer.stdout)
}

/// Version 0.0.4 of the format: each family with its help and its type before its samples, each series once.
fn parsed(text: &str) -> Samples {
    assert!(text.ends_with('\n'), "the last line is ended");
    let (mut samples, mut families): (Samples, BTreeMap<String, bool>) = Default::default();
    let mut helped = String::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(!help.is_empty() && !families.contains_key(name), "{line}");
            helped = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert_eq!((name, kind), (&*helped, "gauge"), "help, then type: {line}");
            assert!(!name.ends_with("_total"), "a gauge is no counter: {line}");
            assert!(is_name(name, true), "{line}");
            families.insert(name.to_owned(), true);
            current = name.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
            let (name, labels) = match series.split_once('{') {
                Some((name, rest)) => (name, labels(rest.strip_suffix('}').expect("labels are closed"))),
                None => (series, Labels::new()),
            };
            assert_eq!(name, current, "a sample of the family above it: {line}");
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
            assert!(samples.insert((name.to_owned(), labels), value).is_none(), "once: {line}");
        }
    }
    samples
}

fn is_name(name: &str, colon: bool) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || (colon && c == ':');
    !name.is_empty() && name.chars().all(fits) && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn labels(mut text: &str) -> Labels {
    let mut labels = Labels::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").expect("a label has a value in quotes");
        assert!(is_name(name, false), "{name}");
        let mut value = String::new();
        let mut chars = rest.char_indices();
        let end = loop {
            match chars.next().expect("the value is closed") {
                (_, '\\') => match chars.next().expect("something is escaped").1 {
                    'n' => value.push('\n'),
                    c @ ('\\' | '"') => value.push(c),
                    c => panic!("`\\{c}` is no escape"),
                },
                (at, '"') => break at,
                (_, c) => value.push(c),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "{name} twice");
        text = rest[end + 1..].strip_prefix(',').unwrap_or(&rest[end + 1..]);
    }
    labels
}

fn of(name: &str, labels: &[(&str, &str)]) -> (String, Labels) {
    (name.to_owned(), labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

/// Every family has help, type and unit; names of queues come through whatever is in them; what is told is what the status tells.
fn metrics_are_what_prometheus_reads() {
    let place = Place::new();
    assert_eq!(place.run(&["status", "--prometheus"]).status, 1, "there is no store");
    let odd = r#"it's "new" \ größe"#;
    place.with_store(async |store| {
        let path = ConsumerPath::new(odd, "c\\n")?;
        store.create_queue(&path.queue, Default::default()).await?;
        store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(3)?)).await?;
        for n in 0..5 {
            store.send(&path.queue, NewMessage::new("x")?.key(Key::new(format!("secret key {n}"))?)).await?;
        }
        let lease = AcquireLease::new(LeaseName::new("nightly")?, HolderName::new("host-1")?);
        store.acquire_lease(&lease).await.map(drop)
    });
    let samples = metrics(&place);
    let consumer = [("queue", odd), ("consumer", "c\\n")];
    let expected = [
        (of("fencepost_queue_stored_messages", &consumer[..1]), 5.0),
        (of("fencepost_consumer_lag_messages", &consumer), 5.0),
        (of("fencepost_consumer_slots", &consumer), 3.0),
        (of("fencepost_consumer_live_slots", &consumer), 0.0),
        (of("fencepost_leases", &[("state", "held")]), 1.0),
        (of("fencepost_leases", &[("state", "free")]), 0.0),
    ];
    for (series, value) in expected {
        assert_eq!(samples.get(&series), Some(&value), "{series:?}: {samples:#?}");
    }
    let age = samples[&of("fencepost_consumer_lag_seconds", &consumer)];
    assert!((0.0..600.0).contains(&age), "{age}");
    assert!(samples[&of("fencepost_storage_bytes", &[])] > 0.0);
    let time = samples[&of("fencepost_status_time_seconds", &[])];
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((now - time).abs() < 600.0, "{time}");
    let all = format!("{samples:?}");
    assert!(!all.contains("secret") && !all.contains("host-1") && !all.contains("nightly"), "{all}");
    assert_eq!(place.run(&["status", "--prometheus", "--json"]).status, 2);
}

/// Queues and consumers make series; messages, keys, workers, slots and leases make none.
fn series_do_not_grow_with_the_work() {
    let place = Place::new();
    place.with_store(async |store| {
        for queue in 0..8 {
            for consumer in 0..3 {
                let path = ConsumerPath::new(format!("q{queue}"), format!("c{consumer}"))?;
                store.create_queue(&path.queue, Default::default()).await?;
                store.create_consumer(&CreateConsumer::ordered(path, SlotCount::new(1 + consumer)?)).await?;
            }
        }
        Ok(())
    });
    let count =
        |samples: &Samples, label: &str| samples.keys().filter(|(_, labels)| labels.contains_key(label)).count();
    let before = metrics(&place);
    assert_eq!(count(&before, "queue"), 8 * 4 + 24 * 10);
    assert!(before.len() - count(&before, "queue") < 18, "{before:#?}");
    place.with_store(async |store| {
        for n in 0..40 {
            let queue = fencepost::QueueName::new(format!("q{}", n % 8))?;
            store.send(&queue, NewMessage::new("x")?.key(Key::new(format!("k{n}"))?)).await?;
            let lease = AcquireLease::new(LeaseName::new(format!("l{n}"))?, HolderName::new("h")?);
            store.acquire_lease(&lease).await?;
        }
        Ok(())
    });
    assert_eq!(place.run(&["work", "q1", "c1", "--until-empty", "--exec", "true"]).status, 0);
    let after = metrics(&place);
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
}

/// The alert rules in the guide ask for families that there are, on one engine or the other.
#[test]
fn alert_rules_of_the_guide_ask_for_what_there_is() {
    let guide = include_str!("../../../../docs/guide/operations.md");
    let rules = guide.split("```yaml").nth(1).and_then(|rest| rest.split("```").next()).expect("rules in the guide");
    let asked: Vec<&str> = rules
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("fencepost_"))
        .collect();
    assert!(asked.len() >= 9, "{asked:?}");
    let of_one = || {
        let place = Place::with_queue("q");
        assert_eq!(place.run(&["consumer", "create", "q", "c", "--max-attempts", "1"]).status, 0);
        assert_eq!(place.run(&["send", "q", "x"]).status, 0);
        place.run(&["work", "q", "c", "--until-empty", "--exec", "false"]);
        metrics(&place)
    };
    let mut there = of_one();
    on_postgres_alone(&[], |_| there.extend(of_one()));
    for name in asked {
        assert!(there.keys().any(|(family, _)| family == name), "no `{name}`");
    }
}
