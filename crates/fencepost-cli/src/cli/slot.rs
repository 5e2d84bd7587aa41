//! The arguments of `fencepost slot …`.

use clap::{Args, Subcommand};

const LIST_EXAMPLES: &str = "\
Examples:
  fencepost slot list
  fencepost slot list orders
  fencepost slot list orders billing --json";

const RELEASE_HELP: &str = "\
The owner's epoch is void at once: whatever it still does with it is refused. An open batch stays for
the next worker that claims the slot. The reason is kept; `fencepost consumer show` tells it.

Examples:
  fencepost slot release orders billing 3 --reason 'worker-2 hangs, see its log'";

#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub enum SlotCommand {
    /// List the slots of a consumer, of a queue's consumers, or of all
    List(SlotListArgs),
    /// Take a slot from whoever owns it
    Release(SlotReleaseArgs),
}

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub struct SlotListArgs {
    /// Only the slots of this queue's consumers
    pub queue: Option<String>,

    /// Only the slots of this consumer
    pub consumer: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = RELEASE_HELP)]
pub struct SlotReleaseArgs {
    /// The queue
    pub queue: String,

    /// The consumer
    pub consumer: String,

    /// The slot's number, from 0
    #[arg(allow_negative_numbers = true)]
    pub slot: i64,

    /// Why: kept for the record
    #[arg(long, value_name = "REASON")]
    pub reason: String,
}
