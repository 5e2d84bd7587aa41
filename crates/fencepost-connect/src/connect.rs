//! How connections are made: address after address until one is what the URL asks for, each within a bound of its own, with TLS or
//! without. The one place that knows of either.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::{Error, Kind, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::lookup_host;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};

use crate::cancel::Cancel;
use crate::error::{connect_error, unreachable};
use crate::tls::Tls;
use crate::url::Target;

/// An open connection, which is closed when this is dropped.
pub struct Open {
    /// What calls are made with.
    pub client: Client,
    place: Arc<Config>,
    driver: JoinHandle<()>,
}

impl Open {
    /// What asks the server to cancel what it does.
    pub fn cancel(&self) -> Cancel {
        Cancel::new(self.client.cancel_token(), self.place.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// What the server says beside its answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// `NOTICE`, `WARNING`, ...
    pub severity: String,
    /// What.
    pub message: String,
}

/// Makes connections to one place.
pub struct Connector {
    target: Target,
    tls: Tls,
    notices: Option<Sender<Notice>>,
}

/// Where goes what the server says unasked. What nobody takes in time is dropped.
struct Heard {
    notifications: Option<Sender<String>>,
    notices: Option<Sender<Notice>>,
}

impl Connector {
    /// One for the place of `url`. It may take `connect_timeout` to connect to an address, unless the URL says otherwise.
    ///
    /// # Errors
    /// `invalid_input` when the URL or its file of certificates cannot be read, `unsupported` when it asks for what this build has not.
    pub fn new(url: &str, connect_timeout: Duration) -> Result<Self> {
        let target = Target::parse(url, connect_timeout)?;
        let tls = Tls::new(&target.trust)?;
        Ok(Self { target, tls, notices: None })
    }

    /// The same whose connections pass on the server's notices.
    #[must_use]
    pub fn noticing(mut self, notices: Sender<Notice>) -> Self {
        self.notices = Some(notices);
        self
    }

    /// The same with a network that is asked for life every few seconds, unless the URL says how often, so that a server that is gone
    /// in silence is noticed within half a minute.
    #[must_use]
    pub fn keeping_alive(mut self) -> Self {
        let driver = Config::new();
        for host in &mut self.target.hosts {
            if host.get_keepalives_idle() == driver.get_keepalives_idle() && host.get_keepalives_interval().is_none() {
                host.keepalives_idle(Duration::from_secs(15))
                    .keepalives_interval(Duration::from_secs(5))
                    .keepalives_retries(3);
            }
        }
        self
    }

    /// Where the server is, without secrets.
    pub fn location(&self) -> &str {
        &self.target.location
    }

    /// Whether the URL says that a pooler stands there which gives each connection a session of its own.
    pub fn has_session_pooler(&self) -> bool {
        self.target.has_session_pooler
    }

    /// Connects, for as long as the value lives. Notifications' payloads go to `heard`.
    ///
    /// # Errors
    /// `unavailable`, with a code for what stands in the way.
    pub async fn open(&self, heard: Option<&Sender<String>>) -> Result<Open> {
        self.connect(heard).await.map(|(client, place, driver)| Open { client, place: Arc::new(place), driver })
    }

    /// Connects, for as long as the client lives.
    ///
    /// # Errors
    /// `unavailable`, with a code for what stands in the way.
    pub async fn client(&self) -> Result<Client> {
        self.connect(None).await.map(|(client, ..)| client)
    }

    /// Asks the server to cancel what a connection does.
    pub async fn cancel(&self, cancel: Cancel) {
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
        let heard = Heard { notifications: heard.cloned(), notices: self.notices.clone() };
        match &self.tls {
            Tls::Plain => address
                .connect(NoTls)
                .await
                .map(|(client, connection)| (client, tokio::spawn(drive(connection, heard)))),
            #[cfg(feature = "tls")]
            Tls::Rustls(tls) => address
                .connect(tls.clone())
                .await
                .map(|(client, connection)| (client, tokio::spawn(drive(connection, heard)))),
        }
    }
}

/// Carries what is said, until the connection or its client is gone.
async fn drive<S>(mut connection: Connection<Socket, S>, heard: Heard)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            Ok(AsyncMessage::Notification(notification)) => {
                let _ = heard.notifications.as_ref().map(|heard| heard.try_send(notification.payload().to_owned()));
            }
            Ok(AsyncMessage::Notice(said)) => {
                let notice = || Notice { severity: said.severity().to_owned(), message: said.message().to_owned() };
                let _ = heard.notices.as_ref().map(|heard| heard.try_send(notice()));
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
