//! Notices beyond the contract: commits that come late, connections that are lost, poolers, many channels, and what is removed.

use std::time::{Duration, Instant};

use fencepost_core::{ChannelName, Kind, NOTICES_KEPT, Notice, NoticePayload, NoticeReceiver, Notices, Queues, Retry};
use fencepost_postgres::{Hearing, PostgresStore, TransactionCalls, driver_error};
use fencepost_test_support::{DEFAULT_MAJOR, PgBouncer, PgServer, PrivateServer, skip_or_fail};
use tokio_postgres::Client;

use crate::script::{run, value};
use crate::stage::{Stage, options, until};

fn channel(name: &str) -> ChannelName {
    ChannelName::new(name).unwrap()
}

fn payload(text: &str) -> NoticePayload {
    NoticePayload::new(text).unwrap()
}

async fn next(receiver: &mut NoticeReceiver) -> Notice {
    let next = tokio::time::timeout(Duration::from_secs(30), receiver.next()).await;
    next.expect("a notice comes").expect("the store is open")
}

async fn heard(receiver: &mut NoticeReceiver) -> String {
    match next(receiver).await {
        Notice::Payload { payload, .. } => payload.as_str().to_owned(),
        other => panic!("{other:?} in place of a payload"),
    }
}

async fn notify(client: &Client, text: &str) {
    run(client, &format!("select fencepost.notify('c', '{text}')")).await;
}

/// Has the looks of all stores fail until it is undone.
async fn cut_off(client: &Client) {
    run(client, "alter function fencepost._notices rename to _notices_away").await;
}

async fn join_again(client: &Client) {
    run(client, "alter function fencepost._notices_away rename to _notices").await;
}

/// A stage on a server of its own: what transactions of others do there may be taken for a loss.
async fn alone() -> Option<(PrivateServer, Stage)> {
    let server = skip_or_fail(PgServer::private(DEFAULT_MAJOR).await)?;
    let stage = Stage::on(&server).await;
    Some((server, stage))
}

async fn hears(store: &PostgresStore) {
    until("notifications arrive", async || store.hearing() == Hearing::Notified).await;
}

/// What commits late is delivered when it commits, once, and holds nothing else up.
#[tokio::test]
async fn b30_what_commits_late_is_delivered_when_it_does() {
    let Some(stage) = Stage::new().await else { return };
    let (late, client) = (stage.client().await, stage.client().await);
    run(&late, "begin; select fencepost.notify('c', 'before'), pg_current_xact_id()").await;
    let mut receiver = stage.store.listen(&channel("c")).await.unwrap();
    run(&late, "select fencepost.notify('c', 'late')").await;
    for n in 0..5 {
        notify(&client, &n.to_string()).await;
        assert_eq!(heard(&mut receiver).await, n.to_string());
    }
    run(&late, "commit").await;
    // All of it commits after the listener began.
    assert_eq!(heard(&mut receiver).await, "before");
    assert_eq!(heard(&mut receiver).await, "late");
    notify(&client, "last").await;
    assert_eq!(heard(&mut receiver).await, "last");
}

/// The contents of a savepoint that is rolled back are never delivered, and those of one that is kept are.
#[tokio::test]
async fn savepoints_count_as_they_end() {
    let Some(stage) = Stage::new().await else { return };
    let mut receiver = stage.store.listen(&channel("c")).await.unwrap();
    let mut client = stage.store.client().await.unwrap();
    let mut transaction = client.transaction().await.unwrap();
    transaction.notify_in(&channel("c"), &payload("1")).await.unwrap();
    let inner = transaction.savepoint("part").await.unwrap();
    inner.notify_in(&channel("c"), &payload("never")).await.unwrap();
    inner.rollback().await.unwrap();
    let inner = transaction.savepoint("part").await.unwrap();
    inner.notify_in(&channel("c"), &payload("2")).await.unwrap();
    inner.commit().await.unwrap();
    transaction.commit_whole().await.unwrap();
    for text in ["1", "2"] {
        assert_eq!(heard(&mut receiver).await, text);
    }
    notify(&client, "3").await;
    assert_eq!(heard(&mut receiver).await, "3");
}

/// A listener whose connections are ended, the listening one and all others, misses nothing, and is told nothing twice.
#[tokio::test]
async fn b30_a_listener_survives_the_end_of_its_connections() {
    let Some(stage) = Stage::new().await else { return };
    let client = stage.client().await;
    let mut receiver = stage.store.listen(&channel("c")).await.unwrap();
    hears(&stage.store).await;
    let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    for (round, whose) in [" and query = 'listen fencepost'", "", " and query = 'listen fencepost'"].iter().enumerate()
    {
        for n in 0..10 {
            if n == 5 {
                run(&client, &format!("{end}{whose}")).await;
            }
            notify(&client, &format!("{round}/{n}")).await;
        }
        for n in 0..10 {
            assert_eq!(heard(&mut receiver).await, format!("{round}/{n}"));
        }
        hears(&stage.store).await;
    }
}

