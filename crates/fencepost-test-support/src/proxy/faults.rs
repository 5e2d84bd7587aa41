//! What a proxy was told to do, and what it decides about each piece that comes by. Nothing here touches the network.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::Random;

/// How the server says that it is ready for the next; one byte on the transaction follows.
const READY: &[u8] = b"Z\0\0\0\x05";

/// What a proxy shares with its connections.
#[derive(Debug)]
pub struct State {
    faults: Mutex<Faults>,
    counted: Mutex<Counted>,
    cuts: watch::Sender<u64>,
}

/// What has come by.
#[derive(Debug, Default)]
pub struct Counted {
    pub connections: u64,
    pub requests: u64,
}

/// What was ordered.
#[derive(Debug)]
pub struct Faults {
    pub delay: Range<Duration>,
    pub cut_one_in: Option<u32>,
    pub swallow: bool,
    pub trap: Option<Trap>,
    random: Random,
}

/// What happens once, to the first connection that steps on it.
#[derive(Debug)]
pub enum Trap {
    ReplyBytes { left: usize, happened: oneshot::Sender<()> },
    Request { words: Vec<u8>, happened: oneshot::Sender<()> },
    Reply { words: Vec<u8>, happened: oneshot::Sender<()> },
}

/// What becomes of a piece.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on, that late.
    Pass(Duration),
    /// So many bytes of it go on, then the connection is cut.
    Cut(usize),
    /// It is gone, and nobody hears of it.
    Vanish,
}

/// What is known of one connection.
#[derive(Debug, Default)]
pub struct Connection {
    /// The end of what the client said, where words may have begun.
    said: Vec<u8>,
    /// Something was swallowed: nothing goes on any more.
    pub is_silent: bool,
    /// The reply that is lost, as far as it has come.
    lost: Option<(Vec<u8>, oneshot::Sender<()>)>,
}

impl State {
    pub fn new(seed: u64) -> Self {
        let faults = Faults {
            delay: Duration::ZERO..Duration::ZERO,
            cut_one_in: None,
            swallow: false,
            trap: None,
            random: Random::seeded(seed),
        };
        Self { faults: Mutex::new(faults), counted: Mutex::default(), cuts: watch::Sender::new(0) }
    }

    pub fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn cut_all(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }

    /// Hears of cuts from now on.
    pub fn cuts(&self) -> watch::Receiver<u64> {
        self.cuts.subscribe()
    }
}

impl Connection {
    /// Decides about what the client says.
    pub fn request(&mut self, piece: &[u8], faults: &mut Faults) -> Fate {
        if self.vanishes(faults) {
            return Fate::Vanish;
        }
        let before = self.said.len();
        self.said.extend_from_slice(piece);
        match faults.trap.take() {
            Some(Trap::Request { words, happened }) if contains(&self.said, &words) => {
                let at = find(&self.said, &words).unwrap_or_default();
                let _ = happened.send(());
                return Fate::Cut(at.saturating_sub(before));
            }
            Some(Trap::Reply { words, happened }) if contains(&self.said, &words) => {
                self.lost = Some((Vec::new(), happened));
            }
            other => faults.trap = other,
        }
        // Words may begin in one piece and end in the next.
        let keep = faults.longest_words().saturating_sub(1);
        self.said.drain(..self.said.len().saturating_sub(keep));
        Fate::Pass(faults.draw_delay())
    }

    /// Decides about what the server says.
    pub fn reply(&mut self, piece: &[u8], faults: &mut Faults) -> Fate {
        if let Some((mut reply, happened)) = self.lost.take() {
            reply.extend_from_slice(piece);
            if find(&reply, READY).is_some_and(|at| reply.len() > at + READY.len()) {
                let _ = happened.send(());
                return Fate::Cut(0);
            }
            self.lost = Some((reply, happened));
            return Fate::Vanish;
        }
        if self.vanishes(faults) {
            return Fate::Vanish;
        }
        match faults.trap.take() {
            Some(Trap::ReplyBytes { left, happened }) if left <= piece.len() => {
                let _ = happened.send(());
                return Fate::Cut(left);
            }
            Some(Trap::ReplyBytes { left, happened }) => {
                faults.trap = Some(Trap::ReplyBytes { left: left - piece.len(), happened });
            }
            other => faults.trap = other,
        }
        if faults.draws_cut() { Fate::Cut(0) } else { Fate::Pass(faults.draw_delay()) }
    }

