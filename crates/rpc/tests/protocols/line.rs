//! The line protocol: its messages for people who use it by hand, and its treatment of invalid input.

use super::common::{
    LIMITS, answer, any_answer, any_url, asked, exchange, fetch, gone, heard, sent, statistics,
};
use bytes::{Bytes, BytesMut};
use larder_rpc::line::{Client, Form, Server};
use larder_rpc::{Answer, Call, ClientProtocol, Failure, ReplyEncoder, ServerProtocol};
use proptest::prelude::*;

const COUNTED: &str = "requests 3\nhits 2\nmisses 1\nhit_ratio 0.5\nbyte_hit_ratio 0.25\naverage_micros 1.5\n\
    p50_micros 1\np90_micros 2\np99_micros 4\nbytes_stored 300\nentries 1\ncapacity 64\ncapacity_unit bytes\n\
    policy lru\nvalidated 0\nvalidated_hit_ratio 0.5\n";

fn framed() -> Server {
    Server::new(Form::Framed, LIMITS)
}

#[test]
fn requests_are_lines() {
    let wire = b"http://a/\nhttp://b/\r\n*STATISTICS\n*RESET\n\r\nhttp://c/";
    let expected = [fetch("http://a/"), fetch("http://b/"), Call::Statistics, Call::Reset, fetch("")].map(Ok);
    for piece in 1..=wire.len() {
        assert_eq!(heard(framed(), wire, piece), expected);
    }
}

#[test]
fn answers_are_pieces_or_bare() {
    let page = |length: usize| Answer::Page(vec![b'x'; length].into());
    let counted = Answer::Statistics(Box::new(statistics()));
    let x = |count: usize| "x".repeat(count);
    for (request, answers, pieces, bare) in [
        ("http://a/", page(0), ".\n".into(), String::new()),
        ("http://a/", page(3), "+3\nxxx.\n".into(), x(3)),
        ("http://a/", page(1024), format!("+1024\n{}.\n", x(1024)), x(1024)),
        ("http://a/", page(2049), format!("+1024\n{}+1024\n{}+1\nx.\n", x(1024), x(1024)), x(2049)),
        ("http://a/", Answer::Failure(gone()), "!404 gone\n".into(), String::new()),
        ("*STATISTICS", counted, format!("+{}\n{COUNTED}.\n", COUNTED.len()), COUNTED.into()),
        ("*RESET", Answer::Done, ".\n".into(), String::new()),
    ] {
        let wire = format!("{request}\n");
        for (form, expected) in [(Form::Framed, pieces), (Form::Bare, bare)] {
            let heard = asked(Server::new(form, LIMITS), wire.as_bytes(), 4);
            let [Ok(heard)] = &heard[..] else { panic!("{request}: {heard:?}") };
            assert_eq!(sent(&heard.reply, &answers), expected.as_bytes(), "{request}");
            assert_eq!(heard.reply.closes(), form == Form::Bare);

            let mut client = Client::new(form, LIMITS);
            assert_eq!(client.encode(&heard.call).unwrap(), wire);
            let got = answer(&mut client, expected.as_bytes(), 7).unwrap();
            let got = if form == Form::Bare { Some(client.close().unwrap()) } else { got };
            match (form, &answers) {
                (Form::Bare, Answer::Failure(_)) => assert_eq!(got, Some(Answer::Page(Bytes::new()))),
                _ => assert_eq!(got.as_ref(), Some(&answers)),
            }
        }
    }
}

#[test]
fn a_page_is_not_copied() {
    let [Ok(asked)] = &asked(framed(), b"http://a/\n", 99)[..] else { panic!("no call") };
    let page = Bytes::from(vec![7; 3000]);
    let pieces = asked.reply.page(page.len()).unwrap().around(page.clone());
    let places: Vec<_> = pieces.iter().map(|piece| piece.as_ptr()).collect();
    for chunk in page.chunks(1024) {
        assert!(places.contains(&chunk.as_ptr()));
    }
}

#[test]
fn an_error_in_the_middle_of_a_page_ends_it() {
    let mut client = Client::new(Form::Framed, LIMITS);
    client.encode(&fetch("http://a/")).unwrap();
    let mut buffer = BytesMut::from("+3\nabc!502 the origin broke off\n.\n");
    let broken = Failure { what: "http://a/".into(), why: "the origin broke off".into(), status: 502 };
    assert_eq!(client.decode(&mut buffer), Ok(Some(Answer::Failure(broken))));
    // The bytes before the failure are not part of the next page.
    client.encode(&fetch("http://b/")).unwrap();
    assert_eq!(client.decode(&mut buffer), Ok(Some(Answer::Page(Bytes::new()))));
}

#[test]
fn a_reason_is_one_line() {
    let [Ok(asked)] = &asked(framed(), b"http://a/\n", 99)[..] else { panic!("no call") };
    let failure = Failure { why: "a\n.\nb".into(), ..gone() };
    assert_eq!(asked.reply.failure(&failure), "!404 a . b\n");
}

