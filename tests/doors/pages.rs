//! Pages of every length and framing: a client gets the whole page, or an error.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use larder_rpc::line;
use larder_testkit::{Answer, Origin};

use crate::caller::{Caller, DOORS, get, open, open_with};

/// Returns bytes of every value, in no simple order.
fn binary(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn serving(head: &'static str, page: &[u8]) -> Origin {
    let page = page.to_vec();
    Origin::answering(move |_| Answer::with_body(head, &page))
}

fn chunked(head: &str, page: &[u8]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 200 OK\r\n{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for chunk in page.chunks(50_000) {
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

#[test]
fn a_page_that_the_origin_compressed_arrives_where_responses_are_compressed_too() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&b"page ".repeat(500)).expect("written");
    let origin = serving(
        "200 OK\nContent-Type: text/html\nContent-Encoding: gzip\nCache-Control: max-age=100",
        &gzip.finish().expect("whole"),
    );
    let larder = open("compress = ['gzip']\n");
    for door in DOORS {
        let mut caller = Caller::to(&larder, door);
        let page = b"page ".repeat(500);
        assert!(caller.page(&origin.url()) == page && caller.page(&origin.url()) == page, "{door}");
    }
}

#[test]
fn pages_of_all_lengths_arrive_whole_however_they_are_kept() {
    let larder = open("");
    for length in [0, 1, 1_024, 1_025, 65_535, 65_536, 3_000_001] {
        let page = binary(length);
        for head in ["200 OK\nCache-Control: max-age=100", "200 OK\nCache-Control: no-store"] {
            let origin = serving(head, &page);
            for door in DOORS {
                let mut caller = Caller::to(&larder, door);
                assert!(caller.page(&origin.url()) == page, "{door} {length}");
                assert!(caller.page(&origin.url()) == page, "{door} {length}, again");
            }
        }
    }
}

#[test]
fn pages_of_unknown_length_arrive_whole() {
    let larder = open("");
    let page = binary(200_000);
    for head in ["Cache-Control: max-age=100\r\n", "Cache-Control: no-store\r\n"] {
        let wire = chunked(head, &page);
        let origin = Origin::answering(move |_| Answer::raw(wire.clone()));
        for door in DOORS {
            let mut caller = Caller::to(&larder, door);
            assert!(caller.page(&origin.url()) == page && caller.page(&origin.url()) == page, "{door}");
        }
    }
}

#[test]
fn a_coded_page_is_decoded_and_what_cannot_be_is_a_failure() {
    let larder = open("[doors]\nmax_page = '100KiB'");
    let gzip = |page: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(page).expect("memory");
        encoder.finish().expect("memory")
    };
    let page = binary(100_000);
    let head = "200 OK\nContent-Encoding: gzip\nCache-Control: max-age=100";
    let (fits, bomb) = (serving(head, &gzip(&page)), serving(head, &gzip(&vec![0; 10 << 20])));
    let broken = serving(head, b"<html>");
    let unknown = serving("200 OK\nContent-Encoding: rot13", b"cntr");
    for door in DOORS {
        assert!(Caller::to(&larder, door).page(&fits.url()) == page, "{door}");
    }
    for (origin, why) in [
        (bomb, "the page has more than 102400 bytes"),
        (broken, "the page is not in its content coding gzip"),
        (unknown, "unknown content coding 'rot13'"),
    ] {
        let failure = Caller::to(&larder, "thrift").failure(&origin.url());
        assert!(failure.status == 502 && failure.why.starts_with(why), "{failure:?}");
    }
}

#[test]
fn a_page_with_nul_is_no_onc_string() {
    // 3 MB is kept in a memory file.
    for page in [b"ab\0cd".to_vec(), binary(3_000_000)] {
        for head in ["200 OK\nCache-Control: max-age=100", "200 OK\nCache-Control: no-store"] {
            let (origin, larder) = (serving(head, &page), open(""));
            for _ in 0..2 {
                let mut onc = Caller::to(&larder, "onc");
                // In the record mark and 5 words before it, only the procedure's number differs.
                let mut call = onc.encode(&get(&origin.url())).to_vec();
                assert_eq!(std::mem::replace(&mut call[27], 1), 2);
                onc.send(&call);
                let Some(larder_rpc::Answer::Failure(failure)) = onc.answer() else { panic!("a short page") };
                assert!(failure.why.contains("system error"), "{failure:?}");
                assert!(onc.page(&origin.url()) == page, "procedure 2 carries it");
            }
            larder.wait_for_log("the page has a NUL byte at byte");
        }
    }
}

#[test]
fn a_page_over_20_mib_goes_through_thrift_and_not_through_onc() {
    let page = binary(25 << 20);
    let origin = serving("200 OK\nCache-Control: max-age=100", &page);
    let larder = open("");
    for _ in 0..2 {
        assert!(Caller::to(&larder, "thrift").page(&origin.url()) == page);
        let mut onc = Caller::to(&larder, "onc");
        assert!(onc.failure(&origin.url()).why.contains("system error"));
        assert!(onc.failure("http://").why.contains("garbage arguments"), "the connection goes on");
    }
    larder.wait_for_log("the page has 26214400 bytes, too many for an answer by onc");
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_page_that_breaks_off_is_never_a_complete_page() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234";
    let (gate, origin) = Origin::gated(move |_, held| Answer::raw(head).then_wait(held).then_close());
    let larder = open("");
    let mut callers = DOORS.map(|door| Caller::to(&larder, door));
    for caller in &mut callers {
        let call = caller.encode(&get(&origin.url()));
        caller.send(&call);
    }
    gate.open();
    let answers = callers.each_mut().map(Caller::answer);
    assert_eq!((&answers[0], &answers[1]), (&None, &None));
    let Some(larder_rpc::Answer::Failure(failure)) = &answers[2] else { panic!("{answers:?}") };
    assert_eq!(failure.status, 502);
    assert_eq!(callers[2].failure("http://").status, 400, "the connection goes on");
}

#[test]
fn the_bare_form_ends_pages_with_the_connection() {
    let page = binary(100_000);
    let origin = serving("200 OK\nCache-Control: max-age=100", &page);
    let larder =
        open_with("[line]\nlisten = '127.0.0.1:0'\nform = 'bare'\n[forward]\nallow_private = true\n");
    let bare = || Box::new(line::Client::new(line::Form::Bare, larder_rpc::Limits::default()));
    for _ in 0..2 {
        assert!(Caller::speaking(&larder, "line", bare()).page(&origin.url()) == page);
    }
}
