//! The roles of the cluster: made by who may, missed by nobody, and made at once by several installations.

use fencepost_postgres::PostgresStore;
use fencepost_test_support::{DEFAULT_MAJOR, PgServer, skip_or_fail};

use crate::ground::{outcome, run};
use crate::stage::options;

const THERE: &str = "select array(select rolname::text from pg_roles where rolname ~ '^fencepost_' order by 1)";

/// Who may make no roles installs all the same; the roles get their rights when they are made.
#[tokio::test]
async fn an_installation_goes_on_without_roles_and_grants_them_later() {
    let Some(server) = skip_or_fail(PgServer::private_with(DEFAULT_MAJOR, &[("fsync", "off")]).await) else { return };
    let database = server.database().await.unwrap();
    let admin = database.connect().await.unwrap();
    let roles = format!(
        "create role installer login password 'secret'; grant create on database {} to installer; \
         create role app login password 'secret'",
        database.name()
    );
    run(&admin, &roles).await;
    let url = |role: &str| format!("postgres://{role}:secret@{}/{}", server.address(), database.name());
    let store = PostgresStore::open(&url("installer"), options().create(true)).await.unwrap();
    let there = async || admin.query_one(THERE, &[]).await.unwrap().get::<_, Vec<String>>(0);
    assert!(there().await.is_empty());
    assert_eq!(store.check().await.unwrap().missing_roles.len(), 3);
    run(&admin, "set role installer; select fencepost.create_queue('q')").await;
    // A single queue is granted without them.
    run(&admin, "select fencepost.grant_queue('q', 'app', 'producer')").await;
    let missing = async || {
        let rows = admin.query_one("select fencepost.grant_roles()", &[]).await.unwrap();
        rows.get::<_, Vec<String>>(0)
    };
    assert_eq!(missing().await, ["fencepost_admin", "fencepost_consumer", "fencepost_producer"]);
    run(
        &admin,
        "reset role; create role fencepost_producer; create role fencepost_consumer; create role fencepost_admin",
    )
    .await;
    run(&admin, "set role installer").await;
    assert!(missing().await.is_empty());
    run(&admin, "select fencepost.create_queue('later'); reset role; grant fencepost_consumer to app").await;
    assert!(store.check().await.unwrap().missing_roles.is_empty());
    let app = PostgresStore::open(&url("app"), options()).await.unwrap();
    let client = app.client().await.unwrap();
    assert_eq!(outcome(&client, "select fencepost.maintain('q'), fencepost.send('q', 'x'::text)").await, "done");
    assert_eq!(outcome(&client, "select fencepost.send('later', 'x'::text)").await, "42501");
    // PUBLIC is told of.
    assert!(!store.check().await.unwrap().is_public);
    run(&admin, "grant usage on schema fencepost to public").await;
    assert!(store.check().await.unwrap().is_public);
}

/// Functions run with their owner's rights: an upgrade by a superuser leaves them to the owner of the schema.
#[tokio::test]
async fn an_upgrade_by_somebody_else_gives_him_nothing() {
    let Some(server) = skip_or_fail(PgServer::private_with(DEFAULT_MAJOR, &[("fsync", "off")]).await) else { return };
    let database = server.database().await.unwrap();
    let admin = database.connect().await.unwrap();
    run(
        &admin,
        &format!(
            "create role installer login password 'secret'; grant create on database {} to installer",
            database.name()
        ),
    )
    .await;
    let url = format!("postgres://installer:secret@{}/{}", server.address(), database.name());
    PostgresStore::open(&url, options().create(true)).await.unwrap();
    run(&admin, "update fencepost.installed set checksum = '', name = '0.0.1' where version = 0").await;
    PostgresStore::open(&database.url(), options().create(true)).await.unwrap();
    let owners = "select array(select distinct pg_get_userbyid(proowner)::text from pg_proc where pronamespace = 'fencepost'::regnamespace)";
    let owners: Vec<String> = admin.query_one(owners, &[]).await.unwrap().get(0);
    assert_eq!(owners, ["installer"]);
}

/// Several databases of one cluster are installed into at the same moment: all succeed, and the roles are there.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn installations_at_once_make_the_roles_together() {
    let Some(server) = skip_or_fail(PgServer::private_with(DEFAULT_MAJOR, &[("fsync", "off")]).await) else { return };
    let mut databases = Vec::new();
    for _ in 0..6 {
        databases.push(server.database().await.unwrap());
    }
    let tasks: Vec<_> = databases
        .iter()
        .map(|database| {
            let url = database.url();
            tokio::spawn(async move { PostgresStore::open(&url, options().create(true)).await.map(drop) })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    for database in &databases {
        let client = database.connect().await.unwrap();
        let there: Vec<String> = client.query_one(THERE, &[]).await.unwrap().get(0);
        assert_eq!(there, ["fencepost_admin", "fencepost_consumer", "fencepost_producer"]);
        run(
            &client,
            "select fencepost.create_queue('q'); set role fencepost_producer; select fencepost.send('q', 'x'::text)",
        )
        .await;
    }
}
