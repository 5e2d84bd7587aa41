//! Schemas of earlier versions, with data in them, are upgraded where they stand.
//!
//! `tests/fixtures/schema` holds a dump for each version of the tables as a program of that version installed it, functions included;
//! its README says how one is made. A version without one is a failure of this test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fencepost_core::Queues;
use fencepost_postgres::PostgresStore;
use fencepost_test_support::{TestDatabase, skip_or_fail};
use tokio_postgres::Client;

use crate::script::{call, run, value};
use crate::stage::{empty, options};

/// Names a folder of SQL laid out as the crate's own: its schema is dumped to the fixtures, and nothing is tested.
const WRITE: &str = "FENCEPOST_WRITE_FIXTURE";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema")
}

/// The dumps with the versions of their tables.
fn dumps() -> Vec<(u32, PathBuf)> {
    let entries = std::fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path());
    let mut dumps: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|end| end == "gz"))
        .map(|path| (path.file_name().unwrap().to_str().unwrap()[..4].parse().unwrap(), path))
        .collect();
    dumps.sort();
    dumps
}

async fn of_version(dump: &Path) -> Option<TestDatabase> {
    let database = empty().await?;
    let sql = gzip(&["-dc", dump.to_str().unwrap()], Stdio::null());
    let client = database.connect().await.unwrap();
    run(&client, &String::from_utf8(sql).unwrap()).await;
    // It stands for one that was installed here, and not for a copy, which a store would notice.
    let settle = "do $$ begin if to_regclass('fencepost.home') is not null then
        update fencepost.home set written = '0'; update fencepost.home set written = xmin; end if; end $$";
    run(&client, settle).await;
    Some(database)
}

fn gzip(arguments: &[&str], input: Stdio) -> Vec<u8> {
    let output = Command::new("gzip").args(arguments).stdin(input).output().expect("gzip is on every system");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The schema as text, but for what is another one each time.
async fn schema(database: &TestDatabase, more: &[&str]) -> Option<String> {
    let dump = skip_or_fail(database.dump_text(&[&["--schema=fencepost"], more].concat()).await)?;
    let text = String::from_utf8(dump).unwrap();
    let kept = |line: &&str| !line.starts_with("-- Dumped") && !line.starts_with('\\');
    Some(text.lines().filter(kept).map(|line| format!("{line}\n")).collect())
}

const LEDGER: &str = "select max(number) from fencepost.installation";
const EARLIER: &str = "select coalesce(max(version), 0)::bigint from fencepost.installed";

/// What tells the version of the tables: the ledger, or what there was before.
async fn versions(client: &Client) -> &'static str {
    let has_ledger = value::<bool>(client, "select to_regclass('fencepost.installation') is not null").await;
    if has_ledger { LEDGER } else { EARLIER }
}

