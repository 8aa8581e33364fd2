//! A strict, incremental parser of the chunked transfer coding (RFC 9112 section 7.1).
//!
//! Lines end in CRLF only, sizes are plain hexadecimal, and extensions are skipped up to a limit. Any deviation is
//! refused, since it could be used for request smuggling.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::head::{Refusal, has_bare_line_feed};
use crate::net::input::HeadSearch;

/// The longest size line of a chunk with its extensions, in bytes.
const SIZE_LINE: usize = 1024;
/// The most bytes of all extensions of one content. They are ignored, and are not counted as content.
const EXTENSIONS: usize = 16 << 10;
/// The digits of a size that are not counted as extensions: some senders pad all sizes with zeros to this length.
const DIGITS: usize = 16;
/// The longest trailer section, in bytes.
const TRAILERS: usize = 16 << 10;

/// A parser of one chunked content.
#[derive(Debug, Default)]
pub struct Chunked {
    state: State,
    extensions: usize,
    /// Whether white space may follow a chunk's size and the name of a trailer field.
    padded: bool,
    /// The search for the end of the trailers.
    looking: HeadSearch,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Size,
    Data(u64),
    DataEnd,
    Trailers,
    Done,
}

/// The meaning of the next bytes.
#[derive(Debug)]
pub enum ChunkedStep {
    /// Content.
    Data {
        /// Bytes of framing before it.
        skip: usize,
        /// Bytes of content.
        len: usize,
    },
    /// The end of the content.
    End {
        /// Bytes of framing before and at the end.
        skip: usize,
        /// The trailer fields.
        trailers: HeaderMap,
    },
    /// More input is needed.
    More {
        /// Bytes of framing that the parser has finished.
        skip: usize,
    },
}

impl Chunked {
    /// Returns a parser of a response's content. Some origins pad the sizes of their chunks with white space, which
    /// does no harm, and write it before the colons of fields, from where it is removed (RFC 9112 section 5.1).
    pub fn of_an_answer() -> Self {
        Self { padded: true, ..Self::default() }
    }

    /// Parses `input`, the bytes not yet consumed. Before the next call, the caller consumes the bytes that the step
    /// names.
    ///
    /// # Errors
    /// The refusal of malformed coding.
    pub fn step(&mut self, input: &[u8]) -> Result<ChunkedStep, Refusal> {
        let mut skip = 0;
        loop {
            let rest = &input[skip..];
            match self.state {
                State::Size => {
                    let Some(line) = line(rest, SIZE_LINE, "chunk size line too long")? else { break };
                    skip += line.len() + 2;
                    let line = if self.padded { line.trim_ascii_end() } else { line };
                    let (size, extension) = size(line)?;
                    self.extensions += extension;
                    if self.extensions > EXTENSIONS {
                        return Err(Refusal::bad("chunk extensions too large"));
                    }
                    self.state = match size {
                        0 => State::Trailers,
                        size => State::Data(size),
                    };
                }
                State::Data(0) => self.state = State::DataEnd,
                State::Data(left) => {
                    let len = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    if len == 0 {
                        break;
                    }
                    self.state = State::Data(left - len as u64);
                    return Ok(ChunkedStep::Data { skip, len });
                }
                State::DataEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        skip += 2;
                        self.state = State::Size;
                    }
                    [] | [b'\r'] => break,
                    _ => return Err(Refusal::bad("chunk longer than its size")),
                },
                State::Trailers => {
                    if !self.looking.is_worth_it(rest, TRAILERS) {
                        break;
                    }
                    let Some((trailers, used)) = trailers(rest, self.padded)? else { break };
                    self.state = State::Done;
                    return Ok(ChunkedStep::End { skip: skip + used, trailers });
                }
                State::Done => return Ok(ChunkedStep::End { skip, trailers: HeaderMap::new() }),
            }
        }
        Ok(ChunkedStep::More { skip })
    }
}

/// Returns the line at the start of `input` without its CRLF; `None` until it is complete.
fn line<'i>(input: &'i [u8], most: usize, reason: &'static str) -> Result<Option<&'i [u8]>, Refusal> {
    match input.iter().take(most).position(|&byte| byte == b'\n') {
        Some(end) => match input[..end].strip_suffix(b"\r") {
            Some(line) => Ok(Some(line)),
            None => Err(Refusal::bad("chunked coding with a bare line feed")),
        },
        None if input.len() >= most => Err(Refusal::bad(reason)),
        None => Ok(None),
    }
}

