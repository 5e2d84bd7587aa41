//! What was set aside and is over costs nothing, also while somebody holds an old snapshot and nobody can remove it.

use fencepost_test_support::{DEFAULT_MAJOR, PgServer, skip_or_fail};

use crate::rotation::consume;
use crate::script::{Own, Script, call, receive, run, value};
use crate::stage::Stage;

/// One message fails once and comes again. How many entries of indexes of what is set aside were walked over for that.
async fn retry(script: &Script, token: Own) -> i64 {
    script.send(1).await;
    run(&script.admin, "begin").await;
    // Of this session since it told the server last, which it does between transactions.
    let walked = async || {
        let sql = "select sum(pg_stat_get_xact_tuples_returned(indexrelid))::int8 from pg_index where indrelid = 'fencepost.aside'::regclass";
        value::<i64>(&script.admin, sql).await
    };
    let before = walked().await;
    let own = token.arguments();
    let row = &call(&script.admin, &format!("select batch_id, id from fencepost.receive({own})")).await.unwrap()[0];
    let (batch, id): (i64, i64) = (row.get(0), row.get(1));
    run(&script.admin, &format!("select fencepost.nack({own}, {batch}, {id}, '0 s', 'again')")).await;
    run(&script.admin, &format!("select fencepost.ack({own}, {batch})")).await;
    assert_eq!(consume(script, token).await, [id], "it comes again");
    let walked = walked().await - before;
    run(&script.admin, "commit").await;
    script.stage.pass(1);
    walked
}

/// Design §10: a held snapshot does not slow down who retries.
#[tokio::test]
async fn what_came_again_and_is_over_is_not_walked_over_under_a_held_snapshot() {
    let settings = [("fsync", "off"), ("autovacuum", "off")];
    let Some(server) = skip_or_fail(PgServer::private_with(DEFAULT_MAJOR, &settings).await) else { return };
    let script = Script::on(Stage::on(&server).await, 1).await;
    let holder = script.client().await;
    run(&holder, "begin isolation level repeatable read; select 1").await;
    let token = script.claim(0).await;
    let mut walks = Vec::new();
    for _ in 0..60 {
        walks.push(retry(&script, token).await);
        script.stage.judge_aside().await;
    }
    let most = walks.iter().max().unwrap();
    assert!(*most <= 12, "entries of what is over are walked over: {walks:?}");
    assert_eq!(receive(&script.admin, token, 10).await, None);
}

/// What waits for long, and what has come again, do not stand in each other's way: the first due one is known whatever was before it.
#[tokio::test]
async fn what_is_due_later_is_found_when_it_is_due() {
    let Some(script) = Script::new(1).await else { return };
    let token = script.claim(0).await;
    let own = token.arguments();
    script.send(2).await;
    let row = &call(&script.admin, &format!("select batch_id from fencepost.receive({own})")).await.unwrap()[0];
    let batch: i64 = row.get(0);
    for (id, after) in [(1, "100 s"), (2, "5 s")] {
        run(&script.admin, &format!("select fencepost.nack({own}, {batch}, {id}, '{after}', 'later')")).await;
    }
    run(&script.admin, &format!("select fencepost.ack({own}, {batch})")).await;
    for (seconds, found) in [(4, vec![]), (1, vec![2]), (90, vec![]), (5, vec![1]), (100, vec![])] {
        script.stage.pass(seconds);
        run(&script.admin, &format!("select fencepost.renew_slot({own})")).await;
        assert_eq!(consume(&script, token).await, found);
        script.stage.judge_aside().await;
    }
    // Nothing is due by now; the next one that fails is.
    script.send(1).await;
    let row = &call(&script.admin, &format!("select batch_id from fencepost.receive({own})")).await.unwrap()[0];
    let batch: i64 = row.get(0);
    run(&script.admin, &format!("select fencepost.nack({own}, {batch}, 3, '5 s', 'later')")).await;
    run(&script.admin, &format!("select fencepost.ack({own}, {batch})")).await;
    script.stage.pass(5);
    assert_eq!(consume(&script, token).await, [3]);
}
