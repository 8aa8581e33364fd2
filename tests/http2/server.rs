//! An origin that speaks HTTP/2: it reads the frames of the proxy, and sends arbitrary frames.

use larder_http2::PREFACE;
use larder_http2::hpack::{Bounds, Decoder, List};
use larder_testkit::http2::*;
use larder_testkit::{Larder, Line, Origin, Peer, Seen};

const ACK: u8 = 1;

/// An event that the proxy caused on a stream.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The head of a request; `end` if it has no content.
    Head { stream: u32, fields: Vec<Line>, end: bool },
    /// A part of the content.
    Data { stream: u32, data: Vec<u8>, end: bool },
    /// The end of the content, with trailers.
    Trailers { stream: u32, fields: Vec<Line> },
    /// The reset of a stream, with its code.
    Reset { code: u32 },
}

/// The origin's end of a connection.
pub(crate) struct Server<'p> {
    pub(crate) peer: &'p mut Peer,
    decoder: Decoder,
}

/// Starts a proxy before an origin that runs `script` on each connection.
pub(crate) fn before(script: impl Fn(&mut Server<'_>) + Send + Sync + 'static) -> (Larder, Origin) {
    let origin = origin(script);
    (Larder::start(&site(&[&origin], "")), origin)
}

/// Starts an origin that runs `script` on each connection.
pub(crate) fn origin(script: impl Fn(&mut Server<'_>) + Send + Sync + 'static) -> Origin {
    origin_with(&[], script)
}

/// Starts an origin like [`origin`], with these settings.
pub(crate) fn origin_with(
    settings: &'static [(u16, u32)],
    script: impl Fn(&mut Server<'_>) + Send + Sync + 'static,
) -> Origin {
    Origin::speaking(move |peer| {
        if let Some(mut server) = Server::new(peer, settings) {
            script(&mut server);
        }
    })
}

/// Returns the table of a site before such origins.
pub(crate) fn site(origins: &[&Origin], keys: &str) -> String {
    let origins: Vec<_> = origins.iter().map(|origin| format!("'h2c://{}'", origin.address)).collect();
    format!("[[site]]\norigin = [{}]\n{keys}\n", origins.join(", "))
}

impl<'p> Server<'p> {
    fn new(peer: &'p mut Peer, settings: &[(u16, u32)]) -> Option<Self> {
        assert_eq!(peer.exactly(PREFACE.len())?, PREFACE);
        let mut server = Self { peer, decoder: Decoder::new(4096) };
        let pairs =
            settings.iter().map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat());
        server.send(SETTINGS, 0, 0, &pairs.collect::<Vec<_>>().concat());
        Some(server)
    }

    pub(crate) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.peer.send(&frame(kind, flags, stream, payload));
    }

    /// Waits for the next event on a stream; returns `None` at the end of the connection.
    pub(crate) fn hear(&mut self) -> Option<Heard> {
        loop {
            let header = self.peer.exactly(9)?;
            let [a, b, c, kind, flags, ref stream @ ..] = header[..] else { return None };
            let payload = self.peer.exactly(u32::from_be_bytes([0, a, b, c]) as usize)?;
            let stream = u32::from_be_bytes(stream.try_into().expect("4 bytes"));
            let end = flags & END_STREAM != 0;
            match kind {
                SETTINGS if flags & ACK == 0 => self.send(SETTINGS, ACK, 0, &[]),
                PING if flags & ACK == 0 => self.send(PING, ACK, 0, &payload),
                HEADERS => {
                    assert!(flags & END_HEADERS != 0, "no head is as long here");
                    let fields = self.fields(&payload);
                    return Some(match fields.first().is_some_and(|(name, _)| name.starts_with(':')) {
                        true => Heard::Head { stream, fields, end },
                        false => Heard::Trailers { stream, fields },
                    });
                }
                DATA => {
                    // The client's windows are as large as those of a real server, and content is acknowledged at once.
                    if !payload.is_empty() {
                        let more = (payload.len() as u32).to_be_bytes();
                        self.send(WINDOW_UPDATE, 0, 0, &more);
                        if !end {
                            self.send(WINDOW_UPDATE, 0, stream, &more);
                        }
                    }
                    return Some(Heard::Data { stream, data: payload, end });
                }
                RST_STREAM => {
                    let code = u32::from_be_bytes(payload[..4].try_into().expect("4 bytes"));
                    return Some(Heard::Reset { code });
                }
                _ => {}
            }
        }
    }

    fn fields(&mut self, section: &[u8]) -> Vec<Line> {
        let mut list = List::default();
        let bounds = Bounds { bytes: 1 << 20, fields: 500 };
        self.decoder.decode(section, &mut list, &bounds).expect("a section");
        let line =
            |(name, value): (&str, &[u8])| (name.to_owned(), String::from_utf8_lossy(value).into_owned());
        list.fields().iter().map(line).collect()
    }

    /// Waits for the next complete request; returns `None` at the end of the connection. Resets of other streams are
    /// ignored.
    pub(crate) fn request(&mut self) -> Option<(u32, Seen)> {
        let mut seen = Seen::default();
        loop {
            let (stream, end) = match self.hear()? {
                Heard::Head { stream, fields, end } => {
                    let pseudo = |name: &str| {
                        fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
                    };
                    seen.method = pseudo(":method").expect("a method");
                    seen.target = pseudo(":path").expect("a path");
                    seen.fields = fields;
                    (stream, end)
                }
                Heard::Data { stream, data, end } => {
                    seen.body.extend(data);
                    (stream, end)
                }
                Heard::Trailers { stream, fields } => {
                    seen.trailers = fields;
                    (stream, true)
                }
                Heard::Reset { .. } => continue,
            };
            if end {
                return self.peer.remember(seen).map(|seen| (stream, seen));
            }
        }
    }

    /// Sends a response: `fields` beginning with the status, the content, and trailers.
    pub(crate) fn answer(
        &mut self,
        stream: u32,
        fields: &[(&str, &str)],
        body: &[u8],
        trailers: &[(&str, &str)],
    ) {
        let is_last = body.is_empty() && trailers.is_empty();
        let end = |is_last| if is_last { END_STREAM } else { 0 };
        self.send(HEADERS, END_HEADERS | end(is_last), stream, &section(fields));
        for (number, piece) in body.chunks(16_384).enumerate() {
            let is_last = trailers.is_empty() && (number + 1) * 16_384 >= body.len();
            self.send(DATA, end(is_last), stream, piece);
        }
        if !trailers.is_empty() {
            self.send(HEADERS, END_HEADERS | END_STREAM, stream, &section(trailers));
        }
    }
}
