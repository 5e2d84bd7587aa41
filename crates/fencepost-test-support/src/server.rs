//! Servers as tests see them: one that all share, and ones that a test has to itself.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::sync::Arc;

use tokio_postgres::{Client, Config, NoTls};

use crate::cluster::Cluster;
use crate::error::Result;
use crate::guard::Guard;
use crate::template::Template;
use crate::{DEFAULT_MAJOR, Unavailable, shared};

/// Names the major version that tests get unless they ask for another.
const MAJOR: &str = "FENCEPOST_PG_MAJOR";

/// A PostgreSQL server.
#[derive(Debug, Clone)]
pub struct PgServer {
    pub(crate) cluster: Arc<Cluster>,
}

impl PgServer {
    /// The server that all tests share, of the major version in `FENCEPOST_PG_MAJOR` or of [`DEFAULT_MAJOR`].
    ///
    /// # Errors
    /// `Missing` when it is not installed.
    pub async fn shared() -> Result<Self> {
        Self::shared_of(default_major()).await
    }

    /// The server of a major version that all tests share.
    ///
    /// # Errors
    /// `Missing` when it is not installed.
    pub async fn shared_of(major: u16) -> Result<Self> {
        Ok(Self { cluster: blocking(move || shared::get(major)).await? })
    }

    /// A server of its own, which the test may kill; it and its data are gone when the answer is dropped, or with this process.
    ///
    /// # Errors
    /// `Missing` when it is not installed.
    pub async fn private(major: u16) -> Result<PrivateServer> {
        Self::private_with(major, &[]).await
    }

    /// The same with settings of its own, as `postgresql.conf` has them.
    ///
    /// # Errors
    /// `Missing` when it is not installed.
    pub async fn private_with(major: u16, settings: &[(&str, &str)]) -> Result<PrivateServer> {
        Self::private_of(major, owned(settings), None).await
    }

    /// The same with a file system of so many bytes beside its data, at [`PrivateServer::disk`], for what is to become full. It is gone with
    /// the server's processes.
    ///
    /// # Errors
    /// `Missing` when it is not installed; `Optional` where this user may mount nothing.
    pub async fn private_with_disk(major: u16, bytes: u64) -> Result<PrivateServer> {
        Self::private_of(major, Vec::new(), Some(bytes)).await
    }

    async fn private_of(major: u16, settings: Vec<(String, String)>, disk: Option<u64>) -> Result<PrivateServer> {
        blocking(move || {
            let template = Template::get(major)?;
            let copied = template.clone();
            PrivateServer::start_new(template, &settings, disk, |data| copied.copy(data))
        })
        .await
    }

    /// The major version.
    pub fn major(&self) -> u16 {
        self.cluster.template.major
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.cluster.port).into()
    }

    /// The password of its superuser `postgres`, which is asked for at [`PgServer::address`].
    pub fn password(&self) -> &str {
        &self.cluster.template.password
    }

    /// The URL of a database, for its superuser.
    pub fn url(&self, database: &str) -> String {
        self.url_at(self.address(), database)
    }

    /// The URL of a database for those who go through somebody else at `address`.
    pub(crate) fn url_at(&self, address: SocketAddr, database: &str) -> String {
        format!("postgres://postgres:{}@{address}/{database}", self.password())
    }

    /// A connection of its superuser that goes through its socket, not the network.
    ///
    /// # Errors
    /// `Failed` when it does not answer.
    pub async fn connect(&self, database: &str) -> Result<Client> {
        let mut config = Config::new();
        config.host_path(&self.cluster.folder).port(self.cluster.port).user("postgres").dbname(database);
        config.application_name("fencepost-test-support").connect_timeout(std::time::Duration::from_secs(10));
        let (client, connection) =
            config.connect(NoTls).await.map_err(|error| Unavailable::failed("cannot connect", explain(&error)))?;
        tokio::spawn(connection);
        Ok(client)
    }
}

/// A server that one test has to itself.
#[derive(Debug)]
pub struct PrivateServer {
    server: PgServer,
    _guard: Guard,
}

impl Deref for PrivateServer {
    type Target = PgServer;

    fn deref(&self) -> &PgServer {
        &self.server
    }
}

impl PrivateServer {
    pub(crate) fn start_new(
        template: Template,
        settings: &[(String, String)],
        disk: Option<u64>,
        fill: impl FnOnce(&std::path::Path) -> Result,
    ) -> Result<Self> {
        let folder = Cluster::folder(&template, "private")?;
        // Before anything runs that somebody must end.
        let guard = Guard::tied(&folder)?;
        let cluster = Cluster::start_new(template, folder, settings, disk, fill)?;
        Ok(Self { server: PgServer { cluster: Arc::new(cluster) }, _guard: guard })
    }

    /// Where the file system of [`PgServer::private_with_disk`] is, for the server's processes.
    pub fn disk(&self) -> std::path::PathBuf {
        self.cluster.disk()
    }

    /// Kills all of its processes with SIGKILL, and returns when none is left.
    ///
    /// # Errors
    /// `Failed` when one of them stays.
    pub async fn kill_9(&self) -> Result {
        self.blocking(Cluster::kill).await
    }

    /// Ends it in good order, though not waiting for clients: their transactions are rolled back.
    ///
    /// # Errors
    /// `Failed` when it does not run or does not end.
    pub async fn stop(&self) -> Result {
        self.blocking(Cluster::stop).await
    }

    /// Starts it again, at the same address, and returns when it answers.
    ///
    /// # Errors
    /// `Failed` when it runs or does not start.
    pub async fn start(&self) -> Result {
        self.blocking(Cluster::start).await
    }

    /// Ends it in good order and starts it again.
    ///
    /// # Errors
    /// As those of [`PrivateServer::stop`] and [`PrivateServer::start`].
    pub async fn restart(&self) -> Result {
        self.stop().await?;
        self.start().await
    }

    /// Changes a setting of the running server, one that takes no restart.
    ///
    /// # Errors
    /// `Failed` when the server refuses it.
    pub async fn set(&self, name: &str, value: &str) -> Result {
        let client = self.connect("postgres").await?;
        let statement = format!("ALTER SYSTEM SET {name} = '{}'", value.replace('\'', "''"));
        for statement in [statement.as_str(), "SELECT pg_reload_conf()"] {
            let done = client.simple_query(statement).await;
            done.map_err(|error| Unavailable::failed(format_args!("cannot set `{name}`"), explain(&error)))?;
        }
        Ok(())
    }

    async fn blocking(&self, work: fn(&Cluster) -> Result) -> Result {
        let cluster = self.cluster.clone();
        blocking(move || work(&cluster)).await
    }
}

/// The major version that tests get unless they ask for another.
pub(crate) fn default_major() -> u16 {
    std::env::var(MAJOR).ok().and_then(|major| major.parse().ok()).unwrap_or(DEFAULT_MAJOR)
}

/// Waits for `work` without keeping the runtime from its other tasks.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Unavailable::failed("a task of the test's support", error)))
}

pub(crate) fn owned(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// What the server or the driver says, with the cause.
pub(crate) fn explain(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => said.to_string(),
        None => std::error::Error::source(error).map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}")),
    }
}
