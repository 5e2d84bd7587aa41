//! Consumed storage goes by whole segments: never while anybody is still to be given something of it, and never in a sender's way.

use std::time::{Duration, Instant};

use fencepost_core::Kind;

use crate::script::{Own, Script, begin, call, receive, run, value};

/// Rows in each segment of the first queue's log, and the segment whose turn it is.
async fn segments(script: &Script) -> ([i64; 3], i64) {
    let sql = "select array[(select count(*) from fencepost.q1_0), (select count(*) from fencepost.q1_1), (select count(*) from fencepost.q1_2)],
        (select last_value % 3 from fencepost.q1_turn)";
    let row = script.admin.query_one(sql, &[]).await.unwrap();
    (row.get::<_, Vec<i64>>(0).try_into().unwrap(), row.get(1))
}

/// Segments turn with whatever they hold, states with 8 KiB.
pub async fn small_thresholds(script: &Script) {
    run(
        &script.admin,
        "create or replace function fencepost._is_full(size bigint, since timestamptz) returns boolean language sql as $$ select size > 0 $$",
    )
    .await;
    let small = "do $$ begin execute replace(pg_get_functiondef('fencepost._turn_states'::regproc), '33554432', '8192'); end $$";
    run(&script.admin, small).await;
}

async fn rotating(slots: i32) -> Option<Script> {
    let script = Script::new(slots).await?;
    small_thresholds(&script).await;
    Some(script)
}

pub async fn maintain(script: &Script) {
    call(&script.admin, "select fencepost.maintain()").await.expect("maintenance");
}

/// Receives and acks everything.
pub async fn consume(script: &Script, own: Own) -> Vec<i64> {
    let mut taken = Vec::new();
    while let Some((batch, ids)) = receive(&script.admin, own, 100).await {
        call(&script.admin, &format!("select fencepost.ack({}, {batch})", own.arguments())).await.unwrap();
        taken.extend(ids);
    }
    taken
}

/// A full segment makes way for the next one, and is emptied once every consumer has acked past it.
#[tokio::test]
async fn a_segment_is_emptied_when_every_consumer_is_past_it() {
    let Some(script) = rotating(1).await else { return };
    run(&script.admin, "select fencepost.create_consumer('q', 'slow', 1)").await;
    script.send(10).await;
    let token = script.claim(0).await;
    maintain(&script).await;
    assert_eq!(segments(&script).await, ([10, 0, 0], 1));
    script.send(5).await;
    assert_eq!(consume(&script, token).await.len(), 15);
    maintain(&script).await;
    assert_eq!(segments(&script).await, ([10, 5, 0], 2), "the other consumer has not read it");
    let slow =
        call(&script.admin, "select epoch from fencepost.claim('q', 'slow', 'w')").await.unwrap()[0].get::<_, i64>(0);
    let rows = call(&script.admin, &format!("select batch_id from fencepost.receive('q', 'slow', 0, {slow}, 12)"))
        .await
        .unwrap();
    maintain(&script).await;
    assert_eq!(segments(&script).await.0, [10, 5, 0], "an open batch keeps it");
    let batch: i64 = rows[0].get(0);
    run(&script.admin, &format!("select fencepost.ack('q', 'slow', 0, {slow}, {batch})")).await;
    maintain(&script).await;
    assert_eq!(segments(&script).await.0, [0, 5, 0], "the rest of the second one is unread");
    script.send(1).await;
    let rows = call(&script.admin, &format!("select batch_id, id from fencepost.receive('q', 'slow', 0, {slow}, 12)"))
        .await
        .unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i64>(1)).collect::<Vec<_>>(), [13, 14, 15, 16]);
}

