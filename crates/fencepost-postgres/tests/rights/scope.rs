//! What whoever has one right calls with a queue or a lease that is not his, over every function that takes one.

use crate::ground::{Ground, REFUSED, outcome, run};

/// Every function that a role may call and that names a queue or a lease, called with what is not granted and values that fit.
const CALLS: &str = "
    select format('select * from fencepost.%I(%s)', p.proname, string_agg(format('%I => %s::%s', a.name, case
            when a.name in ('queue', 'wanted') then '''other'''
            when a.name in ('name', 'of') then '''other/x'''
            when a.name = 'start' then '''earliest'''
            when a.name = 'key' or a.name = 'nonce' then 'null'
            when a.name = 'operation' then '''nack'''
            when a.type = 'text' then '''c'''
            when a.type = 'boolean' then 'true'
            when a.type = 'bytea' then '''x'''
            when a.type = 'jsonb' or p.proname = '_send_one_once' and a.name = 'headers' then '''{}'''
            when a.name in ('payloads', 'keys') then '''{x}'''
            when a.type like '%[]' then '''{}'''
            when a.name in ('due_in', 'due_at', 'expires_in', 'expires_at', 'delay', 'finished') then 'null'
            when a.type = 'interval' then '''10 s'''
            when a.name in ('lane', 'slot', 'wanted') then '0'
            when a.type in ('integer', 'bigint') then '1'
        end, a.type), ', ' order by a.n)), p.proname::text
    from pg_proc p cross join lateral (
        select u.n, p.proargnames[u.n] as name, format_type(u.t, null) as type from unnest(p.proargtypes::oid[]) with ordinality u (t, n)) a
    where p.pronamespace = 'fencepost'::regnamespace and has_function_privilege($1::text, p.oid, 'execute')
        and p.proargnames && $2::text[] and p.proname !~ '^(q[0-9]+|prefix)_' and p.proname <> all($3::text[])
    group by p.oid, p.proname, p.proargnames order by 1";

/// What tells no more than whether there is a queue, or checks and writes text.
const HARMLESS: [&str; 7] =
    ["_queue_number", "_found_number", "_received_from", "_by_queue", "_by_each", "_prefix_function", "_may_hold"];

/// Every call that names another queue is refused to each right on one queue, and changes nothing.
#[tokio::test]
async fn every_call_on_another_queue_is_refused() {
    let Some(ground) = Ground::new().await else { return };
    let before = ground.stored("other").await;
    for role in ["producer", "consumer", "holder"] {
        let client = ground.client(role).await;
        let arguments: &[&str] = &["queue", "wanted"];
        let calls = ground.admin.query(CALLS, &[&ground.role(role), &arguments, &&HARMLESS[..]]).await.unwrap();
        assert!(calls.len() >= 30, "{}", calls.len());
        for row in calls {
            let call: String = row.get(0);
            let wanted_slot = call.replace("wanted => 'other'::integer", "wanted => 0");
            assert_eq!(outcome(&client, &wanted_slot).await, REFUSED, "{role}: {wanted_slot}");
        }
    }
    assert_eq!(ground.stored("other").await, before);
    ground.clear().await;
}

/// Every call on a lease of another prefix is refused, and changes nothing.
#[tokio::test]
async fn every_call_on_another_lease_is_refused() {
    let Some(ground) = Ground::new().await else { return };
    let before = ground.stored("other").await;
    for role in ["producer", "consumer", "holder"] {
        let client = ground.client(role).await;
        let arguments: &[&str] = &["name", "of"];
        let calls = ground.admin.query(CALLS, &[&ground.role(role), &arguments, &&HARMLESS[..]]).await.unwrap();
        let calls: Vec<(String, String)> = calls.iter().map(|row| (row.get(0), row.get(1))).collect();
        let called: Vec<&str> = calls.iter().map(|(_, name)| &**name).filter(|name| name.contains("lease")).collect();
        assert_eq!(
            called,
            ["_lease_history", "_lease_states", "lease_acquire", "lease_guard", "lease_release", "lease_renew"]
        );
        for (call, _) in calls.iter().filter(|(_, name)| name.contains("lease")) {
            assert_eq!(outcome(&client, call).await, REFUSED, "{role}: {call}");
        }
    }
    assert_eq!(ground.stored("other").await, before);
    ground.clear().await;
}

