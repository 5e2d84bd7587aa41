//! A network that fails on demand: a proxy before a server that delays, swallows, cuts and refuses as a test says. It runs on the
//! test's runtime and ends with its value. What it draws by chance it draws from a seed.

mod faults;
mod pump;

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};

use self::faults::{Faults, State, Trap};
use crate::Unavailable;
use crate::cluster::listen;
use crate::error::Result;

/// Where what it draws by chance begins. The network's own timing stays what it is: the same numbers are drawn, for what comes in the
/// order in which it comes.
const SEED: u64 = 1;

/// A proxy before the server at one address. Connections pass unharmed until it is told otherwise.
#[derive(Debug)]
pub struct FaultProxy {
    upstream: SocketAddr,
    address: SocketAddr,
    state: Arc<State>,
    /// Whether connections are to be refused.
    refuse: watch::Sender<bool>,
    /// Whether they are.
    refuses: watch::Receiver<bool>,
    task: AbortHandle,
}

/// A fault that was ordered and happens once.
#[derive(Debug)]
pub struct Fault(oneshot::Receiver<()>);

impl Fault {
    /// Waits until it has happened.
    ///
    /// # Panics
    /// When the proxy is dropped, or another fault was ordered in its place.
    pub async fn happened(self) {
        self.0.await.expect("the proxy is there, and no other fault was ordered instead");
    }
}

impl FaultProxy {
    /// One before `upstream`.
    ///
    /// # Errors
    /// `Failed` when it cannot listen.
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        let listener = listen()?;
        // Not let go in between, since somebody else may look for a port.
        let taken = listener.set_nonblocking(true).and_then(|()| Ok((listener.local_addr()?, listener.try_into()?)));
        let (address, listener) =
            taken.map_err(|error: io::Error| Unavailable::failed("the proxy cannot listen", error))?;
        let state = Arc::new(State::new(SEED));
        let (refuse, asked) = watch::channel(false);
        let (told, refuses) = watch::channel(false);
        let task = tokio::spawn(serve(listener, upstream, state.clone(), asked, told)).abort_handle();
        Ok(Self { upstream, address, state, refuse, refuses, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A URL of the server, through the proxy.
    pub fn url(&self, url: &str) -> String {
        url.replacen(&self.upstream.to_string(), &self.address.to_string(), 1)
    }

    /// How many connections it has taken so far.
    pub fn connections(&self) -> u64 {
        self.state.counted().connections
    }

    /// How many pieces clients have sent so far. Whoever waits for each answer sends one a round trip.
    pub fn requests(&self) -> u64 {
        self.state.counted().requests
    }

    /// Cuts all connections that are open.
    pub fn cut(&self) {
        self.state.cut_all();
    }

    /// Delays whatever passes, each piece for a time from `range`.
    pub fn delay(&self, range: Range<Duration>) {
        self.faults(|faults| faults.delay = range);
    }

    /// Cuts a connection before one in `pieces` of what the server says, by chance; `None` never.
    pub fn cut_randomly(&self, pieces: Option<u32>) {
        self.faults(|faults| faults.cut_one_in = pieces);
    }

    /// While on, what either side says vanishes, and neither hears that the other is gone. New connections are taken, and are as
    /// silent. A connection that lost something stays so until it is cut.
    pub fn half_open(&self, on: bool) {
        self.faults(|faults| faults.swallow = on);
    }

    /// Refuses new connections, or takes them again, at the same address. Returns when it does.
    ///
    /// # Panics
    /// When the address is somebody else's by now.
    pub async fn refuse(&self, on: bool) {
        self.refuse.send_replace(on);
        let mut refuses = self.refuses.clone();
        refuses.wait_for(|refuses| *refuses == on).await.expect("the proxy listens at its address");
    }

    /// Once the server has said `bytes` more, to whomever, the connection is cut there.
    pub fn cut_after_reply_bytes(&self, bytes: usize) -> Fault {
        self.set(|happened| Trap::ReplyBytes { left: bytes, happened })
    }

    /// When a client says `words`, the server does not hear of it, and the connection is cut.
    pub fn lose_request(&self, words: &str) -> Fault {
        self.set(|happened| Trap::Request { words: words.into(), happened })
    }

    /// When a client says `words`, the server gets it and has done it, but its reply is lost: the connection is cut when the server
    /// is ready for the next.
    pub fn lose_reply(&self, words: &str) -> Fault {
        self.set(|happened| Trap::Reply { words: words.into(), happened })
    }

    fn set(&self, trap: impl FnOnce(oneshot::Sender<()>) -> Trap) -> Fault {
        let (happened, waits) = oneshot::channel();
        self.faults(|faults| faults.trap = Some(trap(happened)));
        Fault(waits)
    }

    fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.state.faults());
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Takes connections, except while it is asked not to. All of them end with this future.
async fn serve(
    mut listener: TcpListener,
    upstream: SocketAddr,
    state: Arc<State>,
    mut refuse: watch::Receiver<bool>,
    refuses: watch::Sender<bool>,
) {
    let Ok(address) = listener.local_addr() else { return };
    let mut connections = JoinSet::new();
    loop {
        if *refuse.borrow_and_update() {
            drop(listener);
            refuses.send_replace(true);
            if refuse.wait_for(|refuse| !refuse).await.is_err() {
                return;
            }
            let Ok(again) = TcpListener::bind(address).await else { return };
            listener = again;
        }
        refuses.send_replace(false);
        tokio::select! {
            changed = refuse.changed() => if changed.is_err() { return },
            Ok((client, _)) = listener.accept() => {
                state.counted().connections += 1;
                connections.spawn(pass(client, upstream, state.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn pass(client: TcpStream, upstream: SocketAddr, state: Arc<State>) {
    let mut cuts = state.cuts();
    tokio::select! {
        _ = cuts.changed() => {}
        () = async {
            // Where no server answers, the client finds the connection closed.
            if let Ok(server) = TcpStream::connect(upstream).await {
                pump::pass(client, server, &state).await;
            }
        } => {}
    }
}
