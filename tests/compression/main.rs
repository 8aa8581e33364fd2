//! `compress`: stored responses in other codings, as clients and origins see them.

mod changes;
mod conditions;
mod forms;
mod untouched;

use std::io::Read;

use larder_testkit::{Larder, Origin, Response, eventually, site};

/// Text that every coding makes much shorter.
fn text(len: usize) -> String {
    "All this is in here again and again. ".repeat(len / 37 + 1)[..len].to_owned()
}

/// A response of `len` bytes of text with these lines besides.
fn page(lines: &str, len: usize) -> String {
    format!("200 OK\nContent-Type: text/html\nCache-Control: max-age=1000\n{lines}\n{}", text(len))
}

/// A site that compresses, with `keys` besides.
fn compressing(origin: &Origin, keys: &str) -> Larder {
    Larder::start(&site(&[origin], &format!("compress = ['zstd', 'br', 'gzip']\n{keys}")))
}

/// What a client gets that accepts `codings`.
fn accepting(larder: &Larder, path: &str, codings: &str) -> Response {
    larder.ask(&format!("GET {path}\nAccept-Encoding: {codings}"))
}

/// The form in `coding`, once it is made.
fn coded(larder: &Larder, path: &str, coding: &str) -> Response {
    eventually(&format!("{path} in {coding}"), || {
        let answer = accepting(larder, path, coding);
        (answer.field("content-encoding") == Some(coding)).then_some(answer)
    })
}

/// Waits until no form is being made.
fn rest(larder: &Larder) {
    eventually("the compressor to rest", || {
        (larder.stats()["compression"]["waiting"].as_u64() == Some(0)).then_some(())
    });
}

/// Whether a client stays with what is not coded, however often it asks.
fn stays_plain(larder: &Larder, path: &str) -> bool {
    (0..3).all(|_| {
        let answer = accepting(larder, path, "zstd, br, gzip");
        rest(larder);
        answer.field("content-encoding").is_none_or(|coding| coding == "identity")
    })
}

/// All values of a field.
fn all<'r>(answer: &'r Response, name: &str) -> Vec<&'r str> {
    let lines = answer.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
    lines.map(|(_, value)| value.as_str()).collect()
}

fn decode(coding: &str, bytes: &[u8]) -> String {
    let mut whole = String::new();
    match coding {
        "gzip" => flate2::read::GzDecoder::new(bytes).read_to_string(&mut whole),
        "br" => brotli::Decompressor::new(bytes, 4096).read_to_string(&mut whole),
        "zstd" => zstd::stream::read::Decoder::new(bytes).expect("zstd").read_to_string(&mut whole),
        _ => panic!("{coding}"),
    }
    .expect("the coding that it says");
    whole
}
