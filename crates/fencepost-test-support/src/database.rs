//! A database for one test: made from a template, dropped when the test is done with it, or by the next process when it was killed.

use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio_postgres::{Client, Row};

use crate::error::Result;
use crate::server::explain;
use crate::{PgServer, Unavailable, place};

/// Begins the names of tests' databases; the number of the process follows.
const TEST: &str = "test_";

/// Begins the names of templates.
const TEMPLATE: &str = "template_";

/// How many templates a server keeps. Those who try many schemas would fill the disk.
const TEMPLATES: u32 = 16;

/// How long dropping a database may take before it is left to the next process.
const DROPPED_WITHIN: Duration = Duration::from_secs(20);

/// A database that nobody else uses. It is dropped with this value, whoever is still connected.
#[derive(Debug)]
pub struct TestDatabase {
    server: PgServer,
    name: String,
}

impl PgServer {
    /// An empty database.
    ///
    /// # Errors
    /// `Failed` when the server makes none.
    pub async fn database(&self) -> Result<TestDatabase> {
        let admin = self.connect("postgres").await?;
        drop_left_over(&admin).await;
        self.copy(&admin, "template1").await
    }

    /// A database with what `install` installs into the URL that it gets. That happens once a server and `key`, and is copied for
    /// everybody; `key` must change with what is installed.
    ///
    /// # Errors
    /// `Failed` with what `install` answers, or when the server makes no database.
    pub async fn database_from<F, D, E>(&self, key: &str, install: F) -> Result<TestDatabase>
    where
        F: FnOnce(String) -> D,
        D: Future<Output = std::result::Result<(), E>>,
        E: std::fmt::Display,
    {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let template = format!("{TEMPLATE}{:016x}", hasher.finish());
        let lock = lock_of(&template);
        let admin = self.connect("postgres").await?;
        drop_left_over(&admin).await;
        // Locks are this connection's, so that they are free when this process is killed.
        run(&admin, &format!("SELECT pg_advisory_lock_shared({lock})")).await?;
        if !exists(&admin, &template).await? {
            run(&admin, &format!("SELECT pg_advisory_unlock_shared({lock}), pg_advisory_lock({lock})")).await?;
            if !exists(&admin, &template).await? {
                self.make_template(&admin, &template, install).await?;
                drop_old_templates(&admin, TEMPLATES).await?;
            }
            run(&admin, &format!("SELECT pg_advisory_lock_shared({lock}), pg_advisory_unlock({lock})")).await?;
        }
        // Under the lock, so that nobody drops what is copied.
        self.copy(&admin, &template).await
    }

    /// Installs into a database of another name, so that what has the template's name is whole.
    async fn make_template<F, D, E>(&self, admin: &Client, template: &str, install: F) -> Result
    where
        F: FnOnce(String) -> D,
        D: Future<Output = std::result::Result<(), E>>,
        E: std::fmt::Display,
    {
        let half = self.copy(admin, "template1").await?;
        install(half.url())
            .await
            .map_err(|error| Unavailable::failed("cannot install what the database is to have", error))?;
        // Whoever is still connected would keep others from copying it.
        run(admin, &format!("ALTER DATABASE {} ALLOW_CONNECTIONS false", half.name)).await?;
        let others =
            format!("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{}'", half.name);
        run(admin, &others).await?;
        run(admin, &format!("ALTER DATABASE {} RENAME TO {template}", half.name)).await
    }

    async fn copy(&self, admin: &Client, template: &str) -> Result<TestDatabase> {
        let name = format!("{TEST}{}_{}", std::process::id(), place::random_name());
        run(admin, &format!("CREATE DATABASE {name} TEMPLATE {template}")).await?;
        Ok(TestDatabase { server: self.clone(), name })
    }
}

