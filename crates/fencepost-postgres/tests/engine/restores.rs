//! A store that was dumped and restored by its rows: into a cluster whose transactions have far lower or far higher numbers, and into the
//! same one. What consumers and readers are given there is what they would have been given where the dump was made.

use fencepost_postgres::PostgresStore;
use fencepost_test_support::{DEFAULT_MAJOR, Dump, PgServer, PrivateServer, TestDatabase, skip_or_fail};
use tokio_postgres::Client;

use crate::rotation::small_thresholds;
use crate::script::{Script, begin, call, claim, own, receive, run, value};
use crate::stage::{Stage, options, until_waiting};

/// What one consumer is given, in the order in which it is: slot, message, attempt.
type Given = Vec<(i32, i64, i32)>;

/// A store in the middle of its work, and what is known outside of it.
struct Source {
    script: Script,
    /// Pages that readers were told to go on from.
    checkpoints: Vec<String>,
    /// Transactions that are open.
    open: Vec<Client>,
    /// The epoch of a slot, and of the lease `nightly`.
    held: (i64, i64),
}

const CONSUMERS: [(&str, i32); 3] = [("c", 2), ("p", 1), ("idle", 1)];

/// Uses up so many numbers of transactions.
async fn burn(client: &Client, many: u32) {
    let burn = format!(
        "create table burnt (); do $$ begin for i in 1..{many} loop
            begin insert into burnt default values; raise exception 'undone'; exception when raise_exception then null; end;
        end loop; end $$; drop table burnt"
    );
    run(client, &burn).await;
}

async fn checkpoint(client: &Client, from: &str, most: i32) -> String {
    let sql = format!(
        "select 'p' || (next).h || '/' || fencepost._uncommitted(next) from fencepost._read('q', '{from}', {most}) where id is null"
    );
    value(client, &sql).await
}

/// Claims, receives and acks once as consumer `name`; what is divisible by `fails` fails.
async fn work(client: &Client, name: &str, slot: i32, most: i32, fails: i64) {
    let claim = format!("select epoch from fencepost.claim_slot('q', '{name}', {slot}, 'w', '10 s')");
    let Some(epoch) = call(client, &claim).await.unwrap().first().map(|row| row.get::<_, i64>(0)) else { return };
    let own = format!("'q', '{name}', {slot}, {epoch}");
    let rows = call(client, &format!("select batch_id, id from fencepost.receive({own}, {most})")).await.unwrap();
    if let Some(batch) = rows.first().map(|row| row.get::<_, i64>(0)) {
        for id in rows.iter().map(|row| row.get::<_, i64>(1)).filter(|id| id % fails == 0) {
            run(client, &format!("select fencepost.nack({own}, {batch}, {id}, '20 s', 'by chance')")).await;
        }
        run(client, &format!("select fencepost.ack({own}, {batch})")).await;
    }
    run(client, &format!("select fencepost.release_slot({own})")).await;
}