/// A right on one side of a queue is none on its other side, and none to operate it.
#[tokio::test]
async fn a_right_is_no_other_right() {
    let Some(ground) = Ground::new().await else { return };
    let before = ground.stored("own").await;
    let of_consumers = [
        "fencepost.claim('own', 'c', 'w')",
        "fencepost.receive('own', 'c', 0, 1)",
        "fencepost.ack('own', 'c', 0, 1, 1)",
        "fencepost._read('own', 'earliest', 10)",
        "fencepost._slot_report('own'::text)",
        "fencepost._dead_letters('own', 'c', 0, 10)",
        "fencepost.maintain('own')",
    ];
    let of_producers = [
        "fencepost.send('own', 'x'::text)",
        "fencepost.send_batch('own', '{x}')",
        "fencepost.send_once('own', 'x', 'k')",
    ];
    let of_holders = ["fencepost.lease_acquire('own/x', 'h', '1 s')", "fencepost.lease_guard('own/x', 1)"];
    let of_administrators = [
        "fencepost.create_queue('mine')",
        "fencepost.drop_queue('own', true)",
        "fencepost.create_consumer('own', 'mine')",
        "fencepost.drop_consumer('own', 'c', true)",
        "fencepost.force_release_slot('own', 'c', 0, 'why')",
        "fencepost.lease_force_release('own/x', 'why')",
        "fencepost.dead_replay('own', 'c')",
        "fencepost.dead_purge('own', 'c')",
        "fencepost.pause_queue('own')",
        "fencepost.resume_queue('own')",
        "fencepost.set_retention('own')",
        "fencepost.grant_queue('own', current_user::text, 'consumer')",
        "fencepost.revoke_queue('own', current_user::text, 'consumer')",
        "fencepost.grant_lease('o', current_user::text)",
        "fencepost.revoke_lease('own/', current_user::text)",
        "fencepost._any_ack('own', 'c', 0, 1, 1)",
        "fencepost._any_read('own', 'earliest', 10)",
        "fencepost._any_maintain()",
    ];
    let of_cluster_roles = [
        "fencepost.notify('own', 'x')",
        "fencepost._any_send_notice('own', 'x')",
        "fencepost._notices('{own}', null, null, null, null, null)",
        "fencepost._any_notices('{own}', null, null, null, null, null)",
    ];
    for (role, refused) in [
        ("producer", [&of_consumers[..], &of_holders, &of_administrators].concat()),
        ("consumer", [&of_producers[..], &of_holders, &of_administrators].concat()),
        ("holder", [&of_producers[..], &of_consumers, &of_administrators].concat()),
        ("stranger", [&of_producers[..], &of_consumers, &of_holders, &of_administrators].concat()),
    ] {
        let client = ground.client(role).await;
        for call in refused.into_iter().chain(of_cluster_roles) {
            assert_eq!(outcome(&client, &format!("select * from {call}")).await, REFUSED, "{role}: {call}");
        }
    }
    assert_eq!(ground.stored("own").await, before);
    ground.clear().await;
}

