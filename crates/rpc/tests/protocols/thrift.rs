//! Thrift: bytes that clients of Apache Thrift send and expect, and the treatment of invalid input.

use super::common::{
    LIMITS, answer, any_answer, any_url, asked, exchange, fetch, gone, heard, sent, statistics,
};
use bytes::BytesMut;
use larder_rpc::thrift::{Client, Protocol, Server, Transport};
use larder_rpc::{Answer, Call, ClientProtocol, ReplyEncoder};
use proptest::prelude::*;

const PROTOCOLS: [Protocol; 3] = [Protocol::Binary, Protocol::OldBinary, Protocol::Compact];
const TRANSPORTS: [Transport; 2] = [Transport::Framed, Transport::Buffered];

/// Calls with the number 7, in each of [`PROTOCOLS`].
const GET_DATA: [&[u8]; 3] = [
    b"\x80\x01\0\x01\0\0\0\x08get_data\0\0\0\x07\x0b\0\x01\0\0\0\x09http://a/\0",
    b"\0\0\0\x08get_data\x01\0\0\0\x07\x0b\0\x01\0\0\0\x09http://a/\0",
    b"\x82\x21\x07\x08get_data\x18\x09http://a/\0",
];
const PRINT_STATISTICS: [&[u8]; 3] = [
    b"\x80\x01\0\x01\0\0\0\x10print_statistics\0\0\0\x07\0",
    b"\0\0\0\x10print_statistics\x01\0\0\0\x07\0",
    b"\x82\x21\x07\x10print_statistics\0",
];
const RESET_STATISTICS: [&[u8]; 3] = [
    b"\x80\x01\0\x01\0\0\0\x10reset_statistics\0\0\0\x07\0",
    b"\0\0\0\x10reset_statistics\x01\0\0\0\x07\0",
    b"\x82\x21\x07\x10reset_statistics\0",
];

