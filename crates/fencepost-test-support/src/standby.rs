//! Standbys: servers that follow another, and take its place when they are told to.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::error::Result;
use crate::server::{blocking, explain, owned};
use crate::template::run;
use crate::{PgServer, PrivateServer, Unavailable, programs};

/// How long a standby may take to be known to its primary.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(30);

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(10);

impl PgServer {
    /// A standby of this server by the name that it is known by, which follows it by streaming. It takes `pg_basebackup`, of this
    /// major version or a newer one.
    ///
    /// # Errors
    /// `Missing` when that is not installed.
    pub async fn standby(&self, name: &str) -> Result<PrivateServer> {
        let primary = self.cluster.clone();
        // The name that it connects with.
        let settings = owned(&[("cluster_name", name)]);
        let standby = blocking(move || {
            let template = primary.template.clone();
            PrivateServer::start_new(template, &settings, None, |data| {
                base_backup(&primary, data, &["--write-recovery-conf"])
            })
        })
        .await?;
        let streams = format!(
            "SELECT count(*) FROM pg_stat_replication WHERE application_name = '{name}' AND state = 'streaming'"
        );
        self.wait_for("a standby that follows", &streams).await?;
        Ok(standby)
    }

    /// Waits until `count` finds something.
    pub(crate) async fn wait_for(&self, what: &str, count: &str) -> Result {
        let client = self.connect("postgres").await?;
        let since = Instant::now();
        loop {
            let row = client.query_one(count, &[]).await.map_err(|error| Unavailable::failed(what, explain(&error)))?;
            if row.get::<_, i64>(0) > 0 {
                return Ok(());
            }
            if since.elapsed() > FOLLOWS_WITHIN {
                return Err(Unavailable::failed("waited in vain for", what));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl PrivateServer {
    /// From now on commits of this server wait for the named standby, as far as `synchronous_commit` says; none if it is empty.
    ///
    /// # Errors
    /// `Failed` when no standby of this name follows.
    pub async fn wait_for_standby(&self, name: &str) -> Result {
        let names = if name.is_empty() { String::new() } else { format!("\"{name}\"") };
        self.set("synchronous_standby_names", &names).await?;
        let synchronous = format!(
            "SELECT count(*) FROM pg_stat_replication WHERE application_name = '{name}' AND sync_state = 'sync'"
        );
        if name.is_empty() { Ok(()) } else { self.wait_for("a standby that commits wait for", &synchronous).await }
    }

    /// Has this standby hear no more of its primary: it stays as it is while that one goes on.
    ///
    /// # Errors
    /// `Failed` when it goes on to listen.
    pub async fn fall_behind(&self) -> Result {
        self.set("primary_conninfo", "").await?;
        let deaf = "SELECT count(*) FROM (SELECT) none WHERE NOT EXISTS (SELECT FROM pg_stat_wal_receiver WHERE pid IS NOT NULL)";
        self.wait_for("a standby that hears nothing", deaf).await
    }

    /// Makes this standby a primary, and returns when it takes writes.
    ///
    /// # Errors
    /// `Failed` when it is no standby.
    pub async fn promote(&self) -> Result {
        let client = self.connect("postgres").await?;
        let promoted = client.query_one("SELECT pg_promote(true, 60)", &[]).await;
        match promoted.map(|row| row.get(0)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Unavailable::Failed("the standby was not promoted in time".into())),
            Err(error) => Err(Unavailable::failed("cannot promote", explain(&error))),
        }
    }
}

pub(crate) fn base_backup(primary: &Arc<Cluster>, data: &Path, options: &[&str]) -> Result {
    let program = programs::client("pg_basebackup", primary.template.major)?;
    let mut command = primary.template.account.command(&program, data.parent().unwrap_or(data));
    command.args(["--username=postgres", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]).args(options);
    command.arg("--host").arg(&primary.folder).arg("--port").arg(primary.port.to_string()).arg("--pgdata").arg(data);
    run(&mut command)
}
