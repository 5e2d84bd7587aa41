//! C19: the example of a service that waits for its database, as a reader would run it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use fencepost::migrate::sql::Dialect;
use fencepost::migrate::{LockMode, Migrations, Migrator, PostgresMigrator};
use fencepost_test_support::{PgServer, skip_or_fail};

/// Ends with the test.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn asked(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_service_begins_when_its_migrations_are_applied() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let database = server.database().await.unwrap();
    let url = database.url();
    // Beside the folder that this test is in.
    let program = std::env::current_exe().unwrap().parent().unwrap().with_file_name("examples").join("start_up");
    let mut service = Service(Command::new(program).arg(&url).stdout(Stdio::piped()).spawn().unwrap());
    let mut said = BufReader::new(service.0.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "waiting for the database: it is never");

    let carried = [("0001_customers.sql", "create table customer (id bigint primary key, name text not null);")];
    let migrations = Migrations::of(carried, Dialect::Postgres).unwrap();
    let migrator = PostgresMigrator::at(&url, Migrator::new(migrations), LockMode::Advisory).unwrap();
    migrator.up(None, &mut |_| {}).await.unwrap();

    let listens = said.next().unwrap().unwrap();
    let address = listens.strip_prefix("listening on ").unwrap().to_owned();
    let answers = tokio::task::spawn_blocking(move || (asked(&address, "/started"), asked(&address, "/")));
    let (started, hello) = answers.await.unwrap();
    assert!(started.starts_with("HTTP/1.1 200 ") && started.ends_with("ready"), "{started}");
    assert!(hello.ends_with("hello"), "{hello}");
}
