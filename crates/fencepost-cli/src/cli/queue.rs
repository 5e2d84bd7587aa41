//! The arguments of `fencepost queue …`.

use clap::{Args, Subcommand};

const CREATE_EXAMPLES: &str = "\
Examples:
  fencepost queue create orders
  fencepost queue create events --partitions 64";

const SHOW_EXAMPLES: &str = "\
Examples:
  fencepost queue show orders
  fencepost queue show orders --json";

const DROP_HELP: &str = "\
A queue that holds messages or has consumers is refused, unless forced: then they are gone with it,
and their workers are told that it is not there any more.

Examples:
  fencepost queue drop orders
  fencepost queue drop orders --force";

#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub enum QueueCommand {
    /// Make a queue, and the store if there is none
    Create(QueueCreateArgs),
    /// List the queues
    List,
    /// Show a queue and its consumers
    #[command(after_help = SHOW_EXAMPLES)]
    Show(QueueNameArgs),
    /// Drop a queue
    Drop(QueueDropArgs),
}

#[derive(Debug, Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub struct QueueCreateArgs {
    /// Its name: 1 to 255 bytes, not blank, without control characters
    pub name: String,

    /// The most workers that can share it: a power of two, 1 to 256, fixed
    #[arg(long, value_name = "N", default_value_t = 16, allow_negative_numbers = true)]
    pub partitions: i64,
}

#[derive(Debug, Args)]
pub struct QueueNameArgs {
    /// The queue
    pub name: String,
}

#[derive(Debug, Args)]
#[command(after_help = DROP_HELP)]
pub struct QueueDropArgs {
    /// The queue
    pub name: String,

    /// Drop it also while it holds messages or has consumers
    #[arg(long)]
    pub force: bool,
}