/// A late commit is never emptied away: not while its transaction is open, be it prepared, nor before it was received.
#[tokio::test]
async fn a_late_commit_in_an_old_segment_is_not_lost() {
    for way in ["open", "prepared"] {
        let Some(script) = rotating(1).await else { return };
        let (late, name) = (script.client().await, script.stage.database.name().to_owned());
        script.send(3).await;
        run(&late, "begin; select fencepost.send('q', 'late')").await;
        if way == "prepared" {
            run(&late, &format!("prepare transaction '{name}'")).await;
        }
        script.send(3).await;
        let token = script.claim(0).await;
        assert_eq!(consume(&script, token).await.len(), 6);
        for _ in 0..3 {
            maintain(&script).await;
        }
        assert_eq!(segments(&script).await.0, [6, 0, 0], "{way}");
        run(&late, &if way == "prepared" { format!("commit prepared '{name}'") } else { "commit".to_owned() }).await;
        maintain(&script).await;
        assert_eq!(segments(&script).await.0, [7, 0, 0], "{way}: not received yet");
        assert_eq!(consume(&script, token).await, [4], "{way}");
        maintain(&script).await;
        assert_eq!(segments(&script).await.0, [0, 0, 0], "{way}");
    }
}

/// Whoever has a segment in use keeps it, and emptying waits for nobody: senders go on meanwhile.
#[tokio::test]
async fn emptying_waits_for_nobody_and_nobody_for_it() {
    let Some(script) = rotating(1).await else { return };
    script.send(3).await;
    let (reader, token) = (script.client().await, script.claim(0).await);
    consume(&script, token).await;
    run(&reader, "begin; select from fencepost.q1_0").await;
    let since = Instant::now();
    maintain(&script).await;
    maintain(&script).await;
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    assert_eq!(segments(&script).await, ([3, 0, 0], 1));
    run(&reader, "commit").await;
    // Emptied, and not committed yet: a send goes into the segment whose turn it is.
    let maintainer = script.client().await;
    run(&maintainer, "begin; select fencepost.maintain()").await;
    run(&script.admin, "set lock_timeout = '1s'").await;
    script.send(3).await;
    run(&script.admin, "reset lock_timeout").await;
    run(&maintainer, "commit").await;
    assert_eq!(segments(&script).await.0, [0, 3, 0]);
    assert_eq!(consume(&script, token).await.len(), 3);
}

/// A consumer that is made while maintenance runs begins where it was told, or is told that this is gone.
#[tokio::test]
async fn nothing_is_removed_from_under_a_consumer_that_is_being_made() {
    let Some(script) = rotating(1).await else { return };
    script.send(6).await;
    let token = script.claim(0).await;
    consume(&script, token).await;
    let maker = script.client().await;
    run(&maker, "begin; select fencepost.create_consumer('q', 'new', 1, start => 'id:2')").await;
    maintain(&script).await;
    maintain(&script).await;
    run(&maker, "commit").await;
    maintain(&script).await;
    let epoch = call(&maker, "select epoch from fencepost.claim('q', 'new', 'w')").await.unwrap()[0].get::<_, i64>(0);
    let rows = call(&maker, &format!("select id from fencepost.receive('q', 'new', 0, {epoch})")).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), [3, 4, 5, 6]);
    // The other order: what is removed first is gone for who comes then.
    script.anew(1).await;
    let token = {
        script.send(3).await;
        script.claim(0).await
    };
    consume(&script, token).await;
    let maintainer = script.client().await;
    run(&maintainer, "begin; select fencepost.maintain()").await;
    let made = begin(maker, "select fencepost.create_consumer('q', 'new', 1, start => 'p1')".to_owned());
    script.waiting(1).await;
    run(&maintainer, "commit").await;
    assert_eq!(made.await.unwrap().1.unwrap_err().kind(), Kind::PositionGone);
}

/// A reader from whose page something was removed is told, and never gets what comes after the hole.
#[tokio::test]
async fn a_page_that_loses_its_beginning_while_it_is_read_is_refused() {
    let Some(script) = rotating(1).await else { return };
    script.send(6).await;
    run(&script.admin, "select nextval('fencepost.q1_turn')").await;
    script.send(2).await;
    let maintainer = script.client().await;
    run(
        &maintainer,
        "begin; select setval('fencepost.q1_removed', 6); lock table fencepost.q1_0; truncate fencepost.q1_0",
    )
    .await;
    let page = |start: &str| format!("select id from fencepost._read('q', '{start}', 10) where id is not null");
    let from = begin(script.client().await, page("p2/3:3:"));
    let earliest = begin(script.client().await, page("earliest"));
    script.waiting(2).await;
    run(&maintainer, "commit").await;
    assert_eq!(from.await.unwrap().1.unwrap_err().kind(), Kind::PositionGone);
    let rows = earliest.await.unwrap().1.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), [7, 8]);
}

