//! The calls that two stores are compared by, as data: they name things by when they were seen, so that a sequence from which calls
//! were left out still means something.

/// Who makes a call on a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Of which consumer.
    pub consumer: u8,
    /// Of which slot.
    pub slot: u8,
    /// How many grants of the slot ago.
    pub grants_ago: u8,
}

/// A message as a call names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// One of the batch's messages, counted round.
    OfBatch(u8),
    /// One of all that were sent, counted round.
    Sent(u8),
}

/// A call. Times are in seconds; `batches_ago` counts the batches that the slot had, from the latest; messages of all that were sent
/// are counted round.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the arguments of the calls, and are named like them")]
pub enum Operation {
    /// Make a consumer.
    Create { consumer: u8, slots: u8, pause: bool, max_attempts: u8, max_crashes: u8, after: Option<u8>, latest: bool },
    /// Drop it.
    Drop { consumer: u8, force: bool },
    /// Send one message.
    Send { key: u8, delay: u8, expires: Option<u8> },
    /// Send several in one call.
    SendBatch { keys: Vec<u8> },
    /// Send one unless the key is remembered.
    SendOnce { once: u8, body: u8, ttl: u8 },
    /// Claim any slot.
    Claim { consumer: u8, nonce: Option<u8>, ttl: u8 },
    /// Claim a given one.
    ClaimSlot { consumer: u8, slot: u8, nonce: Option<u8>, ttl: u8 },
    /// Receive.
    Receive { owner: Owner, max: u8 },
    /// Ack a batch.
    Ack { owner: Owner, batches_ago: u8 },
    /// Ack a part of it.
    AckThrough { owner: Owner, batches_ago: u8, message: Named },
    /// Ack and receive.
    AckReceive { owner: Owner, batches_ago: u8, max: u8 },
    /// Nack a message.
    Nack { owner: Owner, batches_ago: u8, message: Named, after: u8 },
    /// Put it off.
    Snooze { owner: Owner, batches_ago: u8, message: Named, after: u8 },
    /// Give it up.
    GiveUp { owner: Owner, batches_ago: u8, message: Named },
    /// Renew a slot.
    Renew { owner: Owner },
    /// Release it.
    Release { owner: Owner },
    /// Abandon it.
    Abandon { owner: Owner },
    /// Take it by force.
    Force { consumer: u8, slot: u8 },
    /// Pause the queue.
    Pause,
    /// Resume it.
    Resume,
    /// Set how many seconds consumed messages stay.
    Retain { seconds: u8 },
    /// Maintain it until nothing is left to do.
    Maintain,
    /// Read it, from after a message or from the start.
    Read { after: Option<u8>, max: u8 },
    /// Replay one dead letter, or all.
    Replay { consumer: u8, message: Option<u8> },
    /// Purge one, or all.
    Purge { consumer: u8, message: Option<u8> },
    /// Let so many seconds pass.
    Pass { seconds: u8 },
}

/// How many consumers there are at most, and how many slots each.
pub(super) const CONSUMERS: u8 = 2;
const SLOTS: u8 = 2;

/// A source of calls that is the same in every run.
struct Dice {
    state: u64,
    /// How many consumers and slots the calls are about: the fewer, the more happens to each.
    consumers: u8,
    slots: u8,
}

impl Dice {
    fn new(seed: u64) -> Self {
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        let mut dice = Self { state, consumers: 1, slots: 1 };
        (dice.consumers, dice.slots) = (1 + dice.roll(CONSUMERS), 1 + dice.roll(SLOTS));
        dice
    }