/// A listener that is cut off hears everything that is kept once it is back, without a word of a loss.
#[tokio::test]
async fn what_was_notified_while_a_listener_was_cut_off_is_delivered_later() {
    let Some(stage) = Stage::new().await else { return };
    let client = stage.client().await;
    let mut receiver = stage.store.listen(&channel("c")).await.unwrap();
    let mut lazy = stage.store.listen(&channel("c")).await.unwrap();
    cut_off(&client).await;
    let many = 2_500;
    // Most of it on another channel: a page may have nothing for anybody.
    let sql =
        "select fencepost.notify(case n % 25 when 0 then 'c' else 'd' end, n::text) from generate_series(1, $1::int) n";
    client.query(sql, &[&many]).await.unwrap();
    assert!(stage.store.listen(&channel("c")).await.is_err(), "nobody knows where to begin");
    join_again(&client).await;
    for n in (25..=many).step_by(25) {
        assert_eq!(heard(&mut receiver).await, n.to_string());
    }
    assert_eq!(heard(&mut lazy).await, "25");
}

/// What is much comes in pages, all of the snapshot that the first one was of: what commits between two of them comes with the next pass.
#[tokio::test]
async fn pages_of_one_pass_are_of_one_snapshot() {
    let Some(stage) = Stage::new().await else { return };
    let (client, between) = (stage.client().await, stage.client().await);
    let look = "select place, seen, last_xid, last_id, payload from fencepost._notices('{c}', $1, $2, $3, $4, $5)";
    let page = async |place: Option<&str>, since: Option<&str>, pass: (Option<&str>, Option<&str>, Option<i64>)| {
        client.query(look, &[&place, &since, &pass.0, &pass.1, &pass.2]).await.unwrap()
    };
    let begin = page(None, None, (None, None, None)).await;
    let (place, since): (String, String) = (begin[0].get(0), begin[0].get(1));
    let (place, since) = (Some(&*place), Some(&*since));
    client.query("select fencepost.notify('c', n::text) from generate_series(1, 1500) n", &[]).await.unwrap();
    let first = page(place, since, (None, None, None)).await;
    assert_eq!(first.len(), 1_001);
    let (upto, xid): (String, Option<String>) = (first[0].get(1), first[0].get(2));
    notify(&between, "between").await;
    let second = page(place, since, (Some(&upto), xid.as_deref(), first[0].get(3))).await;
    assert_eq!(second[0].get::<_, String>(1), upto);
    assert_eq!(second[0].get::<_, Option<String>>(2), None, "there is no further page");
    let texts = first[1..].iter().chain(&second[1..]).map(|row| row.get::<_, String>(4));
    assert!(texts.eq((1..=1_500).map(|n: i32| n.to_string())));
    let next = page(place, Some(&upto), (None, None, None)).await;
    assert_eq!(next[1..].iter().map(|row| row.get::<_, String>(4)).collect::<Vec<_>>(), ["between"]);
}

/// B30: when notices are gone that a listener had not seen, it is told so, and goes on with what is there.
#[tokio::test]
async fn b30_a_listener_that_was_away_for_too_long_hears_a_resync() {
    let Some((_server, stage)) = alone().await else { return };
    let client = stage.client().await;
    notify(&client, "before").await;
    let mut receiver = stage.store.listen(&channel("c")).await.unwrap();
    notify(&client, "seen").await;
    assert_eq!(heard(&mut receiver).await, "seen");
    // What it has seen may go without a word.
    stage.pass(601);
    assert_eq!(stage.store.maintain(None).await.unwrap(), 1);
    assert_eq!(value::<i64>(&client, "select count(*) from fencepost.notice").await, 0);
    notify(&client, "also seen").await;
    assert_eq!(heard(&mut receiver).await, "also seen");
    cut_off(&client).await;
    notify(&client, "missed").await;
    stage.pass(601);
    stage.store.maintain(None).await.unwrap();
    notify(&client, "kept").await;
    join_again(&client).await;
    assert_eq!(next(&mut receiver).await, Notice::Resync);
    assert_eq!(heard(&mut receiver).await, "kept");
    notify(&client, "last").await;
    assert_eq!(heard(&mut receiver).await, "last");
}

