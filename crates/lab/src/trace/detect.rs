//! The detection of a file's format from its beginning. A format that the content shows is taken silently; a guess is
//! told; what may be several things is refused, with the option that makes it clear.

use super::Format;
use super::formats::csv::Layout;
use super::formats::{self, LineParser, arc, history, json, lcs, oracle, plain, vscsi, w3c, workload};
use super::options::Options;
use super::verdict::{Found, Verdict};

/// The first bytes of files that another program can convert, and how.
const CONVERTIBLE: &[(&[u8], &str)] = &[
    (b"\xff\xfe", "its text is UTF-16; convert it to UTF-8, such as by iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "its text is UTF-16; convert it to UTF-8, such as by iconv -f UTF-16 -t UTF-8"),
    (b"\xfd7zXZ\0", "it is compressed by xz; decompress it, such as by xz -dc"),
    (b"BZh", "it is compressed by bzip2; decompress it, such as by bzip2 -dc"),
    (b"\x04\x22\x4d\x18", "it is compressed by lz4; decompress it, such as by lz4 -dc"),
    (b"PK\x03\x04", "it is a ZIP archive; extract the trace, such as by unzip -p"),
    (b"PAR1", "it is a Parquet file; convert it to CSV, such as by duckdb"),
    (b"\xd4\xc3\xb2\xa1", CAPTURE),
    (b"\x4d\x3c\xb2\xa1", CAPTURE),
    (b"\x0a\x0d\x0d\x0a", CAPTURE),
    (b"\x1f\x8b", "it is compressed twice; decompress it, such as by gzip -dc"),
    (b"# larder workload ", "it is a workload of another version; generate it by this one"),
    (b"{\"log\":\"", "its lines are in the JSON of a container's log; extract them, such as by jq -j .log"),
];

const CAPTURE: &str = "it is a capture of packets; extract its requests, such as by tshark -Y http.request -T fields -e \
     frame.time_epoch -e http.request.full_uri, and name the columns, as --columns time,key";

/// The beginning of a browser's archive (HAR), without spaces.
const ARCHIVE: &[u8] = b"{\"log\":{";

const FROM_ARCHIVE: &str = "it is the archive (HAR) of a browser; extract its requests, such as by jq -c '.log.entries[] | {time: \
     .startedDateTime, method: .request.method, url: .request.url, status: .response.status, size: .response.content.size, \
     millis: .time}'";

/// Returns the way to read a file that begins with `head`. Fails if its format is unknown or doubtful: what would make
/// it clear.
pub(super) fn detect(head: &[u8], options: &Options) -> Result<Found, String> {
    if head.is_empty() {
        return Err("it is empty".to_owned());
    }
    if let Some(what) = foreign_text(head) {
        return Err(what.to_owned());
    }
    let lines_fit = |format, behind_syslog| {
        LineParser::of(format, options.hints(), behind_syslog)
            .is_some_and(|parser| formats::fit(&parser, head))
    };
    let chosen = options.format.or(options.log_format.as_ref().map(|_| Format::Custom));
    if let Some(format) = chosen {
        let behind_syslog = !lines_fit(format, false) && lines_fit(format, true);
        return Ok(Found { behind_syslog, ..Found::sure(format) });
    }
    if !options.columns.is_empty() && is_text(head) {
        return Ok(Found::sure(Format::Csv));
    }
    let is = |format: &Format| match format {
        Format::Lcs => lcs::resembles(head),
        Format::History => history::resembles(head),
        Format::Vscsi => vscsi::resembles(head),
        Format::OracleGeneral => oracle::resembles(head),
        Format::Workload => workload::resembles(head),
        Format::W3c => w3c::resembles(head),
        Format::Arc => arc::resembles(head),
        Format::Csv | Format::Plain | Format::Custom => false,
        format => lines_fit(*format, false),
    };
    if let Some(format) = Format::ALL.into_iter().find(is) {
        return Ok(Found { guess: doubt_of_hosts(format, head), ..Found::sure(format) });
    }
    if let Some((_, what)) = CONVERTIBLE.iter().find(|(mark, _)| head.starts_with(mark)) {
        return Err((*what).to_owned());
    }
    if head.get(257..262) == Some(b"ustar") {
        return Err("it is a tar archive; extract the trace, such as by tar -xO".to_owned());
    }
    if !is_text(head) {
        let known = Format::ALL.map(Format::name).join(" ");
        return Err(format!("its format is unknown; name it, if it is one of {known}"));
    }
    let is_log = |format: &Format| !matches!(format, Format::Plain | Format::Arc) && lines_fit(*format, true);
    if let Some(format) = Format::ALL.into_iter().find(is_log) {
        let guess = format!("its lines are read as {format} after the words of syslog");
        let guess = [Some(guess), doubt_of_hosts(format, head)].into_iter().flatten().collect::<Vec<_>>();
        return Ok(Found { format, behind_syslog: true, guess: Some(guess.join("; ")) });
    }
    text(head)
}

/// Returns what would make a text readable whose characters or ends of lines are those of another system: as it is, the
/// formats of records and of lines would find requests in it that are not there.
fn foreign_text(head: &[u8]) -> Option<&'static str> {
    let is_letter = |unit: &[u8]| matches!(unit, [_, _, 0..=16, 0]);
    let mut units = head.chunks_exact(4);
    if head.starts_with(b"\xff\xfe\0\0") && units.all(is_letter) {
        return Some("its text is UTF-32; convert it to UTF-8, such as by iconv -f UTF-32 -t UTF-8");
    }
    let has_returns_only = !head.contains(&b'\n') && head.trim_ascii_end().contains(&b'\r') && is_text(head);
    has_returns_only
        .then_some("its lines end in carriage returns alone; convert them, such as by tr '\\r' '\\n'")
}

