//! The traces that commands read: their arguments, their names, and the reader.

use std::path::{Path, PathBuf};

use clap::Args;
use larder_cli::{Failure, units, words};
use larder_lab::trace::{self, Field, Format, Pattern, Trace};

/// How to read traces.
#[derive(Clone, Debug, Args)]
pub(crate) struct TraceOptions {
    /// Format of the files [default: detected]
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub(crate) format: Option<Format>,
    /// Columns of separated values, such as time,key,size, or those of twitter, meta-kv, meta-cdn; _ is ignored
    #[arg(long, value_name = "NAMES", value_parser = columns)]
    pub(crate) columns: Option<Columns>,
    /// Form of a log's lines, in the words of Apache ('%h %t "%r" %>s %b') or NGINX ('$remote_addr $request $status')
    #[arg(long, value_name = "PATTERN")]
    pub(crate) log_format: Option<Pattern>,
    /// Read the requests of this share of the objects, such as 0.01
    #[arg(long, value_name = "SHARE", value_parser = sample, default_value = "1")]
    pub(crate) sample: f64,
    /// Largest accepted share of broken lines
    #[arg(long, value_name = "SHARE", value_parser = units::parse_share, default_value = "1%")]
    pub(crate) max_broken: f64,
    /// Cut URLs to their scheme and host
    #[arg(long)]
    pub(crate) base_urls: bool,
}

/// The columns of a table, as one argument.
#[derive(Clone, Debug)]
pub(crate) struct Columns(Vec<Field>);

impl TraceOptions {
    /// Returns the options of the reader.
    pub(crate) fn options(&self) -> trace::Options {
        trace::Options {
            format: self.format,
            columns: self.columns.clone().map_or_else(Vec::new, |Columns(columns)| columns),
            log_format: self.log_format.clone(),
            sample: self.sample,
            max_broken_share: self.max_broken,
            base_urls: self.base_urls,
        }
    }
}

/// Returns a short name for each trace: its file name, up to the first dot; the whole path if the short names are not
/// unique.
pub(crate) fn names(paths: &[PathBuf]) -> Vec<String> {
    let short = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let stem = name.as_deref().and_then(|name| name.split('.').find(|part| !part.is_empty()));
        stem.map_or_else(|| path.display().to_string(), str::to_owned)
    };
    let short: Vec<_> = paths.iter().map(short).collect();
    let is_alone = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    let named = short.iter().zip(paths);
    named.map(|(name, path)| if is_alone(name) { name.clone() } else { path.display().to_string() }).collect()
}

/// Reads the trace in the file at `path`; prints notes about its errors.
pub(crate) fn read(path: &Path, options: &trace::Options) -> Result<Trace, Failure> {
    let (trace, reading) = trace::read(path, options).map_err(|error| Failure::Refused(error.to_string()))?;
    for note in reading.notes() {
        eprintln!("larder: {}: {note}", path.display());
    }
    Ok(trace)
}

fn format(text: &str) -> Result<Format, String> {
    text.parse().map_err(|error: String| error + &words::hint(text, Format::ALL.map(Format::name)))
}

fn columns(text: &str) -> Result<Columns, String> {
    trace::columns(text).map(Columns)
}

fn sample(text: &str) -> Result<f64, String> {
    match units::parse_share(text)? {
        0.0 => Err("a sample of 0 selects nothing".to_owned()),
        share => Ok(share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_named_as_shortly_as_tells_them_apart() {
        let paths = ["a/web.csv.zst", "b/shop.csv", "-"].map(PathBuf::from);
        assert_eq!(names(&paths), ["web", "shop", "-"]);
        let paths = ["a/web.csv", "b/web.csv", "c/.hidden.csv"].map(PathBuf::from);
        assert_eq!(names(&paths), ["a/web.csv", "b/web.csv", "hidden"]);
    }
}
