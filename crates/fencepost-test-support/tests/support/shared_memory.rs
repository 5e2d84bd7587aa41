//! Shared memory that a server took, as the system counts it: it outlives processes that do not remove it.

use std::path::Path;

use tokio_postgres::Client;

/// The data folder of a server and its first process.
pub async fn whereabouts(client: &Client) -> (String, String) {
    let folder: String = client.query_one("SELECT current_setting('data_directory')", &[]).await.unwrap().get(0);
    let process = first_process(&folder);
    (folder, process)
}

/// The first process of the server with a data folder.
pub fn first_process(folder: &str) -> String {
    let said = std::fs::read_to_string(Path::new(folder).join("postmaster.pid")).unwrap();
    said.lines().next().unwrap().to_owned()
}

/// How many segments a process made that are there.
pub fn segments_of(process: &str) -> usize {
    let known = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
    known.lines().filter(|line| line.split_whitespace().nth(4) == Some(process)).count()
}
