//! Field lines at rest. Lines that many responses have in common (`Server`, `Content-Type`, security
//! policies) are stored once for all of them ([`pool`]); the others are stored with their response.
//!
//! Lines are stored as they are sent, `Name: value\r\n`, so that sending them is a plain copy. Lines that differ from
//! reply to reply are left out: `Age` and `Content-Length` are made from integers. So are `Date` and `Last-Modified`
//! ([`dates`]): as lines they would be the largest part of an ordinary response's unshared lines.

use std::cell::OnceCell;

use http::HeaderMap;
use larder_semantics::date;
use larder_semantics::fields::{Fields, HeadLines, to_map};

mod dates;
mod pack_lines;
mod pool;
mod repeats;

pub(crate) use dates::{Dates, LastModified};
pub(crate) use pack_lines::PackLines;
pub use pool::LinePool;
pub(crate) use pool::SharedLines;

/// The field lines of a response that is stored or about to be stored.
#[derive(Clone, Debug)]
pub struct Lines {
    pub(crate) shared: Option<SharedLines>,
    /// The unshared lines, without those stored as numbers.
    pub(crate) own: Vec<u8>,
    pub(crate) dates: Dates,
    /// Whether there may be lines about groups, tags, queries or links.
    is_special: bool,
}

/// The lines of one response, for reading or sending: first the shared ones, then its own.
#[derive(Clone, Debug)]
pub struct LinesRef<'l> {
    shared: HeadLines<'l>,
    /// The block with the shared lines, if it is in the pool.
    block: Option<&'l SharedLines>,
    /// The unshared lines up to the place of `Last-Modified`.
    before: HeadLines<'l>,
    /// The unshared lines behind that place, which `Date` follows.
    after: HeadLines<'l>,
    modified: Option<u32>,
    date: Option<u32>,
    /// The two lines, once a caller has asked for them by name.
    modified_line: OnceCell<[u8; dates::MODIFIED.len()]>,
    date_line: OnceCell<[u8; dates::DATE.len()]>,
}

/// The lines of one response that no other one shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLines<'l> {
    /// Those before `Last-Modified`.
    pub before: &'l [u8],
    /// Those behind it.
    pub after: &'l [u8],
    /// The values of `Last-Modified` and `Date`, which is the last line, if they are stored as numbers.
    pub times: [Option<u32>; 2],
}

impl Lines {
    pub(crate) fn new(shared: Option<SharedLines>, mut own: Vec<u8>) -> Self {
        let dates = dates::take(&mut own);
        Self { shared, own, dates, is_special: true }
    }

    /// Returns the lines for reading or sending.
    pub fn view(&self) -> LinesRef<'_> {
        LinesRef::of(self.shared.as_ref(), &self.own, self.dates)
    }

    /// Returns the same if there may be lines about groups, tags, queries or links, and none otherwise: most responses lack
    /// them, and are not searched for each.
    pub fn special(&self) -> LinesRef<'_> {
        if self.is_special { self.view() } else { LinesRef::written(&[], &[]) }
    }
}

impl<'l> LinesRef<'l> {
    pub(crate) fn of(shared: Option<&'l SharedLines>, own: &'l [u8], dates: Dates) -> Self {
        let at = dates.modified.map_or(own.len(), |modified| usize::from(modified.at));
        let (before, after) = own.split_at_checked(at).unwrap_or((own, &[]));
        Self {
            before: HeadLines(before),
            after: HeadLines(after),
            modified: dates.modified.map(|modified| modified.time),
            date: dates.date,
            block: shared,
            ..Self::written(shared.map_or(&[][..], SharedLines::bytes), &[])
        }
    }

    /// Returns lines of which none is stored as a number.
    pub fn written(shared: &'l [u8], own: &'l [u8]) -> Self {
        Self {
            shared: HeadLines(shared),
            block: None,
            before: HeadLines(own),
            after: HeadLines(&[]),
            modified: None,
            date: None,
            modified_line: OnceCell::new(),
            date_line: OnceCell::new(),
        }
    }

