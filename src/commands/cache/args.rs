//! The command line of `larder cache`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use larder_proxy::inventory;
use larder_store::disks::Name;

use crate::cli::admin::AdminListener;
use crate::cli::units;
use crate::config::names;

const EXAMPLES: &str = "\
Examples:
  larder cache ls
  larder cache get http://example.com/ --include
  larder cache verify";

const LS_EXAMPLES: &str = "\
Examples:
  larder cache ls
      the objects in memory and on disks of the larder with its admin listener on 127.0.0.1:9145
  larder cache ls --disk /var/cache/larder
      the objects in a directory that no running larder uses
  larder cache ls --json | jq -r 'select(.bytes > 1000000) | .url'
      the URLs of large objects

Objects on disk have a name, which is stable over restarts. Size is the size of the content; stored and used are ages.";

const GET_EXAMPLES: &str = "\
Examples:
  larder cache get http://example.com/ -o page.html
  larder cache get 00d1f8a2c43b7e96 --include
      one object of larder cache ls, with the head that is stored with it

Printing an object does not count as a use. The exit code is 1 if nothing is stored.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  larder cache verify
      reads all objects on the disks of a running larder, which continues to serve
  larder cache verify --disk /var/cache/larder --rate 1GiB
      the same for a directory that no running larder uses

Damaged objects are removed, and fetched again on request. The exit code is 1 if there were any.";

/// The arguments of `cache`, which inspects stored responses.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List stored objects
    #[command(after_help = LS_EXAMPLES)]
    Ls {
        /// Print a line of JSON for each object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: SourceArgs,
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
        place: SourceArgs,
    },
    /// Read and verify all objects on disk, and remove damaged ones
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify {
        /// Largest number of bytes read in a second
        #[arg(long, value_name = "SIZE", default_value = "100MiB", value_parser = rate)]
        rate: u64,
        #[command(flatten)]
        place: SourceArgs,
    },
}

/// Where to look.
#[derive(Debug, Args)]
pub(super) struct SourceArgs {
    /// Read this directory, which no running larder may use; repeatable
    #[arg(long, value_name = "DIR", value_parser = names::directory, conflicts_with_all = ["admin", "admin_ca", "token"])]
    pub(super) disk: Vec<PathBuf>,
    /// The admin listener.
    #[command(flatten)]
    pub(super) listener: AdminListener,
}

/// The object that `get` prints.
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
