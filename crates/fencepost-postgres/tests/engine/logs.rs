//! The log of a queue beside those who use it at the same moment, and what is made anew with it.

use fencepost_core::Kind;
use fencepost_postgres::PostgresStore;

use crate::rotation::maintain;
use crate::script::{Script, begin, call, own, receive, run, value};
use crate::stage::options;

/// A send that is open when a queue is dropped without force ends first, and what it sent is not dropped with the queue.
#[tokio::test]
async fn a_drop_without_force_waits_for_a_send_and_sees_it() {
    let Some(script) = Script::new(1).await else { return };
    run(&script.admin, "select fencepost.create_queue('lone')").await;
    let sender = script.client().await;
    run(&sender, "begin; select fencepost.send('lone', 'kept'::text)").await;
    let dropped = begin(script.client().await, "select fencepost.drop_queue('lone')".to_owned());
    script.waiting(1).await;
    run(&sender, "commit").await;
    let error = dropped.await.unwrap().1.expect_err("it holds a message");
    assert_eq!(error.kind(), Kind::Conflict, "{error:?}");
    assert_eq!(
        value::<i64>(&script.admin, "select fencepost._stored(id) from fencepost.queue where name = 'lone'").await,
        1
    );
}

/// The function of one queue refuses the slots of another one, whose cursor would go to positions of a log that is not its own.
#[tokio::test]
async fn the_function_of_another_queue_moves_no_cursor() {
    let Some(script) = Script::new(1).await else { return };
    let other = "select fencepost.create_queue('other'); select fencepost.send('other', 'x'::text)";
    run(&script.admin, other).await;
    let token = script.claim(0).await;
    let before = script.state(0).await;
    let call = call(&script.admin, &format!("select * from fencepost.q2_receive({}, 10)", token.arguments())).await;
    assert_eq!(call.expect_err("it is of another queue").kind(), Kind::Conflict);
    assert_eq!(script.state(0).await, before);
}

/// A message that commits below what counts as removed meanwhile is read by who comes to it later, as it is consumed.
#[tokio::test]
async fn a_reader_gets_a_late_commit_below_what_was_removed() {
    let Some(script) = Script::new(1).await else { return };
    let sender = script.client().await;
    run(&sender, "begin; select fencepost.send('q', 'late'::text)").await;
    script.send(1).await;
    let read = "select id, (next).h from fencepost._read('q', 'earliest', 10)";
    let first = call(&script.admin, read).await.unwrap();
    assert_eq!(first.iter().map(|row| row.get(0)).collect::<Vec<Option<i64>>>(), [Some(2), None]);
    let token = script.claim(0).await;
    let (batch, ids) = receive(&script.admin, token, 10).await.expect("a batch");
    assert_eq!(ids, [2]);
    run(&script.admin, &format!("select fencepost.ack({}, {batch})", token.arguments())).await;
    let checkpoint: String = value(
        &script.admin,
        "select 'p' || (next).h || '/' || fencepost._uncommitted(next) from fencepost._read('q', 'earliest', 10) where id is null",
    )
    .await;
    maintain(&script).await;
    assert_eq!(value::<i64>(&script.admin, "select fencepost._removed(1)").await, 2);
    run(&sender, "commit").await;
    let second = call(&script.admin, &format!("select id from fencepost._read('q', '{checkpoint}', 10)")).await;
    assert_eq!(second.unwrap()[0].get::<_, Option<i64>>(0), Some(1));
    assert_eq!(receive(&script.admin, token, 10).await.expect("a batch").1, [1]);
}

/// What counts as removed does not rest on an ack that may be rolled back.
#[tokio::test]
async fn maintenance_in_a_transaction_that_has_written_is_refused() {
    let Some(script) = Script::new(1).await else { return };
    run(&script.admin, "begin; select fencepost.send('q', 'x'::text)").await;
    let error = call(&script.admin, "select fencepost.maintain()").await.expect_err("something was written");
    assert_eq!(error.kind(), Kind::Unsupported, "{error:?}");
    run(&script.admin, "rollback").await;
    maintain(&script).await;
}

/// A backlog that has expired is passed over bit by bit, and little of it is kept in mind.
#[tokio::test]
async fn a_long_backlog_that_has_expired_is_passed_over() {
    let Some(script) = Script::new(1).await else { return };
    let send = "select count(fencepost.send('q', n::text, key => n::text, expires_in => '1 s')) from generate_series(1, 2500) n";
    run(&script.admin, send).await;
    script.stage.pass(2);
    script.send(1).await;
    let token = script.claim(0).await;
    assert_eq!(receive(&script.admin, token, 1).await.expect("what is left").1, [2501]);
    let kept: i64 = value(&script.admin, "select count(*) from fencepost.aside").await;
    assert!(kept <= 1100, "{kept} messages were set aside");
}

/// The functions of a queue's log are those of the version that is installed, also when the queue is older.
#[tokio::test]
async fn installing_makes_the_functions_of_older_queues_anew() {
    let Some(script) = Script::new(1).await else { return };
    script.send(1).await;
    let older = "create or replace function fencepost.q1_segment() returns integer language sql as 'select 7';
        create function fencepost.q1_gone() returns integer language sql as 'select 1';
        update fencepost.installed set name = '0.0.0', checksum = 'older' where version = 0";
    run(&script.admin, older).await;
    let store = PostgresStore::open(&script.stage.database.url(), options().create(true)).await.unwrap();
    assert_eq!(value::<Option<i32>>(&script.admin, "select fencepost.q1_segment()").await, Some(0));
    assert!(value::<bool>(&script.admin, "select to_regprocedure('fencepost.q1_gone()') is null").await);
    store.close().await;
}

/// Whatever is granted first on a server that the store has moved to has an epoch beyond all that was granted before it moved.
#[tokio::test]
async fn the_first_grant_after_a_change_of_the_server_is_beyond_what_was_lost() {
    let Some(script) = Script::new(3).await else { return };
    let now = script.claim(2).await.epoch;
    let calls = [
        "select slot, epoch from fencepost.claim_slot('q', 'c', 0, 'w')",
        "select 0, fencepost.force_release_slot('q', 'c', 1, 'why')",
        "select 0, fencepost.lease_force_release('nightly', 'why')",
    ];
    for (number, first) in calls.into_iter().enumerate() {
        run(&script.admin, &format!("update fencepost.generation set name = 'server ' || id || ' {number}'")).await;
        let granted = own(&call(&script.admin, first).await.unwrap()).expect("a grant");
        assert!(granted.epoch > now + 50_000_000, "{first}: {} after {now}", granted.epoch);
    }
}
