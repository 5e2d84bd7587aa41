//! The arguments of `fencepost lease …`.

use std::ffi::OsString;

use clap::{Args, Subcommand};

const RUN_HELP: &str = "\
The lease is renewed for as long as the command runs, and given back when it has ended. The command
finds in its environment:

  FENCEPOST_LEASE     The lease's name.
  FENCEPOST_EPOCH     The number of this grant. It is higher than that of every earlier one: let the
                      systems that the command writes to refuse a lower one than they have seen.
  FENCEPOST_DEADLINE  Until when the lease is held if it is never renewed: CLOCK_BOOTTIME in ms.

SIGTERM, SIGINT and SIGHUP are passed on. When the lease is lost, or cannot be renewed in time, the
command gets SIGTERM at once and SIGKILL a twentieth of the TTL later, before the lease can belong to
somebody else, unless fencepost itself is stopped (SIGSTOP) meanwhile. Away from a terminal the
command leads a process group, and signals reach all of it; at a terminal, which it shares with
fencepost, they reach the command alone. When fencepost itself is killed, so is the process group, or
at a terminal the command alone, on Linux and FreeBSD. What it leaves running in the background when
it ends by itself goes on without the lease.

Examples:
  fencepost lease run nightly -- ./report.sh --all
  fencepost lease run deploy --wait 10m --ttl 1m -- make deploy
  fencepost lease run cleanup -- sh -c 'echo \"epoch $FENCEPOST_EPOCH\"; exec ./cleanup.sh'

Exit status:
  The command's own, or 128 + N when signal N ended it
  120 not granted: somebody holds the lease · 121 lost · 122 the store is unavailable
  126 the command cannot be run · 127 it is not found
  1 there is no store · 2 usage · 5 schema · 70 bug; nothing was run";

const LIST_EXAMPLES: &str = "\
Examples:
  fencepost lease list
  fencepost lease list --json";

const SHOW_EXAMPLES: &str = "\
Examples:
  fencepost lease show nightly";

const RELEASE_HELP: &str = "\
The holder's epoch is void at once: its renewals say that the lease is lost, and what it guards by the
epoch is refused. The reason is kept; `fencepost lease show` tells it.

Examples:
  fencepost lease release nightly --reason 'host web-3 is gone'";

#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub enum LeaseCommand {
    /// Run a command while holding a lease: one at a time, whoever else tries
    Run(LeaseRunArgs),
    /// List the leases
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Show a lease and what was taken by force
    #[command(after_help = SHOW_EXAMPLES)]
    Show(LeaseNameArgs),
    /// Take a lease from whoever holds it
    Release(LeaseReleaseArgs),
}

#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub struct LeaseRunArgs {
    /// The lease: 1 to 255 bytes, not blank, without control characters
    pub name: String,

    /// How long the lease lasts without renewal: 100ms to 24h
    #[arg(long, value_name = "T", default_value = "30s", allow_hyphen_values = true)]
    pub ttl: String,

    /// Wait so long for a lease that somebody holds: at most 24h [default: do not wait]
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub wait: Option<String>,

    /// What others see as its holder [default: host and process]
    #[arg(long, value_name = "HOLDER")]
    pub holder: Option<String>,

    /// The command and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct LeaseNameArgs {
    /// The lease
    pub name: String,
}

#[derive(Debug, Args)]
#[command(after_help = RELEASE_HELP)]
pub struct LeaseReleaseArgs {
    /// The lease
    pub name: String,

    /// Why: kept for the record
    #[arg(long, value_name = "REASON")]
    pub reason: String,
}