/// What a store of that version holds, put there by its own functions.
struct Data {
    leases: Vec<(i64, &'static str)>,
    slot: Option<(i32, i64, i64)>,
    sent: BTreeSet<i64>,
}

async fn fill(client: &Client, version: u32) -> Data {
    let mut data = Data { leases: Vec::new(), slot: None, sent: BTreeSet::new() };
    if version >= 2 {
        for lease in ["held", "given back"] {
            let sql = format!("select epoch from fencepost.lease_acquire('{lease}', 'h', '1 h')");
            data.leases.push((value(client, &sql).await, lease));
        }
        let (epoch, lease) = data.leases[1];
        assert!(value::<bool>(client, &format!("select fencepost.lease_release('{lease}', {epoch})")).await);
    }
    if version >= 3 {
        run(client, "select fencepost.create_queue('q', 4); select fencepost.create_queue('empty')").await;
        run(client, "select fencepost.create_consumer('q', 'c', 2, on_failure => 'pause')").await;
        for n in 0..60 {
            let key = n % 7;
            data.sent.insert(
                value(
                    client,
                    &format!("select fencepost.send('q', '{n}', key => '{key}', headers => '{{\"n\": \"{n}\"}}')"),
                )
                .await,
            );
        }
        data.sent.insert(value(client, "select id from fencepost.send_once('q', 'once', 'its key')").await);
        run(client, "select fencepost.send('q', 'later', delay => '1 h')").await;
        let row = client.query_one("select slot, epoch from fencepost.claim('q', 'c', 'w', '1 h')", &[]).await.unwrap();
        let (slot, epoch): (i32, i64) = (row.get(0), row.get(1));
        let own = format!("'q', 'c', {slot}, {epoch}");
        let batch = async || {
            let rows = call(client, &format!("select batch_id, id from fencepost.receive({own}, 5)")).await.unwrap();
            (rows[0].get::<_, i64>(0), rows.iter().map(|row| row.get::<_, i64>(1)).collect::<Vec<_>>())
        };
        let (first, ids) = batch().await;
        run(client, &format!("select fencepost.dead_letter({own}, {first}, {}, 'no good')", ids[0])).await;
        run(client, &format!("select fencepost.nack({own}, {first}, {}, '0 s', 'again')", ids[1])).await;
        run(client, &format!("select fencepost.ack({own}, {first})")).await;
        data.sent.remove(&ids[0]);
        // What was acked, and neither failed nor was withdrawn behind one that did.
        let aside: Vec<i64> = call(client, "select id from fencepost.aside where place <> 'void'")
            .await
            .unwrap()
            .iter()
            .map(|row| row.get(0))
            .collect();
        data.sent.retain(|id| !ids.contains(id) || aside.contains(id));
        data.slot = Some((slot, epoch, batch().await.0));
    }
    data
}

/// Everything is there after the upgrade and goes on under its old owners; then everything is handled.
async fn check(database: &TestDatabase, store: &PostgresStore, client: &Client, data: Data, version: u32) {
    for (epoch, lease) in data.leases {
        let held: bool = value(client, &format!("select fencepost.lease_renew('{lease}', {epoch}, '1 h')")).await;
        assert_eq!(held, lease == "held", "version {version}: {lease}");
    }
    let Some((slot, epoch, batch)) = data.slot else { return };
    let own = format!("'q', 'c', {slot}, {epoch}");
    let mut handled: BTreeSet<i64> = BTreeSet::new();
    let open = call(client, &format!("select batch_id, id from fencepost.receive({own}, 5)")).await.unwrap();
    assert!(open.iter().all(|row| row.get::<_, i64>(0) == batch), "version {version}: the open batch stayed");
    handled.extend(open.iter().map(|row| row.get::<_, i64>(1)));
    run(client, &format!("select fencepost.ack({own}, {batch}); select fencepost.release_slot({own})")).await;
    for slot in 0..2 {
        let claim = format!("select epoch from fencepost.claim_slot('q', 'c', {slot}, 'v', '1 h')");
        let own = format!("'q', 'c', {slot}, {}", value::<i64>(client, &claim).await);
        loop {
            let rows = call(client, &format!("select batch_id, id from fencepost.receive({own}, 9)")).await.unwrap();
            let Some(row) = rows.first() else { break };
            for id in rows.iter().map(|row| row.get::<_, i64>(1)) {
                assert!(handled.insert(id), "version {version}: {id} came twice");
            }
            run(client, &format!("select fencepost.ack({own}, {})", row.get::<_, i64>(0))).await;
        }
    }
    assert_eq!(handled, data.sent, "version {version}");
    let told = store.queue_status().await.unwrap();
    let told: Vec<_> = told.iter().map(|told| (told.queue.as_str(), told.delayed)).collect();
    assert_eq!(told, [("empty", 0), ("q", 1)], "version {version}");
    assert_eq!(value::<i64>(client, "select count(*) from fencepost.dead_letters").await, 1, "version {version}");
    let again = "select deduplicated from fencepost.send_once('q', 'once', 'its key')";
    assert!(value::<bool>(client, again).await, "version {version}");
    assert_eq!(database.name(), value::<String>(client, "select current_database()::text").await);
}

/// Of every version: opened without being asked to it is refused as older and left as it is; opened to be upgraded it has exactly the schema
/// of a fresh installation, all its data, and its owners go on under the epochs that they have.
#[tokio::test]
async fn every_earlier_schema_is_upgraded_with_its_data() {
    if let Some(folder) = std::env::var_os(WRITE) {
        return write(Path::new(&folder)).await;
    }
    let Some(fresh) = empty().await else { return };
    let current = PostgresStore::open(&fresh.url(), options().create(true)).await.unwrap().info().schema_version;
    let admin = fresh.connect().await.unwrap();
    run(&admin, "select fencepost.create_queue('q', 4); select fencepost.create_queue('empty')").await;
    let Some(expected) = schema(&fresh, &["--schema-only"]).await else { return };

    let dumps = dumps();
    for version in 1..current {
        assert!(dumps.iter().any(|(of, _)| *of == version), "no dump of version {version}: see the README beside them");
    }
    for (version, dump) in dumps {
        let Some(database) = of_version(&dump).await else { return };
        let client = database.connect().await.unwrap();
        let data = fill(&client, version).await;
        let refused = PostgresStore::open(&database.url(), options()).await.map(|store| store.info());
        if let Err(error) = refused {
            assert_eq!((error.code(), error.hint().is_some()), ("schema_older", true), "{}: {error:?}", dump.display());
            assert_eq!(value::<i64>(&client, versions(&client).await).await, i64::from(version));
        }
        let had_ledger = versions(&client).await == LEDGER;
        let store = PostgresStore::open(&database.url(), options().create(true)).await.unwrap();
        let states = "select string_agg(state, ' ' order by number) from fencepost.installation";
        let was_before = |number| !had_ledger && number <= version;
        let told = (1..=current).map(|number| if was_before(number) { "baselined" } else { "applied" });
        assert_eq!(value::<String>(&client, states).await, told.collect::<Vec<_>>().join(" "));
        assert_eq!(value::<i64>(&client, EARLIER).await, 0, "what was beside the functions went into the ledger");
        assert_eq!(store.info().schema_version, current);
        if version < 3 {
            run(&client, "select fencepost.create_queue('q', 4); select fencepost.create_queue('empty')").await;
        }
        let upgraded = schema(&database, &["--schema-only"]).await.expect("it was there before");
        assert!(sorted(&upgraded) == sorted(&expected), "{}:\n{}", dump.display(), difference(&expected, &upgraded));
        check(&database, &store, &client, data, version).await;
    }
}

/// In which order rights were granted stands in the dump and means nothing.
fn sorted(schema: &str) -> Vec<&str> {
    let mut lines: Vec<_> = schema.lines().collect();
    lines.sort_unstable();
    lines
}

fn difference(expected: &str, found: &str) -> String {
    let (expected, found): (BTreeSet<_>, BTreeSet<_>) = (expected.lines().collect(), found.lines().collect());
    let less = expected.difference(&found).map(|line| format!("- {line}\n"));
    less.chain(found.difference(&expected).map(|line| format!("+ {line}\n"))).take(40).collect()
}

/// A worker that goes on while the schema under it is upgraded, as one whose program calls the functions: it is told to try again at most,
/// loses nothing, and its lease and slot stay its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_goes_on_while_the_schema_is_upgraded() {
    let dumps = dumps();
    let (_, dump) = dumps.last().expect("there are dumps");
    let Some(database) = of_version(dump).await else { return };
    let (client, admin) = (database.connect().await.unwrap(), database.connect().await.unwrap());
    run(&client, "select fencepost.create_queue('q', 4); select fencepost.create_consumer('q', 'c')").await;
    run(&admin, "update fencepost.installed set checksum = '', name = '0.0.1' where version = 0").await;
    let epoch: i64 = value(&client, "select epoch from fencepost.claim('q', 'c', 'w', '1 h')").await;
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = tokio::spawn(async move {
        let (mut sent, mut handled, mut again) = (BTreeSet::new(), BTreeSet::new(), 0_u32);
        let mut calls = 0_u32;
        let mut rows = async |sql: String| loop {
            calls += 1;
            match client.query(&sql, &[]).await {
                Ok(rows) => break (rows, calls, again),
                Err(error) => {
                    // What a call meets whose functions are replaced at that moment; nothing of it was stored.
                    let state = error.code().expect("the server says").code().to_owned();
                    assert!(["42883", "XX000", "42P01", "55P03", "40P01"].contains(&&*state), "{error:?}");
                    again += 1;
                }
            }
        };
        let mut last = (0, 0);
        loop {
            let ending = stopped.try_recv() != Err(tokio::sync::oneshot::error::TryRecvError::Empty);
            let (row, ..) = rows("select fencepost.send('q', 'x', key => 'k')".to_owned()).await;
            sent.insert(row[0].get::<_, i64>(0));
            let receive = format!("select batch_id, id from fencepost.receive('q', 'c', 0, {epoch}, 10)");
            let (batch, ..) = rows(receive).await;
            handled.extend(batch.iter().map(|row| row.get::<_, i64>(1)));
            if let Some(row) = batch.first() {
                let ack = format!("select fencepost.ack('q', 'c', 0, {epoch}, {})", row.get::<_, i64>(0));
                let (_, calls, again) = rows(ack).await;
                last = (calls, again);
            }
            if ending && batch.is_empty() | (sent == handled) {
                return (sent, handled, last);
            }
        }
    });
    for _ in 0..3 {
        PostgresStore::open(&database.url(), options().create(true)).await.unwrap();
        run(&admin, "update fencepost.installed set checksum = '', name = '0.0.1' where version = 0").await;
    }
    drop(stop);
    let (sent, handled, (calls, again)) = worker.await.unwrap();
    assert_eq!(sent, handled);
    assert!(again <= 6 && calls > 9, "{calls} calls, {again} of them once more");
    let store = PostgresStore::open(&database.url(), options().create(true)).await.unwrap();
    let renewed: bool = value(&admin, &format!("select fencepost.renew_slot('q', 'c', 0, {epoch})")).await;
    assert!(renewed);
    assert_eq!(store.queue_status().await.unwrap().len(), 1);
}

/// Writes the dump of the schema in `folder`.
async fn write(folder: &Path) {
    let Some(database) = empty().await else { return };
    let store = PostgresStore::open(&database.url(), options().sql_folder(folder).create(true)).await.unwrap();
    let version = std::fs::read_dir(folder.join("tables")).unwrap().count();
    store.close().await;
    let Some(sql) = schema(&database, &["--inserts"]).await else { return };
    let plain = fixtures().join(format!("{version:04}.sql"));
    std::fs::write(&plain, sql).unwrap();
    gzip(&["-9nf", plain.to_str().unwrap()], Stdio::null());
}
