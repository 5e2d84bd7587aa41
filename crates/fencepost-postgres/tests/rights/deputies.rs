//! Others' functions, triggers, views and sessions: a call is judged by the role that makes it, never by who logged in.

use crate::ground::{Ground, REFUSED, outcome, run};

/// What a role that has no right makes for others to run with its own rights.
const LAIR: &str = "
    set check_function_bodies = off;
    create schema lair;
    create function lair.sends() returns bigint language sql security definer as $$ select fencepost.send('own', 'stolen'::text) $$;
    create function lair.reads() returns bigint language sql security definer as $$ select count(*) from fencepost._read('own', 'earliest', 10) $$;
    create function lair.holds() returns text language sql security definer as $$ select (fencepost.lease_acquire('own/y', 'h', '1 h')).outcome $$;
    create function lair.letters() returns bigint language sql security definer as $$ select count(*) from fencepost.dead_letters $$;
    create table lair.bait (a int);
    create function lair.fires() returns trigger language plpgsql security definer as $$ begin perform fencepost.send('own', 'stolen'::text); return new; end $$;
    create trigger fires before insert on lair.bait for each row execute function lair.fires();
    grant usage on schema lair to public; grant all on all tables in schema lair to public";

/// What runs with a third role's rights has that role's, whoever runs it: neither does the role gain by who calls, nor the caller by the role.
#[tokio::test]
async fn what_runs_with_a_third_roles_rights_has_that_roles() {
    let Some(ground) = Ground::new().await else { return };
    ground.run(&format!("grant create on database {} to {}", ground.database.name(), ground.role("stranger"))).await;
    let stranger = ground.client("stranger").await;
    run(&stranger, LAIR).await;
    let before = (ground.stored("own").await, ground.stored("other").await);
    for role in ["producer", "consumer", "holder", "stranger"] {
        let client = ground.client(role).await;
        for sql in [
            "select lair.sends()",
            "select lair.reads()",
            "select lair.holds()",
            "select lair.letters()",
            "insert into lair.bait values (1)",
        ] {
            assert_eq!(outcome(&client, sql).await, REFUSED, "{role}: {sql}");
        }
    }
    // The superuser lends nothing by being the one who logged in.
    let role = ground.role("stranger");
    for sql in ["select lair.sends()", "select lair.reads()", "insert into lair.bait values (1)"] {
        assert_eq!(outcome(&ground.admin, sql).await, REFUSED, "superuser: {sql}");
    }
    run(&ground.admin, &format!("set role {role}")).await;
    for sql in [
        "select fencepost.send('own', 'x'::text)",
        "select * from fencepost.claim('own', 'c', 'w')",
        "select * from fencepost.queue_status",
    ] {
        assert_eq!(outcome(&ground.admin, sql).await, REFUSED, "superuser as another role: {sql}");
    }
    run(&ground.admin, "reset role").await;
    assert_eq!((ground.stored("own").await, ground.stored("other").await), before);
    ground.clear().await;
}

/// A view that somebody else made shows each who looks his own, also where its owner may see more.
#[tokio::test]
async fn a_view_of_somebody_who_may_more_shows_the_caller_his_own() {
    let Some(ground) = Ground::new().await else { return };
    ground.run("create schema lair; create view lair.view as select queue from fencepost.dead_letters; grant usage on schema lair to public").await;
    ground.run("grant select on lair.view to public").await;
    let consumer = ground.client("consumer").await;
    let rows = consumer.query("select queue from lair.view", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<String>>(), ["own"]);
    ground.clear().await;
}

/// Nobody becomes somebody else.
#[tokio::test]
async fn nobody_becomes_another_role() {
    let Some(ground) = Ground::new().await else { return };
    for role in ["producer", "stranger"] {
        let client = ground.client(role).await;
        for other in [ground.role("consumer"), "postgres".to_owned(), "fencepost_admin".to_owned()] {
            for sql in [
                format!("set role {other}"),
                format!("set session authorization {other}"),
                format!("grant {other} to current_user"),
                format!("alter role {other} password 'x'"),
                format!("alter default privileges for role {other} grant all on functions to public"),
                format!("reassign owned by {other} to current_user"),
            ] {
                assert_eq!(outcome(&client, &sql).await, REFUSED, "{role}: {sql}");
            }
        }
    }
    ground.clear().await;
}