#[test]
fn requests_that_are_none_are_answered() {
    let commands = "!400 unknown command \"*STATS\"; known: *STATISTICS, *RESET\n";
    for (request, reply) in [
        (&b"a\rb\n"[..], "!400 the url has the control character 0x0d at byte 1\n"),
        (b"a\0\n", "!400 the url has the control character 0x00 at byte 1\n"),
        (b"\xff\n", "!400 the url is not utf-8 at byte 0\n"),
        (b"*STATS\n", commands),
    ] {
        let wire = [request, b"http://a/\n"].concat();
        let expected = [Err((reply.into(), false)), Ok(fetch("http://a/"))];
        assert_eq!(heard(framed(), &wire, 3), expected, "{request:?}");
        let expected = [Err((Bytes::new(), true))];
        let bare = Server::new(Form::Bare, LIMITS);
        assert!(bare.fails_by_reset() && !framed().fails_by_reset());
        assert_eq!(heard(bare, &wire, 3), expected, "{request:?}");
    }
}

#[test]
fn a_line_has_a_limit() {
    let longest = "a".repeat(LIMITS.message);
    for piece in [1, 999] {
        assert_eq!(heard(framed(), format!("{longest}\n").as_bytes(), piece), [Ok(fetch(&longest))]);
        let reply = Bytes::from("!414 a line of more than 300 bytes\n");
        assert_eq!(heard(framed(), format!("{longest}a\n").as_bytes(), piece), [Err((reply, true))]);
    }
}

#[test]
fn a_client_refuses_what_is_no_answer() {
    let over = format!("+1024\n{0}+1024\n{0}+1024\n{0}", "x".repeat(1024));
    for (wire, why) in [
        ("HTTP/1.1", "\"H\" where a chunk, the page's end or an error should be"),
        ("+0\n", "\"+0\" where a chunk, the page's end or an error should be"),
        ("+1025\n", "\"+1025\" where a chunk, the page's end or an error should be"),
        ("++1\n", "\"++1\" where a chunk, the page's end or an error should be"),
        ("+123456789\n", "\"+12345\" where a chunk, the page's end or an error should be"),
        ("+00001\na.\n", "\"+00001\" where a chunk, the page's end or an error should be"),
        ("..\n", "\"..\" where a chunk, the page's end or an error should be"),
        ("!gone\n", "\"!gone\" where a chunk, the page's end or an error should be"),
        (&over, "a page over the limit of 3000 bytes"),
    ] {
        let mut client = Client::new(Form::Framed, LIMITS);
        client.encode(&fetch("http://a/")).unwrap();
        assert_eq!(answer(&mut client, wire.as_bytes(), 1).unwrap_err().to_string(), why);
    }
    let mut client = Client::new(Form::Framed, LIMITS);
    assert!(client.decode(&mut BytesMut::from(".\n")).is_err());
    for call in [Call::Ping, fetch("a\nb"), fetch("*RESET")] {
        assert!(client.encode(&call).is_err(), "{call:?}");
    }
    client.encode(&fetch("http://a/")).unwrap();
    assert_eq!(answer(&mut client, b"+3\nabc", 9), Ok(None));
    assert!(client.close().is_err());
}

proptest! {
    #[test]
    fn the_line_protocol_carries_any_calls_and_replies_in_any_pieces(
        exchanges in prop::collection::vec(
            prop_oneof![any_url().prop_map(|url| fetch(&url)), Just(Call::Statistics), Just(Call::Reset)]
                .prop_flat_map(|call| any_answer(&call).prop_map(move |answer| (call.clone(), answer))),
            1..4,
        ),
        piece in 1..400_usize,
    ) {
        let (mut client, mut server) = (Client::new(Form::Framed, LIMITS), framed());
        for (call, reply) in exchanges {
            let got = exchange(&mut client, &mut server, (&call, &reply), piece);
            prop_assert_eq!(got, (call, reply));
        }
    }

    #[test]
    fn any_bytes_are_heard_alike_however_they_are_cut(
        wire in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'*'), any::<u8>()], 0..900),
        piece in 1..40_usize,
    ) {
        prop_assert_eq!(heard(framed(), &wire, piece), heard(framed(), &wire, 1000));
    }

    #[test]
    fn any_bytes_answer_a_client_or_do_not(
        wire in "([+.!]0{0,6}[0-9]{0,4}[ a\n]{0,8}){0,40}",
        piece in 1..40_usize,
    ) {
        let outcomes = [piece, 1000].map(|piece| {
            let mut client = Client::new(Form::Framed, LIMITS);
            client.encode(&fetch("a")).unwrap();
            answer(&mut client, wire.as_bytes(), piece).map_err(drop)
        });
        prop_assert_eq!(&outcomes[0], &outcomes[1]);
    }
}
