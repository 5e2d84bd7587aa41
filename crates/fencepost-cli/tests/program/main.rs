//! Tests of the program as people and scripts run it: real processes, exit statuses, standard output and standard error.

mod bad_consuming;
mod bad_input;
mod consuming;
mod demo;
mod examples;
mod files;
mod lease_run;
mod metrics;
mod migrate;
mod operators;
mod output;
mod place;
mod running;
mod schedules;
mod servers;
mod snapshots;
mod tail;
mod troubles;
mod work;
