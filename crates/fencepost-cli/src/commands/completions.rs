//! `fencepost completions`: what makes a shell complete the commands and their options.

use clap::{Command, CommandFactory};
use fencepost::Result;

use crate::cli::{Cli, CompletionsArgs};
use crate::printer::Printer;

/// Runs the command.
pub fn run(args: &CompletionsArgs, printer: &Printer) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut shown(&Cli::command()), "fencepost", &mut script);
    printer.document(&script)
}

/// The tree of commands without those that are not shown.
fn shown(command: &Command) -> Command {
    let of_this = Command::new(command.get_name().to_owned())
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .args(command.get_arguments().cloned())
        .groups(command.get_groups().cloned())
        .subcommands(command.get_subcommands().filter(|command| !command.is_hide_set()).map(shown));
    let of_this = command.get_about().cloned().into_iter().fold(of_this, Command::about);
    command.get_version().map(str::to_owned).into_iter().fold(of_this, |made, version| made.version(version))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use clap_complete::Shell;

    use super::*;

    #[test]
    fn every_shell_completes_what_is_shown_and_nothing_else() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut shown(&Cli::command()), "fencepost", &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("until-empty") && script.contains("replay"), "{shell}");
            assert!(!script.contains("demo-worker"), "{shell}");
        }
    }
}
