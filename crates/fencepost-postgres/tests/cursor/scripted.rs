//! The cases c1 to c6, each on an idle server, and the proof that every weakening of the rule turns at least one of them red.

use fencepost_test_support::{DEFAULT_MAJOR, PgServer, PrivateServer, skip_or_fail};
use tokio_postgres::Client;

use crate::stage::{Mutation, Stage, ack, receive, send, wrong};

/// What went wrong in a case; empty when nothing did.
type Verdict = Vec<String>;

/// A server where nobody else's transactions move the numbers that the cases are about.
async fn idle_server() -> Option<PrivateServer> {
    skip_or_fail(PgServer::private_with(DEFAULT_MAJOR, &[("fsync", "off"), ("autovacuum", "off")]).await)
}

async fn begin(stage: &Stage) -> Client {
    let client = stage.client().await;
    run(&client, "BEGIN").await;
    client
}

async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.expect(sql);
}

async fn verdict(stage: &Stage, mut reader: crate::stage::Reader) -> Verdict {
    reader.drain().await;
    let mut wrong = wrong(&stage.committed().await, &reader.delivered);
    wrong.extend(reader.disagreed);
    wrong
}

/// A low id under a transaction above xmax: xmax is the latest completed one + 1, so a running one may be above it, and is in no list.
async fn c1(server: &PgServer, mutation: Option<Mutation>) -> Verdict {
    let stage = Stage::new(server, 1, 1, mutation).await;
    let mut reader = stage.reader(0).await;
    let (early, late) = (begin(&stage).await, begin(&stage).await);
    run(&early, "SELECT pg_current_xact_id()").await;
    send(&late, "k", "low").await.unwrap();
    send(&early, "k", "high").await.unwrap();
    run(&early, "COMMIT").await;
    assert!(reader.take(10).await);
    run(&late, "COMMIT").await;
    verdict(&stage, reader).await
}

/// An id that was taken before its transaction had a number.
async fn c2(server: &PgServer, mutation: Option<Mutation>) -> Verdict {
    let stage = Stage::new(server, 1, 1, mutation).await;
    let mut reader = stage.reader(0).await;
    let (first, second) = (begin(&stage).await, stage.client().await);
    // Now and then the server gives a number with it, when it writes down that a further stretch of the sequence was taken.
    let low: i64 = loop {
        const TAKE: &str = "SELECT nextval('fencepost.q1_position'), pg_current_xact_id_if_assigned() IS NULL";
        let row = first.query_one(TAKE, &[]).await.unwrap();
        if row.get(1) {
            break row.get(0);
        }
        run(&first, "ROLLBACK; BEGIN").await;
    };
    send(&second, "k", "high").await.unwrap();
    assert!(reader.take(10).await);
    run(
        &first,
        &format!(
            "INSERT INTO fencepost.q1_0 (position, id, partition, kind, payload, created_at)
             VALUES ({low}, {low}, 0, 'default', 'low', clock_timestamp()); COMMIT"
        ),
    )
    .await;
    verdict(&stage, reader).await
}

/// Late rows fill a batch, and more become late meanwhile, below and above the last one that was taken.
async fn c3(server: &PgServer, mutation: Option<Mutation>) -> Verdict {
    let stage = Stage::new(server, 1, 1, mutation).await;
    let mut reader = stage.reader(0).await;
    let mut open = Vec::new();
    for text in ["1", "2", "3", "4"] {
        let client = begin(&stage).await;
        send(&client, "k", text).await.unwrap();
        open.push(client);
    }
    send(&stage.admin, "k", "5").await.unwrap();
    assert!(reader.take(10).await);
    run(&open[1], "COMMIT").await;
    run(&open[2], "COMMIT").await;
    reader.take(1).await;
    run(&open[0], "COMMIT").await;
    reader.take(1).await;
    run(&open[3], "COMMIT").await;
    verdict(&stage, reader).await
}

/// Sends before and after an ack with a receive, all in one transaction, with positions taken one by one or twenty at once.
async fn c4(server: &PgServer, cache: u32, mutation: Option<Mutation>) -> Verdict {
    let stage = Stage::new(server, 1, 1, mutation).await;
    run(&stage.admin, &format!("ALTER SEQUENCE fencepost.q1_position CACHE {cache}")).await;
    let mut reader = stage.reader(0).await;
    let (slot, epoch) = (reader.slot, reader.epoch);
    let (other, old) = (stage.client().await, begin(&stage).await);
    send(&old, "k", "late").await.unwrap();
    let client = &reader.client;
    run(client, "BEGIN").await;
    let own = [send(client, "k", "before").await.unwrap()];
    send(&other, "k", "other").await.unwrap();
    let first = receive(client, slot, epoch, 10, None).await.unwrap().expect("what the other sent");
    send(client, "k", "between").await.unwrap();
    send(&other, "k", "other again").await.unwrap();
    let second = receive(client, slot, epoch, 10, Some(first.batch)).await.unwrap().expect("what the other sent");
    send(client, "k", "after").await.unwrap();
    ack(client, slot, epoch, second.batch).await.unwrap();
    run(client, "COMMIT").await;
    run(&old, "COMMIT").await;
    let early = first.ids.iter().chain(&second.ids).any(|id| own.contains(id));
    reader.delivered.extend(first.ids.into_iter().chain(second.ids));
    let mut wrong = verdict(&stage, reader).await;
    if early {
        wrong.push("what is not committed was handed out".to_owned());
    }
    wrong
}