/// The replies to these calls.
const PAGE: [&[u8]; 3] = [
    b"\x80\x01\0\x02\0\0\0\x08get_data\0\0\0\x07\x0b\0\0\0\0\0\x03a\0b\0",
    b"\0\0\0\x08get_data\x02\0\0\0\x07\x0b\0\0\0\0\0\x03a\0b\0",
    b"\x82\x41\x07\x08get_data\x08\0\x03a\0b\0",
];
const FAILURE: [&[u8]; 3] = [
    b"\x80\x01\0\x02\0\0\0\x08get_data\0\0\0\x07\x0c\0\x01\
      \x0b\0\x01\0\0\0\x09http://a/\x0b\0\x02\0\0\0\x04gone\x08\0\x03\0\0\x01\x94\0\0",
    b"\0\0\0\x08get_data\x02\0\0\0\x07\x0c\0\x01\
      \x0b\0\x01\0\0\0\x09http://a/\x0b\0\x02\0\0\0\x04gone\x08\0\x03\0\0\x01\x94\0\0",
    b"\x82\x41\x07\x08get_data\x1c\x18\x09http://a/\x18\x04gone\x15\xa8\x06\0\0",
];
const STATISTICS: [&[u8]; 3] = [
    b"\x80\x01\0\x02\0\0\0\x10print_statistics\0\0\0\x07\x0c\0\0\
      \x0a\0\x01\0\0\0\0\0\0\0\x03\x0a\0\x02\0\0\0\0\0\0\0\x02\x0a\0\x03\0\0\0\0\0\0\0\x01\
      \x04\0\x04\x3f\xe0\0\0\0\0\0\0\x04\0\x05\x3f\xd0\0\0\0\0\0\0\x04\0\x06\x3f\xf8\0\0\0\0\0\0\
      \x04\0\x07\x3f\xf0\0\0\0\0\0\0\x04\0\x08\x40\0\0\0\0\0\0\0\x04\0\x09\x40\x10\0\0\0\0\0\0\
      \x0a\0\x0a\0\0\0\0\0\0\x01\x2c\x0a\0\x0b\0\0\0\0\0\0\0\x01\x0a\0\x0c\0\0\0\0\0\0\0\x40\
      \x0b\0\x0d\0\0\0\x05bytes\x0b\0\x0e\0\0\0\x03lru\
      \x0a\0\x0f\0\0\0\0\0\0\0\0\x04\0\x10\x3f\xe0\0\0\0\0\0\0\0\0",
    b"\0\0\0\x10print_statistics\x02\0\0\0\x07\x0c\0\0\
      \x0a\0\x01\0\0\0\0\0\0\0\x03\x0a\0\x02\0\0\0\0\0\0\0\x02\x0a\0\x03\0\0\0\0\0\0\0\x01\
      \x04\0\x04\x3f\xe0\0\0\0\0\0\0\x04\0\x05\x3f\xd0\0\0\0\0\0\0\x04\0\x06\x3f\xf8\0\0\0\0\0\0\
      \x04\0\x07\x3f\xf0\0\0\0\0\0\0\x04\0\x08\x40\0\0\0\0\0\0\0\x04\0\x09\x40\x10\0\0\0\0\0\0\
      \x0a\0\x0a\0\0\0\0\0\0\x01\x2c\x0a\0\x0b\0\0\0\0\0\0\0\x01\x0a\0\x0c\0\0\0\0\0\0\0\x40\
      \x0b\0\x0d\0\0\0\x05bytes\x0b\0\x0e\0\0\0\x03lru\
      \x0a\0\x0f\0\0\0\0\0\0\0\0\x04\0\x10\x3f\xe0\0\0\0\0\0\0\0\0",
    b"\x82\x41\x07\x10print_statistics\x0c\0\x16\x06\x16\x04\x16\x02\
      \x17\0\0\0\0\0\0\xe0\x3f\x17\0\0\0\0\0\0\xd0\x3f\x17\0\0\0\0\0\0\xf8\x3f\
      \x17\0\0\0\0\0\0\xf0\x3f\x17\0\0\0\0\0\0\0\x40\x17\0\0\0\0\0\0\x10\x40\
      \x16\xd8\x04\x16\x02\x16\x80\x01\x18\x05bytes\x18\x03lru\x16\0\x17\0\0\0\0\0\0\xe0\x3f\0\0",
];
const DONE: [&[u8]; 3] = [
    b"\x80\x01\0\x02\0\0\0\x10reset_statistics\0\0\0\x07\0",
    b"\0\0\0\x10reset_statistics\x02\0\0\0\x07\0",
    b"\x82\x41\x07\x10reset_statistics\0",
];

/// Returns `message` in the encoding of `transport`.
fn wrap(transport: Transport, message: &[u8]) -> Vec<u8> {
    match transport {
        Transport::Framed => [&(message.len() as u32).to_be_bytes()[..], message].concat(),
        Transport::Buffered => message.to_vec(),
    }
}

/// Returns a `TApplicationException` in the binary protocol, for the call with number 7.
fn exception(name: &str, code: u8, why: &str) -> Vec<u8> {
    let string = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
    let mut message = b"\x80\x01\0\x03".to_vec();
    message.extend([string(name), b"\0\0\0\x07\x0b\0\x01".to_vec(), string(why)].concat());
    message.extend([8, 0, 2, 0, 0, 0, code, 0]);
    message
}

/// Returns a `FetchFailed` with status 400 in the binary protocol, for the call with number 7 whose URL is not text on
/// one line.
fn no_url(why: &str) -> Vec<u8> {
    let string = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
    let head = b"\x80\x01\0\x02\0\0\0\x08get_data\0\0\0\x07\x0c\0\x01\x0b\0\x01\0\0\0\0\x0b\0\x02";
    [&head[..], &string(why), b"\x08\0\x03\0\0\x01\x90\0\0"].concat()
}

