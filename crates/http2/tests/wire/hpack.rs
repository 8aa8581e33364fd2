//! Comparison of HPACK with another implementation: each decodes the output of the other, section by section of a
//! connection.

use larder_http2::hpack::{Bounds, Decoder, List, encoder};
use proptest::prelude::*;

/// The name and value of a field.
type Field = (Vec<u8>, Vec<u8>);

/// The limit of the dynamic table, in bytes.
const TABLE: u32 = 4_096;
const BOUNDS: Bounds = Bounds { bytes: 1 << 20, fields: 1_000 };

/// The encoding options of the other implementation for a field: with or without an index for a known field, with or
/// without Huffman codes, with or without an entry in its dynamic table.
fn flags() -> impl Strategy<Value = u8> {
    type Peer = httlib_hpack::Encoder<'static>;
    let huffman = prop::sample::select(vec![0, Peer::HUFFMAN_NAME, Peer::HUFFMAN_VALUE, 3]);
    let indexing =
        prop::sample::select(vec![0, Peer::WITH_INDEXING, Peer::WITH_INDEXING, Peer::NEVER_INDEXED]);
    let best = prop::sample::select(vec![0, Peer::BEST_FORMAT]);
    (huffman, indexing, best).prop_map(|(huffman, indexing, best)| huffman | indexing | best)
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let known = ["accept", "cookie", "content-type", "etag", "via", "x-own", "x-other"];
    prop_oneof![
        3 => prop::sample::select(known.to_vec()).prop_map(|name| name.as_bytes().to_vec()),
        1 => "[a-z0-9!#$%&'*+.^_`|~-]{1,40}".prop_map(String::into_bytes),
    ]
}

/// Short values repeat, and long ones push others out of the table.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let short = prop::sample::select(vec!["", "1", "text/html", "gzip, deflate"]);
    prop_oneof![
        4 => short.prop_map(|value| value.as_bytes().to_vec()),
        2 => "[ -~]{0,60}".prop_map(String::into_bytes),
        1 => prop::collection::vec(prop_oneof![0x20..0x7f_u8, 0x80..=0xff_u8], 0..2_000),
    ]
}

fn section() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>, u8)>> {
    prop::collection::vec((name(), value(), flags()), 0..12)
}

fn decoded(decoder: &mut Decoder, block: &[u8]) -> Vec<Field> {
    let mut list = List::default();
    decoder.decode(block, &mut list, &BOUNDS).expect("a section");
    list.fields().iter().map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec())).collect()
}

proptest! {
    #[test]
    fn the_decoder_reads_blocks_of_another_hpack_encoder(
        sections in prop::collection::vec((section(), prop::option::of(0..=TABLE)), 1..8),
    ) {
        let (mut peer, mut decoder) = (httlib_hpack::Encoder::with_dynamic_size(TABLE), Decoder::new(TABLE as usize));
        for (section, size) in sections {
            let mut block = Vec::new();
            if let Some(size) = size {
                peer.update_max_dynamic_size(size, &mut block).expect("a size");
            }
            for field in &section {
                peer.encode(field.clone(), &mut block).expect("a field");
            }
            let expected: Vec<_> = section.into_iter().map(|(name, value, _)| (name, value)).collect();
            prop_assert_eq!(decoded(&mut decoder, &block), expected);
        }
    }

    #[test]
    fn another_decoder_reads_what_is_encoded(
        sections in prop::collection::vec((section(), 100..1_000_u16), 1..8),
    ) {
        let mut peer = httlib_hpack::Decoder::with_dynamic_size(TABLE);
        for (section, status) in sections {
            let mut block = Vec::new();
            encoder::status(&mut block, status);
            for (name, value, _) in &section {
                encoder::field(&mut block, &name.to_ascii_uppercase(), value);
            }
            let mut found = Vec::new();
            peer.decode(&mut block, &mut found).expect("a section");
            let found: Vec<_> = found.into_iter().map(|(name, value, _)| (name, value)).collect();
            let of_connections: [&[u8]; 5] =
                [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];
            let status = (b":status".to_vec(), status.to_string().into_bytes());
            let fields = section.into_iter().map(|(name, value, _)| (name, value));
            let fields = fields.filter(|(name, _)| !of_connections.contains(&name.as_slice()));
            prop_assert_eq!(found, std::iter::once(status).chain(fields).collect::<Vec<_>>());
        }
    }
}
