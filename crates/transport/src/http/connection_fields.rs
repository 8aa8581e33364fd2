//! The fields of a request that control its connection: its host, its length, and what follows it.

use http::StatusCode;
use larder_semantics::fields::list;
use larder_semantics::purpose;
use larder_semantics::storable::MOST_CONNECTION_OPTIONS;

use super::authority::authority;
use super::refusal::Refusal;

/// The largest `Content-Length` that is accepted: some parsers keep it in 63 bits.
const LONGEST: u64 = i64::MAX as u64;

/// The framing of a message's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// A length in bytes.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
}

/// The content of the fields that control the connection, collected in one pass.
#[derive(Default)]
pub(super) struct ConnectionFields<'b> {
    pub(super) host: Option<&'b str>,
    length: Option<u64>,
    transfer_encoding: bool,
    chunked: bool,
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    pub(super) connection_upgrade: bool,
    connection_options: usize,
    pub(super) lists_fields: bool,
    pub(super) upgrade: bool,
    pub(super) expects_continue: bool,
    pub(super) is_prefetch: bool,
}

impl<'b> ConnectionFields<'b> {
    pub(super) fn collect(lines: impl Iterator<Item = (&'b str, &'b [u8])>) -> Result<Self, Refusal> {
        let mut seen = Self::default();
        for (name, value) in lines {
            // Few names have these lengths; all others take one comparison.
            match name.len() {
                4 if name.eq_ignore_ascii_case("host") => seen.host(value)?,
                6 if name.eq_ignore_ascii_case("expect") => seen.expect(value)?,
                7 if name.eq_ignore_ascii_case("upgrade") => seen.upgrade = true,
                7 | 11 => seen.is_prefetch |= purpose::is_prefetch(name, value),
                10 if name.eq_ignore_ascii_case("connection") => seen.connection(value)?,
                14 if name.eq_ignore_ascii_case("content-length") => seen.length(value)?,
                17 if name.eq_ignore_ascii_case("transfer-encoding") => seen.coding(value)?,
                _ => {}
            }
        }
        Ok(seen)
    }

    fn host(&mut self, value: &'b [u8]) -> Result<(), Refusal> {
        let host = std::str::from_utf8(value).ok();
        let host = host.and_then(|host| if host.is_empty() { Some(host) } else { authority(host) });
        let host = host.ok_or(Refusal::bad("malformed host"))?;
        match self.host.replace(host) {
            None => Ok(()),
            Some(_) => Err(Refusal::bad("more than one host")),
        }
    }

    fn expect(&mut self, value: &[u8]) -> Result<(), Refusal> {
        self.expects_continue |= expects_continue(value)?;
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) -> Result<(), Refusal> {
        for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            self.connection_options += 1;
            if self.connection_options > MOST_CONNECTION_OPTIONS {
                return Err(Refusal::bad("too many connection options"));
            }
            let [close, keep_alive, upgrade, te] = [&b"close"[..], b"keep-alive", b"upgrade", b"te"]
                .map(|known| option.eq_ignore_ascii_case(known));
            self.close |= close;
            self.keep_alive |= keep_alive;
            self.connection_upgrade |= upgrade;
            self.lists_fields |= !(close || keep_alive || upgrade || te || option.is_empty());
        }
        Ok(())
    }

    fn length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        // Some senders join repeated lines into a list of equal numbers (RFC 9110 section 8.6). Refusing it leaves one
        // reading.
        let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let length =
            std::str::from_utf8(value).ok().filter(|_| digits).and_then(|digits| digits.parse().ok());
        let length = length.filter(|&length| length <= LONGEST);
        let length = length.ok_or(Refusal::bad("malformed content-length"))?;
        match self.length.replace(length) {
            None => Ok(()),
            Some(_) => Err(Refusal::bad("more than one content-length")),
        }
    }

    fn coding(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if std::mem::replace(&mut self.transfer_encoding, true) {
            return Err(Refusal::bad("more than one transfer-encoding"));
        }
        self.chunked = value.eq_ignore_ascii_case(b"chunked");
        match self.chunked {
            true => Ok(()),
            false => Err(Refusal::new(
                StatusCode::NOT_IMPLEMENTED,
                "only the chunked transfer coding is understood",
            )),
        }
    }

    pub(super) fn framing(&self, http11: bool) -> Result<Framing, Refusal> {
        match (self.transfer_encoding, self.length) {
            (true, Some(_)) => Err(Refusal::bad("content-length beside transfer-encoding")),
            (true, None) if !http11 => Err(Refusal::bad("transfer-encoding in an HTTP/1.0 request")),
            (true, None) => Ok(Framing::Chunked),
            (false, length) => Ok(Framing::Length(length.unwrap_or(0))),
        }
    }
}

/// Whether a line of `Expect` has the expectation `100-continue`. Errors: the refusal of any other expectation (RFC
/// 9110 section 10.1.1).
#[inline]
pub fn expects_continue(value: &[u8]) -> Result<bool, Refusal> {
    list(value).try_fold(false, |_, member| match member.eq_ignore_ascii_case(b"100-continue") {
        true => Ok(true),
        false => Err(Refusal::new(StatusCode::EXPECTATION_FAILED, "unknown expectation")),
    })
}
