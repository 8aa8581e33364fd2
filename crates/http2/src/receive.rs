//! The handling of the client's frames.

use crate::connection::{Answers, Connection, Event, Frame, FrameResult, Scratch, ShutdownStage};
use crate::error::{Code, Failure};
use crate::frame::{self, HEADER, Header, LARGEST_FRAME, LARGEST_WINDOW, MOST_PAYLOAD, flag, kind, setting};
use crate::head;
use crate::hpack::List;
use crate::limits::{CONTINUATIONS, Limits, SETTINGS_OF_A_TOKEN};
use crate::send::DRAIN;
use crate::streams::{End, Stream};

/// An encoded field section.
struct Block<'b> {
    bytes: &'b [u8],
    /// The total length of its frames in bytes.
    used: usize,
    /// The stream on which it depends, by the priorities of RFC 7540.
    dependency: Option<u32>,
}

impl Connection {
    /// Handles a `HEADERS` frame at the start of `input`, with all frames that continue it.
    pub(crate) fn headers<'e>(
        &mut self,
        header: Header,
        input: &'e [u8],
        scratch: &'e mut Scratch,
        to: &mut Answers<'_>,
    ) -> Result<(usize, Event<'e>), Failure> {
        let id = header.stream;
        if id.is_multiple_of(2) {
            return Err(Failure::protocol("a request on a stream that is not a client's"));
        }
        let Scratch { block, list } = scratch;
        let Some(Block { bytes, used, dependency }) = gather(header, input, block, &self.limits)? else {
            return Ok((0, Event::More));
        };
        let decoded = self.decoder.decode(bytes, list, &self.limits.head);
        decoded.map_err(|_| Failure::new(Code::COMPRESSION_ERROR, "a field section cannot be decoded"))?;
        let end = header.has(flag::END_STREAM);
        let event = if self.streams.get(id).is_some() {
            self.trailers_received(id, end, list, to)?
        } else if id <= self.streams.last {
            self.late(id, to.now)?
        } else {
            self.streams.last = id;
            match dependency == Some(id) {
                true => self.refuse(id, Code::PROTOCOL_ERROR, to)?,
                false => self.request(id, end, list, to)?,
            }
        };
        Ok((used, event))
    }

    fn request<'e>(
        &mut self,
        id: u32,
        end: bool,
        list: &'e mut List,
        to: &mut Answers<'_>,
    ) -> FrameResult<'e> {
        if self.leaving == ShutdownStage::Closing || self.streams.len() >= self.limits.streams {
            return self.refuse(id, Code::REFUSED_STREAM, to);
        }
        self.budgets.control.earn(4_000);
        let mut stream = Stream {
            id,
            window: self.first_window,
            allowed: self.limits.stream_window(),
            held: 0,
            released: 0,
            expected: None,
            receives: !end,
            answered: false,
            tunnel: false,
            uncounted: false,
            ended: false,
            lingers_until: None,
            wants: false,
            priority: Default::default(),
            sent: 0,
            turn: 0,
        };
        if list.is_too_large() {
            self.streams.open(stream);
            return Ok(Event::TooLarge { stream: id });
        }
        let Ok((head, priority)) = head::request(list, end) else {
            return self.refuse(id, Code::PROTOCOL_ERROR, to);
        };
        (stream.expected, stream.priority) = (head.length, priority);
        stream.tunnel = head.method == "CONNECT";
        stream.uncounted = stream.tunnel;
        self.streams.open(stream);
        Ok(Event::Head { stream: id, head, end })
    }

    fn trailers_received<'e>(
        &mut self,
        id: u32,
        end: bool,
        list: &'e List,
        to: &mut Answers<'_>,
    ) -> FrameResult<'e> {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(Event::Nothing) };
        if !stream.receives {
            return self.refuse(id, Code::STREAM_CLOSED, to);
        }
        let is_whole = stream.expected.is_none_or(|left| left == 0);
        let lingers = stream.lingers();
        match head::trailers(list) {
            // A tunnel has no trailers (RFC 9113 section 8.5).
            Ok(fields) if end && is_whole && !stream.tunnel && !list.is_too_large() => {
                stream.receives = false;
                if lingers {
                    self.end(id, false);
                    return Ok(Event::Nothing);
                }
                Ok(Event::Trailers { stream: id, fields })
            }
            _ => self.refuse(id, Code::PROTOCOL_ERROR, to),
        }
    }

    /// Handles `HEADERS` on a stream that has ended.
    fn late(&mut self, id: u32, now: u64) -> FrameResult<'static> {
        match self.streams.ended(id) {
            End::Reset if self.budgets.control.spend(now) => Ok(Event::Nothing),
            End::Reset => Err(Failure::flood("too many frames on streams that were reset")),
            End::Closed => Err(Failure::new(Code::STREAM_CLOSED, "a request on a stream that is closed")),
            End::Idle | End::Forgotten => {
                Err(Failure::protocol("the number of a stream is not higher than the last"))
            }
        }
    }

    /// Handles a `DATA` frame.
    pub(crate) fn content<'e>(&mut self, frame: Frame<'e>, to: &mut Answers<'_>) -> FrameResult<'e> {
        let id = frame.header.stream;
        if self.streams.ended(id) == End::Idle {
            return Err(Failure::protocol("content on a stream that is not open"));
        }
        let data = frame.header.unpadded(frame.payload)?;
        let end = frame.header.has(flag::END_STREAM);
        let size = frame.payload.len() as i64;
        self.allowed -= size;
        if self.allowed < 0 {
            self.allowed += size;
            return Err(Failure::new(Code::FLOW_CONTROL_ERROR, "more content than the connection's window"));
        }
        if data.is_empty() && !end && !self.budgets.control.spend(to.now) {
            return Err(Failure::flood("too many empty DATA frames"));
        }
        let Some(stream) = self.streams.get_mut(id) else {
            self.released += size;
            self.announce(to.out);
            if !self.budgets.control.spend(to.now) {
                return Err(Failure::flood("too much content on streams that are not open"));
            }
            return match self.streams.ended(id) {
                End::Reset => Ok(Event::Nothing),
                _ => self.refuse(id, Code::STREAM_CLOSED, to),
            };
        };
        let length = data.len() as u64;
        let left = stream.expected.map(|left| left.checked_sub(length));
        let fault = match left {
            _ if !stream.receives => Some(Code::STREAM_CLOSED),
            _ if size > stream.allowed => Some(Code::FLOW_CONTROL_ERROR),
            Some(None) => Some(Code::PROTOCOL_ERROR),
            Some(Some(1..)) if end => Some(Code::PROTOCOL_ERROR),
            _ => None,
        };
        if let Some(code) = fault {
            self.released += size;
            self.announce(to.out);
            return self.refuse(id, code, to);
        }
        if !data.is_empty() {
            self.budgets.control.earn(1_000);
        }
        stream.expected = left.flatten();
        stream.allowed -= size;
        if stream.lingers() {
            stream.released += size;
            self.released += size;
            if end {
                self.end(id, false);
            }
            self.announce(to.out);
            return Ok(Event::Nothing);
        }
        stream.receives = !end;
        stream.held += size;
        if stream.uncounted {
            self.released += size;
        }
        self.release(to.out, id, frame.payload.len() - data.len());
        Ok(Event::Data { stream: id, data, end })
    }

    pub(crate) fn priority(&mut self, frame: &Frame<'_>, to: &mut Answers<'_>) -> FrameResult<'static> {
        let id = frame.header.stream;
        if id == 0 {
            return Err(Failure::protocol("PRIORITY without a stream"));
        }
        let dependency = frame.payload.first_chunk::<4>().and_then(|bytes| frame::number(bytes));
        match frame.payload.len() {
            5 if dependency == Some(id) => self.refuse(id, Code::PROTOCOL_ERROR, to),
            5 => Ok(Event::Nothing),
            _ => self.refuse(id, Code::FRAME_SIZE_ERROR, to),
        }
    }

    pub(crate) fn priority_update(&mut self, frame: &Frame<'_>) -> FrameResult<'static> {
        if frame.header.stream != 0 {
            return Err(Failure::protocol("PRIORITY_UPDATE on a stream"));
        }
        let Some((id, value)) = frame.payload.split_first_chunk::<4>() else {
            return Err(Failure::frame_size("PRIORITY_UPDATE is too short"));
        };
        let id = frame::number(id).unwrap_or(0);
        if id.is_multiple_of(2) {
            return Err(Failure::protocol("PRIORITY_UPDATE for a stream that is not a client's"));
        }
        self.streams.prioritise(id, value);
        Ok(Event::Nothing)
    }

    pub(crate) fn reset_by_client(&mut self, frame: &Frame<'_>, now: u64) -> FrameResult<'static> {
        let id = frame.header.stream;
        let Ok(code) = frame.payload.try_into().map(|code| Code(u32::from_be_bytes(code))) else {
            return Err(Failure::frame_size("RST_STREAM has 4 bytes"));
        };
        let Some(stream) = self.streams.get(id) else {
            return match self.streams.ended(id) {
                End::Idle => Err(Failure::protocol("RST_STREAM on a stream that is not open")),
                _ => Ok(Event::Nothing),
            };
        };
        if stream.lingers() {
            self.end(id, false);
            return Ok(Event::Nothing);
        }
        if !self.budgets.resets.spend(now) {
            return Err(Failure::flood("too many requests are reset before they are answered"));
        }
        self.end(id, false);
        Ok(Event::Reset { stream: id, code })
    }

    pub(crate) fn settings(&mut self, frame: &Frame<'_>, to: &mut Answers<'_>) -> FrameResult<'static> {
        if frame.header.stream != 0 {
            return Err(Failure::protocol("SETTINGS on a stream"));
        }
        if frame.header.has(flag::ACK) {
            return match frame.payload.is_empty() && self.settled {
                true => Ok(Event::Nothing),
                false => Err(Failure::frame_size(
                    "an acknowledgement of SETTINGS is empty, and not the first frame",
                )),
            };
        }
        let (settings, rest) = frame.payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(Failure::frame_size("SETTINGS has 6 bytes for each setting"));
        }
        if !(0..settings.len() / SETTINGS_OF_A_TOKEN).all(|_| self.budgets.control.spend(to.now)) {
            return Err(Failure::flood("too many settings"));
        }
        let before = self.first_window;
        for &[a, b, value @ ..] in settings {
            self.setting(u16::from_be_bytes([a, b]), u32::from_be_bytes(value))?;
        }
        self.settled = true;
        frame::write(to.out, kind::SETTINGS, flag::ACK, 0, &[]);
        Ok(if self.first_window > before { self.windows() } else { Event::Nothing })
    }

    fn setting(&mut self, name: u16, value: u32) -> Result<(), Failure> {
        match name {
            // The server's encoder has no dynamic table, but both sides must agree on its size (RFC 7541 section 4.2).
            setting::HEADER_TABLE_SIZE => self.shrinks |= value < 4_096,
            setting::ENABLE_PUSH if value > 1 => {
                return Err(Failure::protocol("SETTINGS_ENABLE_PUSH is 0 or 1"));
            }
            setting::MAX_HEADER_LIST_SIZE => self.longest_list = value as usize,
            setting::INITIAL_WINDOW_SIZE => return self.first_window(i64::from(value)),
            setting::MAX_FRAME_SIZE if !(MOST_PAYLOAD as u32..=LARGEST_FRAME).contains(&value) => {
                return Err(Failure::protocol("SETTINGS_MAX_FRAME_SIZE is out of range"));
            }
            _ => {}
        }
        Ok(())
    }

    fn first_window(&mut self, window: i64) -> Result<(), Failure> {
        let too_large = Failure::new(Code::FLOW_CONTROL_ERROR, "a window is too large");
        if window > LARGEST_WINDOW {
            return Err(too_large);
        }
        let more = window - self.first_window;
        if self.streams.iter().any(|stream| stream.window + more > LARGEST_WINDOW) {
            return Err(too_large);
        }
        self.first_window = window;
        self.streams.iter_mut().for_each(|stream| stream.window += more);
        Ok(())
    }

    pub(crate) fn pinged(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> FrameResult<'static> {
        if frame.header.stream != 0 {
            return Err(Failure::protocol("PING on a stream"));
        }
        if frame.payload.len() != 8 {
            return Err(Failure::frame_size("PING has 8 bytes"));
        }
        if !frame.header.has(flag::ACK) {
            frame::write(out, kind::PING, flag::ACK, 0, frame.payload);
            return Ok(Event::Nothing);
        }
        self.pinged = false;
        if frame.payload == DRAIN && self.leaving == ShutdownStage::Announced {
            self.go_away(out, Code::NO_ERROR);
        }
        Ok(Event::Nothing)
    }

    pub(crate) fn window_update(&mut self, frame: &Frame<'_>, to: &mut Answers<'_>) -> FrameResult<'static> {
        let id = frame.header.stream;
        let more = frame::number(frame.payload).ok_or(Failure::frame_size("WINDOW_UPDATE has 4 bytes"))?;
        let more = i64::from(more);
        if id == 0 {
            self.window += more;
            return match more {
                0 => Err(Failure::protocol("WINDOW_UPDATE of 0")),
                _ if self.window > LARGEST_WINDOW => {
                    Err(Failure::new(Code::FLOW_CONTROL_ERROR, "the connection's window is too large"))
                }
                _ => Ok(self.windows()),
            };
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return match self.streams.ended(id) {
                End::Idle => Err(Failure::protocol("WINDOW_UPDATE on a stream that is not open")),
                _ => Ok(Event::Nothing),
            };
        };
        match more {
            0 => self.refuse(id, Code::PROTOCOL_ERROR, to),
            _ if stream.window + more > LARGEST_WINDOW => self.refuse(id, Code::FLOW_CONTROL_ERROR, to),
            _ => {
                stream.window += more;
                Ok(if stream.wants { Event::Windows } else { Event::Nothing })
            }
        }
    }

    fn windows(&self) -> Event<'static> {
        if self.streams.is_any_waiting() { Event::Windows } else { Event::Nothing }
    }

    /// Resets a stream because the client has broken a rule on it, or has too many streams.
    fn refuse(&mut self, id: u32, code: Code, to: &mut Answers<'_>) -> FrameResult<'static> {
        if !self.budgets.faults.spend(to.now) {
            return Err(Failure::flood("too many streams have to be reset"));
        }
        frame::reset(to.out, id, code);
        let was_open = self.streams.get(id).is_some();
        if was_open {
            self.end(id, true);
            self.announce(to.out);
            return Ok(Event::Reset { stream: id, code });
        }
        self.streams.remember(id, true);
        Ok(Event::Nothing)
    }
}

