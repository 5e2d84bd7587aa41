//! The schema of a database: installed in one transaction that others wait for, looked at by one read, and left alone when current.

use std::time::Duration;

use fencepost_core::{Error, Kind, Result};
use tokio_postgres::types::Type;
use tokio_postgres::{IsolationLevel, Row, Transaction};

use crate::connection::Connections;
use crate::error::{Effect, driver_error, unanswered};
use crate::source::{Source, VERSION};

/// The oldest server that is supported.
const OLDEST: i32 = 140_000;

/// The key of the lock that installations take in turn: the first bits of the SHA-256 of `fencepost.install`.
const INSTALLING: i64 = 0x43f3_659b_c159_41e1;

/// How long an installation may take, the wait for others included.
const BOUND: Duration = Duration::from_secs(120);

/// The row of `fencepost.installed` that stands for the functions; its name is the version of the program that wrote them.
const FUNCTIONS: i32 = 0;

const READ: &str = "select version, name, checksum, current_setting('server_version'), current_setting('server_version_num')::int4 \
    from fencepost.installed order by version";
/// Has a store notice that it is elsewhere by now, before anything is sent or read there.
const ARRIVE: &str = "select fencepost._arrive()";
const LOOK: &str = "select to_regclass('fencepost.installed') is not null, to_regnamespace('fencepost') is not null, \
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

/// What is installed.
#[derive(Debug)]
struct Installed {
    migrations: Vec<(u32, String)>,
    /// The version of the program that wrote the functions, and their checksum.
    functions: Option<(String, String)>,
}