/// Returns a note on the fields that HAProxy captures, of which the configuration says whether one is the host.
fn doubt_of_hosts(format: Format, head: &[u8]) -> Option<String> {
    (format == Format::Haproxy && memchr::memmem::find(head, b" {").is_some()).then(|| {
        "the fields in braces are ignored, so that equal paths of two hosts are one object; if one is the host, describe the \
         lines by --log-format, with {$host}"
            .to_owned()
    })
}

/// Judges a text that is no log of a known form: JSON, a table, or keys.
fn text(head: &[u8]) -> Result<Found, String> {
    let start = head.trim_ascii_start();
    let begins: Vec<u8> =
        start.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).take(ARCHIVE.len()).collect();
    if begins == ARCHIVE {
        return Err(FROM_ARCHIVE.to_owned());
    }
    if start.starts_with(b"{") || start.starts_with(b"[{") || start.starts_with(b"[\n") {
        let line = start.split(|byte| *byte == b'\n').next().unwrap_or(start);
        if start.starts_with(b"[") || line.trim_ascii() == b"{" {
            return Err(
                "it is JSON, but not with an object a line; rewrite it, such as by jq -c '.[]' or jq -c ."
                    .to_owned(),
            );
        }
        let why = json::fault_of(line).unwrap_or_else(|| "the lines after it differ".to_owned());
        return Err(format!(
            "it is JSON, but not with an object a line and a field that is known as the key, such as url; of its first line: {why}"
        ));
    }
    let table = Layout::guess(head, &[]).map_or(Verdict::No, |layout| layout.judge(head));
    let (format, verdict) = match table {
        Verdict::No => (Format::Plain, plain::judge(head)),
        verdict => (Format::Csv, verdict),
    };
    match verdict {
        Verdict::Doubt(why) => Err(why),
        Verdict::Guess(guess) => Ok(Found { guess: Some(guess), ..Found::sure(format) }),
        Verdict::Sure | Verdict::No => Ok(Found::sure(format)),
    }
}

/// Whether `head` is text of any encoding that contains ASCII unchanged.
fn is_text(head: &[u8]) -> bool {
    !head.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
}