/// A prepared transaction, one with a savepoint that was rolled back, and one that was aborted.
async fn c5(server: &PgServer, mutation: Option<Mutation>) -> Verdict {
    let stage = Stage::new(server, 1, 1, mutation).await;
    let mut reader = stage.reader(0).await;
    let (prepared, saved, aborted) = (begin(&stage).await, begin(&stage).await, begin(&stage).await);
    let name = stage.database.name();
    send(&prepared, "k", "prepared").await.unwrap();
    run(&prepared, &format!("PREPARE TRANSACTION '{name}'")).await;
    send(&saved, "k", "before the savepoint").await.unwrap();
    run(&saved, "SAVEPOINT s").await;
    send(&saved, "k", "undone").await.unwrap();
    run(&saved, "ROLLBACK TO s").await;
    send(&aborted, "k", "aborted").await.unwrap();
    send(&saved, "k", "after the savepoint").await.unwrap();
    send(&stage.admin, "k", "plain").await.unwrap();
    assert!(reader.take(10).await);
    run(&aborted, "ROLLBACK").await;
    run(&saved, "COMMIT").await;
    reader.take(1).await;
    run(&stage.admin, &format!("COMMIT PREPARED '{name}'")).await;
    verdict(&stage, reader).await
}

/// A caller whose own transaction is older than what it receives.
async fn c6(server: &PgServer, mutation: Option<Mutation>) -> Verdict {
    let stage = Stage::new(server, 1, 1, mutation).await;
    let mut reader = stage.reader(0).await;
    let (slot, epoch) = (reader.slot, reader.epoch);
    run(&reader.client, "BEGIN; SELECT pg_current_xact_id()").await;
    let late = begin(&stage).await;
    send(&late, "k", "late").await.unwrap();
    send(&stage.admin, "k", "plain").await.unwrap();
    let received = receive(&reader.client, slot, epoch, 10, None).await.unwrap().expect("the plain one");
    ack(&reader.client, slot, epoch, received.batch).await.unwrap();
    run(&reader.client, "COMMIT").await;
    reader.delivered.extend(received.ids);
    run(&late, "COMMIT").await;
    verdict(&stage, reader).await
}

async fn case(server: &PgServer, name: &str, mutation: Option<Mutation>) -> Verdict {
    match name {
        "c1" => c1(server, mutation).await,
        "c2" => c2(server, mutation).await,
        "c3" => c3(server, mutation).await,
        "c4/1" => c4(server, 1, mutation).await,
        "c4/20" => c4(server, 20, mutation).await,
        "c5" => c5(server, mutation).await,
        "c6" => c6(server, mutation).await,
        other => unreachable!("no case {other}"),
    }
}

const CASES: [&str; 7] = ["c1", "c2", "c3", "c4/1", "c4/20", "c5", "c6"];

/// A43, B19: each scripted order of commits delivers everything once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a43_b19_every_scripted_order_of_commits_is_delivered_once() {
    let Some(server) = idle_server().await else { return };
    for name in CASES {
        let wrong = case(&server, name, None).await;
        assert!(wrong.is_empty(), "{name}: {wrong:?}");
    }
}

/// The parts of the rule, taken away one by one, and the cases that must turn red.
const MUTATIONS: [(Mutation, &[&str]); 6] = [
    (
        Mutation {
            name: "what is above xmax is not looked for",
            from: "    newest xid8 := pg_snapshot_xmax((c).b);\n",
            to: "    newest xid8 := '9223372036854775807';\n",
        },
        &["c1", "c2"],
    ),
    (
        Mutation {
            name: "what was open and has ended is not looked for",
            from: "    ended xid8[] := fencepost._ended((c).b, s);\n",
            to: "    ended xid8[] := '{}';\n",
        },
        &["c3", "c4/20", "c5", "c6"],
    ),
    (
        Mutation {
            name: "a pass is dropped when it fills a batch",
            from: "    if cardinality(rows) = most and last <= (c).h then\n",
            to: "    if false then\n",
        },
        &["c3"],
    ),
    (
        Mutation {
            name: "a pass goes on under a fresh snapshot",
            from: "                    seen := coalesce((work).s, fencepost._snapshot());\n",
            to: "                    seen := fencepost._snapshot();\n",
        },
        &["c3"],
    ),
    (
        Mutation {
            name: "how far a pass got is not kept",
            from: "        return row((c).h, (c).b, s, last)::fencepost.cursor;\n",
            to: "        return row((c).h, (c).b, s, 0)::fencepost.cursor;\n",
        },
        &["c3"],
    ),
    (
        Mutation {
            name: "the caller's own transaction counts as finished",
            from: "    if own is null and shift = 0 then\n",
            to: "    if shift = 0 then\n",
        },
        &["c4/20"],
    ),
];

/// No part of the rule can be left out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_weakening_of_the_rule_is_caught() {
    let Some(server) = idle_server().await else { return };
    for (mutation, red) in MUTATIONS {
        for name in red {
            let wrong = case(&server, name, Some(mutation)).await;
            assert!(!wrong.is_empty(), "{name} does not notice that {}", mutation.name);
        }
    }
}
