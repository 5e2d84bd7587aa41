//! The schema of a database: installed in one transaction that others wait for, looked at by one read, and left alone when current.

use std::time::Duration;

use fencepost_core::{Error, Kind, Reason, Result};
use fencepost_migrate::{Finding, Status};
use tokio_postgres::types::Type;
use tokio_postgres::{IsolationLevel, Row, Transaction};

use crate::connection::Connections;
use crate::error::{Effect, driver_error, unanswered};
use crate::source::{Source, checksum};

/// The oldest server that is supported.
const OLDEST: i32 = 140_000;

/// The key of the lock that installations take in turn: the first bits of the SHA-256 of `fencepost.install`.
const INSTALLING: i64 = 0x43f3_659b_c159_41e1;

/// How long an installation may take, the wait for others included.
const BOUND: Duration = Duration::from_secs(120);

/// The row of `fencepost.installed` that says which program wrote the functions. Before the tables had a ledger, theirs were beside it.
const FUNCTIONS: i32 = 0;

const READ: &str = "select name, checksum, current_setting('server_version'), current_setting('server_version_num')::int4 \
    from fencepost.installed where version = 0";
const READ_EARLIER: &str = "select version, checksum from fencepost.installed where version > 0 order by version";
const FORGET_EARLIER: &str = "delete from fencepost.installed where version > 0";
/// Has a store notice that it is elsewhere by now, before anything is sent or read there.
const ARRIVE: &str = "select fencepost._arrive()";
const LOOK: &str = "select to_regclass('fencepost.installation') is not null, to_regclass('fencepost.installed') is not null, \
    to_regnamespace('fencepost') is not null, \
    exists (select from pg_class where relnamespace = to_regnamespace('fencepost')), \
    current_setting('server_version_num')::int4, pg_is_in_recovery()";
/// Drops the functions within that an older program made and this installation did not: an overload that is left would be called. Those
/// with a number in their names are somebody's own, such as a queue's, and made when that is.
const DROP_LEFT: &str = "do $$ declare one text; begin
    for one in select p.oid::regprocedure::text from pg_proc p
        where p.pronamespace = 'fencepost'::regnamespace and p.proname ~ '^_[^0-9]*$' and p.xmin <> pg_current_xact_id()::xid
    loop execute 'drop function ' || one; end loop; end $$";
/// What is made belongs to the owner of the schema, whoever upgrades it: a function would run with the rights of its own owner.
const AS_OWNER: &str = "select set_config('role', pg_get_userbyid(nspowner), true) from pg_namespace \
    where nspname = 'fencepost' and nspowner <> current_user::regrole";
const RECORD: &str = "insert into fencepost.installed (version, name, checksum, installed_at) values ($1, $2, $3, clock_timestamp()) \
    on conflict (version) do update set name = excluded.name, checksum = excluded.checksum, installed_at = excluded.installed_at";

/// The functions that are installed.
#[derive(Debug)]
struct Functions {
    /// The version of the program that wrote them.
    program: String,
    checksum: String,
}

/// Makes sure that the schema is there, current and fencepost's. Returns the server's version.
///
/// Reads three times when it is current. Otherwise installs or upgrades it if `create` is set.
pub(crate) async fn prepare(connections: &Connections, source: &Source, create: bool) -> Result<String> {
    let place = connections.location();
    if let Some((functions, server)) = written(connections).await? {
        supported(server.number, place)?;
        let status = connections.read_by(async |client| source.tables.status_of(client).await).await;
        let status = status.map_err(|error| error.attempting(format_args!("cannot use `{place}`")))?;
        if status.exists && judge(&status, Some(&functions), source, create, place)? == Judged::Current {
            arrive(connections).await?;
            return Ok(server.version);
        }
    }
    let looked = connections.run(Effect::Read, LOOK, &[]).await?;
    let look = Look::of(&looked)?;
    supported(look.server, place)?;
    if !create {
        return Err(look.refusal(connections).await?);
    }
    install(connections, source).await?;
    let installed = written(connections).await?;
    arrive(connections).await?;
    match installed {
        Some((functions, server)) if functions.fit(source) => Ok(server.version),
        _ => Err(Error::new(Kind::Internal, "cannot install the schema: it is not what was installed")),
    }
}

