//! Servers and databases that do not serve: exit statuses and codes, what the doctor says, and that no password is ever shown.

use fencepost_test_support::{PgBouncer, TestDatabase, skip_or_fail};
use serde_json::Value;
use tokio_postgres::Client;

use crate::bad_input::refused;
use crate::place::{Answer, Place, on_postgres, on_postgres_alone, runtime};

/// Runs statements in the place's database.
pub fn execute(place: &Place, statements: &str) {
    runtime().block_on(async { connected(place).await.batch_execute(statements).await.unwrap() });
}

pub async fn connected(place: &Place) -> Client {
    database(place).connect().await.unwrap()
}

pub fn database(place: &Place) -> &TestDatabase {
    place.database().expect("the store is in a database")
}

/// The URL of the place's store with something else in it.
fn url_with(place: &Place, what: &str, instead: &str) -> String {
    let url = place.url();
    assert!(url.contains(what), "{url}");
    url.replacen(what, instead, 1)
}

pub fn codes(answer: &Answer) -> Vec<String> {
    let findings = answer.json()["findings"].as_array().expect("findings").clone();
    findings.iter().map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

/// Checks that the commands refuse the store at `url`, and that none shows the password `secret`.
fn all_refuse(place: &Place, url: &str, secret: &str, (status, code): (i32, &str)) {
    for command in [&["status"] as &[_], &["init"], &["send", "q", "x"], &["demo"]] {
        let args: Vec<&str> = [command, &["--store", url]].concat();
        refused(place, &args, b"", (status, code, "cannot"));
        assert!(!place.run(&args).to_string().contains(secret), "{args:?}");
    }
    let doctor = place.run(&["doctor", "--json", "--store", url]);
    assert_eq!((doctor.status, codes(&doctor)), (1, vec![code.to_owned()]), "{doctor}");
    assert!(!doctor.to_string().contains(secret), "{doctor}");
}

#[test]
fn servers_that_do_not_let_in_are_unavailable_and_no_password_is_shown() {
    on_postgres(|| {
        let place = Place::new();
        let server = database(&place).server();
        let password = server.password().to_owned();
        let wrong = url_with(&place, &password, "open-sesame");
        all_refuse(&place, &wrong, "open-sesame", (4, "access_denied"));
        let none = url_with(&place, &format!(":{password}@"), "@");
        all_refuse(&place, &none, &password, (4, "access_denied"));
        // Nothing listens at the port that is reserved for that.
        let away = url_with(&place, &format!(":{}/", server.address().port()), ":1/");
        all_refuse(&place, &away, &password, (4, "unreachable"));
        let absent = url_with(&place, database(&place).name(), "no_such_database");
        all_refuse(&place, &absent, &password, (4, "no_database"));
        assert!(!place.has_store());
    });
}

#[test]
fn a_role_without_rights_is_told_what_to_ask_for() {
    on_postgres(|| {
        let place = Place::new();
        let role = format!("weak_{}", database(&place).name());
        execute(&place, &format!("CREATE ROLE {role} LOGIN PASSWORD 'open-sesame'"));
        let postgres = format!("postgres:{}", database(&place).server().password());
        let url = url_with(&place, &format!("//{postgres}@"), &format!("//{role}:open-sesame@"));
        let demo = place.run(&["demo", "--json", "--store", &url]);
        let error = &demo.json()["error"];
        assert_eq!((demo.status, &error["code"]), (4, &Value::from("permission_denied")), "{demo}");
        assert!(error["hint"].as_str().unwrap().contains("CREATE on the database"), "{demo}");
        // What is installed is not everybody's.
        assert_eq!(place.run(&["init"]).status, 0);
        let status = place.run(&["status", "--json", "--store", &url]);
        assert_eq!(
            (status.status, &status.json()["error"]["code"]),
            (4, &Value::from("permission_denied")),
            "{status}"
        );
        execute(&place, &format!("DROP ROLE {role}"));
    });
}

#[test]
fn schemas_of_others_and_of_newer_versions_are_refused() {
    on_postgres(|| {
        let place = Place::new();
        execute(&place, "CREATE SCHEMA fencepost; CREATE TABLE fencepost.mine ()");
        all_refuse(&place, &place.url(), database(&place).server().password(), (5, "schema_foreign"));

        let place = Place::with_queue("q");
        let later = "create temp table later as select * from fencepost.installation where number = 1;
            update later set number = 999; insert into fencepost.installation select * from later";
        execute(&place, later);
        all_refuse(&place, &place.url(), database(&place).server().password(), (5, "schema_newer"));
    });
}

/// Through a pooler everything works, and the doctor knows that it is one.
#[test]
fn a_pooler_in_transaction_mode_is_noticed() {
    on_postgres_alone(&[], |_| {
        let place = Place::with_queue("q");
        let runtime = runtime();
        let Some(pooler) = skip_or_fail(runtime.block_on(PgBouncer::start(database(&place)))) else { return };
        let url = pooler.url();
        assert_eq!(place.run(&["send", "q", "x", "--store", &url]).status, 0);
        assert_eq!(place.run(&["consumer", "create", "q", "c", "--store", &url]).status, 0);
        let worked = place.run(&["work", "q", "c", "--until-empty", "--exec", "true", "--store", &url]);
        assert_eq!(worked.status, 0, "{worked}");
        let doctor = place.run(&["doctor", "--json", "--store", &url]);
        // Nothing has to be done about it.
        assert_eq!((doctor.status, codes(&doctor)), (0, vec!["no_notifications".into()]), "{doctor}");
        assert_eq!(doctor.json()["findings"][0]["severity"], "note");
        let told = place.run(&["doctor", "--store", &url]);
        assert_eq!(told.status, 0, "{told}");
        assert!(told.stdout.starts_with("note: ") && told.stdout.contains("\nnothing is wrong with"), "{told}");
    });
}

/// The demo comes out exactly right through a pooler that gives it fewer sessions than it has workers.
#[test]
fn the_demo_comes_out_right_through_a_pooler() {
    on_postgres(|| {
        let place = Place::new();
        let sessions = [("default_pool_size", "3")];
        let pooler = runtime().block_on(PgBouncer::start_with(database(&place), &sessions));
        let Some(pooler) = skip_or_fail(pooler) else { return };
        for _ in 0..2 {
            let demo = place.run(&["demo", "--json", "--store", &pooler.url()]);
            assert_eq!(demo.status, 0, "{demo}");
            let last: Value = serde_json::from_str(demo.stdout.lines().last().unwrap()).unwrap();
            assert_eq!(
                (&last["processed"], &last["lost"], &last["out_of_order"]),
                (&12_208.into(), &0.into(), &0.into()),
                "{demo}"
            );
        }
    });
}
