//! Tests of the program as people and scripts run it: real processes, exit statuses, standard output and standard error.

mod bad_input;
mod demo;
mod files;
mod output;
mod place;
mod snapshots;
