//! Asking the server to cancel what a connection does. Who asks stays until the other end has closed: pgbouncer 1.18 ends itself, with all
//! of its clients' connections, when one that asked is gone before it has passed the request on.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_postgres::config::Host;
use tokio_postgres::{CancelToken, Config, NoTls};

use crate::tls::Tls;

/// Names a connection, and where it leads.
pub struct Cancel {
    token: CancelToken,
    place: Arc<Config>,
}

impl Cancel {
    /// `place` has one host, and one address of it.
    pub(crate) fn new(token: CancelToken, place: Arc<Config>) -> Self {
        Self { token, place }
    }

    /// Asks for it. Whether that arrives or not, the call's own answer tells.
    pub(crate) async fn ask(&self, tls: &Tls) -> io::Result<()> {
        let stream = UntilClosed(self.connect().await?);
        let asked = match tls {
            Tls::Plain => self.token.cancel_query_raw(stream, NoTls).await,
            #[cfg(feature = "tls")]
            Tls::Rustls(tls) => {
                use tokio_postgres::tls::MakeTlsConnect;

                let mut tls = tls.clone();
                let tls = MakeTlsConnect::<UntilClosed>::make_tls_connect(&mut tls, &self.name())
                    .map_err(io::Error::other)?;
                self.token.cancel_query_raw(stream, tls).await
            }
        };
        asked.map_err(io::Error::other)
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let port = self.place.get_ports().first().copied().unwrap_or(5432);
        if let Some(address) = self.place.get_hostaddrs().first() {
            return Ok(Box::new(TcpStream::connect((*address, port)).await?));
        }
        match self.place.get_hosts().first() {
            Some(Host::Tcp(name)) => Ok(Box::new(TcpStream::connect((name.as_str(), port)).await?)),
            #[cfg(unix)]
            Some(Host::Unix(folder)) => {
                Ok(Box::new(UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).await?))
            }
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// What the server's certificate is for.
    #[cfg(feature = "tls")]
    fn name(&self) -> String {
        match (self.place.get_hosts().first(), self.place.get_hostaddrs().first()) {
            (Some(Host::Tcp(name)), _) => name.clone(),
            (_, Some(address)) => address.to_string(),
            _ => String::new(),
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection whose end waits for that of the other side, which says nothing before.
struct UntilClosed(Box<dyn Stream>);

impl AsyncRead for UntilClosed {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for UntilClosed {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut bytes = [0; 64];
            let mut into = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut self.0).poll_read(context, &mut into)) {
                Ok(()) if !into.filled().is_empty() => {}
                _ => return Pin::new(&mut self.0).poll_shutdown(context),
            }
        }
    }
}
