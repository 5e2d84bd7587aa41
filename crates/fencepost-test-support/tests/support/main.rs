//! Tests of the support itself, on real servers: what it promises to the tests of others.

mod databases;
mod killed;
mod network;
mod pooling;
mod replication;
mod servers;
mod shared_memory;
mod sharing;
