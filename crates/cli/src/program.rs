//! A program with commands: its arguments, its errors, its exit code.
//!
//! Exit codes: 0 success, 1 failure, 2 invalid arguments or config.

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory, FromArgMatches};

use crate::Failure;

/// A program of users.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The name at the beginning of its errors.
    pub name: &'static str,
    /// The option that takes a TOML file, for users who omit it.
    pub toml: &'static str,
}

impl Program {
    /// Runs the command line of this process, which `run` gets. Prints the errors, and returns the exit code.
    pub fn run<L: CommandFactory + FromArgMatches>(
        self,
        run: impl FnOnce(L) -> Result<(), Failure>,
    ) -> ExitCode {
        let mut command = taking_negative_numbers(L::command());
        let matches = command.try_get_matches_from_mut(env::args_os());
        let line = matches.and_then(|mut matches| {
            L::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
        });
        let line = match line {
            Ok(line) => line,
            Err(said)
                if said.exit_code() == 0
                    || said.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
            {
                said.exit()
            }
            Err(wrong) => return self.fail(2, &self.in_one_line(&wrong)),
        };
        match run(line) {
            Ok(()) => ExitCode::SUCCESS,
            Err(Failure::Failed(lines)) => self.fail(1, &lines),
            Err(Failure::Refused(lines)) => self.fail(2, &lines),
            Err(Failure::Ended(code)) => ExitCode::from(code),
        }
    }

    fn fail(self, code: u8, lines: &str) -> ExitCode {
        for line in lines.lines() {
            // When standard error is gone, there is no way to report it.
            let _ = writeln!(io::stderr(), "{}: {line}", self.name);
        }
        ExitCode::from(code)
    }

    /// Returns the error in the arguments without the usage that follows, which `--help` shows.
    fn in_one_line(self, error: &clap::Error) -> String {
        let error = error.render().to_string();
        let lines = error.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
        // Not the tip to write a misspelt option as if it were something else.
        let is_noise =
            |line: &str| line.starts_with("For more information") || line.starts_with("tip: to pass '");
        let told = lines.filter(|line| !line.is_empty() && !is_noise(line));
        let line = told.collect::<Vec<_>>().join("; ").replace(":; ", ": ");
        let line = line.strip_prefix("error: ").unwrap_or(&line);
        let word = line.strip_prefix("unexpected argument '").and_then(|rest| rest.strip_suffix("' found"));
        match word.filter(|word| word.ends_with(".toml")) {
            Some(file) => format!("{line}; tip: write {} {file}", self.toml),
            None => line.to_owned(),
        }
    }
}

/// Returns `command` with options that accept `-1` as their value, so that errors name the expected values.
fn taking_negative_numbers(command: Command) -> Command {
    let argument = |argument: Arg| match argument.get_action().takes_values() {
        true => argument.allow_negative_numbers(true),
        false => argument,
    };
    command.mut_args(argument).mut_subcommands(taking_negative_numbers)
}
