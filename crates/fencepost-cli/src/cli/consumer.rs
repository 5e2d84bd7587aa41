//! The arguments of `fencepost consumer …`.

use clap::{Args, Subcommand};

const CREATE_HELP: &str = "\
A consumer sees every message of its queue. Its slots divide the queue's partitions: each slot has
one worker at a time, and the messages of one key are handled in order.

It starts at `earliest`, the oldest message that is stored; at `latest`, what is sent from now on; at a
time such as 2026-01-31T08:00:00Z; at `id:N`, what comes after message N; or after a position that
`fencepost tail --json` told.

Examples:
  fencepost consumer create orders billing --slots 4
  fencepost consumer create orders ledger --on-failure pause --max-attempts 100 --backoff 5s
  fencepost consumer create orders audit --start latest";

const LIST_EXAMPLES: &str = "\
Examples:
  fencepost consumer list
  fencepost consumer list orders --json";

const SHOW_EXAMPLES: &str = "\
Examples:
  fencepost consumer show orders billing";

const DROP_HELP: &str = "\
A consumer whose slots are held or whose batches are open is refused, unless forced: then its
workers are told that it is not there any more.

Examples:
  fencepost consumer drop orders billing
  fencepost consumer drop orders billing --force";

#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub enum ConsumerCommand {
    /// Make a consumer of a queue
    Create(ConsumerCreateArgs),
    /// List the consumers of a queue, or of all
    List(ConsumerListArgs),
    /// Show a consumer, its slots and what was taken by force
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ConsumerPathArgs),
    /// Drop a consumer
    Drop(ConsumerDropArgs),
}

#[derive(Debug, Args)]
#[command(after_help = CREATE_HELP)]
pub struct ConsumerCreateArgs {
    /// The queue that it reads
    pub queue: String,

    /// Its name: 1 to 255 bytes, not blank, without control characters
    pub name: String,

    /// The most workers that share its work: 1 to the queue's number of partitions
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub slots: i64,

    /// Where it begins: `earliest`, `latest`, a time, `id:N`, or a position
    #[arg(long, value_name = "START", default_value = "earliest", allow_hyphen_values = true)]
    pub start: String,

    /// What a failed message means for the later ones of its key: they go on, or wait for it
    #[arg(long, value_name = "skip|pause", default_value = "skip")]
    pub on_failure: String,

    /// How often a message is tried before it is a dead letter: 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 10, allow_negative_numbers = true)]
    pub max_attempts: i64,

    /// How many workers may die over a batch before its messages are handed out one by one: 1 to 100
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true)]
    pub max_crashes: i64,

    /// The longest pause after a first failure: 1ms to 24h; it doubles with every further one, up to 1h
    #[arg(long, value_name = "D", default_value = "1s", allow_hyphen_values = true)]
    pub backoff: String,
}

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub struct ConsumerListArgs {
    /// Only the consumers of this queue
    pub queue: Option<String>,
}

#[derive(Debug, Args)]
pub struct ConsumerPathArgs {
    /// The queue that it reads
    pub queue: String,

    /// The consumer
    pub name: String,
}

#[derive(Debug, Args)]
#[command(after_help = DROP_HELP)]
pub struct ConsumerDropArgs {
    /// The queue that it reads
    pub queue: String,

    /// The consumer
    pub name: String,

    /// Drop it also while slots are held or batches open
    #[arg(long)]
    pub force: bool,
}
