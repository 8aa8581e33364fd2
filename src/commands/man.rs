//! `larder man`: writes the manual pages, rendered from the definitions of the commands and the table of config keys.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::version;
use crate::cli::files::unwritten;
use crate::cli::{Failure, say};
use crate::config::docs::{self, Chapter, KeyText};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder man /usr/local/share/man
      writes man1/larder.1, a page for each command, and man5/larder.toml.5

SOURCE_DATE_EPOCH sets the date of the pages, in seconds since 1970; without it they have today's.";

/// The name of the manual at the top of each page.
const MANUAL: &str = "Larder";

/// The arguments of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages, with a folder for each section
    folder: PathBuf,
}

/// Writes the pages of `root`, the commands below it, and the config.
pub(crate) fn run(args: &ManArgs, root: Command) -> Result<(), Failure> {
    let date = date();
    let mut root = root.disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    add_pages(&root, &date, &mut pages).map_err(|error| Failure::Failed(error.to_string()))?;
    let commands = pages.len();
    pages.push(("man5/larder.toml.5".to_owned(), config_page(&date).into_bytes()));
    for (name, page) in pages {
        write(&args.folder.join(name), &page)?;
    }
    say(&format!("{commands} pages of commands and larder.toml.5 are in {}", args.folder.display()));
    Ok(())
}

fn write(path: &Path, page: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, page));
    written
        .map_err(|error| Failure::Failed(format!("cannot write {}: {}", path.display(), unwritten(&error))))
}

/// Returns the date of the pages, so that a package can be built twice with the same content.
fn date() -> String {
    let fixed = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let time = fixed.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    let time = Timestamp::try_from(time.unwrap_or_else(SystemTime::now)).unwrap_or(Timestamp::UNIX_EPOCH);
    Zoned::new(time, TimeZone::UTC).date().to_string()
}

/// Adds the page of `command`, and those of the commands below it, with their paths.
fn add_pages(command: &Command, date: &str, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    pages.push((format!("man1/{name}.1"), command_page(command, name, date)?));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        add_pages(below, date, pages)?;
    }
    Ok(())
}

fn command_page(command: &Command, name: &str, date: &str) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone()).title(name.to_uppercase()).date(date).manual(MANUAL);
    let man = man.source(format!("Larder {}", version::NUMBER));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(examples) = command.get_after_help() {
        after_help(&examples.to_string()).to_writer(&mut page)?;
    }
    see_also(command, name).to_writer(&mut page)?;
    // The library separates possible values by two line breaks, of which readers of manuals ignore one with a warning.
    Ok(String::from_utf8_lossy(&page).replace("\n.br\n\n.br\n", "\n.sp\n").into_bytes())
}

/// Renders the text below the options in `--help`: lines that stay as they are.
fn after_help(text: &str) -> Roff {
    let mut roff = Roff::new();
    let (heading, text) = match text.strip_prefix("Examples:\n") {
        Some(examples) => ("EXAMPLES", examples),
        None => ("NOTES", text),
    };
    roff.control("SH", [heading]).control("nf", []);
    for line in text.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff
}

/// Renders the pages that belong to this one.
fn see_also(command: &Command, name: &str) -> Roff {
    let above = name.rsplit_once('-').map(|(above, _)| format!("{above}(1)"));
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    let below = below.filter_map(|below| Some(format!("{}(1)", below.get_display_name()?)));
    let pages: Vec<_> = above.into_iter().chain(below).chain(["larder.toml(5)".to_owned()]).collect();
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]).text([roman(pages.join(", "))]);
    roff
}

/// Renders `larder.toml(5)`.
fn config_page(date: &str) -> String {
    let mut roff = Roff::new();
    let source = format!("Larder {}", version::NUMBER);
    roff.control("TH", ["LARDER.TOML", "5", date, &source, MANUAL]);
    roff.control("SH", ["NAME"]).text([roman("larder.toml - the config file of larder")]);
    roff.control("SH", ["DESCRIPTION"]);
    for (number, paragraph) in docs::INTRODUCTION.split("\n\n").enumerate() {
        if number > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(plain(paragraph.trim_end()))]);
    }
    for Chapter { title, about, keys } in docs::chapters() {
        roff.control("SH", [plain(&title).to_uppercase().as_str()]).text([roman(plain(about))]);
        for key in &keys {
            roff.control("TP", []).text(head(key)).text([roman(plain(key.about))]);
        }
    }
    roff.control("SH", ["SEE ALSO"]).text([roman("larder(1), larder-serve(1), larder-check(1)")]);
    roff.to_roff()
}

/// Returns the line above the meaning of a key: its name, its values and its default.
fn head(key: &KeyText) -> Vec<Inline> {
    let default = match &key.default {
        _ if key.is_required() => " (required)".to_owned(),
        Some(default) => format!(" (default: {default})"),
        None => String::new(),
    };
    vec![bold(key.name.as_str()), roman(format!(" = {}{default}", plain(&key.values)))]
}

/// Returns Markdown without the marks of code.
fn plain(markdown: &str) -> String {
    markdown.replace('`', "")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::commands::CommandLine;

    /// Returns a page as text: without escapes and fonts.
    fn text(page: &[u8]) -> String {
        let page = String::from_utf8_lossy(page).replace("\\-", "-");
        page.replace("\\fB", "").replace("\\fI", "").replace("\\fR", "")
    }

    fn pages() -> Vec<(String, Vec<u8>)> {
        let mut root = CommandLine::command().disable_help_subcommand(true);
        root.build();
        let mut pages = Vec::new();
        add_pages(&root, "2026-01-01", &mut pages).expect("in memory");
        pages
    }

    #[test]
    fn a_page_names_every_option_of_its_command() {
        let mut root = CommandLine::command();
        root.build();
        let pages = pages();
        let mut commands = vec![&root];
        while let Some(command) = commands.pop() {
            commands.extend(
                command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help"),
            );
            let name = command.get_display_name().unwrap_or_else(|| command.get_name());
            let path = format!("man1/{name}.1");
            let (_, page) = pages.iter().find(|(found, _)| *found == path).expect(&path);
            let page = text(page);
            for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
                let word = option.get_long().map(|long| format!("--{long}"));
                let word =
                    word.unwrap_or_else(|| option.get_value_names().unwrap_or_default()[0].to_string());
                assert!(page.contains(&word), "{path} has no {word}");
            }
        }
    }

    #[test]
    fn the_page_of_the_config_has_every_key() {
        let page = text(config_page("2026-01-01").as_bytes());
        for Chapter { keys, .. } in docs::chapters() {
            for key in keys {
                assert!(page.contains(&format!("\n{} = ", key.name)), "no {}", key.name);
            }
        }
    }
}
