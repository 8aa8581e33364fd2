//! The command line of `larder cache`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use larder_proxy::inventory;
use larder_store::disks::Name;

use crate::config::names;
use crate::remote::Listener;
use crate::units;

const EXAMPLES: &str = "\
Examples:
  larder cache ls
  larder cache get http://example.com/ --include
  larder cache verify";

const LS_EXAMPLES: &str = "\
Examples:
  larder cache ls
      what the larder with its admin listener on 127.0.0.1:9145 has in memory and on its disks
  larder cache ls --disk /var/cache/larder
      what is in a directory that no larder uses at the moment
  larder cache ls --json | jq -r 'select(.bytes > 1000000) | .url'
      the URLs of large objects

What is on a disk has a name, which stays the same over restarts. Size is that of its content; stored and used say how long ago.";

const GET_EXAMPLES: &str = "\
Examples:
  larder cache get http://example.com/ -o page.html
  larder cache get 00d1f8a2c43b7e96 --include
      one object of larder cache ls, with the head that is stored with it

Looking at an object is no use of it. Exit code 1 says that nothing is stored.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  larder cache verify
      reads all that a running larder has on its disks, which serves meanwhile
  larder cache verify --disk /var/cache/larder --rate 1GiB
      the same at rest

What is not what was written is forgotten, and fetched again when somebody asks for it. Exit code 1 says that there was some.";

/// Looks at what is stored.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Line {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List what is stored
    #[command(after_help = LS_EXAMPLES)]
    Ls {
        /// Print each object as JSON, a line each
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Print one stored object
    #[command(after_help = GET_EXAMPLES)]
    Get {
        /// The object: its name, or its URL
        #[arg(value_name = "KEY", value_parser = key)]
        key: Key,
        /// Print its head, too
        #[arg(short, long)]
        include: bool,
        /// Write it to this file
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        place: Place,
    },
    /// Read everything that is stored, and forget what is damaged
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify {
        /// Read at most so many bytes a second
        #[arg(long, value_name = "SIZE", default_value = "100MiB", value_parser = rate)]
        rate: u64,
        #[command(flatten)]
        place: Place,
    },
}

/// Where to look.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// Look into this directory, which no larder may be using; repeatable
    #[arg(long, value_name = "DIR", value_parser = names::directory, conflicts_with_all = ["admin", "token"])]
    pub(super) disk: Vec<PathBuf>,
    /// Whom to ask.
    #[command(flatten)]
    pub(super) listener: Listener,
}

/// What `get` is to print.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Key {
    Name(Name),
    Url(String),
}

fn key(text: &str) -> Result<Key, String> {
    if let Ok(name) = text.parse() {
        return Ok(Key::Name(name));
    }
    match inventory::keys(text) {
        Ok(_) => Ok(Key::Url(text.to_owned())),
        Err(why) if text.contains(['.', '/', ':']) => Err(why),
        Err(_) => Err("neither a name of 16 hex digits nor a URL; larder cache ls shows both".to_owned()),
    }
}

fn rate(text: &str) -> Result<u64, String> {
    let rate = units::parse_size(text)?;
    match rate >= inventory::LEAST_RATE {
        true => Ok(rate),
        false => Err(format!("expected at least {}", units::show_size(inventory::LEAST_RATE))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_name_or_a_url() {
        let name = "00ff00ff00ff00ff";
        assert_eq!(key(name), Ok(Key::Name(name.parse().unwrap())));
        assert_eq!(key("http://a/"), Ok(Key::Url("http://a/".to_owned())));
        let wrong = [
            ("a.test", "'a.test': write the scheme too, such as 'http://a.test'"),
            ("ff", "neither a name of 16 hex digits nor a URL; larder cache ls shows both"),
            ("", "neither a name of 16 hex digits nor a URL; larder cache ls shows both"),
        ];
        for (text, error) in wrong {
            assert_eq!(key(text), Err(error.to_owned()), "{text}");
        }
    }
}