impl Source {
    /// Messages that were sent and committed late, aborted, held back, nacked and dead; segments that have turned; a slot with an open batch
    /// and one in the middle of a pass over late ones; transactions that are open.
    async fn new(server: &PgServer) -> Self {
        let script = Script::on(Stage::on(server).await, 2).await;
        small_thresholds(&script).await;
        let admin = &script.admin;
        run(admin, "select fencepost.create_consumer('q', 'p', 1, on_failure => 'pause'), fencepost.create_consumer('q', 'idle', 1)").await;
        run(admin, "select fencepost.create_consumer('q', 'gone', 1); select fencepost.drop_consumer('q', 'gone')")
            .await;
        let (mut late, mut checkpoints) = (Vec::new(), Vec::new());
        for round in 0..12 {
            for number in 0..3 {
                let client = script.client().await;
                run(
                    &client,
                    &format!("begin; savepoint s; select fencepost.send('q', 'late {round}', key => 'k{number}')"),
                )
                .await;
                late.push(client);
            }
            script.send(20).await;
            run(admin, "begin; select fencepost.send('q', 'undone', key => 'k1'); rollback").await;
            run(admin, "select fencepost.send('q', 'held back', key => 'k2', delay => '30 s')").await;
            for (name, slots) in [("c", 2), ("p", 1)] {
                for slot in 0..slots {
                    work(admin, name, slot, 7 + round, 11).await;
                }
            }
            checkpoints.push(checkpoint(admin, checkpoints.last().map_or("earliest", String::as_str), 9).await);
            // Those of two rounds ago commit or not, the others go on.
            for (number, client) in late.drain(..late.len().min(if late.len() > 6 { 3 } else { 0 })).enumerate() {
                run(&client, if number == 1 { "rollback" } else { "commit" }).await;
            }
            run(admin, "select fencepost.maintain()").await;
        }
        // Dead for good.
        run(admin, "select fencepost.send('q', 'unwanted', key => 'k3')").await;
        let own: i64 = value(admin, "select epoch from fencepost.claim_slot('q', 'p', 0, 'w', '10 s')").await;
        let own = format!("'q', 'p', 0, {own}");
        let rows = call(admin, &format!("select batch_id, id from fencepost.receive({own}, 3)")).await.unwrap();
        let (batch, id): (i64, i64) = (rows[0].get(0), rows[0].get(1));
        run(admin, &format!("select fencepost.dead_letter({own}, {batch}, {id}, 'unwanted')")).await;
        run(admin, &format!("select fencepost.ack({own}, {batch})")).await;
        // Some become late behind what the slots have read.
        for client in late.drain(..3) {
            run(&client, "commit").await;
        }
        // One was prepared, and is nobody's.
        let client = script.client().await;
        run(&client, "begin; select fencepost.send('q', 'prepared', key => 'k0'); prepare transaction 'unended'").await;
        // In the middle of a pass over them, and with an open batch.
        let own = script.claim(0).await;
        receive(admin, own, 1).await.expect("a late one");
        let in_pass =
            "select ((fencepost._state(c.id, 0)).next).pos is not null from fencepost.consumer c where c.name = 'c'";
        assert!(value::<bool>(admin, in_pass).await, "more of them are there");
        checkpoints.push(checkpoint(admin, &checkpoints[checkpoints.len() - 2], 1).await);
        let lease: i64 = value(admin, "select epoch from fencepost.lease_acquire('nightly', 'a', '10 s')").await;
        Self { script, checkpoints, open: late, held: (own.epoch, lease) }
    }

    /// Ends what is open without a commit: a dump does not have it.
    async fn settle(&self) {
        for client in &self.open {
            run(client, "rollback").await;
        }
    }
}

/// Has time pass in a store whose clock stands still.
async fn pass(client: &Client, time: &str) {
    run(client, &format!("update fencepost.test_clock set at = at + interval '{time}'")).await;
}

/// Everything that a consumer is given until there is nothing more, and what comes again.
async fn drain(client: &Client, name: &str, slots: i32) -> Given {
    let mut given = Vec::new();
    for slot in 0..slots {
        let claim = format!("select epoch from fencepost.claim_slot('q', '{name}', {slot}, 'heir', '1 hour')");
        let epoch: i64 = call(client, &claim).await.unwrap()[0].get(0);
        loop {
            let own = format!("'q', '{name}', {slot}, {epoch}");
            let receive = format!("select batch_id, id, attempt from fencepost.receive({own}, 10)");
            let rows = call(client, &receive).await.unwrap();
            let Some(batch) = rows.first().map(|row| row.get::<_, i64>(0)) else { break };
            given.extend(rows.iter().map(|row| (slot, row.get::<_, i64>(1), row.get::<_, i32>(2))));
            run(client, &format!("select fencepost.ack({own}, {batch})")).await;
        }
    }
    given
}

/// What is given to all consumers and to readers at all checkpoints, once all that was held and held back is over.
async fn everything(client: &Client, checkpoints: &[String]) -> (Vec<Given>, Vec<Vec<i64>>) {
    let mut read = Vec::new();
    for checkpoint in checkpoints {
        let sql = format!("select id from fencepost._read('q', '{checkpoint}', 10000) where id is not null");
        read.push(call(client, &sql).await.unwrap().iter().map(|row| row.get(0)).collect());
    }
    pass(client, "10 minutes").await;
    let mut given = Vec::new();
    for (name, slots) in CONSUMERS {
        given.push(drain(client, name, slots).await);
    }
    (given, read)
}