#[test]
fn calls_and_replies_are_those_of_apache_thrift() {
    let page = Answer::Page(b"a\0b"[..].into());
    let counted = Answer::Statistics(Box::new(statistics()));
    for (call, calls, reply, replies) in [
        (fetch("http://a/"), GET_DATA, page, PAGE),
        (fetch("http://a/"), GET_DATA, Answer::Failure(gone()), FAILURE),
        (Call::Statistics, PRINT_STATISTICS, counted, STATISTICS),
        (Call::Reset, RESET_STATISTICS, Answer::Done, DONE),
    ] {
        for (index, protocol) in PROTOCOLS.into_iter().enumerate() {
            for transport in TRANSPORTS {
                let wire = wrap(transport, calls[index]);
                for piece in 1..=wire.len() {
                    let heard = asked(Server::new(LIMITS), &wire, piece);
                    let [Ok(heard)] = &heard[..] else { panic!("{transport:?} {protocol:?}: {heard:?}") };
                    assert_eq!(heard.call, call, "{transport:?} {protocol:?}");
                    assert_eq!(sent(&heard.reply, &reply), wrap(transport, replies[index]), "{protocol:?}");
                }
                let mut client = Client::new(transport, protocol, LIMITS);
                let last = (0..7).map(|_| client.encode(&call).unwrap()).last();
                assert_eq!(last.unwrap(), wire, "{transport:?} {protocol:?}");
                assert_eq!(answer(&mut client, &wrap(transport, replies[index]), 5), Ok(Some(reply.clone())));
            }
        }
    }
}

#[test]
fn a_page_is_not_copied() {
    let [Ok(asked)] = &asked(Server::new(LIMITS), GET_DATA[0], 99)[..] else { panic!("no call") };
    let page = bytes::Bytes::from(vec![7; 1000]);
    let pieces = asked.reply.page(page.len()).unwrap().around(page.clone());
    assert!(pieces.iter().any(|piece| piece.as_ptr() == page.as_ptr() && piece.len() == page.len()));
}

#[test]
fn a_page_longer_than_lengths_can_say_is_refused() {
    let [Ok(asked)] = &asked(Server::new(LIMITS), GET_DATA[0], 99)[..] else { panic!("no call") };
    assert!(asked.reply.page(i32::MAX as usize - 1024).is_some());
    assert!(asked.reply.page(i32::MAX as usize).is_none());
}

#[test]
fn an_uncallable_thrift_message_gets_an_exception_and_the_connection_continues() {
    let unknown =
        "unknown method \"nothing\"; known: get_data, print_statistics, reset_statistics".to_owned();
    let no_argument = "get_data has no argument 1, the url as a string".to_owned();
    for (message, reply) in [
        (&b"\x80\x01\0\x01\0\0\0\x07nothing\0\0\0\x07\0"[..], exception("nothing", 1, &unknown)),
        (
            b"\x80\x01\0\x02\0\0\0\x08get_data\0\0\0\x07\x0b\0\x01\0\0\0\x01a\0",
            exception("get_data", 2, "a message of type 2, not a call"),
        ),
        (b"\x80\x01\0\x01\0\0\0\x08get_data\0\0\0\x07\0", exception("get_data", 7, &no_argument)),
        (
            b"\x80\x01\0\x01\0\0\0\x08get_data\0\0\0\x07\x08\0\x01\0\0\0\x01\0",
            exception("get_data", 7, &no_argument),
        ),
        (
            b"\x80\x01\0\x01\0\0\0\x08get_data\0\0\0\x07\x0b\0\x01\0\0\0\x01\x0a\0",
            no_url("the url has the control character 0x0a at byte 0"),
        ),
        (
            b"\x80\x01\0\x01\0\0\0\x08get_data\0\0\0\x07\x0b\0\x01\0\0\0\x01\xff\0",
            no_url("the url is not utf-8 at byte 0"),
        ),
    ] {
        for transport in TRANSPORTS {
            let wire = [wrap(transport, message), wrap(transport, GET_DATA[0])].concat();
            let expected = vec![Err((wrap(transport, &reply).into(), false)), Ok(fetch("http://a/"))];
            assert_eq!(heard(Server::new(LIMITS), &wire, 9), expected, "{transport:?} {message:?}");
        }
    }
}