/// A queue's own functions do nothing on another queue, whatever they are told.
#[tokio::test]
async fn the_functions_of_one_queue_reach_no_other() {
    let Some(ground) = Ground::new().await else { return };
    let before = ground.stored("other").await;
    let number = |queue: &str| format!("select id from fencepost.queue where name = '{queue}'");
    let own: i32 = ground.value(&number("own")).await.unwrap();
    let other: i32 = ground.value(&number("other")).await.unwrap();
    let client = ground.client("consumer").await;
    let received = format!("select * from fencepost.q{own}_receive('other', 'c', 0, 1, 10)");
    assert_eq!(outcome(&client, &received).await, "ZF004");
    let calls = ground.admin.query("select call, columns from fencepost._consumer_calls()", &[]).await.unwrap();
    for row in calls {
        let (call, columns): (String, String) = (row.get(0), row.get(1));
        let made = |number: i32| {
            format!(
                "select * from fencepost.q{number}_consume('{call}', consumer => 'other/c', slot => 1, epoch => 1, batch_id => 1,
                    message_id => 1, span => '10 s', word => 'earliest', nonce => 'n', slots => '{{0}}', epochs => '{{1}}') as x ({columns})"
            )
        };
        outcome(&client, &made(own)).await;
        assert_eq!(outcome(&client, &made(other)).await, REFUSED, "{call}");
    }
    let unknown = format!("select * from fencepost.q{own}_consume('drop_queue(''other'', true); --') as x (a int)");
    assert_eq!(outcome(&client, &unknown).await, "22023");
    // The function of a prefix judges the name by itself.
    let prefix: String = ground.value("select fencepost._prefix_named('own/')").await.unwrap();
    let holder = ground.client("holder").await;
    for name in ["'other/x'", "'own'", "''", "null"] {
        for call in ["acquire", "renew", "release", "guard", "state", "list", "history", "mark", "sleep"] {
            let sql = format!("select * from fencepost.{prefix}('{call}', {name}) as x (a int)");
            assert_eq!(outcome(&holder, &sql).await, REFUSED, "{sql}");
        }
    }
    assert_eq!(ground.stored("other").await, before);
    ground.clear().await;
}

const SEEN: [(&str, &str); 9] = [
    ("queue_status", "select distinct queue from fencepost.queue_status"),
    ("slot_status", "select distinct queue from fencepost.slot_status"),
    ("dead_letters", "select distinct queue from fencepost.dead_letters"),
    ("_consumer_report", "select distinct queue from fencepost._consumer_report()"),
    ("_dead_counts", "select distinct queue from fencepost._dead_counts()"),
    ("schedule_status", "select queue from fencepost.schedule_status"),
    ("_schedules", "select queue from fencepost._schedules()"),
    ("_fired_state", "select split_part(schedule, ' ', 3) from fencepost._fired_state"),
    ("lease_status", "select distinct split_part(name, '/', 1) from fencepost.lease_status"),
];

/// Views show what the caller may consume or hold, and leak nothing else to functions of his that look at every row first.
#[tokio::test]
async fn views_show_what_was_granted_alone() {
    let Some(ground) = Ground::new().await else { return };
    ground.run("create schema lair; grant all on schema lair to public").await;
    for (role, own) in [("producer", &[][..]), ("consumer", &SEEN[..8]), ("holder", &SEEN[8..])] {
        let client = ground.client(role).await;
        for (name, sql) in SEEN {
            let rows = client.query(sql, &[]).await.unwrap();
            let seen: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            let expected: &[&str] = if own.iter().any(|(of, _)| *of == name) { &["own"] } else { &[] };
            assert_eq!(seen, expected, "{role}: {name}");
        }
        run(
            &client,
            "create temp table leaked (what text);
            create function pg_temp.leak(what text) returns boolean language plpgsql cost 0.0000001 as $$
            begin insert into leaked values (what); return true; end $$",
        )
        .await;
        for view in [
            "queue_status",
            "slot_status",
            "dead_letters",
            "lease_status",
            "schedule_status",
            "_schedule_state",
            "_fired_state",
        ] {
            run(&client, &format!("select * from fencepost.{view} v where pg_temp.leak(v::text)")).await;
        }
        for sql in [
            "select * from fencepost.dead_letters where pg_temp.leak(convert_from(payload, 'UTF8')) and pg_temp.leak(reason)",
            "select * from fencepost.lease_status where pg_temp.leak(name)",
        ] {
            run(&client, sql).await;
        }
        let leaked = client.query("select what from leaked where what like '%other%'", &[]).await.unwrap();
        assert!(leaked.is_empty(), "{role}: {:?}", leaked[0].get::<_, String>(0));
    }
    // Whoever may consume any queue, or hold any lease, sees all of them.
    let consumer = ground.client("consumer").await;
    ground.run(&format!("grant fencepost_consumer to {}", ground.role("consumer"))).await;
    for (name, sql) in SEEN {
        assert_eq!(consumer.query(sql, &[]).await.unwrap().len(), 2, "{name}");
    }
    ground.clear().await;
}

