//! The cursor rule of the Postgres log: scripted cases on an idle server, each of which one weakening of the rule loses or doubles,
//! and a randomised test of commit orders. Both run against the SQL as it is in the folder, or as a mutation makes it.

mod random;
mod scripted;
mod stage;