#[test]
fn arguments_that_end_too_early_break_a_buffered_connection_only() {
    let bad = b"\x80\x01\0\x01\0\0\0\x08get_data\0\0\0\x07\x0b\0\x01\xff\xff\xff\xff";
    let reply = exception("get_data", 7, "a length of -1");
    for (transport, closes) in [(Transport::Framed, false), (Transport::Buffered, true)] {
        let expected = vec![Err((wrap(transport, &reply).into(), closes))];
        assert_eq!(heard(Server::new(LIMITS), &wrap(transport, bad), 9), expected);
    }
    let wire = wrap(Transport::Framed, &[GET_DATA[0], b"more"].concat());
    let reply = wrap(Transport::Framed, &exception("get_data", 7, "4 bytes after the call in its frame"));
    assert_eq!(heard(Server::new(LIMITS), &wire, 9), [Err((reply.into(), false))]);
}

#[test]
fn empty_frames_and_theader_close_the_connection_at_once() {
    let closed = Err((bytes::Bytes::new(), true));
    let call = wrap(Transport::Framed, GET_DATA[0]);
    assert_eq!(heard(Server::new(LIMITS), &[0; 4], 3), std::slice::from_ref(&closed));
    assert_eq!(
        heard(Server::new(LIMITS), &[&call, &[0; 4][..]].concat(), 3),
        [Ok(fetch("http://a/")), closed.clone()]
    );
    let header = b"\0\0\0\x2e\x0f\xff\0\0\0\0\0\x07";
    assert_eq!(heard(Server::new(LIMITS), header, 3), [closed]);
}

#[test]
fn a_call_with_an_overlong_url_fails_by_its_declared_exception() {
    for url in [LIMITS.message, 20_000, 5 << 20] {
        for (protocol, transport) in
            PROTOCOLS.into_iter().flat_map(|one| TRANSPORTS.map(|other| (one, other)))
        {
            let mut client = Client::new(transport, protocol, LIMITS);
            let wire = client.encode(&fetch(&"x".repeat(url))).unwrap();
            // The client may wait for the answer before it has sent everything.
            for length in [LIMITS.message + 4, wire.len()] {
                let heard = heard(Server::new(LIMITS), &wire[..length], 1_000);
                let [Err((reply, true))] = &heard[..] else {
                    panic!("{transport:?} {protocol:?}: {heard:?}")
                };
                let mut client = Client::new(transport, protocol, LIMITS);
                client.encode(&fetch("x")).unwrap();
                let Ok(Some(Answer::Failure(failure))) = answer(&mut client, reply, 99) else {
                    panic!("{reply:?}")
                };
                assert_eq!(failure.status, 414, "{failure:?}");
            }
        }
    }
}

#[test]
fn a_oneway_call_is_never_answered() {
    let known = b"\x80\x01\0\x04\0\0\0\x10reset_statistics\0\0\0\x07\0";
    let [Ok(asked)] = &asked(Server::new(LIMITS), known, 99)[..] else { panic!("no call") };
    assert_eq!(asked.call, Call::Reset);
    assert!(asked.reply.done().is_empty() && asked.reply.failure(&gone()).is_empty());
    assert_eq!(asked.reply.page(1), None);
    let unknown = b"\x80\x01\0\x04\0\0\0\x07nothing\0\0\0\x07\0";
    assert_eq!(heard(Server::new(LIMITS), unknown, 99), [Err((bytes::Bytes::new(), false))]);
}