/// Returns the size in a chunk's first line, and the bytes of its extensions and superfluous zeros.
fn size(line: &[u8]) -> Result<(u64, usize), Refusal> {
    const BAD: Refusal = Refusal::bad("malformed chunk size");
    let digits = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let (digits, extension) = line.split_at(digits);
    let blank = extension.trim_ascii_start();
    let extension_fits = extension.is_empty() || blank.first() == Some(&b';');
    let has_control = line.iter().any(|&byte| byte.is_ascii_control() && byte != b'\t');
    if !extension_fits || has_control || has_open_quote(extension) {
        return Err(BAD);
    }
    // No parser of numbers of 64 bits may see another size, whether they have a sign or not.
    let digits = std::str::from_utf8(digits).map_err(|_| BAD)?;
    let size = u64::from_str_radix(digits, 16).ok().filter(|size| size >> 60 == 0).ok_or(BAD)?;
    Ok((size, extension.len() + digits.len().saturating_sub(DIGITS)))
}

/// Whether a quoted string in `extension` does not end there: another parser may take the next line for more of it.
fn has_open_quote(extension: &[u8]) -> bool {
    let (mut is_open, mut bytes) = (false, extension.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_open = !is_open,
            b'\\' if is_open => drop(bytes.next()),
            _ => {}
        }
    }
    is_open
}

fn trailers(input: &[u8], padded: bool) -> Result<Option<(HeaderMap, usize)>, Refusal> {
    let mut lines = [httparse::EMPTY_HEADER; 64];
    match httparse::parse_headers(input, &mut lines) {
        Ok(httparse::Status::Complete((used, lines))) => section(&input[..used], lines).map(Some),
        Ok(httparse::Status::Partial) if input.len() < TRAILERS => Ok(None),
        Ok(httparse::Status::Partial) => Err(TOO_LARGE),
        Err(httparse::Error::HeaderName) if padded => padded_trailers(input),
        Err(_) => Err(BAD),
    }
}

/// [`trailers`] with white space before colons. The parser permits that only in a head, which begins with `STATUS`.
fn padded_trailers(input: &[u8]) -> Result<Option<(HeaderMap, usize)>, Refusal> {
    const STATUS: &[u8] = b"HTTP/1.1 200 OK\r\n";
    let (head, mut lines) = ([STATUS, input].concat(), [httparse::EMPTY_HEADER; 64]);
    let (mut response, mut config) = (httparse::Response::new(&mut lines), httparse::ParserConfig::default());
    config.allow_spaces_after_header_name_in_responses(true);
    match config.parse_response(&mut response, &head) {
        Ok(httparse::Status::Complete(used)) => {
            section(&head[STATUS.len()..used], response.headers).map(Some)
        }
        Ok(httparse::Status::Partial) if input.len() < TRAILERS => Ok(None),
        _ => Err(BAD),
    }
}

/// Returns the fields in these `lines` of a trailer section, and its length.
fn section(section: &[u8], lines: &[httparse::Header<'_>]) -> Result<(HeaderMap, usize), Refusal> {
    if section.len() > TRAILERS {
        return Err(TOO_LARGE);
    }
    if has_bare_line_feed(section) {
        return Err(BAD);
    }
    let mut trailers = HeaderMap::with_capacity(lines.len());
    for line in lines {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| BAD)?;
        trailers.append(name, HeaderValue::from_bytes(line.value).map_err(|_| BAD)?);
    }
    Ok((trailers, section.len()))
}

const BAD: Refusal = Refusal::bad("malformed trailer field");
const TOO_LARGE: Refusal = Refusal::bad("trailer section too large");