/// The files of a server start as another one, which cannot know that it is one until it is told; or follow it and are promoted. Neither is
/// given more or less than the source.
#[tokio::test]
async fn copies_of_files_give_what_their_source_would_have_given() {
    let Some(server) = private().await else { return };
    let source = Source::new(&server).await;
    let standby = server.standby("heir").await.unwrap();
    let copy = server.copy_of_files().await.unwrap();
    let name = source.script.stage.database.name();
    let copied = copy.connect(name).await.unwrap();
    standby.promote().await.unwrap();
    let promoted = standby.connect(name).await.unwrap();
    let prepared = "select count(*) from pg_prepared_xacts";
    assert_eq!(value::<i64>(&promoted, prepared).await, 1, "it is there until somebody ends it");
    source.settle().await;
    for client in [&source.script.admin, &copied, &promoted] {
        run(client, "rollback prepared 'unended'").await;
    }
    let expected = everything(&source.script.admin, &source.checkpoints).await;
    source.script.send(40).await;
    burn(&source.script.admin, 500).await;
    let ahead = checkpoint(&source.script.admin, "latest", 10).await;
    let (slot, lease) = source.held;
    let guard = format!("select fencepost.slot_guard('q', 'c', 0, {slot})");
    run(&copied, &guard).await;
    run(&copied, "select fencepost.rebase()").await;
    for (name, client) in [("copied", &copied), ("promoted", &promoted)] {
        assert_eq!(call(client, &guard).await.expect_err(name).kind(), fencepost_core::Kind::Fenced, "{name}");
        assert!(!value::<bool>(client, &format!("select fencepost.lease_renew('nightly', {lease})")).await, "{name}");
        assert_eq!(everything(client, &source.checkpoints).await, expected, "{name}");
        let granted: i64 = value(client, "select epoch from fencepost.lease_acquire('nightly', 'b', '10 s')").await;
        assert!(granted > slot.max(lease) + 50_000_000, "{name}");
        let sent = value::<i64>(client, "select fencepost.send('q', 'new', key => 'k1')").await;
        let unseen = format!("select array_agg(id) from fencepost._read('q', '{ahead}', 10000) where id is not null");
        assert_eq!(value::<Vec<i64>>(client, &unseen).await, [sent], "{name}");
        assert_eq!(value::<i64>(client, "select fencepost._xid_shift()").await, 0, "{name}");
    }
}

/// A store that is put back to what it was, in the same database, is another one: who was granted something before and had lost it by then
/// is not its owner again.
#[tokio::test]
async fn a_store_that_is_restored_in_place_honours_no_token_of_before() {
    let Some(script) = Script::new(1).await else { return };
    script.send(3).await;
    let token = script.claim(0).await;
    let dump = script.stage.database.dump().await.unwrap();
    let heir: i64 = value(&script.admin, "select fencepost.force_release_slot('q', 'c', 0, 'it is gone')").await;
    run(&script.admin, "drop schema fencepost cascade").await;
    assert_eq!(script.stage.database.restore(&dump, &[]).await.unwrap(), "");
    let client = script.client().await;
    let guard = format!("select fencepost.slot_guard({})", token.arguments());
    assert_eq!(call(&client, &guard).await.expect_err("it is void").kind(), fencepost_core::Kind::Fenced);
    assert_eq!(claim(&client, 0).await, None, "who held it may still believe in it");
    pass(&client, "1 minute").await;
    let granted = claim(&client, 0).await.expect("it can be claimed");
    assert!(granted.epoch > heir, "{granted:?} after {heir}");
    assert_eq!(receive(&client, granted, 10).await.expect("all of it").1, [1, 2, 3]);
}

