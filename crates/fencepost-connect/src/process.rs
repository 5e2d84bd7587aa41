//! The number of the server's process that a connection was told when it began. A pooler tells one of its own making, since it has to know
//! whom a cancel means; so whoever is told another number than his session has does not talk to the server itself.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Client;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// The process that the connection was told, or none where the driver does not let it be known. Nothing is sent to the server.
///
/// The driver tells it to the server alone, in a request to cancel; this is one that goes nowhere.
pub async fn told_process(client: &Client) -> Option<i32> {
    let paper = Paper::default();
    client.cancel_token().cancel_query_raw(paper.clone(), NoWire).await.ok()?;
    let written = paper.0.lock().unwrap_or_else(PoisonError::into_inner);
    // Length and code of the request, then process and secret.
    let request: [u8; 16] = written.last_chunk().copied()?;
    Some(i32::from_be_bytes([request[8], request[9], request[10], request[11]]))
}

/// Where a request is written that nobody gets. It agrees to encryption, which the request may want to talk about first.
#[derive(Default, Clone)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl AsyncRead for Paper {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        into.put_slice(b"S");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Paper {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl TlsStream for Paper {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// Encryption of what goes nowhere.
struct NoWire;

impl TlsConnect<Paper> for NoWire {
    type Stream = Paper;
    type Error = io::Error;
    type Future = Ready<io::Result<Paper>>;

    fn connect(self, paper: Paper) -> Self::Future {
        ready(Ok(paper))
    }
}