#[test]
fn unknown_fields_are_skipped() {
    // One of each type, numbered from 2, before the URL.
    let binary =
        b"\x02\0\x02\x01\x03\0\x03\x01\x04\0\x04\0\0\0\0\0\0\0\0\x06\0\x05\0\x01\x08\0\x06\0\0\0\x01\
        \x0a\0\x07\0\0\0\0\0\0\0\x01\x0b\0\x08\0\0\0\x01a\x0c\0\x09\x02\0\x01\x01\0\
        \x0d\0\x0a\x08\x0b\0\0\0\x01\0\0\0\x01\0\0\0\x01a\x0e\0\x0b\x02\0\0\0\x02\0\x01\
        \x0f\0\x0c\x0c\0\0\0\x02\0\0\x0d\0\x0d\0\0\0\0\0\0\x10\0\x0e0123456789abcdef\
        \x0b\0\x01\0\0\0\x09http://a/\0";
    let compact = b"\x21\x12\x13\x01\x17\0\0\0\0\0\0\0\0\x14\x02\x15\x02\x16\x02\x18\x01a\x1c\x11\0\
        \x1b\x01\x58\x02\x01a\x1a\x21\x01\x02\x19\x2c\0\0\x1b\0\x1d0123456789abcdef\x08\x02\x09http://a/\0";
    let calls: [Vec<u8>; 2] = [
        [&b"\x80\x01\0\x01\0\0\0\x08get_data\0\0\0\x07"[..], binary].concat(),
        [&b"\x82\x21\x07\x08get_data"[..], compact].concat(),
    ];
    for call in calls {
        for piece in [1, 7, 999] {
            assert_eq!(heard(Server::new(LIMITS), &call, piece), [Ok(fetch("http://a/"))], "{call:?}");
        }
    }
}

#[test]
fn thrift_values_nested_too_deep_or_counted_too_large_are_refused() {
    let nested = [b"\x0c\0\x02".repeat(33), vec![0; 34]].concat();
    let start = b"\x80\x01\0\x01\0\0\0\x08get_data\0\0\0\x07";
    for (fields, why) in [
        (&nested[..], "a field is nested more than 32 deep"),
        (b"\x0f\0\x02\x0c\x7f\xff\xff\xff", "2147483647 elements in 272 bytes"),
        (b"\x0f\0\x02\x0c\xff\xff\xff\xff", "a length of -1"),
        (b"\x0d\0\x02\x02\x02\0\x01\0\0", "65536 elements in 271 bytes"),
        (b"\x11\0\x02", "no value is of type 17"),
    ] {
        let wire = [&start[..], fields].concat();
        let expected = vec![Err((exception("get_data", 7, why).into(), true))];
        assert_eq!(heard(Server::new(LIMITS), &wire, 1), expected, "{why}");
    }
}

#[test]
fn bytes_that_are_no_call_close_the_connection_at_once() {
    for wire in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff\x80\x02\0\x01",
        b"\0\0\0\0\xff\xff\xff\xff",
        b"\0\0\x01\x2d\x80\x01\0\x05",
        b"\x80\x02\0\x01",
        b"\x80\x01\0\x05",
        b"\x80\x01\0\x01\xff\xff\xff\xff",
        b"\x82\x22",
        b"\x82\x21\x07\xff\xff\xff\xff\x0f",
        b"\0\0\0\x02\x82\x21",
    ] {
        for piece in [1, 99] {
            assert_eq!(
                heard(Server::new(LIMITS), wire, piece),
                [Err((bytes::Bytes::new(), true))],
                "{wire:?}"
            );
        }
    }
}

#[test]
fn a_client_refuses_what_is_not_the_answer() {
    let too_long =
        [b"\x80\x01\0\x02\0\0\0\x08get_data\0\0\0\x01\x0b\0\0\0\0\x0b\xb9", &[7; 3001][..], b"\0"].concat();
    for (reply, why) in [
        (PAGE[0], "the reply to call 7 where that to 1 was due"),
        (GET_DATA[0], "the reply to call 7 where that to 1 was due"),
        (b"\x80\x01\0\x01\0\0\0\x08get_data\0\0\0\x01\0", "a call where a reply was due"),
        (b"\x80\x01\0\x02\0\0\0\x08get_data\0\0\0\x01\0", "the reply to get_data has no result"),
        (&too_long, "a page of 3001 bytes, over the limit of 3000"),
    ] {
        let mut client = Client::new(Transport::Buffered, Protocol::Binary, LIMITS);
        client.encode(&fetch("http://a/")).unwrap();
        assert_eq!(answer(&mut client, reply, 50).unwrap_err().to_string(), why);
    }
    let mut idle = Client::new(Transport::Buffered, Protocol::Binary, LIMITS);
    assert_eq!(idle.decode(&mut BytesMut::from(PAGE[0])).unwrap_err().to_string(), "a reply to no call");
    assert!(idle.encode(&Call::Ping).is_err());
    assert!(idle.close().is_err());
}

