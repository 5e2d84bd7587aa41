//! The table of leases, and its statements: each transition locks the row, reads it in a later statement, and is judged by the row it wrote.

use fencepost_connect::driver_error;
use fencepost_core::{Epoch, Error, HolderName, Kind, Nonce, Result, Timestamp, Ttl};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, IsolationLevel, Row, Transaction};

use super::super::LockKey;
use super::super::call::{self, ANSWER, Value, column};
use super::super::source::Session;
use super::{Origin, epoch};

/// Who holds a lease. The times are the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseHolder {
    /// What it calls itself.
    pub holder: String,
    /// Its epoch.
    pub epoch: i64,
    /// Since when it has had the lease.
    pub since: Timestamp,
    /// When the lease ends, unless it is renewed, which moves it.
    pub expires_at: Timestamp,
}

/// The table of leases in one schema.
#[derive(Debug)]
pub(super) struct Table {
    /// What the statements call it.
    quoted: String,
}

impl Table {
    /// The table, if it is there.
    pub(super) async fn find(client: &Client, schema: Option<&str>) -> Result<Option<Self>> {
        let (table, is_there) = Self::look_for(client, schema).await?;
        Ok(is_there.then_some(table))
    }

    /// The table, which is made if it is not there.
    pub(super) async fn make(origin: &Origin, schema: Option<&str>) -> Result<Self> {
        let session = origin.source.lend().await?;
        let (table, is_there) = Self::look_for(session.client(), schema).await?;
        if is_there {
            session.give_back();
            return Ok(table);
        }
        let key = LockKey::of_table().as_i64();
        in_transaction(session, async |transaction| {
            let lock = include_str!("../../../../sql/lease/install_lock.sql");
            transaction.query_typed(lock, &[(&key, Type::INT8)]).await?;
            transaction.batch_execute(&table.sql(include_str!("../../../../sql/lease/install.sql"))).await
        })
        .await?;
        Ok(table)
    }

    async fn look_for(client: &Client, schema: Option<&str>) -> Result<(Self, bool)> {
        if schema.is_some_and(|schema| schema.is_empty() || schema.len() > 63 || schema.contains('\0')) {
            return Err(Error::invalid(
                "cannot use the name of the lease's schema",
                "allowed are 1 to 63 bytes without NUL",
            ));
        }
        let sql = include_str!("../../../../sql/lease/place.sql");
        let row = call::row(client, sql, &[(&schema, Type::TEXT)]).await?;
        let schema: Option<String> = column(&row, "schema_name")?;
        let schema = schema.ok_or_else(|| {
            Error::invalid(
                "cannot find a schema for the table of leases",
                "name one, or set search_path to one that is there",
            )
        })?;
        let quoted = format!("\"{}\".fencepost_migration_lease", schema.replace('"', "\"\""));
        Ok((Self { quoted }, column(&row, "is_there")?))
    }

    fn sql(&self, text: &str) -> String {
        text.replace("{lease}", &self.quoted)
    }