/// Whether a field may be in a trailer section: fields that frame, route, authorise, control or describe a message may
/// not (RFC 9110 section 6.5.1), nor may fields that only browsers interpret, which expect them in the head.
pub fn may_trail(name: &HeaderName) -> bool {
    const STEERING: [HeaderName; 32] = [
        header::AGE,
        header::ALT_SVC,
        header::AUTHORIZATION,
        header::CACHE_CONTROL,
        header::CONNECTION,
        header::CONTENT_ENCODING,
        header::CONTENT_LENGTH,
        header::CONTENT_RANGE,
        header::CONTENT_SECURITY_POLICY,
        header::CONTENT_TYPE,
        header::COOKIE,
        header::DATE,
        header::EXPECT,
        header::EXPIRES,
        header::FORWARDED,
        header::HOST,
        header::LOCATION,
        header::MAX_FORWARDS,
        header::PRAGMA,
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        header::RANGE,
        header::RETRY_AFTER,
        header::SET_COOKIE,
        header::STRICT_TRANSPORT_SECURITY,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::VARY,
        header::VIA,
        header::WWW_AUTHENTICATE,
    ];
    !STEERING.contains(name) && !matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `wire` delivered in pieces of `piece` bytes: returns the content, the trailer count and the bytes left
    /// over.
    fn decode(wire: &[u8], piece: usize) -> Result<(Vec<u8>, usize, usize), Refusal> {
        let (mut chunked, mut content) = (Chunked::default(), Vec::new());
        let (mut at, mut there) = (0, 0);
        loop {
            match chunked.step(&wire[at..there])? {
                ChunkedStep::Data { skip, len } => {
                    content.extend_from_slice(&wire[at + skip..at + skip + len]);
                    at += skip + len;
                }
                ChunkedStep::End { skip, trailers } => {
                    return Ok((content, trailers.len(), wire.len() - at - skip));
                }
                ChunkedStep::More { skip } => {
                    at += skip;
                    if there == wire.len() {
                        return Err(Refusal::bad("unfinished"));
                    }
                    there = wire.len().min(there + piece);
                }
            }
        }
    }

    #[test]
    fn content_comes_out_however_it_is_cut() {
        let wire = b"4;a=\"b;\\\"\"\r\nWiki\r\n5 ;x\r\npedia\r\n0\r\nA: 1\r\n\r\nGET";
        for piece in 1..=wire.len() {
            assert_eq!(decode(wire, piece).unwrap(), (b"Wikipedia".to_vec(), 1, 3), "pieces of {piece}");
        }
    }

    #[test]
    fn only_an_answer_may_have_blanks_before_colons() {
        let wire = b"0\r\nA : 1\r\nB\t: 2\r\n\r\nHTTP";
        for end in 0..=wire.len() {
            let step = Chunked::of_an_answer().step(&wire[..end]).unwrap();
            match step {
                ChunkedStep::End { skip, trailers } => {
                    assert_eq!((skip, trailers.len()), (wire.len() - 4, 2));
                    assert!(trailers["a"] == "1" && trailers["b"] == "2");
                }
                step => assert!(end < wire.len() - 4, "{end}: {step:?}"),
            }
        }
        assert!(Chunked::default().step(wire).is_err());
    }

    #[test]
    fn extensions_are_bounded_as_a_whole() {
        let wire = format!("1;{}\r\na\r\n", "x".repeat(1_000)).repeat(17) + "0\r\n\r\n";
        assert_eq!(decode(wire.as_bytes(), 100).unwrap_err().reason, "chunk extensions too large");
    }

    #[test]
    fn leading_zeros_of_a_size_are_read_and_bounded() {
        let wire = b"0000000000000000000004\r\nWiki\r\n00000000000000000000\r\n\r\n";
        for piece in 1..=wire.len() {
            assert_eq!(decode(wire, piece).unwrap(), (b"Wiki".to_vec(), 0, 0), "pieces of {piece}");
        }
        let padded = format!("{}1\r\na\r\n", "0".repeat(1_000)).repeat(17) + "0\r\n\r\n";
        assert_eq!(decode(padded.as_bytes(), 100).unwrap_err().reason, "chunk extensions too large");
    }

    #[test]
    fn deviations_are_refused() {
        let cases: [&[u8]; 16] = [
            b"4\nWiki\r\n0\r\n\r\n",
            b"g\r\n",
            b"\r\n",
            b"-1\r\n",
            b"+4\r\nWiki\r\n",
            b"0x4\r\nWiki\r\n",
            b"4\r\nWikiX\r\n0\r\n\r\n",
            b"4 4\r\nWiki\r\n",
            b"ffffffffffffffff\r\n",
            b"10000000000000000\r\n",
            b"0\r\nA : 1\r\n\r\n",
            b"0\r\nA: 1\n\r\n",
            b"0\r\n\n",
            b"4\x0c;x\r\nWiki\r\n0\r\n\r\n",
            b"4;a=\"\r\nWiki\r\n0\r\n\r\n",
            b"4;a=\"b\\\"\r\nWiki\r\n0\r\n\r\n",
        ];
        for wire in cases {
            let refusal = decode(wire, wire.len()).unwrap_err();
            assert_ne!(refusal.reason, "unfinished", "{}", String::from_utf8_lossy(wire));
        }
    }
}
