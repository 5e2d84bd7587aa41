//! The figures: the benchmark programs in release, with their own arguments. They stay out of `ci`: a busy machine measures
//! nothing, and a peer is nobody's dependency.

use std::path::PathBuf;

use crate::{Result, workspace};

/// The manifests of the peers' programs, each in a workspace of its own.
pub const PEERS: [&str; 3] =
    ["bench/peers/alkstore/Cargo.toml", "bench/peers/alkstore-postgres/Cargo.toml", "bench/peers/sqlx/Cargo.toml"];

/// Runs `bench` with `args`, on files in the target folder unless they name another.
pub fn run(args: &[&str]) -> Result {
    if args == ["migrators"] {
        return workspace::run(&mut std::process::Command::new(peer(PEERS[2], "fencepost-bench-sqlx")?));
    }
    let folder = workspace::root().join("target").join("bench");
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
    let mut command = workspace::cargo();
    command.args(["run", "--quiet", "--release", "--package", "fencepost-bench", "--"]).args(args);
    match args.first() {
        Some(&"peers") => {
            command.arg("--peer").arg(peer(PEERS[0], "fencepost-bench-alkstore")?);
        }
        Some(&"postgres") => {
            command.arg("--peer").arg(peer(PEERS[1], "fencepost-bench-alkstore-postgres")?);
        }
        _ => {}
    }
    if !args.contains(&"--folder") {
        command.arg("--folder").arg(folder);
    }
    workspace::run(&mut command)
}

/// Builds the program of a peer.
fn peer(manifest: &str, program: &str) -> Result<PathBuf> {
    let metadata = workspace::metadata()?;
    let target = metadata["target_directory"].as_str().ok_or("cargo names no target folder")?;
    let folder = PathBuf::from(target).join("peers");
    let mut command = workspace::cargo();
    command.args(["build", "--release", "--locked", "--manifest-path", manifest, "--target-dir"]).arg(&folder);
    workspace::run(&mut command)?;
    Ok(folder.join("release").join(program))
}