/// Who may consume a schedule's queue sees what the schedule has fired; a schedule of others is none that there is.
#[tokio::test]
async fn what_a_schedule_has_fired_is_told_to_who_may_consume_its_queue() {
    let Some(ground) = Ground::new().await else { return };
    for (role, seen) in [("producer", false), ("consumer", true), ("holder", false)] {
        let client = ground.client(role).await;
        for (queue, seen) in [("own", seen), ("other", false)] {
            let history = format!("select * from fencepost._schedule_history('schedule of {queue}')");
            match client.query(&history, &[]).await {
                Ok(fires) => assert!(seen && fires.len() == 1, "{role}: {queue}"),
                Err(error) => assert!(!seen && error.code().unwrap().code() == "42704", "{role}: {queue}: {error:?}"),
            }
        }
    }
    ground.clear().await;
}

/// Of a topic that is not the caller's nothing is told, and nobody is made to notify.
#[tokio::test]
async fn sleepers_hear_of_their_own_topics() {
    let Some(ground) = Ground::new().await else { return };
    let topics = "array['messages/own', 'slots/3/own/c', 'lease/own/x', 'messages/other', 'slots/5/other/c', 'lease/other/x', 'messages/none', 'x']";
    // What is held has no mark, but is known not to be quiet or to be.
    ground
        .run("select fencepost.lease_force_release('own/x', 'why'), fencepost.lease_force_release('other/x', 'why')")
        .await;
    let before = ground.stored("other").await;
    for (role, known) in [("producer", &[][..]), ("consumer", &[0, 1]), ("holder", &[2])] {
        let client = ground.client(role).await;
        run(&client, &format!("select fencepost._sleep({topics})")).await;
        let rows = client.query(&format!("select mark from fencepost._marks({topics})"), &[]).await.unwrap();
        let told: Vec<usize> = (0..rows.len()).filter(|&n| rows[n].get::<_, Option<i64>>(0).is_some()).collect();
        assert_eq!((rows.len(), &*told), (8, known), "{role}");
    }
    let asleep = "select last_value > 0 from fencepost.asleep_q1";
    assert_eq!(ground.value::<bool>(asleep).await, Some(true));
    assert_eq!(ground.stored("other").await, before);
    ground.clear().await;
}

/// A snapshot from before its queue was made shows a function no name of it, and no name is not every queue.
#[tokio::test]
async fn a_function_that_does_not_see_its_queue_tells_of_no_other() {
    let Some(ground) = Ground::new().await else { return };
    let client = ground.client("consumer").await;
    run(&client, "begin isolation level repeatable read; select count(*) from fencepost.installed").await;
    ground.run("select fencepost.create_queue('late')").await;
    ground.run(&format!("select fencepost.grant_queue('late', '{}', 'consumer')", ground.role("consumer"))).await;
    let number: i32 = ground.value("select id from fencepost.queue where name = 'late'").await.unwrap();
    for call in ["slot_report", "consumer_report", "queue_status", "dead_counts", "maintain"] {
        let columns = format!("select columns from fencepost._consumer_calls() where call = '{call}'");
        let columns: String = ground.value(&columns).await.unwrap();
        run(&client, "savepoint before").await;
        let called =
            outcome(&client, &format!("select * from fencepost.q{number}_consume('{call}') as x ({columns})")).await;
        assert_eq!(called, "42704", "{call}");
        run(&client, "rollback to before").await;
    }
    drop(client);
    ground.clear().await;
}
