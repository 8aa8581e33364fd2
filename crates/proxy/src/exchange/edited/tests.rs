use http::HeaderMap;
use larder_semantics::coding::Coding;
use larder_semantics::fields::HeadLines;
use proptest::prelude::*;

use super::*;

/// Writes these lines through the edits.
fn write(out: &mut impl FieldWriter, lines: &str, negotiated: Negotiation, edits: &Edits) {
    let mut edited = EditedFields::new(out, StatusCode::OK, negotiated, edits);
    HeadLines(lines.as_bytes()).iter().for_each(|(name, value)| edited.field(name, value));
    edited.finish(false);
}

#[test]
fn vary_gets_the_names_that_it_lacks() {
    let edits = Edits { vary: vec!["accept".to_owned(), "X-A".to_owned()], ..Edits::default() };
    let added = Negotiation::new(None, false);
    for (lines, negotiated, expected) in [
        ("A: 1\r\n", Negotiation::default(), "A: 1\r\nVary: accept, X-A\r\n"),
        ("Vary: Accept\r\n", Negotiation::default(), "Vary: Accept\r\nVary: X-A\r\n"),
        ("Vary: b, x-a\r\nVary: accept\r\n", Negotiation::default(), "Vary: b, x-a\r\nVary: accept\r\n"),
        ("Vary: *\r\n", Negotiation::default(), "Vary: *\r\n"),
        ("", added, "Vary: Accept-Encoding\r\nVary: accept, X-A\r\n"),
    ] {
        let mut out = Vec::new();
        write(&mut out, lines, negotiated, &edits);
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{lines}");
    }
}

#[test]
fn edits_apply_in_their_order() {
    let field = |name: &'static str, value: &'static str| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    let edits = Edits {
        remove: vec![HeaderName::from_static("a")],
        set: vec![field("b", "2")],
        default: vec![field("a", "3"), field("b", "3"), field("c", "3")],
        add: vec![field("c", "4")],
        ..Edits::default()
    };
    for (lines, expected) in [
        ("A: 1\r\nB: 1\r\nC: 1\r\n", "C: 1\r\nB: 2\r\nA: 3\r\nC: 4\r\n"),
        ("D: 1\r\n", "D: 1\r\nB: 2\r\nA: 3\r\nC: 3\r\nC: 4\r\n"),
    ] {
        let mut out = Vec::new();
        write(&mut out, lines, Negotiation::default(), &edits);
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{lines}");
    }
}

proptest! {
    #[test]
    fn every_writer_gets_the_same_fields(
        lines in prop::collection::vec("(etag|vary|content-encoding|x-a): (\"a\"|W/\"a\"|gzip|x-a)\r\n", 0..5),
        coding in prop::sample::select(vec![None, Some(Coding::Gzip)]),
        (is_said, is_undone) in any::<(bool, bool)>(),
        removes in any::<bool>(),
    ) {
        let negotiated = Negotiation::new(coding, is_said);
        let negotiated = if is_undone { negotiated.undone() } else { negotiated };
        let remove = if removes { vec![HeaderName::from_static("vary")] } else { Vec::new() };
        let edits = Edits { remove, vary: vec!["x-a".to_owned()], ..Edits::default() };
        let (mut text, mut map) = (Vec::new(), HeaderMap::new());
        write(&mut text, &lines.concat(), negotiated, &edits);
        write(&mut map, &lines.concat(), negotiated, &edits);
        prop_assert_eq!(HeadLines(&text).to_map(), map);
    }
}
