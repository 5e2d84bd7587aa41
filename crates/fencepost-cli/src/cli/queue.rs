//! The arguments of `fencepost queue …`.

use clap::{Args, Subcommand};

const CREATE_EXAMPLES: &str = "\
Messages go when every consumer has acked past them, or later with `--retain-for`. A queue without
consumers keeps what is within both `--retain-unread` and `--retain-unread-bytes`.

Examples:
  fencepost queue create orders
  fencepost queue create events --partitions 64 --retain-for 7d";

const SHOW_EXAMPLES: &str = "\
Examples:
  fencepost queue show orders
  fencepost queue show orders --json";

const PAUSE_HELP: &str = "\
Nothing new is handed out from it, to nobody. It still takes messages, and what is in hand already can
be finished.

Examples:
  fencepost queue pause orders
  fencepost queue resume orders";

const RESUME_EXAMPLES: &str = "\
Examples:
  fencepost queue resume orders";

const RETAIN_HELP: &str = "\
What is not named stays as it is. What is beyond goes with the next maintenance, which workers do.

Examples:
  fencepost queue retain orders --retain-for 7d
  fencepost queue retain audit --retain-unread 30d --retain-unread-bytes 10000000000";

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
    /// Hand out nothing new from a queue
    #[command(after_help = PAUSE_HELP)]
    Pause(QueueNameArgs),
    /// Hand out messages from a queue again
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(QueueNameArgs),
    /// Change how long a queue keeps its messages
    Retain(QueueRetainArgs),
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

    #[command(flatten)]
    pub retention: RetentionArgs,
}

#[derive(Debug, Args)]
#[command(after_help = RETAIN_HELP)]
pub struct QueueRetainArgs {
    /// The queue
    pub name: String,

    #[command(flatten)]
    pub retention: RetentionArgs,
}

#[derive(Debug, Default, Args)]
pub struct RetentionArgs {
    /// How long consumed messages stay after they were sent: 0s to 3650d [default: 0s]
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    pub retain_for: Option<String>,

    /// How long a queue without consumers keeps messages: 0s to 3650d [default: 7d]
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    pub retain_unread: Option<String>,

    /// How many bytes of payloads such a queue keeps, the latest [default: 1073741824, 1 GiB]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub retain_unread_bytes: Option<i64>,
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
