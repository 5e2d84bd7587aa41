//! Dropping what is in use: no deadlock, whatever the order of locks that the users hold, and an answer that says what happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencepost_core::{Consumers, Kind, NewMessage, QueueName, Queues};

use crate::script::{Script, begin, call, receive, run};

/// A transaction that owns a slot's lock and sets a message aside, while the consumer is being dropped: the drop waits, or gives up, and the owner
/// is not in a deadlock with it.
#[tokio::test]
async fn a31_dropping_a_consumer_does_not_meet_its_owners_in_a_deadlock() {
    let Some(script) = Script::new(2).await else { return };
    script.send(20).await;
    let token = script.claim(1).await;
    let (owner, dropper) = (script.client().await, script.client().await);
    run(&owner, "begin").await;
    let (batch, ids) = receive(&owner, token, 10).await.expect("a batch");
    let dropped = begin(dropper, "select fencepost.drop_consumer('q', 'c', true)".to_owned());
    script.waiting(1).await;
    call(&owner, &format!("select fencepost.nack({}, {batch}, {})", token.arguments(), ids[0])).await.unwrap();
    call(&owner, &format!("select fencepost.ack({}, {batch})", token.arguments())).await.unwrap();
    run(&owner, "commit").await;
    assert!(dropped.await.unwrap().1.unwrap()[0].get::<_, bool>(0));
}

/// The same with the whole queue, for every order in which its users take their locks.
#[tokio::test]
async fn a31_dropping_a_queue_does_not_meet_its_users_in_a_deadlock() {
    let after = [
        "select fencepost.ack({own}, {batch})",
        "select fencepost.nack({own}, {batch}, {id})",
        "select fencepost.send('q', 'x')",
    ];
    let Some(script) = Script::new(2).await else { return };
    for first in ["receive", "send", "poll"] {
        for second in after {
            script.anew(2).await;
            script.send(20).await;
            let token = script.claim(1).await;
            let opened = receive(&script.admin, token, 10).await.expect("a batch");
            let (user, dropper) = (script.client().await, script.client().await);
            run(&user, "begin").await;
            match first {
                "receive" => drop(receive(&user, token, 10).await),
                "send" => drop(call(&user, "select fencepost.send('q', 'x')").await.unwrap()),
                _ => drop(call(&user, "select * from fencepost._read('q', 'earliest', 10)").await.unwrap()),
            }
            let dropped = begin(dropper, "select fencepost.drop_queue('q', true)".to_owned());
            script.waiting(1).await;
            let (batch, id) = (opened.0.to_string(), opened.1[0].to_string());
            let sql = second.replace("{own}", &token.arguments()).replace("{batch}", &batch).replace("{id}", &id);
            let answer = call(&user, &sql).await;
            assert!(answer.is_ok(), "{first}, then {second}: {answer:?}");
            run(&user, "commit").await;
            match dropped.await.unwrap().1 {
                Ok(rows) => assert!(rows[0].get::<_, bool>(0)),
                Err(error) => assert_eq!(error.code(), "busy", "{first}, then {second}: {error:?}"),
            }
        }
    }
}

/// A queue that somebody keeps in use is not dropped: `busy` within the bound, and everything is as it was.
#[tokio::test]
async fn dropping_a_queue_in_use_is_busy_within_its_bound() {
    let Some(script) = Script::new(1).await else { return };
    script.send(3).await;
    let user = script.client().await;
    run(&user, "begin; select fencepost.send('q', 'x')").await;
    let since = Instant::now();
    let error = call(&script.admin, "select fencepost.drop_queue('q', true)").await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Busy, "busy"), "{error:?}");
    assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
    run(&user, "commit").await;
    let token = script.claim(0).await;
    assert_eq!(receive(&script.admin, token, 10).await.expect("a batch").1.len(), 4);
    assert!(call(&script.admin, "select fencepost.drop_queue('q', true)").await.unwrap()[0].get::<_, bool>(0));
}

/// Forty who make one queue, and one consumer, at once: one has made it, the others find it.
#[tokio::test(flavor = "multi_thread")]
async fn forty_creates_of_one_name_make_it_once() {
    let Some(script) = Script::new(1).await else { return };
    for sql in ["select fencepost.create_queue('new', 8)", "select fencepost.create_consumer('new', 'c', 8)"] {
        let mut creates = Vec::new();
        for _ in 0..40 {
            creates.push(begin(script.client().await, sql.to_owned()));
        }
        let mut made = 0;
        for created in creates {
            made += i32::from(created.await.unwrap().1.unwrap()[0].get::<_, bool>(0));
        }
        assert_eq!(made, 1, "{sql}");
    }
}

/// A name that is dropped while somebody makes it is made by that one: never found where nothing is.
#[tokio::test]
async fn what_is_dropped_while_it_is_made_is_made_anew() {
    let Some(script) = Script::new(1).await else { return };
    for create in ["select fencepost.create_consumer('q', 'new', 2)", "select fencepost.create_queue('new', 4)"] {
        let drop = create.replace("create", "drop").replace(", 2)", ")").replace(", 4)", ")");
        for (then, made) in [("rollback", true), (&*format!("{drop}; commit"), true), ("commit", false)] {
            let maker = script.client().await;
            run(&maker, &drop).await;
            run(&maker, &format!("begin; {create}")).await;
            let created = begin(script.client().await, create.to_owned());
            script.waiting(1).await;
            run(&maker, then).await;
            assert_eq!(created.await.unwrap().1.unwrap()[0].get::<_, bool>(0), made, "{create}, {then}");
        }
    }
}

/// Whoever uses a queue that others drop and make again is answered, or told that it is not there; never of something internal.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_queue_that_is_dropped_under_its_users_is_not_found() {
    let Some(script) = Script::new(1).await else { return };
    let (queue, refused, done) =
        (QueueName::new("q").unwrap(), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut users = Vec::new();
    for user in 0..4 {
        let store = script.stage.another().await;
        let (queue, refused, done) = (queue.clone(), refused.clone(), done.clone());
        users.push(tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                let answer = match user {
                    0 | 1 => store.send(&queue, NewMessage::new("x").unwrap()).await.map(drop),
                    2 => store.maintain(None).await.map(drop),
                    _ => store.consumer_status(None).await.map(drop),
                };
                let Err(error) = answer else { continue };
                assert!(matches!(error.kind(), Kind::NotFound | Kind::Busy), "user {user}: {error:?}");
                assert_ne!(error.code(), "deadlock", "{error:?}");
                refused.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let (mut dropped, since) = (0, Instant::now());
    while dropped < 3 || refused.load(Ordering::Relaxed) == 0 {
        assert!(since.elapsed() < Duration::from_secs(60), "{dropped} drops, {refused:?} refusals");
        match script.stage.store.drop_queue(&queue, true).await {
            Ok(_) => dropped += 1,
            Err(error) => assert_eq!(error.code(), "busy", "{error:?}"),
        }
        for sql in ["create_queue('q', 4)", "create_consumer('q', 'c', 2)"] {
            // After a drop that was busy the old ones are there, with other settings.
            let made = call(&script.admin, &format!("select fencepost.{sql}")).await;
            assert!(!made.as_ref().is_err_and(|error| error.kind() != Kind::Conflict), "{made:?}");
        }
    }
    done.store(true, Ordering::Relaxed);
    for user in users {
        user.await.unwrap();
    }
}
