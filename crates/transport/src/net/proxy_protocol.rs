//! The PROXY protocol, versions 1 and 2: the header with which a proxy in front of this one begins a connection, and
//! which contains the address of its client. Bytes behind the header stay unread.
//!
//! A header has at most [`MOST`] bytes. Additional values (TLVs) of version 2 are skipped.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// The largest header, in bytes.
pub const MOST: usize = 4 << 10;
/// Maximum of bytes of a header of version 1, its line end included.
const MOST_OF_LINE: usize = 107;
/// The first bytes of version 1.
const LINE: &[u8] = b"PROXY ";
/// The first bytes of version 2.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of a header of version 2 before the addresses.
const FIXED: usize = 16;
/// Bytes that are peeked at once; an ordinary header is shorter.
const PIECE: usize = 256;

/// The result of parsing the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseResult {
    /// All bytes belong to a header that is not complete.
    Partial,
    /// A complete header.
    Whole {
        /// The client's address; `None` if the header contains none.
        client: Option<SocketAddr>,
        /// Length of the header in bytes.
        used: usize,
    },
}

/// The reason why bytes are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes begin with neither version's signature.
    #[error("the connection begins with other bytes")]
    Other,
    /// The header is longer than allowed.
    #[error("it is longer than allowed")]
    TooLong,
    /// The line of version 1 is malformed.
    #[error(
        "its line is not 'PROXY TCP4' or 'PROXY TCP6' with two addresses and two ports, nor 'PROXY UNKNOWN'"
    )]
    Line,
    /// The version or the command is unknown.
    #[error("its version and command {0:#04x} are unknown")]
    Command(u8),
    /// The address family is unknown.
    #[error("its address family {0:#04x} is unknown")]
    Family(u8),
    /// The header is too short for its addresses.
    #[error("it is too short for its addresses")]
    TooShort,
}

/// The reason why no header could be read.
#[derive(Debug, thiserror::Error)]
pub enum NoHeader {
    /// The bytes are not a header.
    #[error("{0}")]
    Malformed(Malformed),
    /// The connection ended or failed.
    #[error("{0}")]
    Io(io::Error),
}

