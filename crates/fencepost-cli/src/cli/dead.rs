//! The arguments of `fencepost dead …`.

use clap::{ArgGroup, Args, Subcommand};

const LIST_HELP: &str = "\
They stay for 90 days, also when their consumer is dropped.

Examples:
  fencepost dead list orders billing
  fencepost dead list orders billing --json";

const SHOW_EXAMPLES: &str = "\
Examples:
  fencepost dead show orders billing 4711";

const REPLAY_HELP: &str = "\
They are handed out once more as if they had never failed, those of one key in their order. When one of
those named is no dead letter, nothing is done.

Examples:
  fencepost dead replay orders billing 4711 4712
  fencepost dead replay orders billing --all";

const PURGE_HELP: &str = "\
They are gone for good. When one of those named is no dead letter, nothing is done.

Examples:
  fencepost dead purge orders billing 4711 4712
  fencepost dead purge orders billing --all";

#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub enum DeadCommand {
    /// List the messages that a consumer gave up
    List(DeadListArgs),
    /// Show one of them, and why it was given up
    Show(DeadShowArgs),
    /// Hand some of them, or all, to their consumer once more
    #[command(after_help = REPLAY_HELP)]
    Replay(DeadChoiceArgs),
    /// Remove some of them, or all, for good
    #[command(after_help = PURGE_HELP)]
    Purge(DeadChoiceArgs),
}

#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub struct DeadListArgs {
    /// The queue
    pub queue: String,

    /// The consumer that gave them up
    pub consumer: String,
}

#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub struct DeadShowArgs {
    /// The queue
    pub queue: String,

    /// The consumer that gave it up
    pub consumer: String,

    /// The message's id
    #[arg(allow_negative_numbers = true)]
    pub id: i64,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("choice").required(true))]
pub struct DeadChoiceArgs {
    /// The queue
    pub queue: String,

    /// The consumer that gave them up
    pub consumer: String,

    /// The messages' ids
    #[arg(group = "choice", value_name = "ID", allow_negative_numbers = true)]
    pub ids: Vec<i64>,

    /// All dead letters of the consumer
    #[arg(long, group = "choice")]
    pub all: bool,
}
