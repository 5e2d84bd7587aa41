//! Passes on what the two sides of a connection say, as far as the faults let it.

use std::future::pending;
use std::sync::{Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::faults::{Connection, Fate, Faults, State};

/// What is taken from one side at a time.
const PIECE: usize = 16 * 1024;

/// Passes on until a side ends or the connection is to be cut; both sides are closed with this future.
pub async fn pass(client: TcpStream, server: TcpStream, state: &State) {
    // What is delayed is delayed on purpose.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let connection = Mutex::new(Connection::default());
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let request = |connection: &mut Connection, piece: &[u8], faults: &mut Faults| {
        state.counted().requests += 1;
        connection.request(piece, faults)
    };
    tokio::select! {
        () = one_way(from_client, to_server, state, &connection, request) => {}
        () = one_way(from_server, to_client, state, &connection, Connection::reply) => {}
    }
}

async fn one_way(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    state: &State,
    connection: &Mutex<Connection>,
    decide: impl Fn(&mut Connection, &[u8], &mut Faults) -> Fate,
) {
    let mut buffer = vec![0; PIECE];
    loop {
        let length = from.read(&mut buffer).await.unwrap_or(0);
        let fate = {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let mut faults = state.faults();
            if length > 0 {
                decide(&mut connection, &buffer[..length], &mut faults)
            } else if connection.is_silent || faults.swallow {
                Fate::Vanish
            } else {
                return;
            }
        };
        match fate {
            // The other side is not told of this one's end.
            Fate::Vanish if length == 0 => pending().await,
            Fate::Vanish => {}
            Fate::Pass(delay) => {
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                if to.write_all(&buffer[..length]).await.is_err() {
                    return;
                }
            }
            Fate::Cut(at) => {
                let _ = to.write_all(&buffer[..at]).await;
                return;
            }
        }
    }
}