#[test]
fn a_client_reads_an_exception_of_thrift_itself() {
    let mut client = Client::new(Transport::Framed, Protocol::Compact, LIMITS);
    client.encode(&fetch("http://a/")).unwrap();
    let reply = wrap(Transport::Framed, b"\x82\x61\x01\x08get_data\x18\x04gone\x15\x0c\0");
    let expected = Answer::Failure(larder_rpc::Failure { status: 0, ..gone() });
    assert_eq!(answer(&mut client, &reply, 3), Ok(Some(expected)));
}

/// The starts of calls, so that any bytes after them are read as arguments.
const STARTS: [&[u8]; 3] = [b"", b"\x80\x01\0\x01\0\0\0\x08get_data\0\0\0\x07", b"\x82\x21\x07\x08get_data"];

fn any_exchange() -> impl Strategy<Value = (Call, Answer)> {
    let call = prop_oneof![any_url().prop_map(|url| fetch(&url)), Just(Call::Statistics), Just(Call::Reset)];
    call.prop_flat_map(|call| any_answer(&call).prop_map(move |answer| (call.clone(), answer)))
}

proptest! {
    #[test]
    fn the_thrift_protocol_carries_any_calls_and_replies_in_any_pieces(
        exchanges in prop::collection::vec(any_exchange(), 1..4),
        transport in prop::sample::select(&TRANSPORTS[..]),
        protocol in prop::sample::select(&PROTOCOLS[..]),
        piece in 1..400_usize,
    ) {
        let mut client = Client::new(transport, protocol, LIMITS);
        let mut server = Server::new(LIMITS);
        for (call, reply) in exchanges {
            let got = exchange(&mut client, &mut server, (&call, &reply), piece);
            prop_assert_eq!(got, (call, reply));
        }
    }

    #[test]
    fn any_bytes_are_heard_alike_however_they_are_cut(
        start in prop::sample::select(&STARTS[..]),
        rest in prop::collection::vec(prop_oneof![0..20_u8, any::<u8>()], 0..600),
        framed in any::<bool>(),
        piece in 1..40_usize,
    ) {
        let message = [start, &rest].concat();
        let wire = if framed { wrap(Transport::Framed, &message) } else { message };
        prop_assert_eq!(heard(Server::new(LIMITS), &wire, piece), heard(Server::new(LIMITS), &wire, 1000));
    }

    #[test]
    fn any_bytes_answer_a_client_or_do_not(
        rest in prop::collection::vec(prop_oneof![0..20_u8, any::<u8>()], 0..600),
        statistics in any::<bool>(),
        kept in any::<prop::sample::Index>(),
        protocol in prop::sample::select(&PROTOCOLS[..]),
        piece in 1..40_usize,
    ) {
        let (call, replies) = if statistics { (Call::Statistics, STATISTICS) } else { (fetch("a"), PAGE) };
        let reply = replies[PROTOCOLS.iter().position(|known| *known == protocol).unwrap()];
        let start = &reply[..kept.index(reply.len())];
        let outcomes = [piece, 1000].map(|piece| {
            let mut client = Client::new(Transport::Buffered, protocol, LIMITS);
            for _ in 0..7 {
                client.encode(&call).unwrap();
            }
            answer(&mut client, &[start, &rest].concat(), piece).map_err(drop)
        });
        if !format!("{outcomes:?}").contains("NaN") {
            prop_assert_eq!(&outcomes[0], &outcomes[1]);
        }
    }
}