    fn vanishes(&mut self, faults: &Faults) -> bool {
        self.is_silent |= faults.swallow;
        self.is_silent
    }
}

impl Faults {
    fn longest_words(&self) -> usize {
        match &self.trap {
            Some(Trap::Request { words, .. } | Trap::Reply { words, .. }) => words.len(),
            _ => 0,
        }
    }

    fn draw_delay(&mut self) -> Duration {
        let width = u64::try_from(self.delay.end.saturating_sub(self.delay.start).as_nanos()).unwrap_or(u64::MAX);
        if width == 0 { self.delay.start } else { self.delay.start + Duration::from_nanos(self.random.below(width)) }
    }

    fn draws_cut(&mut self) -> bool {
        self.cut_one_in.is_some_and(|pieces| self.random.below(u64::from(pieces.max(1))) == 0)
    }
}

fn contains(text: &[u8], words: &[u8]) -> bool {
    find(text, words).is_some()
}

fn find(text: &[u8], words: &[u8]) -> Option<usize> {
    text.windows(words.len()).position(|window| window == words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(trap: impl FnOnce(oneshot::Sender<()>) -> Trap) -> (State, oneshot::Receiver<()>) {
        let (happened, waits) = oneshot::channel();
        let state = State::new(1);
        state.faults().trap = Some(trap(happened));
        (state, waits)
    }

    const PASS: Fate = Fate::Pass(Duration::ZERO);

    #[test]
    fn words_are_found_across_pieces_and_go_no_further() {
        let (state, mut waits) = faults(|happened| Trap::Request { words: b"COMMIT".into(), happened });
        let mut connection = Connection::default();
        assert_eq!(connection.request(b"xxCOM", &mut state.faults()), PASS);
        assert!(waits.try_recv().is_err());
        assert_eq!(connection.request(b"MIT;", &mut state.faults()), Fate::Cut(0));
        assert!(waits.try_recv().is_ok());
        assert_eq!(connection.request(b"COMMIT", &mut state.faults()), PASS);
    }

    #[test]
    fn a_lost_reply_is_cut_when_the_server_is_ready() {
        let (state, mut waits) = faults(|happened| Trap::Reply { words: b"COMMIT".into(), happened });
        let (mut connection, mut other) = (Connection::default(), Connection::default());
        assert_eq!(other.request(b"BEGIN", &mut state.faults()), PASS);
        assert_eq!(connection.request(b"COMMIT", &mut state.faults()), PASS);
        assert_eq!(other.reply(b"Z\0\0\0\x05I", &mut state.faults()), PASS);
        assert_eq!(connection.reply(b"C....COMMIT\0Z\0\0", &mut state.faults()), Fate::Vanish);
        assert_eq!(connection.reply(b"\0\x05", &mut state.faults()), Fate::Vanish);
        assert!(waits.try_recv().is_err());
        assert_eq!(connection.reply(b"I", &mut state.faults()), Fate::Cut(0));
        assert!(waits.try_recv().is_ok());
    }

    #[test]
    fn a_reply_is_cut_at_the_byte() {
        let (state, _waits) = faults(|happened| Trap::ReplyBytes { left: 7, happened });
        let mut connection = Connection::default();
        assert_eq!(connection.reply(b"12345", &mut state.faults()), PASS);
        assert_eq!(connection.reply(b"67890", &mut state.faults()), Fate::Cut(2));
    }

    #[test]
    fn a_connection_that_lost_something_stays_silent() {
        let state = State::new(1);
        state.faults().swallow = true;
        let (mut connection, mut idle) = (Connection::default(), Connection::default());
        assert_eq!(connection.request(b"x", &mut state.faults()), Fate::Vanish);
        state.faults().swallow = false;
        assert_eq!(connection.reply(b"x", &mut state.faults()), Fate::Vanish);
        assert_eq!(idle.request(b"x", &mut state.faults()), PASS);
    }

    #[test]
    fn a_seed_draws_the_same_faults_again() {
        let drawn = |seed| {
            let state = State::new(seed);
            state.faults().delay = Duration::ZERO..Duration::from_secs(1);
            state.faults().cut_one_in = Some(4);
            let mut connection = Connection::default();
            (0..32).map(|_| connection.reply(b"x", &mut state.faults())).collect::<Vec<_>>()
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
        assert!(drawn(7).contains(&Fate::Cut(0)) && drawn(7).iter().any(|fate| matches!(fate, Fate::Pass(_))));
    }
}
