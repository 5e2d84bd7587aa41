//! Listening for notifications on a connection of its own. Whether any arrive is tested first: a pooler in transaction mode takes the
//! LISTEN and delivers nothing.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use fencepost_core::Result;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinHandle;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Connection, Socket};

use crate::connection::Connections;
use crate::error::driver_error;
use crate::store::PostgresStore;

/// How long an echo may take.
const ECHO: Duration = Duration::from_secs(2);

/// How long nobody tries again after it did not work.
const AGAIN: Duration = Duration::from_secs(30);

/// So many notifications wait to be read at most; more are dropped, as they are hints.
const WAITING: usize = 1024;

const NOTIFY: &str = "select pg_notify('fencepost', $1)";

/// A connection that listens, or the memory of one that failed.
pub(crate) struct Listener {
    open: Option<Open>,
    since: Instant,
}

struct Open {
    /// Listens for as long as it lives.
    _client: Client,
    driver: JoinHandle<()>,
    heard: Receiver<String>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Listener {
    /// Listens from now on, if that works here.
    pub(crate) async fn start(store: &PostgresStore) -> Self {
        let open = match tokio::time::timeout(ECHO, connect(store)).await {
            Ok(Ok(open)) => Some(open),
            Ok(Err(error)) => {
                tracing::debug!(%error, "cannot listen for notifications");
                None
            }
            Err(_) => {
                tracing::info!(
                    "notifications do not arrive here, as behind a pooler in transaction mode: wakes come by polling"
                );
                None
            }
        };
        Self { open, since: Instant::now() }
    }

    /// Whether it is time to try again.
    pub(crate) fn is_to_be_renewed(&self) -> bool {
        match &self.open {
            Some(open) => open.driver.is_finished(),
            None => self.since.elapsed() >= AGAIN,
        }
    }

    /// Whether notifications arrive.
    pub(crate) fn hears(&self) -> bool {
        self.open.as_ref().is_some_and(|open| !open.driver.is_finished())
    }

    /// The next notification's hash. Waits for ever when nothing can come. Cancel-safe.
    pub(crate) async fn heard(&mut self) -> i64 {
        loop {
            let heard = match &mut self.open {
                Some(open) => open.heard.recv().await,
                None => None,
            };
            match heard.map(|payload| payload.parse()) {
                Some(Ok(hash)) => return hash,
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}

async fn connect(store: &PostgresStore) -> Result<Open> {
    let (client, driver, mut heard) = store.connections().listening().await?;
    client.batch_execute("listen fencepost").await.map_err(driver_error)?;
    let open = |heard| Open { _client: client, driver, heard };
    // Sent through another session: a pooler would hand an own one back with its answer.
    let echo = format!("echo {}", fencepost_core::random_u64()?);
    store.read("wakes", NOTIFY, &[(&echo, Type::TEXT)]).await?;
    while heard.recv().await.is_some_and(|payload| payload != echo) {}
    Ok(open(heard))
}

impl Connections {
    /// A connection beside the pool, with what it hears.
    async fn listening(&self) -> Result<(Client, JoinHandle<()>, Receiver<String>)> {
        let (heard, receiver) = channel(WAITING);
        let config = self.config();
        let (client, driver) = match self.tls() {
            crate::tls::Tls::Plain => {
                let (client, connection) = config.connect(tokio_postgres::NoTls).await.map_err(driver_error)?;
                (client, tokio::spawn(drive(connection, heard)))
            }
            #[cfg(feature = "tls")]
            crate::tls::Tls::Rustls(tls) => {
                let (client, connection) = config.connect(tls.clone()).await.map_err(driver_error)?;
                (client, tokio::spawn(drive(connection, heard)))
            }
        };
        Ok((client, driver, receiver))
    }
}

async fn drive<S>(mut connection: Connection<Socket, S>, heard: tokio::sync::mpsc::Sender<String>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message {
            let _ = heard.try_send(notification.payload().to_owned());
        }
    }
}
