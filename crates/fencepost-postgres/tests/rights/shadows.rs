//! Names that stand for something else where the caller looks first: whoever has the right calls with somebody else's schema in its search
//! path, and with temporary tables and types that are called as ours.

use crate::ground::{Ground, run};

/// Functions, operators, types and tables with names that ours use, each of which tells that it was used, and by whom.
const TRAPS: &str = "
    create schema lair; grant usage on schema lair to public;
    create table lair.caught (what text, by text); grant all on lair.caught to public;
    create function lair.tell(what text) returns boolean language plpgsql as $$
        begin insert into lair.caught values (what, current_user); return true; end $$;
    create function lair.has_function_privilege(oid, text) returns boolean language sql as $$ select lair.tell('has_function_privilege') $$;
    create function lair.has_function_privilege(regproc, text) returns boolean language sql as $$ select lair.tell('has_function_privilege') $$;
    create function lair.to_regproc(text) returns regproc language sql as $$ select case when lair.tell('to_regproc') then 'now'::regproc end $$;
    create function lair.format(text, variadic text[]) returns text language sql as $$ select case when lair.tell('format') then '' end $$;
    create function lair.starts_with(text, text) returns boolean language sql as $$ select lair.tell('starts_with') $$;
    create function lair.convert_to(text, text) returns bytea language sql as $$ select case when lair.tell('convert_to') then ''::bytea end $$;
    create function lair.clock_timestamp() returns timestamptz language sql as $$ select case when lair.tell('clock') then 'infinity'::timestamptz end $$;
    create function lair.coalesced(boolean) returns boolean language sql as $$ select lair.tell('coalesced') $$;
    create function lair.same(text, text) returns boolean language sql as $$ select lair.tell('=') $$;
    create function lair.same(integer, integer) returns boolean language sql as $$ select lair.tell('=') $$;
    create function lair.joined(text, text) returns text language sql as $$ select case when lair.tell('||') then '' end $$;
    create function lair.joined(text, integer) returns text language sql as $$ select case when lair.tell('||') then '' end $$;
    create operator lair.= (function = lair.same, leftarg = text, rightarg = text);
    create operator lair.= (function = lair.same, leftarg = integer, rightarg = integer);
    create operator lair.|| (function = lair.joined, leftarg = text, rightarg = text);
    create operator lair.|| (function = lair.joined, leftarg = text, rightarg = integer);
    create operator lair.~ (function = lair.same, leftarg = text, rightarg = text);
    create operator lair.<> (function = lair.same, leftarg = text, rightarg = text);
    create table lair.pg_proc (oid oid, proname name, pronamespace oid, proacl aclitem[]);
    create table lair.queue (id int, name text);
    create function lair.text(jsonb) returns text language sql as $$ select case when lair.tell('cast') then '' end $$";

const TEMPORARY: &str = "
    create temp table queue (id int, name text); create temp table consumer (id int); create temp table slot (consumer_id int);
    create temp table pg_proc (oid oid, proname name, pronamespace oid); create temp table pg_roles (rolname name);
    create temp table q1_0 (a int); create temp table dead (a int); create temp table lease (a int); create temp table installed (a int);
    create temp table unnest (a int); create domain pg_temp.bigint as pg_catalog.int8 check (value is null);
    create domain pg_temp.message as pg_catalog.text";

#[tokio::test]
async fn names_are_the_servers_own_wherever_the_caller_looks() {
    let Some(ground) = Ground::new().await else { return };
    ground.run(TRAPS).await;
    for role in ["producer", "consumer", "holder", "superuser"] {
        let client =
            if role == "superuser" { ground.database.connect().await.unwrap() } else { ground.client(role).await };
        let (sends, consumes, holds) = (
            matches!(role, "producer" | "superuser"),
            matches!(role, "consumer" | "superuser"),
            matches!(role, "holder" | "superuser"),
        );
        run(&client, TEMPORARY).await;
        run(&client, "set search_path = pg_temp, lair, pg_catalog").await;
        let mut calls = vec![
            "select * from fencepost.queue_status",
            "select * from fencepost.slot_status",
            "select * from fencepost.dead_letters",
            "select * from fencepost.lease_status",
            "select * from fencepost._lease_states()",
            "select * from fencepost._consumer_report()",
            "select * from fencepost._dead_counts()",
            "select fencepost.maintain()",
            "select * from fencepost._marks('{messages/own,slots/3/own/c,lease/own/x}')",
            "select fencepost._sleep('{messages/own,slots/3/own/c,lease/own/x}')",
        ];
        if sends {
            calls.extend([
                "select fencepost.send('own', 'x'::pg_catalog.text)",
                "select fencepost.send('own', '{}'::pg_catalog.jsonb)",
                "select fencepost.send('own', '\\x00'::pg_catalog.bytea, delay => '1 h')",
                "select fencepost.send_batch('own', '{a,b}')",
                "select * from fencepost.send_once('own', 'x', 'shadow')",
                "select fencepost._send_many('own', '{a}', '{k}', '{}', '{}', '{}', '{}', '{}', '{}')",
            ]);
        }
        if consumes {
            calls.extend([
                "select * from fencepost.claim('own', 'c', 'w')",
                "select * from fencepost.claim_slot('own', 'c', 0, 'w')",
                "select fencepost.renew_slot('own', 'c', 0, 1)",
                "select * from fencepost.renew_slots('own', 'c', '{0}', '{1}')",
                "select fencepost.release_slot('own', 'c', 0, 1)",
                "select fencepost.abandon_slot('own', 'c', 0, 1)",
                "select * from fencepost._read('own', 'earliest', 10)",
                "select * from fencepost._dead_letters('own', 'c', 0, 10)",
                "select * from fencepost._heartbeat('own', 'c', 'm', 'w', '10 s', '{}', '{}')",
                "select fencepost._leave('own', 'c', 'm')",
                "select * from fencepost._members('own', 'c')",
                "select fencepost._next_due('own', 'c', 0)",
                "select * from fencepost._slot_history('own', 'c')",
                "select fencepost.maintain('own')",
            ]);
        }
        if holds {
            calls.extend([
                "select * from fencepost.lease_acquire('own/z', 'h', '10 s')",
                "select fencepost.lease_renew('own/z', 1)",
                "select fencepost.lease_release('own/z', 1)",
                "select * from fencepost._lease_history('own/z')",
                "select * from fencepost._lease_states('own/z')",
            ]);
        }
        for sql in calls {
            run(&client, sql).await;
        }
        // These are refused, for what they are.
        if consumes {
            for sql in [
                "select * from fencepost.receive('own', 'c', 0, 1)",
                "select fencepost.ack('own', 'c', 0, 1, 1)",
                "select * from fencepost.nack('own', 'c', 0, 1, 1, 1)",
                "select fencepost.slot_guard('own', 'c', 0, 1)",
            ] {
                assert_eq!(crate::ground::outcome(&client, sql).await, "ZF001", "{role}: {sql}");
            }
        }
    }
    let caught = ground.admin.query("select distinct what, by from lair.caught", &[]).await.unwrap();
    let caught: Vec<(String, String)> = caught.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert!(caught.is_empty(), "{caught:?}");
    ground.clear().await;
}
