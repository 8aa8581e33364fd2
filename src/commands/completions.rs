//! `larder completions`: prints a script that completes commands and options in a shell.

use clap::{Args, Command};
use clap_complete::aot::{Shell, generate};

use crate::cli::{Failure, choice, say};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder completions bash > ~/.local/share/bash-completion/completions/larder
  larder completions zsh > /usr/local/share/zsh/site-functions/_larder
  larder completions fish > ~/.config/fish/completions/larder.fish";

/// The arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_parser = choice(SHELLS))]
    shell: Shell,
}

/// The shells whose scripts are tested.
const SHELLS: &[(&str, Shell)] = &[("bash", Shell::Bash), ("zsh", Shell::Zsh), ("fish", Shell::Fish)];

/// Prints the script for the commands below `root`.
pub(crate) fn run(completions: &Completions, mut root: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(completions.shell, &mut root, "larder", &mut script);
    say(String::from_utf8_lossy(&script).trim_end());
    Ok(())
}
