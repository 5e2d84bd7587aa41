//! The arguments of `fencepost send`.

use std::ffi::OsString;

use clap::{ArgGroup, Args};

use crate::records::Format;

const USAGE: &str = "\
fencepost send [OPTIONS] <QUEUE> <PAYLOAD>
       fencepost send [OPTIONS] <QUEUE> --file <FILE>";

const HELP: &str = "\
A file is streamed, whatever its size, in batches that are stored all or none. A regular file is
checked to its end before anything is sent; standard input is checked as it flows.

  lines  The payload is the line.
  csv    A header row, then the payload is the record as it stands in the file. An empty key
         field or `NA` is no key.
  json   One object a line; the payload is the line. The key is a string or a number; null or
         absent is no key.

Empty lines are skipped and counted. Delay, expiry, headers, kind and key are those of every record.

Examples:
  fencepost send orders 'paid' --key customer-7
  fencepost send orders - <invoice.pdf
  fencepost send orders 'remind' --delay 24h --header source=shop
  fencepost send orders 'paid' --idempotency-key payment-4711
  fencepost send flights --file flights.csv --key-field tailnum
  tail -f app.log | fencepost send logs --file -";

#[derive(Debug, Args)]
#[command(override_usage = USAGE, after_help = HELP, group = ArgGroup::new("content").required(true))]
pub struct SendArgs {
    /// The queue to send to
    pub queue: String,

    /// The message's content; `-` reads all of standard input as one message
    #[arg(group = "content", conflicts_with_all = ["format", "key_field"], allow_negative_numbers = true)]
    pub payload: Option<String>,

    /// Messages of one key are handled in order
    #[arg(long, value_name = "KEY", conflicts_with = "key_field")]
    pub key: Option<String>,

    /// What sort of message it is
    #[arg(long, value_name = "KIND", default_value = "default")]
    pub kind: String,

    /// A small fact beside the payload; may be given several times
    #[arg(long = "header", value_name = "NAME=VALUE")]
    pub headers: Vec<String>,

    /// Hold it back for so long: 0s to 365d; its order within its key counts from then
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    pub delay: Option<String>,

    /// Let it go, undelivered, after so long: 0s to 365d
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    pub expires_in: Option<String>,

    /// Send it once, however often this is run: the queue remembers the key
    #[arg(long, value_name = "K", conflicts_with = "file")]
    pub idempotency_key: Option<String>,

    /// How long the queue remembers it: 1s to 365d [default: 1d]
    #[arg(long, value_name = "D", requires = "idempotency_key", allow_hyphen_values = true)]
    pub once_ttl: Option<String>,

    /// Send every record of this file; `-` is standard input
    #[arg(long, value_name = "FILE", group = "content")]
    pub file: Option<OsString>,

    /// What a record is; unless given, by the file's extension, else lines
    #[arg(long, value_name = "lines|csv|json", value_enum, hide_possible_values = true)]
    pub format: Option<Format>,

    /// The csv column or json field that holds the key
    #[arg(long, value_name = "FIELD")]
    pub key_field: Option<String>,
}
