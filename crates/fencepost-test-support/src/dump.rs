//! Copies of what a server holds: a database as pg_dump writes it, restored wherever; and the files of a whole server.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::cluster::Cluster;
use crate::error::Result;
use crate::guard::Guard;
use crate::server::{blocking, owned};
use crate::standby::base_backup;
use crate::template::Template;
use crate::{PgServer, PrivateServer, TestDatabase, Unavailable, programs};

/// A database as pg_dump has written it. It is gone with this value.
#[derive(Debug)]
pub struct Dump {
    template: Template,
    file: PathBuf,
    _guard: Guard,
}

impl TestDatabase {
    /// Dumps the database, whoever uses it meanwhile.
    ///
    /// # Errors
    /// `Missing` when pg_dump is not installed.
    pub async fn dump(&self) -> Result<Dump> {
        let (cluster, name) = (self.server().cluster.clone(), self.name().to_owned());
        blocking(move || {
            let template = cluster.template.clone();
            let folder = Cluster::folder(&template, "dump")?;
            let guard = Guard::tied(&folder)?;
            let file = folder.join("dump");
            let output = run(&cluster, "pg_dump", &["--format=custom", "--dbname", &name, "--file"], &file)?;
            said(&output, "pg_dump")?;
            Ok(Dump { template, file, _guard: guard })
        })
        .await
    }

    /// What pg_dump writes of the database as a text, with these further options.
    ///
    /// # Errors
    /// `Missing` when pg_dump is not installed.
    pub async fn dump_text(&self, options: &[&str]) -> Result<Vec<u8>> {
        let (cluster, name) = (self.server().cluster.clone(), self.name().to_owned());
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        blocking(move || {
            let given: Vec<&str> = options.iter().map(String::as_str).collect();
            let output = run(&cluster, "pg_dump", &given, Path::new(&name))?;
            said(&output, "pg_dump")?;
            Ok(output.stdout)
        })
        .await
    }

    /// Has pg_restore fill this database, which is empty, and returns what it complains of: it goes on after an error, as it does by
    /// itself. `options` are further ones.
    ///
    /// # Errors
    /// `Missing` when pg_restore is not installed; `Failed` when the dump is of a newer server.
    pub async fn restore(&self, dump: &Dump, options: &[&str]) -> Result<String> {
        let (cluster, name, file) = (self.server().cluster.clone(), self.name().to_owned(), dump.file.clone());
        if dump.template.major > cluster.template.major {
            return Err(Unavailable::Failed("the dump is of a newer server".into()));
        }
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        blocking(move || {
            let given: Vec<&str> = options.iter().map(String::as_str).chain(["--dbname", &name]).collect();
            let output = run(&cluster, "pg_restore", &given, &file)?;
            Ok(String::from_utf8_lossy(&output.stderr).into_owned())
        })
        .await
    }
}

impl PgServer {
    /// A server of its own that begins with the files that this one has now: it goes on under the same timeline, as nobody told it that
    /// it is a copy. It takes `pg_basebackup`, of this major version or a newer one.
    ///
    /// # Errors
    /// `Missing` when that is not installed.
    pub async fn copy_of_files(&self) -> Result<PrivateServer> {
        let primary = self.cluster.clone();
        let settings = owned(&[]);
        blocking(move || {
            let template = primary.template.clone();
            PrivateServer::start_new(template, &settings, None, |data| base_backup(&primary, data, &[]))
        })
        .await
    }
}

fn run(cluster: &Cluster, name: &str, options: &[&str], last: &Path) -> Result<Output> {
    let program = programs::client(name, cluster.template.major)?;
    let mut command = cluster.template.account.command(&program, &cluster.folder);
    command.arg("--host").arg(&cluster.folder).args(["--port", &cluster.port.to_string(), "--username=postgres"]);
    command.args(options).arg(last);
    command.output().map_err(|error| Unavailable::failed(format_args!("cannot run {name}"), error))
}

fn said(output: &Output, name: &str) -> Result {
    if output.status.success() {
        return Ok(());
    }
    Err(Unavailable::failed(format_args!("{name} fails"), String::from_utf8_lossy(&output.stderr)))
}
