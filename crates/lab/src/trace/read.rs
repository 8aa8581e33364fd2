//! Reads a trace file of any format.

use std::io::Read;
use std::path::Path;

use larder_load::Requests;

use super::detect::detect;
use super::formats::{self, Fault};
use super::input::Input;
use super::options::Options;
use super::sink::Sink;
use super::summary::ReadSummary;
use super::verdict::Found;
use super::{Format, Trace};

/// A file cannot be read as a trace; the message names the file and the reason, in one line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Reads the trace in the file at `path`; `-` means standard input.
///
/// # Errors
/// If the file cannot be opened or unpacked, has an unknown format, no requests, too many, or more broken
/// lines than `options` allow.
pub fn read(path: &Path, options: &Options) -> Result<(Trace, ReadSummary), Error> {
    let trace = Input::open(path).map_err(Fault::from).and_then(|input| open(input, path, options));
    trace.map_err(|fault| Error(format!("cannot read '{}': {fault}", path.display())))
}

/// Reads a trace from the content of a file.
///
/// # Errors
/// The same as for [`read`], without the file.
pub fn read_from(source: impl Read + 'static, options: &Options) -> Result<(Trace, ReadSummary), Error> {
    let trace = Input::new(source).map_err(Fault::from);
    trace.and_then(|input| open(input, Path::new("-"), options)).map_err(|fault| Error(fault.to_string()))
}

/// Reads the requests in the file at `path` for a load tool: from a workload all of them, with methods, fields and
/// bodies; from any other trace with URLs the GETs. `-` means standard input.
///
/// # Errors
/// The same as for [`read`]; and if the trace has numbers for objects.
pub fn requests(path: &Path, options: &Options) -> Result<(Requests, ReadSummary), Error> {
    let found = Input::open(path).map_err(Fault::from).and_then(|input| gather(input, path, options));
    found.map_err(|fault| Error(format!("cannot read '{}': {fault}", path.display())))
}

fn gather(input: Input, path: &Path, options: &Options) -> Result<(Requests, ReadSummary), Fault> {
    let found = detect(input.head(), options).map_err(Fault::Bad)?;
    if found.format == Format::Workload {
        let mut reading = ReadSummary::new(found.format);
        let requests = formats::workload::requests(input, &mut reading)?;
        reading.judge(options.max_broken_share).map_err(Fault::Bad)?;
        return Ok((requests, reading));
    }
    let (trace, reading) = take(found, input, path, options)?;
    let name = |id| trace.name(id).map(sendable);
    let names: Option<Vec<_>> = (0..trace.shape().objects).map(name).collect();
    let names = names.ok_or_else(|| Fault::Bad("it has numbers for objects, and no urls".to_owned()))?;
    Ok((Requests::gets(names, trace.ids()), reading))
}

/// Returns `url` as a request may have it: spaces, letters that are not ASCII and marks that no URL has become `%20` and
/// the like.
fn sendable(url: &str) -> String {
    let is_part = |byte: &u8| byte.is_ascii_graphic() && !b"\"<>`#".contains(byte);
    let encoded =
        |byte: u8| if is_part(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    url.bytes().map(encoded).collect()
}

fn open(input: Input, path: &Path, options: &Options) -> Result<(Trace, ReadSummary), Fault> {
    let found = detect(input.head(), options).map_err(Fault::Bad)?;
    take(found, input, path, options)
}

fn take(found: Found, input: Input, path: &Path, options: &Options) -> Result<(Trace, ReadSummary), Fault> {
    let mut reading = ReadSummary::new(found.format);
    reading.guess.clone_from(&found.guess);
    let mut sink = Sink::new(options.sample, options.base_urls, reading);
    formats::read(&found, path, input, &mut sink, options.hints())?;
    let (trace, reading) = sink.finish();
    reading.judge(options.max_broken_share).map_err(Fault::Bad)?;
    Ok((trace, reading))
}

#[cfg(test)]
mod tests {
    use super::sendable;

    #[test]
    fn every_url_is_sent_in_a_form_that_servers_accept() {
        assert_eq!(
            sendable("http://a.test/café \"x\"?<y>`z#"),
            "http://a.test/caf%C3%A9%20%22x%22?%3Cy%3E%60z%23"
        );
        assert_eq!(sendable("/%20{a}|[b]\\^?c=1&d"), "/%20{a}|[b]\\^?c=1&d");
    }
}
