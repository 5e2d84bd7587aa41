//! The arguments of `fencepost migrate …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

const ABOUT: &str = "\
Migrations are files `NNNN_name.sql` in a folder, and `NNNN_name.down.sql` where a way back is wanted. One runner at a
time runs them, however many start; what is done stands in a table of the database, `fencepost_migrations`. The
database needs nothing else of fencepost.

Examples:
  fencepost migrate new customers
  fencepost migrate up --store postgres://app@db/shop
  fencepost migrate status
  fencepost migrate wait --wait 2m";

const NEW_HELP: &str = "\
Examples:
  fencepost migrate new customers
  fencepost migrate new customers --down --dir db/migrations";

const UP_HELP: &str = "\
Says what it is going to do, and does it: each file in a transaction with its row in the ledger, or statement by
statement where a file begins with `-- fencepost: no-transaction`. What failed is gone on with by the next run.

Examples:
  fencepost migrate up
  fencepost migrate up --to 12 --dry-run
  fencepost migrate up --store postgres://app@pooler/shop --lock lease";

const DOWN_HELP: &str = "\
Undoes what comes after a number, the latest first, by the files `NNNN_name.down.sql`. 0 undoes everything.

Examples:
  fencepost migrate down --to 11
  fencepost migrate down --to 11 --dry-run";

const STATUS_HELP: &str = "\
Examples:
  fencepost migrate status
  fencepost migrate status --json";

const VERIFY_HELP: &str = "\
Ends with 0 when everything that was applied is what the files say, whether or not more is to be run, with 1 when
nothing ever was, and with 5 when they do not agree. Edits of comments and blanks are told and forgiven.

Examples:
  fencepost migrate verify";

const WAIT_HELP: &str = "\
Takes no lock and changes nothing, so it serves as a readiness probe while a migration runs.

Examples:
  fencepost migrate wait
  fencepost migrate wait --wait 5m && exec ./server

Exit status:
  0 ready · 1 behind, or never migrated · 5 failed, or ahead of the files · 4 unavailable";

const BASELINE_HELP: &str = "\
For a database that was made without fencepost: everything up to the number counts as applied, and nothing is run.

Examples:
  fencepost migrate baseline 7 --reason 'made by hand before 2024'
  fencepost migrate baseline --to 7";

const REPAIR_HELP: &str = "\
Changes what the ledger says and runs nothing. Who did it, when and why is kept beside the ledger. Without a number
every edited file is accepted. What failed needs no repair to be run again: `fencepost migrate up` goes on with it.

Examples:
  fencepost migrate repair forget 12 --reason 'dropped the half-built index by hand'
  fencepost migrate repair mark-done 12 --reason 'finished the backfill in psql'
  fencepost migrate repair accept 9 --reason 'changed the default on production first'";

const IMPORT_HELP: &str = "\
Takes over what another tool's ledger says, matched by number. Nothing is run, and that ledger stays as it is.

Examples:
  fencepost migrate import sqlx
  fencepost migrate import golang-migrate --dir db/migrations";

#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = ABOUT)]
pub enum MigrateCommand {
    /// Begin a new file with the next number
    New(MigrateNewArgs),
    /// Run what is missing
    Up(MigrateUpArgs),
    /// Undo what comes after a number
    Down(MigrateDownArgs),
    /// Show what was applied and what is to be run
    #[command(after_help = STATUS_HELP)]
    Status(MigratePlaceArgs),
    /// Compare what was applied with the files
    #[command(after_help = VERIFY_HELP)]
    Verify(MigratePlaceArgs),
    /// Wait until the database is ready for the program that carries these files
    Wait(MigrateWaitArgs),
    /// Say that the database has everything up to a number already
    Baseline(MigrateBaselineArgs),
    /// Change by hand what the ledger says of one migration
    Repair(MigrateRepairArgs),
    /// Take over the ledger of another tool
    Import(MigrateImportArgs),
}

/// Where the files and the ledger are.
#[derive(Debug, Args)]
pub struct MigratePlaceArgs {
    /// The folder with the files
    #[arg(long, value_name = "DIR", default_value = "migrations")]
    pub dir: PathBuf,

    /// The table of the ledger, one for each set of migrations in a database
    #[arg(long, value_name = "TABLE")]
    pub ledger: Option<String>,

    /// The schema of the ledger [default: the first one of the search path]
    #[arg(long, value_name = "SCHEMA")]
    pub schema: Option<String>,
}