/// One that commits after so long that it is removed at once is told of as a loss, and a transaction that is still open is none.
#[tokio::test]
async fn what_commits_too_late_to_be_kept_is_told_of() {
    let Some((_server, stage)) = alone().await else { return };
    let (late, client) = (stage.client().await, stage.client().await);
    run(&late, "begin; select fencepost.notify('c', 'late')").await;
    let mut receiver = stage.store.listen(&channel("c")).await.unwrap();
    notify(&client, "early").await;
    assert_eq!(heard(&mut receiver).await, "early");
    stage.pass(601);
    stage.store.maintain(None).await.unwrap();
    notify(&client, "still open").await;
    assert_eq!(heard(&mut receiver).await, "still open");
    cut_off(&client).await;
    run(&late, "commit").await;
    stage.store.maintain(None).await.unwrap();
    notify(&client, "after").await;
    join_again(&client).await;
    assert_eq!(next(&mut receiver).await, Notice::Resync);
    assert_eq!(heard(&mut receiver).await, "after");
}

/// A store that is declared another one has its listeners told, once.
#[tokio::test]
async fn a_store_that_moved_has_its_listeners_told() {
    let Some(stage) = Stage::new().await else { return };
    let client = stage.client().await;
    run(&client, "select fencepost.rebase()").await;
    let mut receiver = stage.store.listen(&channel("c")).await.unwrap();
    notify(&client, "before").await;
    assert_eq!(heard(&mut receiver).await, "before");
    run(&client, "select fencepost.rebase()").await;
    assert_eq!(next(&mut receiver).await, Notice::Resync);
    notify(&client, "after").await;
    assert_eq!(heard(&mut receiver).await, "after");
}

/// Once the listener is known, a notice by plain SQL is heard sooner than looking would, whatever its channel is called.
#[tokio::test]
async fn a_notice_by_sql_is_heard_at_once() {
    let Some(stage) = Stage::new().await else { return };
    let client = stage.client().await;
    let name = format!("注{}", "x".repeat(250));
    let mut receiver = stage.store.listen(&channel(&name)).await.unwrap();
    hears(&stage.store).await;
    let mut quickest = Duration::MAX;
    for n in 0..20 {
        let since = Instant::now();
        client.query("select fencepost.notify(channel => $1, payload => $2)", &[&name, &n.to_string()]).await.unwrap();
        assert_eq!(heard(&mut receiver).await, n.to_string());
        quickest = quickest.min(since.elapsed());
    }
    assert!(quickest < Duration::from_millis(100), "{quickest:?}");
}

/// Behind a pooler in transaction mode no notification arrives, and every notice does, later.
#[tokio::test]
async fn behind_a_pooler_notices_arrive_by_looking() {
    let Some(stage) = Stage::new().await else { return };
    let Some(pooler) = skip_or_fail(PgBouncer::start(&stage.database).await) else { return };
    let store = PostgresStore::open(&pooler.url(), options()).await.unwrap();
    let client = stage.client().await;
    let mut receiver = store.listen(&channel("c")).await.unwrap();
    let mut round = 0;
    while store.hearing() != Hearing::Deaf || round < 10 {
        notify(&client, &round.to_string()).await;
        assert_eq!(heard(&mut receiver).await, round.to_string());
        round += 1;
    }
    store.notify(&channel("c"), &payload("own")).await.unwrap();
    assert_eq!(heard(&mut receiver).await, "own");
}

/// Thousands of channels of one store take one connection to listen on and one look; dropped, they leave nothing.
#[tokio::test(flavor = "multi_thread")]
async fn b25_thousands_of_channels_take_one_connection() {
    let Some(stage) = Stage::new().await else { return };
    let client = stage.client().await;
    let store = PostgresStore::open(&stage.database.url(), options().pool_size(2)).await.unwrap();
    let begun: Vec<_> = (0..3_000)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.listen(&channel(&format!("c{n}"))).await.unwrap() })
        })
        .collect();
    let mut receivers = Vec::new();
    for listen in begun {
        receivers.push(listen.await.unwrap());
    }
    hears(&store).await;
    let sql = "select fencepost.notify('c' || n, n::text) from generate_series(0, 2999) n";
    client.query(sql, &[]).await.unwrap();
    for (n, receiver) in receivers.iter_mut().enumerate() {
        assert_eq!(heard(receiver).await, n.to_string());
    }
    let sessions =
        "select count(*) from pg_stat_activity where datname = current_database() and query = 'listen fencepost'";
    assert_eq!(value::<i64>(&client, sessions).await, 1);
    drop(receivers);
    until("nobody listens", async || value::<i64>(&client, sessions).await == 0).await;
}