/// Makes sure that the schema is there, current and fencepost's. Returns the server's version.
///
/// Reads twice when it is current. Otherwise installs or upgrades it if `create` is set.
pub(crate) async fn prepare(connections: &Connections, source: &Source, create: bool) -> Result<String> {
    let place = connections.location();
    let found = match connections.run(Effect::Read, READ, &[]).await {
        Ok(rows) => {
            let installed = decode(&rows)?;
            let server = rows.first().and_then(|row| Some((row.try_get(3).ok()?, row.try_get(4).ok()?)));
            Some((installed, server))
        }
        Err(error) if error.code() == "schema_damaged" => None,
        Err(error) if error.code() == "permission_denied" => {
            return Err(error.attempting(format_args!("cannot use `{place}`")));
        }
        Err(error) => return Err(error),
    };
    if let Some((installed, Some((version, number)))) = &found {
        supported(*number, place)?;
        if judge(installed, source, create, place)? == Judged::Current {
            arrive(connections).await?;
            return Ok(String::clone(version));
        }
    }
    let looked = connections.run(Effect::Read, LOOK, &[]).await?;
    let look = Look::of(&looked)?;
    supported(look.server, place)?;
    if !create {
        return Err(look.refusal(place));
    }
    install(connections, source).await?;
    let rows = connections.run(Effect::Read, READ, &[]).await?;
    arrive(connections).await?;
    match judge(&decode(&rows)?, source, false, place)? {
        Judged::Current => rows.first().map_or_else(|| Err(foreign(place)), |row| row.try_get(3).map_err(driver_error)),
        Judged::ToInstall => Err(Error::new(Kind::Internal, "cannot install the schema: it is not what was installed")),
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
fn judge(installed: &Installed, source: &Source, create: bool, place: &str) -> Result<Judged> {
    let version = installed.migrations.last().map_or(0, |(version, _)| *version);
    let known = u32::try_from(source.migrations.len()).unwrap_or(VERSION);
    if version == 0 {
        return Err(foreign(place));
    }
    for (migration, (number, checksum)) in source.migrations.iter().zip(&installed.migrations) {
        if migration.version != *number || migration.checksum() != *checksum {
            return Err(Error::new(
                Kind::Schema,
                format!("cannot use `{place}`: its schema version {number} is not the one that this program knows"),
            )
            .coded("schema_damaged")
            .hinted(
                "it was made by an unreleased program, or changed by hand; restore a backup or use another database",
            ));
        }
    }
    if version > known {
        return Err(Error::new(
            Kind::Schema,
            format!("cannot use `{place}`: its schema has version {version}, this program knows up to {known}"),
        )
        .coded("schema_newer")
        .with("version", version)
        .hinted("a newer fencepost made or upgraded this schema; use that version or a later one"));
    }
    let own = env!("CARGO_PKG_VERSION");
    let functions_fit = installed.functions.as_ref().is_some_and(|(program, checksum)| {
        // Of two programs with one schema the newer one's functions serve both.
        precedence(program) > precedence(own) || *checksum == source.functions_checksum()
    });
    if version == known && functions_fit {
        return Ok(Judged::Current);
    }
    if create {
        return Ok(Judged::ToInstall);
    }
    let why = if version < known {
        format!("its schema has version {version}, this program needs {known}")
    } else {
        "its functions are those of an older program".to_owned()
    };
    Err(Error::new(Kind::Schema, format!("cannot use `{place}`: {why}"))
        .coded("schema_older")
        .with("version", version)
        .hinted("`fencepost init` upgrades it"))
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

fn decode(rows: &[Row]) -> Result<Installed> {
    let mut installed = Installed { migrations: Vec::new(), functions: None };
    for row in rows {
        let columns = || Ok((row.try_get::<_, i32>(0)?, row.try_get(1)?, row.try_get(2)?));
        let (version, name, checksum): (i32, String, String) = columns().map_err(driver_error)?;
        match u32::try_from(version) {
            Ok(version) if version > 0 => installed.migrations.push((version, checksum)),
            _ if version == FUNCTIONS => installed.functions = Some((name, checksum)),
            _ => {}
        }
    }
    Ok(installed)
}

/// What a database holds that has no current schema.
struct Look {
    has_table: bool,
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
                has_table: row.try_get(0)?,
                has_schema: row.try_get(1)?,
                has_relations: row.try_get(2)?,
                server: row.try_get(3)?,
                in_recovery: row.try_get(4)?,
            })
        };
        columns().map_err(driver_error)
    }

    fn refusal(&self, place: &str) -> Error {
        if self.has_relations && !self.has_table {
            return foreign(place);
        }
        Error::new(Kind::NotFound, format!("cannot use `{place}`: no fencepost schema is installed in it"))
            .coded("no_store")
            .hinted("`fencepost init` installs one beside the tables that are there")
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
    if look.has_relations && !look.has_table {
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
    let mut version = 0;
    if look.has_table {
        let installed = decode(&transaction.query_typed(READ, &[]).await.map_err(driver_error)?)?;
        if judge(&installed, source, true, place)? == Judged::Current {
            return Ok(());
        }
        version = installed.migrations.last().map_or(0, |(version, _)| *version);
    }
    for migration in source.migrations.iter().filter(|migration| migration.version > version) {
        transaction.batch_execute(&migration.sql).await.map_err(|error| broken(error, &migration.name))?;
        let number = i32::try_from(migration.version).unwrap_or(i32::MAX);
        record(transaction, number, &migration.name, &migration.checksum()).await?;
    }
    for functions in &source.functions {
        transaction.batch_execute(functions).await.map_err(|error| broken(error, "functions"))?;
    }
    transaction.batch_execute(DROP_LEFT).await.map_err(|error| broken(error, "functions"))?;
    transaction.batch_execute(&source.rights).await.map_err(|error| broken(error, "rights"))?;
    record(transaction, FUNCTIONS, env!("CARGO_PKG_VERSION"), &source.functions_checksum()).await
}

async fn record(transaction: &Transaction<'_>, version: i32, name: &str, checksum: &str) -> Result<()> {
    let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&version, Type::INT4), (&name, Type::TEXT), (&checksum, Type::TEXT)];
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