    async fn one(&self, client: &Client, text: &str, values: &[Value<'_>]) -> Result<Option<Row>> {
        Ok(call::rows(client, &self.sql(text), values).await?.into_iter().next())
    }

    pub(super) async fn holder(&self, client: &Client, origin: &Origin) -> Result<Option<LeaseHolder>> {
        let row = self.look(client, origin).await?;
        row.as_ref().filter(|row| is_live(row)).map(LeaseHolder::of).transpose()
    }

    async fn look(&self, client: &Client, origin: &Origin) -> Result<Option<Row>> {
        let name = origin.name.as_str();
        self.one(client, include_str!("../../../../sql/lease/look.sql"), &[(&name, Type::TEXT)]).await
    }

    /// Grants the lease, or does not; the same nonce gets the same grant again.
    pub(super) async fn grant(
        &self,
        origin: &Origin,
        holder: &HolderName,
        nonce: &Nonce,
        ttl: Ttl,
    ) -> Result<Option<Epoch>> {
        let session = origin.source.lend().await?;
        let (name, holder, nonce) = (origin.name.as_str(), holder.as_str(), nonce.as_str());
        let seen = self.look(session.client(), origin).await?;
        let is_others = |row: &Row| is_live(row) && column::<Option<&str>>(row, "nonce").ok().flatten() != Some(nonce);
        if seen.as_ref().is_some_and(is_others) {
            session.give_back();
            return Ok(None);
        }
        let ttl = millis(ttl);
        let granted = in_transaction(session, async |transaction| {
            if seen.is_none() {
                let ensure = self.sql(include_str!("../../../../sql/lease/ensure.sql"));
                transaction.execute_typed(&ensure, &[(&name, Type::TEXT)]).await?;
            }
            let lock = self.sql(include_str!("../../../../sql/lease/lock.sql"));
            if transaction.query_typed(&lock, &[(&name, Type::TEXT)]).await?.is_empty() {
                return Ok(None);
            }
            let grant = self.sql(include_str!("../../../../sql/lease/grant.sql"));
            let values: [Value<'_>; 4] =
                [(&name, Type::TEXT), (&holder, Type::TEXT), (&nonce, Type::TEXT), (&ttl, Type::INT8)];
            Ok(transaction.query_typed(&grant, &values).await?.into_iter().next())
        })
        .await?;
        granted.map(|row| epoch(column(&row, "epoch")?)).transpose()
    }

    /// Whether the lease is still this epoch's, for as long as from now.
    pub(super) async fn renew(&self, origin: &Origin, epoch: Epoch, ttl: Ttl) -> Result<bool> {
        let (name, epoch, ttl) = (origin.name.as_str(), epoch.get(), millis(ttl));
        let values: [Value<'_>; 3] = [(&name, Type::TEXT), (&epoch, Type::INT8), (&ttl, Type::INT8)];
        self.is_own(origin, include_str!("../../../../sql/lease/renew.sql"), &values).await
    }

    pub(super) async fn release(&self, origin: &Origin, epoch: Epoch) -> Result<bool> {
        let (name, epoch) = (origin.name.as_str(), epoch.get());
        let values: [Value<'_>; 2] = [(&name, Type::TEXT), (&epoch, Type::INT8)];
        self.is_own(origin, include_str!("../../../../sql/lease/release.sql"), &values).await
    }

    async fn is_own(&self, origin: &Origin, text: &str, values: &[Value<'_>]) -> Result<bool> {
        let session = origin.source.lend().await?;
        let own = self.one(session.client(), text, values).await?.is_some();
        session.give_back();
        Ok(own)
    }

    /// Whether the lease is this epoch's until the end of the transaction.
    pub(super) async fn guard(&self, transaction: &Transaction<'_>, origin: &Origin, epoch: Epoch) -> Result<bool> {
        let (name, epoch) = (origin.name.as_str(), epoch.get());
        let values: [Value<'_>; 2] = [(&name, Type::TEXT), (&epoch, Type::INT8)];
        for text in [include_str!("../../../../sql/lease/guard.sql"), include_str!("../../../../sql/lease/bound.sql")] {
            let found = transaction.query_typed(&self.sql(text), &values).await;
            if found.map_err(|error| driver_error(error, &[]))?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl LeaseHolder {
    fn of(row: &Row) -> Result<Self> {
        let time = |name| Ok::<_, Error>(Timestamp::from_micros(column(row, name)?));
        Ok(Self {
            holder: column(row, "holder")?,
            epoch: column(row, "epoch")?,
            since: time("since")?,
            expires_at: time("expires_at")?,
        })
    }
}

fn is_live(row: &Row) -> bool {
    column(row, "is_live").unwrap_or(false)
}

fn millis(ttl: Ttl) -> i64 {
    i64::try_from(ttl.get().as_millis()).unwrap_or(i64::MAX)
}

/// Runs a transaction, and gives its session back when its end was heard.
async fn in_transaction<T>(
    mut session: Session,
    work: impl AsyncFnOnce(&Transaction<'_>) -> Result<T, tokio_postgres::Error>,
) -> Result<T> {
    let mut is_ending = false;
    let done = tokio::time::timeout(ANSWER, async {
        let begin = session.client_mut().build_transaction().isolation_level(IsolationLevel::ReadCommitted);
        let transaction = begin.read_only(false).start().await?;
        let done = work(&transaction).await?;
        is_ending = true;
        transaction.commit().await?;
        Ok::<_, tokio_postgres::Error>(done)
    });
    let error = match done.await {
        Ok(Ok(done)) => {
            session.give_back();
            return Ok(done);
        }
        Ok(Err(error)) => driver_error(error, &[]),
        Err(_) => Error::new(Kind::Unavailable, "the server did not answer in time").coded("timeout"),
    };
    if is_ending && error.kind() == Kind::Unavailable {
        return Err(
            Error::new(Kind::UnknownOutcome, "the connection was lost before the server answered").caused_by(error)
        );
    }
    Err(error)
}