/// Notices go by their number as well, and nobody has to maintain the store for any of it.
#[tokio::test]
async fn notices_are_removed_by_age_and_by_number() {
    let Some(stage) = Stage::new().await else { return };
    let client = stage.client().await;
    let count = async || value::<i64>(&client, "select count(*) from fencepost.notice").await;
    let many = "select fencepost.notify('c', n::text) from generate_series(1, 2048) n";
    client.query(many, &[]).await.unwrap();
    assert_eq!(count().await, 2_048);
    stage.pass(601);
    client.query(many, &[]).await.unwrap();
    assert_eq!(count().await, 2_048, "the old ones went with the new ones");
    let fill = "insert into fencepost.notice (channel, payload, at) select 'c', 'x', fencepost._clock() from generate_series(1, $1::int) n";
    client.execute(fill, &[&i32::try_from(NOTICES_KEPT).unwrap()]).await.unwrap();
    while stage.store.maintain(None).await.unwrap() > 0 {}
    assert_eq!(count().await, i64::from(NOTICES_KEPT));
}

/// Who removes old notices within an open transaction keeps nobody from notifying, and one of any isolation level does not fail for it.
#[tokio::test]
async fn who_removes_old_notices_stands_in_nobodys_way() {
    let Some(stage) = Stage::new().await else { return };
    let (first, second) = (stage.client().await, stage.client().await);
    let many = "select fencepost.notify('c', n::text) from generate_series(1, 600) n";
    first.query(many, &[]).await.unwrap();
    stage.pass(601);
    run(&second, "begin isolation level serializable; select fencepost.notify('c', 'x')").await;
    run(&first, "begin").await;
    first.query(many, &[]).await.unwrap();
    assert!(value::<i64>(&first, "select count(*) from fencepost.notice").await < 1_200, "some are removed");
    let third = stage.client().await;
    run(&third, "set lock_timeout = '2s'").await;
    third.query(many, &[]).await.unwrap();
    run(&first, "commit").await;
    second.query(many, &[]).await.unwrap();
    run(&second, "commit").await;
}

/// What was seen before costs a look nothing, however much of it is kept.
#[tokio::test]
async fn a_look_reads_what_is_new_alone() {
    let Some(stage) = Stage::new().await else { return };
    let (open, client) = (stage.client().await, stage.client().await);
    run(&open, "begin; select pg_current_xact_id()").await;
    let fill = "insert into fencepost.notice (channel, payload, at) select 'c', 'x', fencepost._clock() from generate_series(1, 20000) n";
    client.execute(fill, &[]).await.unwrap();
    run(&client, "analyze fencepost.notice").await;
    let begin = "select place, seen from fencepost._notices('{c}', null, null, null, null, null)";
    let row = client.query_one(begin, &[]).await.unwrap();
    let (place, seen): (String, String) = (row.get(0), row.get(1));
    notify(&client, "new").await;
    run(&client, "begin").await;
    let look = "select channel from fencepost._notices('{c}', $1, $2, null, null, null)";
    assert_eq!(client.query(look, &[&place, &seen]).await.unwrap().len(), 2);
    let read = "select (seq_tup_read + idx_tup_fetch)::bigint from pg_stat_xact_user_tables where relname = 'notice'";
    let read: i64 = value(&client, read).await;
    assert!(read <= 10, "{read} rows were read for one");
    run(&client, "commit").await;
}

/// What is no channel and no payload is refused by SQL as well, and stores nothing.
#[tokio::test]
async fn b30_bad_notices_are_refused_by_sql() {
    let Some(stage) = Stage::new().await else { return };
    let client = stage.client().await;
    for (arguments, kind) in [
        ("null, 'x'", Kind::InvalidInput),
        ("'', 'x'", Kind::InvalidInput),
        ("' ', 'x'", Kind::InvalidInput),
        ("repeat('x', 256), 'x'", Kind::InvalidInput),
        ("e'a\\nb', 'x'", Kind::InvalidInput),
        ("'c', null", Kind::InvalidInput),
        ("'c', repeat('x', 8001)", Kind::LimitExceeded),
        ("'c', repeat('ä', 4001)", Kind::LimitExceeded),
    ] {
        let error = client.query(&format!("select fencepost.notify({arguments})"), &[]).await.expect_err(arguments);
        let error = driver_error(error);
        assert_eq!((error.kind(), error.retry()), (kind, Retry::Never), "{arguments}: {error:?}");
        assert!(error.hint().is_some(), "{error:?}");
    }
    assert_eq!(value::<i64>(&client, "select count(*) from fencepost.notice").await, 0);
    run(&client, "select fencepost.notify('c', ''), fencepost.notify('c', repeat('ä', 4000))").await;
}