/// The two tables of states take turns; slots that nobody moves are carried over, also while one is locked.
#[tokio::test]
async fn states_take_turns_with_every_slot_carried_over() {
    let Some(script) = rotating(4).await else { return };
    let tables = "select array[(select count(*) from fencepost.state_0), (select count(*) from fencepost.state_1)], (select last_value % 2 from fencepost.state_turn)";
    let counts = async || {
        let row = script.admin.query_one(tables, &[]).await.unwrap();
        (row.get::<_, Vec<i64>>(0), row.get::<_, i64>(1))
    };
    script.send(40).await;
    let token = script.claim(2).await;
    let (batch, ids) = receive(&script.admin, token, 5).await.expect("a batch");
    let locker = script.client().await;
    let old = script.client().await;
    run(&old, "begin isolation level repeatable read; select 1").await;
    run(&locker, "begin; select from fencepost.slot where slot = 1 for no key update").await;
    maintain(&script).await;
    assert_eq!(counts().await.1, 1);
    maintain(&script).await;
    assert_eq!(counts().await, (vec![6, 3], 1), "the locked slot keeps the old table");
    run(&locker, "rollback").await;
    let before: Vec<String> = {
        let mut all = Vec::new();
        for slot in 0..4 {
            all.push(script.state(slot).await);
        }
        all
    };
    // One who looks without a lock while its slot is carried over and the old table emptied.
    let maintainer = script.client().await;
    run(&maintainer, "begin; select fencepost.maintain()").await;
    let looks = begin(
        script.client().await,
        "select (fencepost._state(consumer_id, slot)).version from fencepost.slot where slot = 1".to_owned(),
    );
    script.waiting(1).await;
    run(&maintainer, "commit").await;
    assert!(looks.await.unwrap().1.unwrap()[0].get::<_, Option<i64>>(0).is_some());
    assert_eq!(counts().await, (vec![0, 4], 1));
    for (slot, before) in before.iter().enumerate() {
        let after = script.state(i32::try_from(slot).unwrap()).await;
        assert_eq!(after.split(',').count(), before.split(',').count());
    }
    assert_eq!(receive(&script.admin, token, 5).await.expect("the same batch"), (batch, ids));
    // An old snapshot sees neither the old table, which is empty, nor what was carried over.
    let error = call(&old, &format!("select fencepost.ack({}, {batch})", token.arguments())).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Busy, "serialization_failure"), "{error:?}");
    run(&old, "rollback").await;
    run(
        &old,
        &format!("begin isolation level repeatable read; select fencepost.ack({}, {batch}); commit", token.arguments()),
    )
    .await;
    maintain(&script).await;
    assert_eq!(counts().await.1, 0, "and the next turn");
}

/// Under a held snapshot a loop of send, receive and ack leaves no dead rows in the log and the states.
#[tokio::test]
async fn a_held_snapshot_leaves_no_dead_rows() {
    let Some(script) = Script::new(2).await else { return };
    let holder = script.client().await;
    run(&holder, "begin isolation level repeatable read; select count(*) from fencepost.queue").await;
    let tokens = [script.claim(0).await, script.claim(1).await];
    for _ in 0..50 {
        script.send(4).await;
        for token in tokens {
            consume(&script, token).await;
        }
    }
    run(&script.admin, "create extension if not exists pgstattuple").await;
    let dead: i64 = value(
        &script.admin,
        "select sum((pgstattuple(c.oid)).dead_tuple_count)::bigint from pg_class c
         where c.relkind = 'r' and c.oid::regclass::text ~ '^fencepost[.](q1_[012]|state_[01])$'",
    )
    .await;
    assert_eq!(dead, 0);
    run(&holder, "rollback").await;
}
