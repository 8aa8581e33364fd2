//! Compares the request parser with hyper's, on generated and then damaged requests.
//!
//! A request that hyper's server refuses must be refused here; an accepted request must be the same message for both.
//! That this parser refuses more than hyper is intended and not tested here.

mod generate;
mod ours;
mod theirs;

use fastrand::Rng;

/// A request as one of the two parsers reads it.
#[derive(Debug, PartialEq, Eq)]
struct ReadRequest {
    method: String,
    scheme: String,
    authority: String,
    path: String,
    /// Names in lower case, sorted by name; fields with the same name in their original order.
    fields: Vec<(String, Vec<u8>)>,
    /// The decoded content and the number of trailer fields; `None` if the content is malformed or incomplete.
    content: Option<(Vec<u8>, usize)>,
}

/// Counts of the outcomes, so that a generator with too few of them is detected.
#[derive(Debug, Default)]
struct Met {
    agreed: usize,
    ended_badly: usize,
    refused_by_both: usize,
    refused_by_us: usize,
}

/// Returns the base of all seeds; `LARDER_SEED` sets it to reproduce a failure.
fn base_seed() -> u64 {
    std::env::var("LARDER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(9112)
}

fn compare(wire: &[u8], seed: u64, met: &mut Met) {
    let context = || format!("LARDER_SEED={seed}, request {:?}", String::from_utf8_lossy(wire));
    match (ours::read(wire), theirs::read(wire)) {
        (Some(ours), Some(theirs)) => {
            let (our_content, their_content) = (&ours.content, &theirs.content);
            if our_content.is_some() {
                assert_eq!(our_content, their_content, "content; {}", context());
                met.agreed += 1;
            } else {
                met.ended_badly += 1;
            }
            let ours = ReadRequest { content: None, ..ours };
            assert_eq!(ours, ReadRequest { content: None, ..theirs }, "{}", context());
        }
        (Some(ours), None) => panic!("hyper refuses, we see {ours:?}; {}", context()),
        (None, Some(_)) => met.refused_by_us += 1,
        (None, None) => met.refused_by_both += 1,
    }
}

fn run(count: u64, generate: fn(&mut Rng) -> Vec<u8>) -> Met {
    let mut met = Met::default();
    for seed in base_seed()..base_seed() + count {
        compare(&generate(&mut Rng::with_seed(seed)), seed, &mut met);
    }
    met
}

#[test]
fn sound_requests_read_the_same() {
    let met = run(4_000, generate::sound);
    assert_eq!(met.agreed, 4_000, "{met:?}");
}

#[test]
fn nothing_that_hyper_refuses_is_accepted() {
    let met = run(20_000, generate::damaged);
    assert!(met.agreed > 2_000 && met.refused_by_both > 2_000 && met.refused_by_us > 200, "{met:?}");
}

#[test]
fn chunked_content_reads_the_same() {
    let met = run(20_000, generate::damaged_chunks);
    assert!(met.agreed > 2_000 && met.ended_badly > 2_000, "{met:?}");
}

/// Tests every byte value in every kind of position, which random damage may miss.
#[test]
fn no_single_byte_is_read_differently() {
    let mut met = Met::default();
    let wire = b"POST http://h:80/p?q=%20 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n\
        3;x=y\r\nabc\r\n0\r\nT: u\r\n\r\n";
    for place in 0..wire.len() {
        for byte in 0..=255 {
            let mut changed = wire.to_vec();
            changed[place] = byte;
            compare(&changed, 0, &mut met);
            changed.insert(place, wire[place]);
            compare(&changed, 0, &mut met);
        }
    }
    assert!(met.agreed > 1_000 && met.refused_by_both > 1_000, "{met:?}");
}