/// How a second runner is kept out.
#[derive(Debug, Args)]
pub struct MigrateLockArgs {
    /// What keeps a second runner out, the same for all of a ledger; a lease works through any pooler
    #[arg(long, value_enum, default_value_t = LockChoice::Advisory)]
    pub lock: LockChoice,

    /// How long to wait for another runner [default: for as long as it gets on]
    #[arg(long, value_name = "T")]
    pub wait: Option<String>,
}

/// What keeps a second runner out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LockChoice {
    /// An advisory lock, which ends with its session.
    Advisory,
    /// A fenced lease.
    Lease,
}

#[derive(Debug, Args)]
#[command(after_help = NEW_HELP)]
pub struct MigrateNewArgs {
    /// What stands after the number: letters, digits, `_`, `-`
    pub name: String,

    /// The folder with the files, which is made if need be
    #[arg(long, value_name = "DIR", default_value = "migrations")]
    pub dir: PathBuf,

    /// Begin a way back, too
    #[arg(long)]
    pub down: bool,
}

#[derive(Debug, Args)]
#[command(after_help = UP_HELP)]
pub struct MigrateUpArgs {
    #[command(flatten)]
    pub place: MigratePlaceArgs,

    #[command(flatten)]
    pub lock: MigrateLockArgs,

    /// The last number that is run
    #[arg(long, value_name = "N")]
    pub to: Option<u64>,

    /// Say what would be run, and run nothing
    #[arg(long)]
    pub dry_run: bool,

    /// How long a statement waits for locks of others before everything is tried again
    #[arg(long, value_name = "T", default_value = "5s")]
    pub lock_timeout: String,
}

#[derive(Debug, Args)]
#[command(after_help = DOWN_HELP)]
pub struct MigrateDownArgs {
    #[command(flatten)]
    pub place: MigratePlaceArgs,

    #[command(flatten)]
    pub lock: MigrateLockArgs,

    /// The last number that stays
    #[arg(long, value_name = "N")]
    pub to: u64,

    /// Say what would be undone, and undo nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = WAIT_HELP)]
pub struct MigrateWaitArgs {
    #[command(flatten)]
    pub place: MigratePlaceArgs,

    /// How long; 0 looks once
    #[arg(long, value_name = "T", default_value = "0")]
    pub wait: String,
}

#[derive(Debug, Args)]
#[command(after_help = BASELINE_HELP)]
pub struct MigrateBaselineArgs {
    /// The last number that is there already
    #[arg(required_unless_present = "to", conflicts_with = "to")]
    pub number: Option<u64>,

    /// The same
    #[arg(long, value_name = "N")]
    pub to: Option<u64>,

    #[command(flatten)]
    pub place: MigratePlaceArgs,

    #[command(flatten)]
    pub lock: MigrateLockArgs,

    /// Why: kept for the record
    #[arg(long, value_name = "REASON", default_value = "baseline")]
    pub reason: String,
}

#[derive(Debug, Args)]
#[command(after_help = REPAIR_HELP)]
pub struct MigrateRepairArgs {
    /// What the ledger is to say
    #[arg(value_enum, requires = "number")]
    pub what: Option<RepairChoice>,

    /// Of which migration
    pub number: Option<u64>,

    #[command(flatten)]
    pub place: MigratePlaceArgs,

    #[command(flatten)]
    pub lock: MigrateLockArgs,

    /// Why: kept for the record
    #[arg(long, value_name = "REASON", default_value = "repair")]
    pub reason: String,
}

/// What a repair makes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RepairChoice {
    /// The edited file is what was applied
    Accept,
    /// It failed, and what it left was removed by hand
    Forget,
    /// What it makes was made by hand
    MarkDone,
}

#[derive(Debug, Args)]
#[command(after_help = IMPORT_HELP)]
pub struct MigrateImportArgs {
    /// Whose ledger
    #[arg(value_enum)]
    pub tool: ImportChoice,

    #[command(flatten)]
    pub place: MigratePlaceArgs,

    #[command(flatten)]
    pub lock: MigrateLockArgs,
}

/// A tool whose ledger can be taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImportChoice {
    /// `_sqlx_migrations`
    Sqlx,
    /// `refinery_schema_history`
    Refinery,
    /// `schema_migrations`
    GolangMigrate,
}