/// A copy is taken over only when those who write in it by the server's own numbers have ended.
#[tokio::test]
async fn a_copy_waits_for_who_writes_in_it_already() {
    let Some(script) = Script::new(1).await else { return };
    run(&script.admin, "select fencepost.send('q', 'old', key => 'k'); update fencepost.q1_0 set xid = '5000000000'")
        .await;
    let dump = script.stage.database.dump().await.unwrap();
    let (database, complaints) = restored(script.stage.database.server(), &dump, &[]).await;
    assert_eq!(complaints, "");
    let (writer, admin) = (database.connect().await.unwrap(), database.connect().await.unwrap());
    run(&writer, "begin; select fencepost.send('q', 'early', key => 'k')").await;
    let claim = "select slot, epoch from fencepost.claim('q', 'c', 'w', '1 hour')".to_owned();
    let claimed = begin(database.connect().await.unwrap(), claim);
    until_waiting(&admin, 1).await;
    // It has a place in the log before what is sent now.
    run(&writer, "commit").await;
    let (client, granted) = claimed.await.unwrap();
    let token = own(&granted.unwrap()).expect("the slot");
    run(&client, "select fencepost.send('q', 'new', key => 'k')").await;
    let (_, ids) = receive(&client, token, 10).await.expect("all of it");
    assert_eq!((ids.len(), &ids[..2]), (3, &[1, 2][..]));
}

/// A dump without the state of a slot, as it was begun right when the table of states was emptied, is refused for good.
#[tokio::test]
async fn a_copy_without_the_state_of_a_slot_is_refused() {
    let Some(script) = Script::new(2).await else { return };
    run(&script.admin, "delete from fencepost.state_0 where slot = 1").await;
    let dump = script.stage.database.dump().await.unwrap();
    let (database, _) = restored(script.stage.database.server(), &dump, &[]).await;
    let error = PostgresStore::open(&database.url(), options()).await.unwrap_err();
    assert_eq!(error.kind(), fencepost_core::Kind::Corrupt, "{error:?}");
    let client = database.connect().await.unwrap();
    let error = call(&client, "select fencepost.claim('q', 'c', 'w')").await.unwrap_err();
    assert_eq!(error.kind(), fencepost_core::Kind::Corrupt, "{error:?}");
}

async fn restored(server: &PgServer, dump: &Dump, options: &[&str]) -> (TestDatabase, String) {
    let database = server.database().await.unwrap();
    let complaints = database.restore(dump, options).await.unwrap();
    (database, complaints)
}

async fn private() -> Option<PrivateServer> {
    skip_or_fail(PgServer::private_with(DEFAULT_MAJOR, &[("fsync", "off")]).await)
}

/// What is sent in the copy, also what commits late, is given there.
async fn goes_on(client: &Client, database: &TestDatabase, before: i64) {
    let late = database.connect().await.unwrap();
    run(&late, "begin; select fencepost.send('q', 'late in the copy', key => 'k1')").await;
    let ids =
        "select array(select fencepost.send('q', 'new in the copy', key => 'k' || n % 4) from generate_series(1, 5) n)";
    let mut sent: Vec<i64> = value(client, ids).await;
    assert!(sent[0] > before, "positions of the store that was dumped come again");
    let given = async || -> Vec<i64> {
        let mut ids: Vec<i64> = drain(client, "idle", 1).await.into_iter().map(|(_, id, _)| id).collect();
        ids.sort_unstable();
        ids
    };
    pass(client, "2 hours").await;
    assert_eq!(given().await, sent);
    run(&late, "commit").await;
    pass(client, "2 hours").await;
    sent.insert(0, sent[0] - 1);
    assert_eq!(given().await, sent[..1]);
}