/// Returns the field section that begins with the frame at the start of `input`; `None` if it is incomplete. A section
/// of several frames is assembled in `block`.
fn gather<'b>(
    first: Header,
    input: &'b [u8],
    block: &'b mut Vec<u8>,
    limits: &Limits,
) -> Result<Option<Block<'b>>, Failure> {
    let mut used = HEADER + first.length;
    let Some(payload) = input.get(HEADER..used) else { return Ok(None) };
    let mut bytes = first.unpadded(payload)?;
    let mut dependency = None;
    if first.has(flag::PRIORITY) {
        let (priority, rest) = bytes
            .split_first_chunk::<5>()
            .ok_or(Failure::frame_size("HEADERS is too short for its priority"))?;
        (dependency, bytes) = (frame::number(&priority[..4]), rest);
    }
    if first.has(flag::END_HEADERS) {
        return Ok(Some(Block { bytes, used, dependency }));
    }
    // The frames are copied only when all are there: they may come byte by byte.
    let (start, mut length) = (used, bytes.len());
    for number in 1.. {
        let Some(next) = input.get(used..).and_then(Header::read) else { return Ok(None) };
        if next.kind != kind::CONTINUATION || next.stream != first.stream {
            return Err(Failure::protocol("another frame in the middle of a field section"));
        }
        if next.length > MOST_PAYLOAD {
            return Err(Failure::frame_size("a frame is longer than was allowed"));
        }
        length += next.length;
        if number > CONTINUATIONS || length > limits.block() {
            return Err(Failure::flood("a field section is too long"));
        }
        used += HEADER + next.length;
        if next.has(flag::END_HEADERS) {
            break;
        }
    }
    let Some(mut rest) = input.get(start..used) else { return Ok(None) };
    block.clear();
    block.extend_from_slice(bytes);
    while let Some((next, after)) = Header::read(rest).zip(rest.get(HEADER..)) {
        let (payload, frames) = after.split_at(next.length);
        block.extend_from_slice(payload);
        rest = frames;
    }
    Ok(Some(Block { bytes: block, used, dependency }))
}
