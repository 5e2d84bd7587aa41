//! The extension plpgsql_check reads every function without running it: names that conflict, columns and casts that are not there,
//! and code that no call reaches.

use fencepost_test_support::{DEFAULT_MAJOR, PgServer, Unavailable, skip_or_fail};
use tokio_postgres::Client;

use crate::stage::installed_on;

const THERE: &str = "select count(*) from pg_available_extensions where name = 'plpgsql_check'";

/// Errors of every function of the schema, those that a queue's log brings included.
const FOUND: &str = "
    select p.oid::regprocedure::text, c.lineno, c.message, c.detail
    from pg_proc p join pg_language l on l.oid = p.prolang
    cross join lateral plpgsql_check_function_tb(p.oid, fatal_errors => false, extra_warnings => false, performance_warnings => false) c
    where p.pronamespace = 'fencepost'::regnamespace and l.lanname = 'plpgsql' and c.level = 'error'
    order by 1, 2";

async fn is_there(client: &Client) -> bool {
    client.query_one(THERE, &[]).await.unwrap().get::<_, i64>(0) > 0
}

/// Of the major that the extension is packaged for.
#[tokio::test]
async fn every_function_can_be_run_as_it_is_written() {
    let Some(server) = skip_or_fail(PgServer::shared_of(DEFAULT_MAJOR).await) else { return };
    let database = installed_on(&server, true).await;
    let client = database.connect().await.unwrap();
    let asked = if is_there(&client).await {
        Ok(())
    } else {
        Err(Unavailable::Missing("plpgsql_check for PostgreSQL 15".into()))
    };
    if skip_or_fail(asked).is_none() {
        return;
    }
    client.batch_execute("create extension plpgsql_check; select fencepost.create_queue('q', 4)").await.unwrap();
    let rows = client.query(FOUND, &[]).await.unwrap();
    let found: Vec<String> = rows
        .iter()
        .map(|row| {
            let (function, line): (String, Option<i32>) = (row.get(0), row.get(1));
            let (message, detail): (String, Option<String>) = (row.get(2), row.get(3));
            format!("{function}, line {}: {message} {}", line.unwrap_or_default(), detail.unwrap_or_default())
        })
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    let functions = "select count(*) from pg_proc where pronamespace = 'fencepost'::regnamespace";
    assert!(client.query_one(functions, &[]).await.unwrap().get::<_, i64>(0) > 100);
}

/// What runs with its owner's rights looks names up where its owner says, not where its caller does.
#[tokio::test]
async fn every_function_with_its_owners_rights_pins_where_names_are_looked_up() {
    let Some(database) = crate::stage::installed(true).await else { return };
    let client = database.connect().await.unwrap();
    client.batch_execute("select fencepost.create_queue('q', 4)").await.unwrap();
    let open = "select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'fencepost'::regnamespace and p.prosecdef
        and not coalesce('search_path=pg_catalog, pg_temp' = any(p.proconfig), false)";
    let open: Vec<String> = client.query(open, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(open.is_empty(), "{open:?}");
}

/// Whoever is the first to call pins the planner alike, as a session keeps the plans that it made first; what is called within pins nothing of
/// that. Sends of a queue's own functions read nothing.
#[tokio::test]
async fn every_function_that_callers_reach_pins_the_planner_alike() {
    let Some(database) = crate::stage::installed(true).await else { return };
    let client = database.connect().await.unwrap();
    client.batch_execute("select fencepost.create_queue('q', 4)").await.unwrap();
    let other = "select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'fencepost'::regnamespace
        and p.proname !~ '^q\\d+_send' and p.prosecdef <> coalesce(p.proconfig @> array['enable_seqscan=off', 'enable_bitmapscan=off', 'jit=off',
            'max_parallel_workers_per_gather=0', 'plan_cache_mode=force_generic_plan'], false)";
    let other: Vec<String> = client.query(other, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(other.is_empty(), "{other:?}");
}