    /// Appends all lines to `out`.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.shared.0);
        self.write_own(out);
    }

    /// Returns the lines that other responses may have as well.
    pub(crate) fn shared(&self) -> &'l [u8] {
        self.shared.0
    }

    /// Returns the other lines, as they are sent.
    pub fn own(&self) -> Vec<u8> {
        let mut own = Vec::with_capacity(self.size() - self.shared.0.len());
        self.write_own(&mut own);
        own
    }

    fn write_own(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.before.0);
        if let Some(time) = self.modified {
            dates::write_modified(out, time);
        }
        out.extend_from_slice(self.after.0);
        if let Some(time) = self.date {
            dates::write_date(out, time);
        }
    }

    /// Returns the bytes of all lines, as they are sent.
    pub fn size(&self) -> usize {
        let modified = self.modified.map_or(0, |_| dates::MODIFIED.len());
        let date = self.date.map_or(0, |_| dates::DATE.len());
        self.shared.0.len() + self.before.0.len() + modified + self.after.0.len() + date
    }

    /// Iterates over all lines as name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let own = self.before.iter().chain(self.modified().iter()).chain(self.after.iter());
        self.shared.iter().chain(own).chain(self.date().iter())
    }

    /// Appends the shared lines in another form: `field` appends a name and a value. The form is made once for all of their
    /// responses, so there may be only one. Returns the other lines.
    #[inline]
    pub fn write_shared_with(
        &self,
        out: &mut Vec<u8>,
        field: impl Fn(&mut Vec<u8>, &[u8], &[u8]),
    ) -> OwnLines<'l> {
        match self.block {
            Some(block) => out.extend_from_slice(block.form(|out, lines| write_each(out, lines, field))),
            None => write_each(out, self.shared, field),
        }
        let Self { before, after, modified, date, .. } = self;
        OwnLines { before: before.0, after: after.0, times: [*modified, *date] }
    }

    /// Returns the same fields as a map.
    pub fn to_map(&self) -> HeaderMap {
        to_map(self.iter())
    }

    /// Returns the line `Date`, if it is stored as a number.
    pub(crate) fn date_line(&self) -> &[u8] {
        self.date().0
    }

    /// Returns the parts that may have lines called `name`, in order.
    fn parts(&self, name: &str) -> [HeadLines<'_>; 5] {
        let (modified, date) = match name {
            "last-modified" => (self.modified(), HeadLines(&[])),
            "date" => (HeadLines(&[]), self.date()),
            _ => (HeadLines(&[]), HeadLines(&[])),
        };
        [self.shared, self.before, modified, self.after, date]
    }

    fn modified(&self) -> HeadLines<'_> {
        let line = |time| &self.modified_line.get_or_init(|| dates::modified_line(time))[..];
        HeadLines(self.modified.map_or(&[], line))
    }

    fn date(&self) -> HeadLines<'_> {
        let line = |time| &self.date_line.get_or_init(|| dates::date_line(time))[..];
        HeadLines(self.date.map_or(&[], line))
    }
}

impl OwnLines<'_> {
    /// Appends the lines in another form: `field` appends a name and a value.
    pub fn write_with(&self, out: &mut Vec<u8>, field: impl Fn(&mut Vec<u8>, &[u8], &[u8])) {
        let [modified, date] = self.times;
        write_each(out, HeadLines(self.before), &field);
        if let Some(time) = modified {
            field(out, b"Last-Modified", &date::format(time));
        }
        write_each(out, HeadLines(self.after), &field);
        if let Some(time) = date {
            field(out, b"Date", &date::format(time));
        }
    }
}

fn write_each(out: &mut Vec<u8>, lines: HeadLines<'_>, field: impl Fn(&mut Vec<u8>, &[u8], &[u8])) {
    lines.iter().for_each(|(name, value)| field(out, name, value));
}

impl Fields for LinesRef<'_> {
    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.parts(name).into_iter().flat_map(move |lines| lines.called(name))
    }

    // Without the state of the iterator over all lines of the name.
    fn first<'a>(&'a self, name: &'a str) -> Option<&'a [u8]> {
        self.parts(name).into_iter().find_map(|lines| lines.called(name).next())
    }

    fn contains(&self, name: &str) -> bool {
        self.first(name).is_some()
    }

    fn contains_any(&self, names: &[&str]) -> bool {
        [self.shared, self.before, self.after].into_iter().any(|lines| lines.has_any(names))
            || (self.modified.is_some() && names.contains(&"last-modified"))
            || (self.date.is_some() && names.contains(&"date"))
    }
}

