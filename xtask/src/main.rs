//! The project's own tasks, as `cargo xtask <task>`. Nothing here is shipped; what a task needs beside cargo and git is optional.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a task tells its story on the terminal")]

mod bench;
mod ci;
mod deps;
mod postgres;
mod probe;
mod stage;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <task>

  setup [NAME…]   installs what the tests take of PostgreSQL: {all};
                  without names {usual}
  test            every test, then the examples in the documentation; says what it left out for want of PostgreSQL
  test --require-postgres
                  the same, leaving nothing out
  ci              what a change must pass, one stage after the other
  deps            which crate may depend on which
  tidy            the rules of style that can be checked
  probe [NAME…]   removes guards one by one and requires that tests go red
  bench sqlite    measures beside what fencepost is built on
  bench postgres  measures PostgreSQL beside inserts, a skip-locked table and peers; --quick, --only ROW, --rounds N, --url URL
  bench migrators shows what another migrator does where ours is tested
  bench peers     measures beside another store, which it builds first; --quick, --help";

fn usage() -> String {
    USAGE.replace("{all}", &postgres::ALL.join(", ")).replace("{usual}", &postgres::USUAL.join(", "))
}

/// What a task answers: an error is the sentence that says what is wrong.
type Result<T = ()> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["setup", names @ ..] => postgres::setup(names),
        ["test"] => test::run(),
        ["test", "--require-postgres"] => test::run_complete(),
        ["ci"] => ci::run(),
        ["deps"] => deps::run(),
        ["tidy"] => tidy::run(),
        ["bench", args @ ..] => bench::run(args),
        ["probe", names @ ..] => probe::run(names),
        _ => {
            eprintln!("{}", usage());
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn usage_names_all_that_setup_installs() {
        let usage = super::usage();
        assert!(super::postgres::ALL.iter().all(|name| usage.contains(name)), "{usage}");
        assert!(!usage.contains('{'), "{usage}");
    }
}
