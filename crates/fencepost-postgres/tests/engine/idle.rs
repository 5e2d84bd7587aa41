//! What only shows where nobody else's transactions move the server's numbers: what polls cost, what deliveries read, and rows of one's own
//! transaction that no snapshot of it shows.

use fencepost_test_support::{DEFAULT_MAJOR, PgServer, PrivateServer, skip_or_fail};
use tokio_postgres::Client;

use crate::rotation::{consume, maintain, small_thresholds};
use crate::script::{Script, call, receive, run, value};
use crate::stage::Stage;

async fn idle_server() -> Option<PrivateServer> {
    skip_or_fail(PgServer::private_with(DEFAULT_MAJOR, &[("fsync", "off"), ("autovacuum", "off")]).await)
}

/// Messages that become due are appended by the maintenance that finds the segment full, and that may empty it: they stay.
#[tokio::test]
async fn what_maintenance_itself_appended_is_not_emptied_away() {
    let Some(server) = idle_server().await else { return };
    let script = Script::on(Stage::on(&server).await, 1).await;
    small_thresholds(&script).await;
    script.send(3).await;
    let token = script.claim(0).await;
    assert_eq!(consume(&script, token).await.len(), 3);
    run(&script.admin, "select fencepost.send('q', 'held back', delay => '1 s')").await;
    script.stage.pass(2);
    maintain(&script).await;
    assert_eq!(consume(&script, token).await, [4]);
}

/// How far the log of the server has come, and the next transaction's number.
async fn marks(client: &Client) -> (String, String) {
    let sql = "select pg_current_wal_lsn()::text, pg_snapshot_xmax(pg_current_snapshot())::text";
    let row = client.query_one(sql, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

/// A42: polls of a held slot, of one that somebody else holds, and claims where all is held, take no transaction number and write nothing.
#[tokio::test]
async fn a42_polls_write_nothing_and_take_no_transaction() {
    let Some(server) = idle_server().await else { return };
    let script = Script::on(Stage::on(&server).await, 2).await;
    script.send(10).await;
    let tokens = [script.claim(0).await, script.claim(1).await];
    for token in tokens {
        consume(&script, token).await;
    }
    // Something set aside makes a poll go another way.
    let other = script.client().await;
    let polls = async || {
        for token in tokens {
            assert_eq!(receive(&other, token, 100).await, None);
            let stranger = format!("select * from fencepost.receive('q', 'c', {}, 7)", token.slot);
            assert!(call(&other, &stranger).await.is_err());
        }
        for sql in ["fencepost.claim('q', 'c', 'w')", "fencepost.claim_slot('q', 'c', 1, 'w')"] {
            assert!(call(&other, &format!("select * from {sql}")).await.unwrap().is_empty());
        }
        call(&other, "select fencepost._next_due('q', 'c', 0)").await.unwrap();
        call(&other, "select * from fencepost._marks(array['messages/q', 'slots/1/q/c'])").await.unwrap();
    };
    for set_aside in [false, true] {
        if set_aside {
            script.send(1).await;
            for token in tokens {
                let Some((batch, ids)) = receive(&script.admin, token, 100).await else { continue };
                for sql in [
                    format!("nack({}, {batch}, {}, '1 h')", token.arguments(), ids[0]),
                    format!("ack({}, {batch})", token.arguments()),
                ] {
                    run(&script.admin, &format!("select fencepost.{sql}")).await;
                }
            }
        }
        polls().await;
        // What the look-ups themselves left to be tidied is written now, and not while it is counted.
        run(&script.admin, "checkpoint").await;
        polls().await;
        let before = marks(&script.admin).await;
        for _ in 0..100 {
            polls().await;
        }
        assert_eq!(marks(&script.admin).await, before, "something set aside: {set_aside}");
    }
}

/// A41: what a delivered message costs in rows and buffers read does not depend on how many slots share the queue.
#[tokio::test]
async fn a41_a_delivery_reads_the_same_with_any_number_of_slots() {
    let Some(server) = idle_server().await else { return };
    let script = Script::on(Stage::on(&server).await, 1).await;
    run(&script.admin, "select fencepost.send_batch('q', array(select n::text from generate_series(1, 8000) n), array(select n::text from generate_series(1, 8000) n))").await;
    let read = "select sum(idx_tup_fetch + seq_tup_read)::bigint from pg_stat_xact_user_tables where schemaname = 'fencepost' and relname ~ '^q1_'";
    let mut costs = Vec::new();
    for slots in [1, 4, 16] {
        run(&script.admin, &format!("select fencepost.create_consumer('q', 'c{slots}', {slots})")).await;
        let (mut rows, mut buffers, mut given) = (0_i64, 0_i64, 0_i64);
        for slot in 0..slots {
            let claimed =
                call(&script.admin, &format!("select epoch from fencepost.claim_slot('q', 'c{slots}', {slot}, 'w')"))
                    .await
                    .unwrap();
            let epoch: i64 = claimed[0].get(0);
            for measured in [false, true, true] {
                run(&script.admin, "begin").await;
                // What the session has not reported yet counts too, so it is the difference that is looked at.
                let earlier: Option<i64> = value(&script.admin, read).await;
                let plan = script.admin.query_one(&format!("explain (analyze, buffers, format json) select * from fencepost.receive('q', 'c{slots}', {slot}, {epoch}, 100)"), &[]).await.unwrap();
                let plan: serde_json::Value = serde_json::from_str(&plan.get::<_, Json>(0).0).unwrap();
                let top = &plan[0]["Plan"];
                let touched = top["Shared Hit Blocks"].as_i64().unwrap() + top["Shared Read Blocks"].as_i64().unwrap();
                if measured {
                    rows += value::<i64>(&script.admin, read).await - earlier.unwrap_or_default();
                    buffers += touched;
                    given += top["Actual Rows"].as_f64().unwrap() as i64;
                }
                let batch: i64 = value(&script.admin, &format!("select (fencepost._state(c.id, {slot})).batch_id from fencepost.consumer c where name = 'c{slots}'")).await;
                run(&script.admin, &format!("select fencepost.ack('q', 'c{slots}', {slot}, {epoch}, {batch}); commit"))
                    .await;
            }
        }
        costs.push((slots, rows as f64 / given as f64, buffers as f64 / given as f64));
    }
    for (slots, rows, buffers) in &costs {
        // Once to count and once into the answer.
        assert!(*rows < 2.5 && *rows < costs[0].1 * 1.25, "{slots} slots read {rows} rows a message: {costs:?}");
        assert!(*buffers < costs[0].2 * 1.5 + 0.5, "{slots} slots touch {buffers} buffers a message: {costs:?}");
    }
}

/// A column of type json as its text.
pub struct Json(pub String);

impl<'a> tokio_postgres::types::FromSql<'a> for Json {
    fn from_sql(
        _: &tokio_postgres::types::Type,
        raw: &'a [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?.to_owned()))
    }

    fn accepts(_: &tokio_postgres::types::Type) -> bool {
        true
    }
}