/// Appends one field line, with its name in the customary capitals (`Content-Type`, `ETag`).
pub fn write_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    write_name(out, name);
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends the start of a field line: the name in such capitals, and the separator before the value.
pub fn write_name(out: &mut Vec<u8>, name: &[u8]) {
    let start = out.len();
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    let written = &mut out[start..start + name.len()];
    let mut begins = true;
    for byte in &mut *written {
        *byte = if begins { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() };
        begins = *byte == b'-';
    }
    match &*written {
        b"Etag" => written.copy_from_slice(b"ETag"),
        b"Te" => written.copy_from_slice(b"TE"),
        b"Www-Authenticate" => written[..3].copy_from_slice(b"WWW"),
        // Some programs compare these letter by letter, as RFC 6455 writes them.
        name if name.starts_with(b"Sec-Websocket-") => written[7] = b'S',
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use http::HeaderName;
    use proptest::prelude::*;

    use super::*;

    fn fields(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn lines_read_as_the_fields_they_were_made_from() {
        let mut all = fields(&[("etag", "\"1\""), ("vary", "a"), ("set-cookie", "x=y"), ("x-a", "1")]);
        let lines = LinePool::default().keep(&all, 0);
        all.insert("date", "Thu, 01 Jan 1970 00:00:00 GMT".parse().unwrap());
        assert_eq!(lines.view().to_map(), all);
        assert_eq!(lines.view().first("set-cookie"), Some(&b"x=y"[..]));
        assert!(lines.view().contains("vary"));
    }

    #[test]
    fn names_get_their_customary_capitals_and_varying_lines_stay_out() {
        let [age, length] = [("age", "1"), ("content-length", "1")];
        let all = fields(&[("content-type", "v"), ("etag", "v"), ("sec-websocket-key", "v"), age, length]);
        let lines = LinePool::default().keep(&all, 0);
        let own =
            b"Content-Type: v\r\nETag: v\r\nSec-WebSocket-Key: v\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
        assert_eq!(lines.view().own(), own);
        assert_eq!(lines.own.len(), own.len() - dates::DATE.len());
    }

    #[test]
    fn the_other_form_of_shared_lines_is_made_once() {
        let (pool, all) = (LinePool::default(), fields(&[("server", "s"), ("vary", "a"), ("etag", "\"1\"")]));
        let kept = [0, 86_400, 86_400].map(|date| pool.keep(&all, date));
        let (shared, made) = (kept[2].view().shared().to_vec(), Cell::new(0));
        assert!(!shared.is_empty());
        for lines in [&kept[2], &kept[2].clone()] {
            let mut out = Vec::new();
            let field = |out: &mut Vec<u8>, name: &[u8], value: &[u8]| {
                made.set(made.get() + 1);
                write_line(out, name, value);
            };
            lines.view().write_shared_with(&mut out, field).write_with(&mut out, field);
            assert_eq!(out, [&shared[..], &lines.view().own()].concat());
        }
        assert_eq!(made.get(), 6);
    }

    /// Lines as a disk may contain them, including lines that this program never writes.
    fn lines() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            any::<u32>().prop_map(|time| dates::modified_line(time).to_vec()),
            any::<u32>().prop_map(|time| dates::date_line(time).to_vec()),
            any::<u32>().prop_map(|time| dates::date_line(time).to_ascii_lowercase()),
            Just(b"Last-Modified: -1\r\n".to_vec()),
            "[A-Z][a-z]{0,9}: [ -~]{0,20}\r\n".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..9).prop_map(|bytes| [&bytes[..], b"\n"].concat()),
        ];
        prop::collection::vec(line, 0..6).prop_map(|lines| lines.concat())
    }

    proptest! {
        #[test]
        fn whatever_a_record_says_is_read_as_it_is(shared in lines(), own in lines()) {
            let read = LinePool::default().share(&shared, own.clone());
            let view = read.view();
            let all = [&shared[..], &own].concat();
            prop_assert_eq!([view.shared(), &view.own()].concat(), all.clone());
            prop_assert_eq!(view.size(), all.len());
            let plain = LinesRef::written(&shared, &own);
            prop_assert_eq!(view.lines("date").collect::<Vec<_>>(), plain.lines("date").collect::<Vec<_>>());
            let modified: Vec<_> = plain.lines("last-modified").collect();
            prop_assert_eq!(view.lines("last-modified").collect::<Vec<_>>(), modified);
            prop_assert_eq!(view.to_map(), plain.to_map());
            for names in [&["date"][..], &["etag", "last-modified"], &["age", "xkey"]] {
                let is_there = names.iter().any(|name| plain.contains(name));
                prop_assert_eq!(view.contains_any(names), is_there, "{:?}", names);
            }
        }
    }
}
