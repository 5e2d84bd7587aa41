//! How connections are made: address after address until one is what the URL asks for, each within a bound of its own, with TLS or
//! without. The one place that knows of either.

use std::future::poll_fn;
use std::sync::Arc;

use fencepost_core::{Error, Kind, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::lookup_host;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};

use crate::cancel::Cancel;
use crate::error::connect_error;
use crate::options::PostgresOptions;
use crate::tls::Tls;
use crate::url::Target;

/// An open connection, which is closed when this is dropped.
pub(crate) struct Open {
    pub(crate) client: Client,
    place: Arc<Config>,
    driver: JoinHandle<()>,
}

impl Open {
    /// What asks the server to cancel what it does.
    pub(crate) fn cancel(&self) -> Cancel {
        Cancel::new(self.client.cancel_token(), self.place.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Makes connections to one place.
pub(crate) struct Connector {
    target: Target,
    tls: Tls,
}

impl Connector {
    pub(crate) fn new(url: &str, options: &PostgresOptions) -> Result<Self> {
        let target = Target::parse(url, options)?;
        let tls = Tls::new(&target.trust)?;
        Ok(Self { target, tls })
    }

    /// Where the server is, without secrets.
    pub(crate) fn location(&self) -> &str {
        &self.target.location
    }

    /// Connects, for as long as the value lives.
    pub(crate) async fn open(&self, heard: Option<&Sender<String>>) -> Result<Open> {
        self.connect(heard).await.map(|(client, place, driver)| Open { client, place: Arc::new(place), driver })
    }

    /// Connects, for as long as the client lives.
    pub(crate) async fn client(&self) -> Result<Client> {
        self.connect(None).await.map(|(client, ..)| client)
    }

    /// Asks the server to cancel what a connection does.
    pub(crate) async fn cancel(&self, cancel: Cancel) {
        // Whether it arrives or not, the call's own answer tells.
        let _ = cancel.ask(&self.tls).await;
    }

    async fn connect(&self, heard: Option<&Sender<String>>) -> Result<(Client, Config, JoinHandle<()>)> {
        let bound = self.target.connect_timeout;
        let mut hosts = self.target.hosts.clone();
        let is_random = hosts.first().is_some_and(|host| host.get_load_balance_hosts() == LoadBalanceHosts::Random);
        if is_random {
            shuffle(&mut hosts)?;
        }
        let mut refused = None;
        for host in hosts {
            let mut addresses = match timeout(bound, addresses(&host)).await {
                Ok(Ok(addresses)) => addresses,
                Ok(Err(cause)) => {
                    refused = Some(unreachable().caused_by(cause));
                    continue;
                }
                Err(_) => {
                    refused = Some(silent());
                    continue;
                }
            };
            if is_random {
                shuffle(&mut addresses)?;
            }
            for address in addresses {
                // The driver bounds the first packets alone: a host that takes a connection and says nothing would keep all others away.
                match timeout(bound, self.login(&address, heard)).await {
                    Ok(Ok((client, driver))) => return Ok((client, address, driver)),
                    Ok(Err(error)) => refused = Some(connect_error(error, self.target.has_password)),
                    Err(_) => refused = Some(silent()),
                }
            }
        }
        let refused = refused.unwrap_or_else(unreachable);
        Err(refused.attempting(format_args!("cannot connect to `{}`", self.location())))
    }

    async fn login(
        &self,
        address: &Config,
        heard: Option<&Sender<String>>,
    ) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
        match &self.tls {
            Tls::Plain => address
                .connect(NoTls)
                .await
                .map(|(client, connection)| (client, tokio::spawn(drive(connection, heard.cloned())))),
            #[cfg(feature = "tls")]
            Tls::Rustls(tls) => address
                .connect(tls.clone())
                .await
                .map(|(client, connection)| (client, tokio::spawn(drive(connection, heard.cloned())))),
        }
    }
}

/// Carries what is said, until the connection or its client is gone. Notifications are passed on, or dropped where nobody reads them.
async fn drive<S>(mut connection: Connection<Socket, S>, heard: Option<Sender<String>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            Ok(AsyncMessage::Notification(notification)) => {
                let _ = heard.as_ref().map(|heard| heard.try_send(notification.payload().to_owned()));
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "a connection has ended");
                return;
            }
        }
    }
}

/// One configuration an address of the host.
async fn addresses(host: &Config) -> std::io::Result<Vec<Config>> {
    let (Some(Host::Tcp(name)), []) = (host.get_hosts().first(), host.get_hostaddrs()) else {
        return Ok(vec![host.clone()]);
    };
    let port = host.get_ports().first().copied().unwrap_or(5432);
    let found = lookup_host((name.as_str(), port)).await?;
    // The name stays beside the address: the server's certificate is for it.
    Ok(found.map(|address| host.clone().hostaddr(address.ip()).clone()).collect())
}

fn shuffle<T>(items: &mut [T]) -> Result<()> {
    for last in (1..items.len()).rev() {
        let other = fencepost_core::random_u64()? % (last as u64 + 1);
        items.swap(last, usize::try_from(other).unwrap_or(last));
    }
    Ok(())
}

/// The error of a place that says nothing.
fn silent() -> Error {
    Error::new(Kind::Unavailable, "nothing answers there in time")
        .coded("unreachable")
        .hinted("check host and port of the url, and that nothing in between swallows the connection")
}

/// The error of a place where nobody is.
pub(crate) fn unreachable() -> Error {
    Error::new(Kind::Unavailable, "nothing answers there")
        .coded("unreachable")
        .hinted("check host and port of the url, and that the server runs and listens there")
}
