//! `compress`: responses in other codings than the origin's, from the view of clients and origins.

mod changes;
mod conditions;
mod forms;
mod passing;
mod untouched;

use std::io::Read;

use larder_testkit::{Larder, Origin, Response, eventually, site};

/// Returns text that every coding makes much shorter.
fn text(len: usize) -> String {
    "All this is in here again and again. ".repeat(len / 37 + 1)[..len].to_owned()
}

/// Returns a response with `len` bytes of text and these header lines.
fn page(lines: &str, len: usize) -> String {
    format!("200 OK\nContent-Type: text/html\nCache-Control: max-age=1000\n{lines}\n{}", text(len))
}

/// Starts a proxy with a site that compresses, with more `keys`.
fn compressing(origin: &Origin, keys: &str) -> Larder {
    Larder::start(&site(&[origin], &format!("compress = ['zstd', 'br', 'gzip']\n{keys}")))
}

/// Returns the response to a client that accepts `codings`.
fn accepting(larder: &Larder, path: &str, codings: &str) -> Response {
    larder.ask(&format!("GET {path}\nAccept-Encoding: {codings}"))
}

/// Waits for the form in `coding`, and returns it.
fn coded(larder: &Larder, path: &str, coding: &str) -> Response {
    eventually(&format!("{path} in {coding}"), || {
        let answer = accepting(larder, path, coding);
        (answer.field("content-encoding") == Some(coding)).then_some(answer)
    })
}

/// Waits until no form is being compressed.
fn rest(larder: &Larder) {
    eventually("the compressor to rest", || {
        (larder.stats()["compression"]["waiting"].as_u64() == Some(0)).then_some(())
    });
}

/// Whether a client gets no coded form in repeated requests.
fn stays_plain(larder: &Larder, path: &str) -> bool {
    (0..3).all(|_| {
        let answer = accepting(larder, path, "zstd, br, gzip");
        rest(larder);
        answer.field("content-encoding").is_none_or(|coding| coding == "identity")
    })
}

/// Returns all values of a field.
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