    fn roll(&mut self, sides: u8) -> u8 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.state >> 33) % u64::from(sides)) as u8
    }

    fn once_in(&mut self, times: u8) -> bool {
        self.roll(times) == 0
    }

    /// Mostly 0, seldom more.
    fn seldom(&mut self, most: u8) -> u8 {
        if self.once_in(8) { 1 + self.roll(most) } else { 0 }
    }

    fn perhaps(&mut self, times: u8, sides: u8) -> Option<u8> {
        self.once_in(times).then(|| self.roll(sides))
    }

    fn owner(&mut self) -> Owner {
        Owner { consumer: self.roll(self.consumers), slot: self.roll(self.slots), grants_ago: self.seldom(3) }
    }

    fn named(&mut self) -> Named {
        if self.once_in(12) { Named::Sent(self.roll(255)) } else { Named::OfBatch(self.roll(6)) }
    }

    fn create(&mut self, consumer: u8) -> Operation {
        Operation::Create {
            consumer,
            slots: self.slots,
            pause: self.once_in(2),
            max_attempts: 1 + self.roll(4),
            max_crashes: 1 + self.roll(3),
            after: self.perhaps(5, 255),
            latest: self.once_in(6),
        }
    }

    fn operation(&mut self) -> Operation {
        let consumer = self.roll(self.consumers);
        match self.roll(100) {
            0..=9 => Operation::Send { key: self.roll(4), delay: self.seldom(30), expires: self.perhaps(8, 40) },
            10..=17 => Operation::SendBatch { keys: (0..=self.roll(6)).map(|_| self.roll(4)).collect() },
            18..=19 => Operation::SendOnce { once: self.roll(3), body: self.seldom(1), ttl: 1 + self.roll(60) },
            20..=25 => Operation::Claim { consumer, nonce: self.perhaps(3, 3), ttl: 1 + self.roll(20) },
            26..=29 => {
                let (slot, nonce) = (self.roll(self.slots), self.perhaps(3, 3));
                Operation::ClaimSlot { consumer, slot, nonce, ttl: 1 + self.roll(20) }
            }
            30..=45 => Operation::Receive { owner: self.owner(), max: 1 + self.roll(6) },
            46..=53 => Operation::Ack { owner: self.owner(), batches_ago: self.seldom(2) },
            54..=58 => {
                let (owner, batches_ago) = (self.owner(), self.seldom(2));
                Operation::AckThrough { owner, batches_ago, message: self.named() }
            }
            59..=62 => {
                let (owner, batches_ago) = (self.owner(), self.seldom(2));
                Operation::AckReceive { owner, batches_ago, max: 1 + self.roll(6) }
            }
            63..=71 => {
                let (owner, batches_ago, message) = (self.owner(), self.seldom(2), self.named());
                Operation::Nack { owner, batches_ago, message, after: self.roll(20) }
            }
            72..=74 => {
                let (owner, batches_ago, message) = (self.owner(), self.seldom(2), self.named());
                Operation::Snooze { owner, batches_ago, message, after: self.roll(20) }
            }
            75..=76 => {
                let (owner, batches_ago) = (self.owner(), self.seldom(2));
                Operation::GiveUp { owner, batches_ago, message: self.named() }
            }
            77..=78 => Operation::Renew { owner: self.owner() },
            79..=80 => Operation::Release { owner: self.owner() },
            81..=82 => Operation::Abandon { owner: self.owner() },
            83 => Operation::Force { consumer, slot: self.roll(self.slots) },
            84 if self.once_in(3) => Operation::Pause,
            84 | 85 => Operation::Resume,
            86..=87 => Operation::Maintain,
            88..=89 => Operation::Read { after: self.perhaps(2, 255), max: 1 + self.roll(9) },
            90..=91 => Operation::Replay { consumer, message: self.perhaps(2, 255) },
            92 if self.once_in(3) => Operation::Purge { consumer, message: self.perhaps(2, 255) },
            92 if self.once_in(3) => Operation::Retain { seconds: self.roll(60) },
            92..=94 => self.create(consumer),
            95 if self.once_in(2) => Operation::Drop { consumer, force: self.once_in(3) },
            _ => Operation::Pass { seconds: self.roll(12) },
        }
    }

    /// What belongs together: mostly one call, else an owner that dies again and again, or one whose messages fail.
    fn episode(&mut self) -> Vec<Operation> {
        let owner = Owner { grants_ago: 0, ..self.owner() };
        let Owner { consumer, slot, .. } = owner;
        let max = 1 + self.roll(6);
        match self.roll(12) {
            0 => (0..=self.roll(5))
                .flat_map(|_| {
                    let claim = Operation::ClaimSlot { consumer, slot, nonce: None, ttl: 1 };
                    [claim, Operation::Receive { owner, max }, Operation::Pass { seconds: 1 }]
                })
                .collect(),
            1 => {
                let mut calls = vec![
                    Operation::ClaimSlot { consumer, slot, nonce: None, ttl: 20 },
                    Operation::Receive { owner, max },
                ];
                for _ in 0..=self.roll(3) {
                    let (message, after) = (self.named(), self.roll(6));
                    calls.push(Operation::Nack { owner, batches_ago: 0, message, after });
                }
                calls.push(Operation::Ack { owner, batches_ago: 0 });
                calls
            }
            _ => vec![self.operation()],
        }
    }
}

/// The calls of a seed: consumers are made, and then anything happens.
pub(super) fn sequence(seed: u64, length: usize) -> Vec<Operation> {
    let mut dice = Dice::new(seed);
    let mut calls: Vec<_> = (0..dice.consumers).map(|consumer| dice.create(consumer)).collect();
    while calls.len() < length {
        calls.extend(dice.episode());
    }
    calls
}