impl TestDatabase {
    /// Its URL, for the server's superuser over TCP.
    pub fn url(&self) -> String {
        self.server.url(&self.name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server that it is on.
    pub fn server(&self) -> &PgServer {
        &self.server
    }

    /// A connection to it that goes through the server's socket, not the network.
    ///
    /// # Errors
    /// `Failed` when the server does not answer.
    pub async fn connect(&self) -> Result<Client> {
        self.server.connect(&self.name).await
    }
}

impl Drop for TestDatabase {
    /// What fails here is done by the next process that asks for a database, or with the server.
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let dropped = async move {
            let admin = server.connect("postgres").await?;
            drop_database(&admin, &name).await
        };
        // On a thread of its own: this one may be busy with the tasks of a runtime.
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async { drop(tokio::time::timeout(DROPPED_WITHIN, dropped).await) });
            std::io::Result::Ok(())
        });
        let _ = thread.join();
    }
}

/// Drops the databases of processes that are gone.
async fn drop_left_over(admin: &Client) {
    let names = "SELECT datname FROM pg_database WHERE starts_with(datname, 'test_')";
    let Ok(rows) = admin.query(names, &[]).await else { return };
    let is_left_over = |name: &String| {
        let owner = name.strip_prefix(TEST).and_then(|rest| rest.split_once('_')?.0.parse::<u32>().ok());
        owner.is_some_and(|owner| !std::path::Path::new(&format!("/proc/{owner}")).exists())
    };
    for name in rows.iter().map(|row| row.get::<_, String>(0)).filter(is_left_over) {
        // Another process may do the same.
        let _ = drop_database(admin, &name).await;
    }
}

/// Drops the templates that were made before the last `kept`, but for those that somebody copies.
async fn drop_old_templates(admin: &Client, kept: u32) -> Result {
    let names = "SELECT datname FROM pg_database WHERE datname ~ '^template_[0-9a-f]{16}$' ORDER BY oid DESC OFFSET ";
    for row in rows(admin, &format!("{names}{kept}")).await? {
        let name: String = row.get(0);
        let lock = lock_of(&name);
        if rows(admin, &format!("SELECT 1 WHERE pg_try_advisory_lock({lock})")).await?.is_empty() {
            continue;
        }
        drop_database(admin, &name).await?;
        run(admin, &format!("SELECT pg_advisory_unlock({lock})")).await?;
    }
    Ok(())
}

/// The number of the lock on a template.
fn lock_of(template: &str) -> i64 {
    let digits = template.trim_start_matches(TEMPLATE);
    u64::from_str_radix(digits, 16).unwrap_or_default().cast_signed()
}

async fn drop_database(admin: &Client, name: &str) -> Result {
    run(admin, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await
}

async fn exists(admin: &Client, name: &str) -> Result<bool> {
    Ok(!rows(admin, &format!("SELECT FROM pg_database WHERE datname = '{name}'")).await?.is_empty())
}

async fn rows(admin: &Client, query: &str) -> Result<Vec<Row>> {
    admin.query(query, &[]).await.map_err(|error| Unavailable::failed(format_args!("`{query}`"), explain(&error)))
}

async fn run(admin: &Client, statement: &str) -> Result {
    let done = admin.batch_execute(statement).await;
    done.map_err(|error| Unavailable::failed(format_args!("`{statement}`"), explain(&error)))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::{DEFAULT_MAJOR, skip_or_fail};

    #[tokio::test]
    async fn old_templates_are_dropped_unless_somebody_copies_them() {
        let Some(server) = skip_or_fail(PgServer::private_with(DEFAULT_MAJOR, &[("fsync", "off")]).await) else {
            return;
        };
        for schema in ["one", "two", "three"] {
            server.database_from(schema, async |_| Ok::<_, Infallible>(())).await.unwrap();
        }
        let (admin, copier) = (server.connect("postgres").await.unwrap(), server.connect("postgres").await.unwrap());
        let names = "SELECT datname FROM pg_database WHERE starts_with(datname, 'template_') ORDER BY oid";
        let made: Vec<String> = rows(&admin, names).await.unwrap().iter().map(|row| row.get(0)).collect();
        run(&copier, &format!("SELECT pg_advisory_lock_shared({})", lock_of(&made[0]))).await.unwrap();
        drop_old_templates(&admin, 1).await.unwrap();
        let left: Vec<String> = rows(&admin, names).await.unwrap().iter().map(|row| row.get(0)).collect();
        assert_eq!(left, [made[0].as_str(), made[2].as_str()]);
    }
}
