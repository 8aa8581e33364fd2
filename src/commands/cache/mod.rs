//! `larder cache`: the stored objects of a running larder, or of directories that none uses.

mod args;
mod output_file;
mod remote;
mod show;
mod source;

use std::path::Path;

use larder_proxy::inventory::Object;
use larder_store::disks::Name;

use crate::cli::progress::Bar;
use crate::cli::{Failure, clock, say, terminal};
pub(super) use args::CacheArgs;
use args::{Command, Key};
use output_file::{Dump, OutputFile};
use source::CacheSource;

/// The most names that are listed when a URL has several objects.
const TOLD: usize = 5;

/// Runs the command.
pub(crate) fn run(args: &CacheArgs) -> Result<(), Failure> {
    match &args.command {
        Command::Ls { json, place } => list(&CacheSource::open(place)?, *json),
        Command::Get { key, include, output, place } => {
            get(&CacheSource::open(place)?, key, *include, output.as_deref()).map_err(Failure::Failed)
        }
        Command::Verify { rate, place } => verify(&CacheSource::open(place)?, *rate).map_err(Failure::Failed),
    }
}

fn list(place: &CacheSource, json: bool) -> Result<(), Failure> {
    let (mut out, mut total, now) = (OutputFile::to(None), show::Total::default(), clock::now());
    let width = terminal::columns();
    let listed = place.list(None, &mut |object| {
        let is_first = total.is_empty();
        total.add(&object);
        match json {
            true => out.line(&show::json(&object)),
            false => (!is_first || out.line(show::HEADING)) && out.line(&show::row(&object, now, width)),
        }
    });
    listed.map_err(Failure::Failed)?;
    if !json {
        out.line(&total.to_string());
    }
    out.end().map_err(Failure::Failed)
}

fn get(place: &CacheSource, key: &Key, include: bool, output: Option<&Path>) -> Result<(), String> {
    let name = match key {
        Key::Name(name) => *name,
        Key::Url(url) => name_of(place, url)?,
    };
    let mut dump = Dump::new(OutputFile::to(output), include);
    match place.get(name, &mut |piece| dump.take(piece))? {
        true => dump.end(),
        false => Err(format!(
            "nothing is stored under the name {name}, or only in slices; larder cache ls lists the stored objects"
        )),
    }
}

/// Returns the name of the stored object for `url`.
fn name_of(place: &CacheSource, url: &str) -> Result<Name, String> {
    let mut objects = Vec::new();
    place.list(Some(url), &mut |object| {
        objects.push(object);
        true
    })?;
    match &objects[..] {
        [] => Err(nothing(place, url)?),
        [one] if one.name.is_empty() => {
            Err(format!("'{}' is in memory only; use larder fetch", url.escape_debug()))
        }
        [one] => one.name.parse().map_err(|_| format!("'{}' is not a name", one.name.escape_debug())),
        many => Err(several(url, many)),
    }
}

/// Returns the message that nothing is stored for `url`. It names a similar URL with a stored object, if there is one.
fn nothing(place: &CacheSource, url: &str) -> Result<String, String> {
    let shown = url.escape_debug();
    for similar in similar(url) {
        let mut is_there = false;
        place.list(Some(&similar), &mut |_| {
            is_there = true;
            false
        })?;
        if is_there {
            return Ok(format!(
                "nothing is stored for '{shown}'; did you mean '{}'?",
                similar.escape_debug()
            ));
        }
    }
    Ok(format!("nothing is stored for '{shown}'; larder cache ls lists the stored objects"))
}

/// Returns URLs that users confuse with `url`.
fn similar(url: &str) -> Vec<String> {
    let url = url.split('#').next().unwrap_or_default();
    let slash = url.strip_suffix('/').map_or_else(|| format!("{url}/"), str::to_owned);
    let scheme = |url: &str| match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => Some(format!("https://{rest}")),
        Some((_, rest)) => Some(format!("http://{rest}")),
        None => None,
    };
    let query = url.split_once('?').map(|(before, _)| before.to_owned());
    let both = scheme(&slash);
    [scheme(url), Some(slash), both, query].into_iter().flatten().collect()
}

fn several(url: &str, objects: &[Object]) -> String {
    let told = objects.iter().take(TOLD).map(|object| format!("{} ({})", object.name, show::variant(object)));
    let told = told.collect::<Vec<_>>().join(", ");
    let more = if objects.len() > TOLD { ", ..." } else { "" };
    format!("{} objects are stored for '{}'; name one: {told}{more}", objects.len(), url.escape_debug())
}

fn verify(place: &CacheSource, rate: u64) -> Result<(), String> {
    let mut bar = None;
    let end = place.verify(rate, &mut |progress| {
        let of = usize::try_from(progress.of).unwrap_or(usize::MAX);
        let bar = bar.get_or_insert_with(|| Bar::new("verifying", of));
        bar.set(progress.objects + progress.corrupt);
    });
    if let Some(bar) = bar {
        bar.finish();
    }
    let end = end?;
    say(&show::verified(&end));
    let objects = match end.corrupt {
        0 => None,
        1 => Some("1 object was corrupt, and was removed".to_owned()),
        many => Some(format!("{many} objects were corrupt, and were removed")),
    };
    let places = match place.damaged_places() {
        0 => None,
        1 => Some("1 damaged place, whose records are lost".to_owned()),
        many => Some(format!("{many} damaged places, whose records are lost")),
    };
    match [objects, places].into_iter().flatten().collect::<Vec<_>>() {
        damage if damage.is_empty() => Ok(()),
        damage => Err(damage.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_urls_differ_in_what_people_get_wrong() {
        let table: [(&str, &[&str]); 3] = [
            ("http://a", &["https://a", "http://a/", "https://a/"]),
            ("https://a/b/#c", &["http://a/b/", "https://a/b", "http://a/b"]),
            ("http://a/b?c", &["https://a/b?c", "http://a/b?c/", "https://a/b?c/", "http://a/b"]),
        ];
        for (url, expected) in table {
            assert_eq!(similar(url), expected, "{url}");
        }
    }
}
