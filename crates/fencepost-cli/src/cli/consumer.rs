//! The arguments of `fencepost consumer …`.

use clap::{Args, Subcommand, ValueEnum};
use fencepost::Start;

const CREATE_HELP: &str = "\
A consumer sees every message of its queue. Its slots divide the queue's partitions: each slot has
one worker at a time, and the messages of one key are handled in order.

Examples:
  fencepost consumer create orders billing --slots 4
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

/// Where a new consumer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Begin {
    Earliest,
    Latest,
}

impl Begin {
    /// The word as it is typed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Begin::Earliest => "earliest",
            Begin::Latest => "latest",
        }
    }

    /// What the library calls it.
    pub const fn start(self) -> Start {
        match self {
            Begin::Earliest => Start::Earliest,
            Begin::Latest => Start::Latest,
        }
    }
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

    /// Begin with the oldest stored message, or with what is sent from now on
    #[arg(long, value_name = "earliest|latest", value_enum, hide_possible_values = true)]
    #[arg(default_value = "earliest")]
    pub start: Begin,
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
