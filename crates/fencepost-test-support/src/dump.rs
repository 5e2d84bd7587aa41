//! What `pg_dump` writes of a test's database.

use std::process::{Command, Stdio};

use crate::error::Result;
use crate::server::blocking;
use crate::{TestDatabase, Unavailable, programs};

impl TestDatabase {
    /// What `pg_dump` writes of it with these arguments.
    ///
    /// # Errors
    /// `Missing` when that is not installed; `Failed` when it ends otherwise than it should.
    pub async fn dump(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let mut command = Command::new(programs::client("pg_dump", self.server().major())?);
        command.args(arguments).arg(self.url());
        blocking(move || output(command)).await
    }
}

fn output(mut command: Command) -> Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Unavailable::failed(format_args!("cannot run `{name}`"), error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Unavailable::failed(
        format_args!("`{name}` ended with {}", output.status),
        String::from_utf8_lossy(&output.stderr),
    ))
}
