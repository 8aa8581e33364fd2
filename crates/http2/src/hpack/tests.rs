//! Golden bytes of RFC 7541 appendix C, attacks on the decoder, and sections in every possible encoding.

use proptest::prelude::*;

use super::huffman::tests::encode;
use super::table::STATIC;
use super::{Bounds, Decoder, List, Malformed, encoder, integer};

const BOUNDS: Bounds = Bounds { bytes: 32 << 10, fields: 100 };

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn text(list: &List) -> String {
    let line = |(name, value): (&str, &[u8])| format!("{name}: {}\n", String::from_utf8_lossy(value));
    list.fields().iter().map(line).collect()
}

fn decoded(decoder: &mut Decoder, block: &[u8]) -> Result<String, Malformed> {
    let mut list = List::default();
    let result = decoder.decode(block, &mut list, &BOUNDS).map(|()| text(&list));
    assert_eq!(decoder.validate(), Ok(()));
    result
}

#[test]
fn rfc7541_c_2_representations() {
    for (hex, expected) in [
        ("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", "custom-key: custom-header\n"),
        ("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path\n"),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret\n"),
        ("82", ":method: GET\n"),
    ] {
        assert_eq!(decoded(&mut Decoder::new(4096), &bytes(hex)).unwrap(), expected);
    }
}

#[test]
fn rfc7541_c_3_and_c_4_requests_on_one_connection() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let huffman = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    let first = ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n";
    for blocks in [plain, huffman] {
        let mut decoder = Decoder::new(4096);
        let mut next = |number: usize| decoded(&mut decoder, &bytes(blocks[number])).unwrap();
        assert_eq!(next(0), first);
        assert_eq!(next(1), format!("{first}cache-control: no-cache\n"));
        let third = ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\n";
        assert_eq!(next(2), format!("{third}custom-key: custom-value\n"));
    }
}

#[test]
fn rfc7541_c_5_and_c_6_responses_that_evict() {
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d \
         546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f \
         6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b \
         2076 6572 7369 6f6e 3d31",
    ];
    let huffman = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 \
         8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 \
         dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    let rest =
        "cache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com\n";
    for blocks in [plain, huffman] {
        let mut decoder = Decoder::new(256);
        let mut next = |number: usize| decoded(&mut decoder, &bytes(blocks[number])).unwrap();
        assert_eq!(next(0), format!(":status: 302\n{rest}"));
        assert_eq!(next(1), format!(":status: 307\n{rest}"));
        let third = "date: Mon, 21 Oct 2013 20:13:22 GMT\nlocation: https://www.example.com\ncontent-encoding: gzip\n\
                     set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n";
        assert_eq!(next(2), format!(":status: 200\ncache-control: private\n{third}"));
    }
}

#[test]
fn hpack_blocks_that_rfc_7541_calls_decoding_errors_are_malformed() {
    for (what, hex) in [
        ("index 0", "80"),
        ("an index beyond both tables", "be"),
        ("a name beyond both tables", "7f00 00"),
        ("an index that overflows", "ffff ffff ffff"),
        ("a string longer than the block", "4005 6162"),
        ("a string without its value", "4001 61"),
        ("a length that overflows", "407f ffff ffff ff00"),
        ("a table larger than was allowed", "3fe2 1f"),
        ("a change of the table behind a field", "8220"),
        ("bad padding", "4081 1e00"),
    ] {
        assert_eq!(decoded(&mut Decoder::new(4096), &bytes(hex)), Err(Malformed), "{what}");
    }
    assert_eq!(decoded(&mut Decoder::new(4096), &bytes("3fe11f 82")).unwrap(), ":method: GET\n");
}

#[test]
fn a_smaller_table_evicts_old_entries_and_an_oversized_entry_empties_it() {
    let mut decoder = Decoder::new(4096);
    let mut both = Vec::new();
    for name in [b"a", b"b"] {
        both.extend_from_slice(&[0x40, 1, name[0], 1, b'x']);
    }
    assert_eq!(decoded(&mut decoder, &both).unwrap(), "a: x\nb: x\n");
    // There is room for one entry of 34 bytes: the older one is evicted.
    assert_eq!(decoded(&mut decoder, &bytes("3f03 be")).unwrap(), "b: x\n");
    assert_eq!(decoded(&mut decoder, &bytes("bf")), Err(Malformed));
    assert_eq!(decoded(&mut decoder, &bytes("4001 6203 7878 78")).unwrap(), "b: xxx\n");
    assert_eq!(decoded(&mut decoder, &bytes("be")), Err(Malformed));
}

