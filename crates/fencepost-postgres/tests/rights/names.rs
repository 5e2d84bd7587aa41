//! Names and texts that would be something else where they were put into a statement: of queues, consumers, workers, keys, kinds, headers,
//! holders, reasons, prefixes and roles, through the functions of single queues and prefixes.

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use crate::ground::{Ground, run};

fn strange() -> Vec<String> {
    vec![
        "'; drop table fencepost.queue; --".to_owned(),
        "it's \"quoted\" \\ \\' $$ $body$ $text$ $make$".to_owned(),
        "%s %I %L %1$s {q} {id} {f} {prefix} {wake} {scan}".to_owned(),
        "$1 $2 :name ?".to_owned(),
        "') as x (a int); select fencepost.drop_queue('own', true); --".to_owned(),
        "n".repeat(255),
        "日".repeat(85),
        "\\".repeat(100),
        "a/b/3/c".to_owned(),
        "E'\\x27' U&'\\0027'".to_owned(),
    ]
}

async fn ask<T>(client: &Client, sql: &str, texts: &[&str]) -> T
where
    T: for<'r> tokio_postgres::types::FromSql<'r>,
{
    let values: Vec<(&(dyn ToSql + Sync), Type)> = texts.iter().map(|text| (text as _, Type::TEXT)).collect();
    let rows = client.query_typed(sql, &values).await.unwrap_or_else(|error| panic!("{sql} {texts:?}: {error:?}"));
    rows[0].get(0)
}

/// Whatever they are called, what is granted works, and nothing else happens.
#[tokio::test]
async fn strange_names_are_names() {
    let Some(ground) = Ground::new().await else { return };
    let before = (ground.stored("own").await, ground.stored("other").await);
    let tables = "select count(*) from pg_class where relnamespace = 'fencepost'::regnamespace and relname !~ '^(q|asleep_q)[0-9]'";
    let there: i64 = ground.value(tables).await.unwrap();
    let role = format!("it's \"a\" \\ $$ %s_{}", &ground.database.name()[5..]);
    ground.run(&format!("create role \"{}\" login password 'secret'", role.replace('"', "\"\""))).await;
    let client = ground.database.connect().await.unwrap();
    for name in strange() {
        let name = &*name;
        for sql in ["select fencepost.create_queue($1)", "select fencepost.create_consumer($1, $1)"] {
            assert!(ask::<bool>(&ground.admin, sql, &[name]).await);
        }
        for right in ["producer", "consumer"] {
            assert!(
                ask::<bool>(&ground.admin, "select fencepost.grant_queue($1, $2, $3)", &[name, &role, right]).await
            );
        }
        assert!(ask::<bool>(&ground.admin, "select fencepost.grant_lease($1, $2)", &[name, &role]).await);
    }
    run(&client, &format!("set role \"{}\"", role.replace('"', "\"\""))).await;
    for name in strange() {
        let name = &*name;
        let headers = "select fencepost.send($1, $1, key => $1, kind => $1, headers => jsonb_build_object($1, $1))";
        assert_eq!(ask::<i64>(&client, headers, &[name]).await, 1);
        assert_eq!(
            ask::<Vec<i64>>(&client, "select fencepost.send_batch($1, array[$1], array[$1], $1)", &[name]).await,
            [2]
        );
        assert_eq!(
            ask::<i64>(&client, "select id from fencepost.send_once($1, $1, $1, '1 h', $1, $1)", &[name]).await,
            3
        );
        assert!(
            ask::<bool>(&client, "select deduplicated from fencepost.send_once($1, $1, $1, '1 h', $1, $1)", &[name])
                .await
        );
        let epoch: i64 = ask(&client, "select epoch from fencepost.claim($1, $1, $1, nonce => $1)", &[name]).await;
        let received = format!(
            "select bool_and(key = $1 and kind = $1 and fencepost.payload_text(m) = $1) and count(*) = 3
                and count(*) filter (where headers = jsonb_build_object($1, $1)) = 1
            from fencepost.receive($1, $1, 0, {epoch}) m"
        );
        assert!(ask::<bool>(&client, &received, &[name]).await, "{name}");
        let nack = format!("select outcome from fencepost.nack($1, $1, 0, {epoch}, 1, 1, reason => $1)");
        assert_eq!(ask::<String>(&client, &nack, &[name]).await, "retry");
        let dead = format!("select fencepost.dead_letter($1, $1, 0, {epoch}, 1, 2, $1)::text");
        assert_eq!(ask::<String>(&client, &dead, &[name]).await, "");
        assert_eq!(ask::<i32>(&client, &format!("select fencepost.ack($1, $1, 0, {epoch}, 1)"), &[name]).await, 1);
        assert_eq!(
            ask::<String>(&client, "select reason from fencepost.dead_letters where queue = $1", &[name]).await,
            name
        );
        assert_eq!(
            ask::<String>(&client, "select holder from fencepost.slot_status where queue = $1", &[name]).await,
            name
        );
        assert_eq!(ask::<i64>(&client, "select count(id) from fencepost._read($1, 'earliest', 10)", &[name]).await, 3);
        let beat = "select workers from fencepost._heartbeat($1, $1, $1, $1, '10 s', '{}', '{}')";
        assert_eq!(ask::<i32>(&client, beat, &[name]).await, 1);
        let marks = "select count(*) from fencepost._marks(array['messages/' || $1, 'slots/' || length($1) || '/' || $1 || '/' || $1, 'lease/' || $1])
            where mark is not null";
        assert_eq!(ask::<i64>(&client, marks, &[name]).await, 2);
        assert!(ask::<bool>(&client, &format!("select fencepost.release_slot($1, $1, 0, {epoch})"), &[name]).await);
        let epoch: i64 = ask(&client, "select epoch from fencepost.lease_acquire($1, $1, '10 s', $1)", &[name]).await;
        assert_eq!(
            ask::<String>(&client, "select holder from fencepost.lease_status where name = $1", &[name]).await,
            name
        );
        assert!(ask::<bool>(&client, &format!("select fencepost.lease_renew($1, {epoch})"), &[name]).await);
        assert!(ask::<bool>(&client, &format!("select fencepost.lease_release($1, {epoch})"), &[name]).await);
    }
    assert_eq!(client.query("select * from fencepost.queue_status", &[]).await.unwrap().len(), strange().len());
    run(&client, "reset role").await;
    // Made anew, as by an upgrade, they stay who they are.
    ground.run("select fencepost._make_functions(q.id, q.partitions, fencepost._messages_topic(q.name)) from fencepost.queue q").await;
    for name in strange() {
        let name = &*name;
        for right in ["producer", "consumer"] {
            assert!(
                ask::<bool>(&ground.admin, "select fencepost.revoke_queue($1, $2, $3)", &[name, &role, right]).await
            );
        }
        assert!(ask::<bool>(&ground.admin, "select fencepost.revoke_lease($1, $2)", &[name, &role]).await);
        assert!(ask::<bool>(&ground.admin, "select fencepost.drop_queue($1, true)", &[name]).await);
    }
    assert_eq!(ground.value::<i64>(tables).await.unwrap(), there);
    assert_eq!((ground.stored("own").await, ground.stored("other").await), before);
    ground.run(&format!("drop role \"{}\"", role.replace('"', "\"\""))).await;
    ground.clear().await;
}