/// The server, in words and as a number.
struct Server {
    version: String,
    number: i32,
}

/// Who wrote the functions of the schema; nothing when there is none.
async fn written(connections: &Connections) -> Result<Option<(Functions, Server)>> {
    let rows = match connections.run(Effect::Read, READ, &[]).await {
        Ok(rows) => rows,
        Err(error) if error.code() == "schema_damaged" => return Ok(None),
        Err(error) if error.code() == "permission_denied" => {
            return Err(error.attempting(format_args!("cannot use `{}`", connections.location())));
        }
        Err(error) => return Err(error),
    };
    let decode = |row: &Row| Ok((Functions::of(row)?, Server { version: row.try_get(2)?, number: row.try_get(3)? }));
    rows.first().map(decode).transpose().map_err(driver_error)
}

impl Functions {
    fn of(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self { program: row.try_get(0)?, checksum: row.try_get(1)? })
    }

    /// Whether this program works with them: of two programs with the same tables the newer one's serve both.
    fn fit(&self, source: &Source) -> bool {
        precedence(&self.program) > precedence(env!("CARGO_PKG_VERSION"))
            || self.checksum == source.functions_checksum()
    }
}

/// Has the store notice a failover, a restore or a copy. One who may not is no judge of that; who may comes along.
async fn arrive(connections: &Connections) -> Result<()> {
    match connections.run(Effect::Write, ARRIVE, &[]).await {
        Err(error) if error.code() != "permission_denied" => Err(error),
        _ => Ok(()),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Judged {
    Current,
    ToInstall,
}

/// Compares what is installed with what this program knows.
fn judge(status: &Status, functions: Option<&Functions>, source: &Source, create: bool, place: &str) -> Result<Judged> {
    match status.findings.iter().find(|finding| finding.is_refusal()) {
        Some(Finding::Ahead { .. }) => return Err(newer(status, source, place)),
        Some(other) => return Err(damaged(other.number(), place)),
        None => {}
    }
    let is_current = status.pending.is_empty();
    if is_current && functions.is_some_and(|functions| functions.fit(source)) {
        return Ok(Judged::Current);
    }
    if create {
        return Ok(Judged::ToInstall);
    }
    let version = latest(status);
    let why = match is_current {
        true => "its functions are those of an older program".to_owned(),
        false => format!("its schema has version {version}, this program needs {}", source.version()),
    };
    Err(older(version, &why, place))
}

/// The version of the tables.
fn latest(status: &Status) -> u64 {
    status.entries.last().map_or(0, |entry| entry.number)
}

fn older(version: impl std::fmt::Display, why: &str, place: &str) -> Error {
    Error::new(Kind::Schema, format!("cannot use `{place}`: {why}"))
        .coded("schema_older")
        .with("version", version)
        .hinted("`fencepost init` upgrades it")
}

fn newer(status: &Status, source: &Source, place: &str) -> Error {
    let (version, known) = (latest(status), source.version());
    Error::new(
        Kind::Schema,
        format!("cannot use `{place}`: its schema has version {version}, this program knows up to {known}"),
    )
    .coded("schema_newer")
    .with("version", version)
    .hinted("a newer fencepost made or upgraded this schema; use that version or a later one")
}

fn damaged(version: u64, place: &str) -> Error {
    Error::new(
        Kind::Schema,
        format!("cannot use `{place}`: its schema version {version} is not the one that this program knows"),
    )
    .coded("schema_damaged")
    .hinted("it was made by an unreleased program, or changed by hand; restore a backup or use another database")
}

/// Which of two versions is newer, as semantic versioning has it: a pre-release comes before its release.
fn precedence(version: &str) -> (Vec<u64>, bool, Vec<Identifier<'_>>) {
    let version = version.split('+').next().unwrap_or_default();
    let (release, before) =
        version.split_once('-').map_or((version, None), |(release, before)| (release, Some(before)));
    let identifiers = before.into_iter().flat_map(|before| before.split('.'));
    (
        release.split('.').map(|number| number.parse().unwrap_or(0)).collect(),
        before.is_none(),
        identifiers.map(|text| text.parse().map_or(Identifier::Word(text), Identifier::Number)).collect(),
    )
}

/// A part of what stands after the hyphen; numbers come before words.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier<'v> {
    Number(u64),
    Word(&'v str),
}

/// What a database holds that has no current schema.
struct Look {
    has_ledger: bool,
    /// Without a ledger: a program from before installed it.
    has_installed: bool,
    has_schema: bool,
    has_relations: bool,
    server: i32,
    in_recovery: bool,
}

impl Look {
    fn of(rows: &[Row]) -> Result<Self> {
        let row = rows.first().ok_or_else(|| Error::new(Kind::Internal, "the server answered no row"))?;
        let columns = || {
            Ok(Self {
                has_ledger: row.try_get(0)?,
                has_installed: row.try_get(1)?,
                has_schema: row.try_get(2)?,
                has_relations: row.try_get(3)?,
                server: row.try_get(4)?,
                in_recovery: row.try_get(5)?,
            })
        };
        columns().map_err(driver_error)
    }

    /// Whether what is there was made by somebody else.
    fn is_foreign(&self) -> bool {
        self.has_relations && !self.has_ledger && !self.has_installed
    }

    async fn refusal(&self, connections: &Connections) -> Result<Error> {
        let place = connections.location();
        if self.is_foreign() {
            return Ok(foreign(place));
        }
        if self.has_installed {
            let rows = connections.run(Effect::Read, READ_EARLIER, &[]).await?;
            let version = rows.last().map_or(Ok(0), |row| row.try_get::<_, i32>(0)).map_err(driver_error)?;
            return Ok(older(version, &format!("its schema has version {version} and no ledger"), place));
        }
        Ok(Error::new(Kind::NotFound, format!("cannot use `{place}`: no fencepost schema is installed in it"))
            .coded("no_store")
            .hinted("`fencepost init` installs one beside the tables that are there"))
    }
}

fn supported(server: i32, place: &str) -> Result<()> {
    if server >= OLDEST {
        return Ok(());
    }
    Err(Error::new(
        Kind::Unsupported,
        format!("cannot use `{place}`: it runs PostgreSQL {}, and 14 is the oldest that serves", server / 10_000),
    )
    .hinted("upgrade the server"))
}

fn foreign(place: &str) -> Error {
    Error::new(Kind::Schema, format!("cannot use `{place}`: its schema `fencepost` was not made by fencepost"))
        .coded("schema_foreign")
        .hinted("the schema of that name is this program's; rename the other one, or use another database")
}

/// Installs or upgrades the schema, unless somebody else did meanwhile.
async fn install(connections: &Connections, source: &Source) -> Result<()> {
    let place = connections.location();
    let mut lent = connections.lend().await?;
    let work = async {
        let begin = lent.begin().build_transaction().isolation_level(IsolationLevel::ReadCommitted);
        let transaction = begin.read_only(false).start().await.map_err(driver_error)?;
        fill(&transaction, source, place).await?;
        transaction.commit().await.map_err(|error| crate::error::call_error(error, Effect::Write))
    };
    match tokio::time::timeout(BOUND, work).await {
        Ok(answer) => lent.end_with(answer),
        Err(_) => Err(unanswered(Effect::Write)),
    }
}

async fn fill(transaction: &Transaction<'_>, source: &Source, place: &str) -> Result<()> {
    // Of this transaction only: a role's settings neither end the installation nor change what it makes.
    let settings = "set local statement_timeout = 0; set local lock_timeout = '60s'; set local idle_in_transaction_session_timeout = '60s'; \
        set local check_function_bodies = off; set local search_path = pg_catalog; set local client_min_messages = warning; \
        set local default_tablespace = ''; set local synchronous_commit = on";
    transaction.batch_execute(settings).await.map_err(driver_error)?;
    // ORDER: what is there is read after the lock is held, in a later statement.
    transaction
        .query_typed("select pg_advisory_xact_lock($1)", &[(&INSTALLING, Type::INT8)])
        .await
        .map_err(driver_error)?;
    let look = Look::of(&transaction.query_typed(LOOK, &[]).await.map_err(driver_error)?)?;
    if look.in_recovery {
        return Err(Error::new(Kind::Unavailable, "cannot install the schema on a server in recovery")
            .coded("read_only")
            .hinted("connect to the primary"));
    }
    if look.is_foreign() {
        return Err(foreign(place));
    }
    if look.has_schema {
        transaction.query_typed(AS_OWNER, &[]).await.map_err(|error| {
            driver_error(error).attempting(format_args!("cannot upgrade the schema in `{place}` as its owner"))
        })?;
    } else {
        transaction
            .batch_execute("create schema fencepost")
            .await
            .map_err(|error| driver_error(error).attempting(format_args!("cannot install the schema in `{place}`")))?;
    }
    if look.has_installed && !look.has_ledger {
        take_over(transaction, source, place).await?;
    }
    let tables = source.tables.within_postgres(transaction);
    if look.has_ledger {
        let status = tables.status().await?;
        let rows = transaction.query_typed(READ, &[]).await.map_err(driver_error)?;
        let functions = rows.first().map(Functions::of).transpose().map_err(driver_error)?;
        if judge(&status, functions.as_ref(), source, true, place)? == Judged::Current {
            return Ok(());
        }
    }
    tables.up().await.map_err(|error| error.attempting("cannot install the tables"))?;
    for functions in &source.functions {
        transaction.batch_execute(functions).await.map_err(|error| broken(error, "functions"))?;
    }
    transaction.batch_execute(DROP_LEFT).await.map_err(|error| broken(error, "functions"))?;
    transaction.batch_execute(&source.rights).await.map_err(|error| broken(error, "rights"))?;
    record(transaction, env!("CARGO_PKG_VERSION"), &source.functions_checksum()).await
}

/// Takes what a program from before wrote down of the tables into the ledger.
async fn take_over(transaction: &Transaction<'_>, source: &Source, place: &str) -> Result<()> {
    let rows = transaction.query_typed(READ_EARLIER, &[]).await.map_err(driver_error)?;
    let mut version = 0;
    for row in &rows {
        let columns = || Ok((row.try_get::<_, i32>(0)?, row.try_get::<_, String>(1)?));
        let (number, written) = columns().map_err(driver_error)?;
        version = u64::try_from(number).unwrap_or(0);
        let known = source.tables.migrations().up_of(version);
        if known.is_none_or(|migration| checksum([&*migration.text]) != written) {
            return Err(damaged(version, place));
        }
    }
    if version == 0 {
        return Err(foreign(place));
    }
    let reason = Reason::new("a program from before the ledger wrote it to `fencepost.installed`")?;
    source.tables.within_postgres(transaction).baseline(version, &reason).await?;
    transaction.batch_execute(FORGET_EARLIER).await.map_err(driver_error)
}

/// Writes down who wrote the functions.
async fn record(transaction: &Transaction<'_>, program: &str, checksum: &str) -> Result<()> {
    let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&FUNCTIONS, Type::INT4), (&program, Type::TEXT), (&checksum, Type::TEXT)];
    transaction.execute_typed(RECORD, &values).await.map(drop).map_err(driver_error)
}

/// What the server says of SQL that it does not take.
fn broken(error: tokio_postgres::Error, what: &str) -> Error {
    driver_error(error).attempting(format_args!("cannot install `{what}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pre_release_is_older_than_its_release() {
        let rising = [
            "0.9.10",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.0.1-rc.1",
            "1.0.1",
            "1.10.0",
        ];
        for pair in rising.windows(2) {
            assert!(precedence(pair[0]) < precedence(pair[1]), "{pair:?}");
        }
        assert_eq!(precedence("1.0.0+linux"), precedence("1.0.0"));
    }
}