#[test]
fn long_names_of_the_table_are_not_copied_without_end() {
    let mut decoder = Decoder::new(4096);
    let mut long = vec![0x40];
    integer::write(&mut long, 7, 0, 4_064);
    long.extend([b'a'; 4_064]);
    long.push(0);
    let name = decoded(&mut decoder, &long).unwrap();
    assert_eq!(name.len(), 4_064 + 3);
    for field in [[0x0f, 0x2f, 0], [0x7e, 0, 0x82]] {
        assert_eq!(decoded(&mut decoder, &field.repeat(20_000)), Err(Malformed), "{field:x?}");
    }
}

#[test]
fn a_bomb_of_references_costs_no_memory() {
    let mut decoder = Decoder::new(4096);
    let mut block = vec![0x40, 1, b'a', 0x7f, 0xa1, 0x1e];
    block.extend(std::iter::repeat_n(b'x', 127 + 0x21 + (0x1e << 7)));
    block.extend(std::iter::repeat_n(0xbe, 60_000));
    let mut list = List::default();
    decoder.decode(&block, &mut list, &BOUNDS).unwrap();
    assert!(list.is_too_large());
    assert!(list.fields().count() < 9 && list.bytes().capacity() <= 2 * BOUNDS.bytes);
}

#[test]
fn crumbs_of_a_cookie_count_as_one_field() {
    let crumbs = [0x60, 3, b'a', b'=', b'b'].repeat(100);
    let mut list = List::default();
    let mut decoder = Decoder::new(4096);
    decoder.decode(&crumbs, &mut list, &BOUNDS).unwrap();
    assert!(!list.is_too_large());
    list.join_cookies();
    let joined = text(&list);
    assert_eq!(joined, format!("cookie: {}\n", ["a=b"; 100].join("; ")));
    // `:method`, `:scheme` and `:path` do not count; `:authority` and 98 others do.
    let most = [&[0x82, 0x86, 0x84, 0x41, 1, b'a'][..], &crumbs, &[0x90; 98]].concat();
    decoder.decode(&most, &mut list, &BOUNDS).unwrap();
    assert!(!list.is_too_large());
    decoder.decode(&[&most[..], &[0x90]].concat(), &mut list, &BOUNDS).unwrap();
    assert!(list.is_too_large());
}

#[test]
fn fields_become_a_section_without_those_of_a_connection() {
    let long = "v".repeat(300);
    let fields = [
        ("Content-Type", "text/html"),
        ("ETag", "\"1\""),
        ("X-Own", "v"),
        ("Connection", "close"),
        ("Keep-Alive", "1"),
        ("Transfer-Encoding", "chunked"),
        ("Upgrade", "h2c"),
        ("Proxy-Connection", "x"),
        ("", "x"),
        ("Empty", ""),
        ("Via", &long[..126]),
        ("X-Long", &long[..127]),
        ("Server", &long),
    ];
    let (mut block, mut by_writing) = (Vec::new(), Vec::new());
    encoder::status(&mut block, 200);
    encoder::status(&mut by_writing, 200);
    for (name, value) in fields {
        encoder::field(&mut block, name.as_bytes(), value.as_bytes());
        encoder::field_with(&mut by_writing, name.as_bytes(), |out| out.extend_from_slice(value.as_bytes()));
    }
    let expected = format!(
        ":status: 200\ncontent-type: text/html\netag: \"1\"\nx-own: v\nempty: \nvia: {}\nx-long: {}\nserver: {long}\n",
        &long[..126],
        &long[..127]
    );
    assert_eq!(decoded(&mut Decoder::new(0), &block).unwrap(), expected);
    assert_eq!(by_writing, block);
    for status in [100, 103, 200, 204, 206, 301, 304, 400, 404, 500, 503, 599] {
        let mut block = Vec::new();
        encoder::status(&mut block, status);
        assert_eq!(decoded(&mut Decoder::new(0), &block).unwrap(), format!(":status: {status}\n"));
    }
}

#[test]
fn every_name_of_the_static_table_is_found_again_by_the_encoder() {
    for (name, _) in STATIC.iter().filter(|(name, _)| !name.starts_with(':')) {
        let mut block = Vec::new();
        encoder::field(&mut block, name.to_uppercase().as_bytes(), b"v");
        let expected = if *name == "transfer-encoding" { String::new() } else { format!("{name}: v\n") };
        assert_eq!(decoded(&mut Decoder::new(0), &block).unwrap(), expected);
    }
}

/// A possible encoding of a field by the peer.
#[derive(Clone, Debug)]
enum Way {
    Indexed(usize),
    Literal { flags: u8, bits: u32, name: Option<usize>, text: String, value: Vec<u8>, coded: bool },
    Resize(usize),
}