/// Reads the header at the beginning of `stream`, and no bytes behind it. Returns the client's address, if the header
/// contains one. The error is the reason why there is no header.
pub async fn read(stream: &mut TcpStream) -> Result<Option<SocketAddr>, NoHeader> {
    let mut header = Vec::with_capacity(PIECE);
    loop {
        let (before, mut piece) = (header.len(), [0; PIECE]);
        let count = stream.peek(&mut piece).await.map_err(NoHeader::Io)?;
        if count == 0 {
            return Err(NoHeader::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        header.extend_from_slice(&piece[..count]);
        let parsed = parse(&header).map_err(NoHeader::Malformed)?;
        let end = if let ParseResult::Whole { used, .. } = parsed { used } else { header.len() };
        // The kernel has these bytes already, so this read does not wait.
        stream.read_exact(&mut piece[..end - before]).await.map_err(NoHeader::Io)?;
        if let ParseResult::Whole { client, .. } = parsed {
            return Ok(client);
        }
    }
}

/// Parses `bytes`, the first bytes of a connection. Once the result is not [`ParseResult::Partial`], further bytes do not
/// change it.
///
/// # Errors
/// The reason why the bytes are not a header.
pub fn parse(bytes: &[u8]) -> Result<ParseResult, Malformed> {
    match bytes.first() {
        None => Ok(ParseResult::Partial),
        Some(b'P') => parse_line(bytes),
        Some(_) => parse_binary(bytes),
    }
}

/// Whether `bytes` and `expected` are equal up to the length of the shorter one.
fn begins(bytes: &[u8], expected: &[u8]) -> bool {
    let common = bytes.len().min(expected.len());
    bytes[..common] == expected[..common]
}

fn parse_line(bytes: &[u8]) -> Result<ParseResult, Malformed> {
    if !begins(bytes, LINE) {
        return Err(Malformed::Other);
    }
    let Some(end) = bytes.iter().take(MOST_OF_LINE).position(|byte| *byte == b'\n') else {
        return if bytes.len() < MOST_OF_LINE { Ok(ParseResult::Partial) } else { Err(Malformed::TooLong) };
    };
    let line = bytes[..end].strip_suffix(b"\r").and_then(|line| line.strip_prefix(LINE));
    let line = line.and_then(|line| std::str::from_utf8(line).ok()).ok_or(Malformed::Line)?;
    let client = client_of_line(line).ok_or(Malformed::Line)?;
    Ok(ParseResult::Whole { client, used: end + 1 })
}

/// Returns the client in the part of a line behind `PROXY `: `Some(None)` if the line contains no client, `None` if it
/// is malformed.
fn client_of_line(line: &str) -> Option<Option<SocketAddr>> {
    let mut words = line.split(' ');
    let parse: fn(&str) -> Option<IpAddr> = match words.next()? {
        // The protocol says to ignore the rest of such a line.
        "UNKNOWN" => return Some(None),
        "TCP4" => |text| text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        "TCP6" => |text| text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        _ => return None,
    };
    let (ip, _to) = (parse(words.next()?)?, parse(words.next()?)?);
    let (from_port, _to_port) = (port(words.next()?)?, port(words.next()?)?);
    words.next().is_none().then(|| Some(SocketAddr::new(ip.to_canonical(), from_port)))
}

/// Parses a number from 0 to 65535 without a sign and without leading zeros.
fn port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}

fn parse_binary(bytes: &[u8]) -> Result<ParseResult, Malformed> {
    if !begins(bytes, SIGNATURE) {
        return Err(Malformed::Other);
    }
    let Some((&command, rest)) = bytes.get(SIGNATURE.len()..).and_then(<[u8]>::split_first) else {
        return Ok(ParseResult::Partial);
    };
    let names_client = match command {
        0x20 => false,
        0x21 => true,
        unknown => return Err(Malformed::Command(unknown)),
    };
    let Some((&family, rest)) = rest.split_first() else { return Ok(ParseResult::Partial) };
    let needed = match family {
        _ if !names_client => 0,
        0x00..=0x02 => 0,
        0x10..=0x12 => 12,
        0x20..=0x22 => 36,
        0x30..=0x32 => 216,
        unknown => return Err(Malformed::Family(unknown)),
    };
    let Some((length, rest)) = rest.split_first_chunk() else { return Ok(ParseResult::Partial) };
    let length = usize::from(u16::from_be_bytes(*length));
    if FIXED + length > MOST {
        return Err(Malformed::TooLong);
    }
    if length < needed {
        return Err(Malformed::TooShort);
    }
    let Some(block) = rest.get(..length) else { return Ok(ParseResult::Partial) };
    let client = if names_client { client_of_block(family, block) } else { None };
    Ok(ParseResult::Whole { client, used: FIXED + length })
}

/// Returns the client of a connection over TCP; `None` for other transports and families.
fn client_of_block(family: u8, block: &[u8]) -> Option<SocketAddr> {
    let (ip, port) = match family {
        0x11 => (IpAddr::from(*block.first_chunk::<4>()?), block.get(8..10)?),
        0x21 => (IpAddr::from(*block.first_chunk::<16>()?), block.get(32..34)?),
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), u16::from_be_bytes(port.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    /// Returns a header of version 2.
    fn binary(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
        let length = u16::try_from(block.len()).unwrap().to_be_bytes();
        [SIGNATURE, &[command, family], &length, block].concat()
    }

    fn whole(bytes: &[u8]) -> Result<Option<String>, Malformed> {
        match parse(bytes)? {
            ParseResult::Whole { client, used } => {
                assert_eq!(used, bytes.len());
                Ok(client.map(|client| client.to_string()))
            }
            ParseResult::Partial => panic!("it is whole: {bytes:?}"),
        }
    }

    #[test]
    fn lines_of_version_1_name_the_client() {
        for (line, client) in [
            ("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443", Ok(Some("192.0.2.1:56324"))),
            ("PROXY TCP6 2001:db8::1 2001:db8::2 0 65535", Ok(Some("[2001:db8::1]:0"))),
            ("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2", Ok(Some("192.0.2.1:1"))),
            ("PROXY UNKNOWN", Ok(None)),
            ("PROXY UNKNOWN ffff::1 ffff::2 65535 65535", Ok(None)),
            ("PROXY ", Err(Malformed::Line)),
            ("PROXY TCP4 192.0.2.1 198.51.100.1 56324", Err(Malformed::Line)),
            ("PROXY TCP4 192.0.2.1 198.51.100.1 1 2 3", Err(Malformed::Line)),
            ("PROXY TCP4 192.0.2.1  198.51.100.1 1 2", Err(Malformed::Line)),
            ("PROXY TCP4 ::1 ::1 1 2", Err(Malformed::Line)),
            ("PROXY TCP6 192.0.2.1 198.51.100.1 1 2", Err(Malformed::Line)),
            ("PROXY TCP4 192.0.2.1 198.51.100.1 +1 2", Err(Malformed::Line)),
            ("PROXY TCP4 192.0.2.1 198.51.100.1 01 2", Err(Malformed::Line)),
            ("PROXY TCP4 192.0.2.1 198.51.100.1 65536 2", Err(Malformed::Line)),
            ("PROXY UDP4 192.0.2.1 198.51.100.1 1 2", Err(Malformed::Line)),
            ("PROXY unknown", Err(Malformed::Line)),
            ("PROXIES UNKNOWN", Err(Malformed::Other)),
            ("GET / HTTP/1.1", Err(Malformed::Other)),
        ] {
            let found = whole(format!("{line}\r\n").as_bytes());
            assert_eq!(found, client.map(|client| client.map(str::to_owned)), "{line}");
        }
        assert_eq!(parse(b"PROXY UNKNOWN\n"), Err(Malformed::Line), "a line ends with CR and LF");
        let long = format!("PROXY UNKNOWN {}", "1".repeat(100));
        assert_eq!(parse(long.as_bytes()), Err(Malformed::TooLong));
        assert_eq!(parse(&long.as_bytes()[..106]), Ok(ParseResult::Partial));
    }

    #[test]
    fn a_proxy_header_of_version_2_names_the_client() {
        let four = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 0x04, 1, 187];
        let six = [Ipv6Addr::LOCALHOST.octets(), Ipv6Addr::LOCALHOST.octets()].concat();
        let six = [&six[..], &[0, 80, 0, 81]].concat();
        let with_values = [&four[..], &[0x20, 0, 3, 1, 2, 3]].concat();
        for (header, client) in [
            (binary(0x21, 0x11, &four), Ok(Some("192.0.2.1:56324"))),
            (binary(0x21, 0x11, &with_values), Ok(Some("192.0.2.1:56324"))),
            (binary(0x21, 0x21, &six), Ok(Some("[::1]:80"))),
            (binary(0x20, 0x11, &four), Ok(None)),
            (binary(0x20, 0xff, &[]), Ok(None)),
            (binary(0x21, 0x00, &[1, 2, 3]), Ok(None)),
            (binary(0x21, 0x12, &four), Ok(None)),
            (binary(0x21, 0x31, &[0; 216]), Ok(None)),
            (binary(0x21, 0x31, &[0; 215]), Err(Malformed::TooShort)),
            (binary(0x21, 0x11, &four[..11]), Err(Malformed::TooShort)),
            (binary(0x21, 0x21, &six[..35]), Err(Malformed::TooShort)),
            (binary(0x21, 0x41, &six), Err(Malformed::Family(0x41))),
            (binary(0x21, 0x13, &six), Err(Malformed::Family(0x13))),
            (binary(0x22, 0x11, &four), Err(Malformed::Command(0x22))),
            (binary(0x11, 0x11, &four), Err(Malformed::Command(0x11))),
            (binary(0x21, 0x11, &[0; MOST - FIXED]), Ok(Some("0.0.0.0:0"))),
            (binary(0x21, 0x11, &[0; MOST - FIXED + 1]), Err(Malformed::TooLong)),
        ] {
            assert_eq!(whole(&header), client.map(|client| client.map(str::to_owned)), "{header:?}");
        }
    }

    /// Headers, some of them with one damaged byte.
    fn nearly_headers() -> impl Strategy<Value = Vec<u8>> {
        let word =
            proptest::sample::select(vec!["TCP4", "TCP6", "UNKNOWN", "1.2.3.4", "::1", "0", "65535", ""]);
        let line = vec(word, 0..7).prop_map(|words| format!("PROXY {}\r\nGET", words.join(" ")).into_bytes());
        let block = (0x20..0x23_u8, any::<u8>(), vec(any::<u8>(), 0..300));
        let block = block.prop_map(|(command, family, block)| binary(command, family, &block));
        let wires = prop_oneof![line, block, vec(any::<u8>(), 0..200)];
        (wires, any::<prop::sample::Index>(), prop::option::of(any::<u8>())).prop_map(
            |(mut wire, at, byte)| {
                if let (Some(byte), false) = (byte, wire.is_empty()) {
                    let at = at.index(wire.len());
                    wire[at] = byte;
                }
                wire
            },
        )
    }

    proptest! {
        #[test]
        fn any_bytes_are_decided_once_and_the_same_wherever_they_are_cut(wire in nearly_headers(), more: [u8; 3]) {
            let longer = [&wire[..], &more].concat();
            let decided = (0..=longer.len()).find_map(|end| match parse(&longer[..end]) {
                Ok(ParseResult::Partial) => None,
                decided => Some((end, decided)),
            });
            let Some((first, decided)) = decided else { return Ok(()) };
            for end in first..=longer.len() {
                prop_assert_eq!(parse(&longer[..end]), decided);
            }
            if let Ok(ParseResult::Whole { used, .. }) = decided {
                prop_assert_eq!(used, first);
            }
            prop_assert!(first <= MOST);
        }
    }

    #[tokio::test]
    async fn bytes_behind_a_proxy_header_stay_in_the_connection() {
        let long = binary(0x21, 0x11, &[&[192, 0, 2, 7, 0, 0, 0, 0, 0, 9, 0, 0][..], &[0; 700]].concat());
        for header in [b"PROXY TCP4 192.0.2.7 192.0.2.8 9 80\r\n".to_vec(), long] {
            for cut in [1, 12, 40, header.len()] {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
                let mut far = listener.accept().await.unwrap().0;
                let wire = [&header[..], b"GET"].concat();
                let send = async {
                    for piece in wire.chunks(cut) {
                        near.write_all(piece).await.unwrap();
                        tokio::task::yield_now().await;
                    }
                };
                let (client, ()) = tokio::join!(read(&mut far), send);
                assert_eq!(client.unwrap(), Some("192.0.2.7:9".parse().unwrap()));
                let mut rest = [0; 3];
                far.read_exact(&mut rest).await.unwrap();
                assert_eq!(&rest, b"GET");
            }
        }
    }
}