/// Every copy gives what its source gives, no message more and none less; tokens of the source are void; PUBLIC may nothing.
#[tokio::test]
async fn a_restored_store_gives_what_the_dumped_one_would_have_given() {
    let Some(server) = private().await else { return };
    let Some(above) = private().await else { return };
    // The source's transactions are far above those of the one server, and far below those of the other one.
    burn(&server.connect("postgres").await.unwrap(), 20_000).await;
    let source = Source::new(&server).await;
    let Some(below) = private().await else { return };
    burn(&below.connect("postgres").await.unwrap(), 60_000).await;
    run(&source.script.admin, "select fencepost.notify('c', 'of the source')").await;
    let grantee = "create role app; grant usage on schema fencepost to app; grant execute on function fencepost.send(text, text, text, text, jsonb, interval, integer, interval), fencepost.q1_send to app";
    run(&source.script.admin, grantee).await;
    let dump = source.script.stage.database.dump().await.unwrap();
    let roles =
        "create role app; create role fencepost_producer; create role fencepost_consumer; create role fencepost_admin";
    run(&below.connect("postgres").await.unwrap(), roles).await;
    source.settle().await;
    run(&source.script.admin, "rollback prepared 'unended'").await;
    let before: i64 = value(&source.script.admin, "select last_value from fencepost.q1_position").await;
    let mut copies = Vec::new();
    for (name, server, flags) in [
        ("far higher numbers than here", &*above, &["--no-owner"][..]),
        ("far lower numbers than here", &*below, &[][..]),
        ("the same cluster", &*server, &["--jobs=2"][..]),
        ("without rights", &*server, &["--no-privileges"][..]),
    ] {
        let (database, complaints) = restored(server, &dump, flags).await;
        let knows_roles = !std::ptr::eq(server, &*above);
        assert_eq!(complaints.contains("\" does not exist"), !knows_roles, "{name}: {complaints}");
        let client = database.connect().await.unwrap();
        // A message that is sent before anybody has noticed anything.
        let early: i64 = value(&client, "select fencepost.send('q', 'early', key => 'k1')").await;
        let store = PostgresStore::open(&database.url(), options()).await.unwrap();
        store.close().await;
        copies.push((name, database, client, early));
    }
    let expected = everything(&source.script.admin, &source.checkpoints).await;
    // What a reader of the source is told after the dump is ahead of every copy.
    source.script.send(40).await;
    let ahead = checkpoint(&source.script.admin, "latest", 10).await;
    assert!(expected.0.iter().all(|given| given.len() > 20), "{expected:?}");
    for (number, (name, database, client, early)) in copies.iter().enumerate() {
        let shifted = value::<i64>(client, "select fencepost._xid_shift()").await > 0;
        assert_eq!(shifted, number == 0, "{name}: numbers are shifted where those that were copied are higher");
        let (slot, lease) = source.held;
        let acked = call(client, &format!("select fencepost.ack('q', 'c', 0, {slot}, 1)")).await;
        assert_eq!(acked.expect_err(name).kind(), fencepost_core::Kind::Fenced, "{name}");
        assert!(!value::<bool>(client, &format!("select fencepost.lease_renew('nightly', {lease})")).await, "{name}");
        let outcome: String =
            value(client, "select outcome from fencepost.lease_acquire('nightly', 'b', '10 s')").await;
        assert_eq!(outcome, "contended", "{name}: its holder may still believe in it");
        let (mut given, mut read) = everything(client, &source.checkpoints).await;
        for given in &mut given {
            given.retain(|(_, id, _)| id != early);
        }
        for read in &mut read {
            assert_eq!(read.iter().filter(|id| *id == early).count(), 1, "{name}");
            read.retain(|id| id != early);
        }
        assert_eq!(given, expected.0, "{name}");
        assert_eq!(read, expected.1, "{name}");
        let granted: i64 = value(client, "select epoch from fencepost.lease_acquire('nightly', 'b', '10 s')").await;
        assert!(granted > slot.max(lease) + 50_000_000, "{name}");
        let open_to_all = "select count(*) from pg_proc p where pronamespace = 'fencepost'::regnamespace
            and has_function_privilege('public', p.oid, 'execute')";
        assert_eq!(value::<i64>(client, open_to_all).await, 0, "{name}");
        goes_on(client, database, before.max(*early)).await;
        let copied = "select count(*) from fencepost.notice where payload = 'of the source'";
        assert_eq!(value::<i64>(client, copied).await, 0, "{name}: nobody here has listened to it");
        // But for what was sent before anybody had noticed that this is a copy.
        let unseen = format!("select count(id) from fencepost._read('q', '{ahead}', 10000) where id <> {early}");
        assert_eq!(
            value::<i64>(client, &unseen).await,
            6,
            "{name}: what is new here is new to a reader who was further there"
        );
    }
    let may = "select has_function_privilege('app', 'fencepost.q1_send(bytea, text, text, jsonb, interval, interval)', 'execute')";
    assert!(value::<bool>(&copies[1].2, may).await, "what was granted is granted in the copy");
}
