//! Settings of a session that holds or waits for the lock. What a role or database has for the application's statements, such as a bound of
//! a second, would end a migration; a client that is gone must be noticed soon. All of it is changed back before a session is given back.

use fencepost_core::{Error, Kind, Result};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::call::{self, column};

/// No bounds but the runner's own, and a client that is gone is noticed within half a minute.
const SETTINGS: &[(&str, &str)] = &[
    ("statement_timeout", "0"),
    ("lock_timeout", "0"),
    ("transaction_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("tcp_keepalives_idle", "15"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
];

/// Not every server can: a client that is gone while a statement runs is noticed within 2 s.
const WHERE_IT_CAN: &[(&str, &str)] = &[("client_connection_check_interval", "2000")];

/// What settings were, by name.
#[derive(Default)]
pub(super) struct Was(Vec<(String, String)>);

impl Was {
    /// Changes the settings of a session.
    pub(super) async fn change(client: &Client) -> Result<Self> {
        let mut was = Self::default();
        was.set(client, SETTINGS).await?;
        match was.set(client, WHERE_IT_CAN).await {
            Err(error) if error.fact("sqlstate") != Some("22023") => return Err(error),
            _ => {}
        }
        was.0.push(("application_name".into(), current_name(client).await?));
        Ok(was)
    }

    async fn set(&mut self, client: &Client, settings: &[(&str, &str)]) -> Result<()> {
        for row in set(client, settings.iter().copied()).await? {
            self.0.push((column(&row, "name")?, column(&row, "setting")?));
        }
        Ok(())
    }

    /// Changes them back.
    pub(super) async fn restore(&self, client: &Client) -> Result<()> {
        let changed = set(client, self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))).await?;
        if changed.len() == self.0.len() {
            return Ok(());
        }
        Err(Error::new(Kind::Internal, "cannot change the settings of a session back"))
    }
}

async fn set<'a>(
    client: &Client,
    settings: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<tokio_postgres::Row>> {
    let (names, values): (Vec<&str>, Vec<&str>) = settings.unzip();
    let sql = include_str!("../../../sql/lock/settings.sql");
    call::rows(client, sql, &[(&names, Type::TEXT_ARRAY), (&values, Type::TEXT_ARRAY)]).await
}

async fn current_name(client: &Client) -> Result<String> {
    let sql = include_str!("../../../sql/lock/name_now.sql");
    column(&call::row(client, sql, &[]).await?, "name")
}