fn way() -> impl Strategy<Value = Way> {
    let kind = prop_oneof![Just((0x40, 6)), Just((0, 4)), Just((0x10, 4))];
    let value =
        prop_oneof![prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 900..2000)];
    let literal = (kind, prop::option::of(1..80_usize), "[a-z-]{1,12}", value, any::<bool>());
    prop_oneof![
        (1..90_usize).prop_map(Way::Indexed),
        literal.prop_map(|((flags, bits), name, text, value, coded)| Way::Literal {
            flags,
            bits,
            name,
            text,
            value,
            coded
        }),
        (0..4097_usize).prop_map(Way::Resize),
    ]
}

/// The table as specified by the RFC, newest first.
#[derive(Default)]
struct Model {
    entries: Vec<(String, Vec<u8>)>,
    limit: usize,
}

impl Model {
    fn get(&self, index: usize) -> Option<(String, Vec<u8>)> {
        match STATIC.get(index - 1) {
            Some((name, value)) => Some((name.to_string(), value.as_bytes().to_vec())),
            None => self.entries.get(index - 1 - STATIC.len()).cloned(),
        }
    }

    fn insert(&mut self, name: &str, value: &[u8]) {
        self.entries.insert(0, (name.to_owned(), value.to_vec()));
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.entries.iter().map(|(name, value)| name.len() + value.len() + 32).sum::<usize>()
            > self.limit
        {
            self.entries.pop();
        }
    }
}

fn string(out: &mut Vec<u8>, text: &[u8], coded: bool) {
    let text = if coded { encode(text) } else { text.to_vec() };
    integer::write(out, 7, if coded { 0x80 } else { 0 }, text.len());
    out.extend_from_slice(&text);
}

proptest! {
    #[test]
    fn sections_are_read_however_they_were_encoded(sections in prop::collection::vec(prop::collection::vec(way(), 0..12), 0..6)) {
        let mut model = Model { limit: 4096, ..Model::default() };
        let mut decoder = Decoder::new(4096);
        let mut list = List::default();
        let bounds = Bounds { bytes: 1 << 20, fields: 1_000 };
        for section in sections {
            let (mut block, mut expected) = (Vec::new(), Vec::new());
            for way in section {
                match way {
                    Way::Resize(limit) if expected.is_empty() => {
                        integer::write(&mut block, 5, 0x20, limit);
                        model.limit = limit;
                        model.shrink();
                    }
                    Way::Indexed(index) if model.get(index).is_some() => {
                        integer::write(&mut block, 7, 0x80, index);
                        expected.extend(model.get(index));
                    }
                    Way::Literal { flags, bits, name, text, value, coded } => {
                        let index = name.filter(|index| model.get(*index).is_some());
                        integer::write(&mut block, bits, flags, index.unwrap_or(0));
                        let name = index.map_or(text, |index| model.get(index).unwrap().0);
                        if index.is_none() {
                            string(&mut block, name.as_bytes(), coded);
                        }
                        string(&mut block, &value, coded);
                        if bits == 6 {
                            model.insert(&name, &value);
                        }
                        expected.push((name, value));
                    }
                    _ => {}
                }
            }
            prop_assert_eq!(decoder.decode(&block, &mut list, &bounds), Ok(()));
            let fields: Vec<_> = list.fields().iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
            prop_assert_eq!(fields, expected);
            prop_assert_eq!(decoder.validate(), Ok(()));
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..5)) {
        let (mut decoder, mut list) = (Decoder::new(512), List::default());
        for block in blocks {
            let _ = decoder.decode(&block, &mut list, &Bounds { bytes: 1_000, fields: 5 });
            let counts = |name: &str| !name.starts_with(':') && name != "cookie";
            prop_assert!(list.fields().iter().filter(|(name, _)| counts(name)).count() <= 5);
            prop_assert_eq!(decoder.validate(), Ok(()));
        }
    }

    #[test]
    fn the_decoder_reads_the_fields_that_the_encoder_writes(fields in prop::collection::vec(("[a-zA-Z][a-zA-Z-]{0,9}x", "[!-~]{0,300}"), 0..9)) {
        let mut block = Vec::new();
        encoder::status(&mut block, 404);
        fields.iter().for_each(|(name, value)| encoder::field(&mut block, name.as_bytes(), value.as_bytes()));
        let line = |(name, value): &(String, String)| format!("{}: {value}\n", name.to_lowercase());
        let expected: String = fields.iter().map(line).collect();
        prop_assert_eq!(decoded(&mut Decoder::new(4096), &block).unwrap(), format!(":status: 404\n{expected}"));
    }
}
