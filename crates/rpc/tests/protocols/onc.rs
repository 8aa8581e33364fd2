//! ONC RPC: messages as RFC 5531 and RFC 1833 specify them, byte by byte, and the treatment of invalid input.

use super::common::{LIMITS, answer, any_answer, any_url, asked, exchange, fetch, gone, heard, sent};
use bytes::{Bytes, BytesMut};
use larder_rpc::onc::rpcbind::{self, Request, Transport};
use larder_rpc::onc::{Client, LONGEST_PAGE, Server, datagram};
use larder_rpc::{Answer, Call, ClientProtocol, Failure, ReplyEncoder};
use proptest::prelude::*;

/// Returns a message of 32-bit words.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn record(message: &[u8]) -> Vec<u8> {
    [&words(&[0x8000_0000 | message.len() as u32])[..], message].concat()
}

const XID: u32 = 0x0102_0304;
const NO_CREDENTIALS: [u32; 4] = [0, 0, 0, 0];
/// `http://a/` as a string.
const URL: &[u8] = b"\0\0\0\x09http://a/\0\0\0";

/// Returns a call of procedure `number` of this program.
fn call(number: u32, arguments: &[u8]) -> Vec<u8> {
    let head = words(&[XID, 0, 2, 0x2345_1111, 1, number]);
    [&head[..], &words(&NO_CREDENTIALS), arguments].concat()
}

/// Returns a reply that was accepted with `status`.
fn accepted(status: u32, results: &[u8]) -> Vec<u8> {
    [&words(&[XID, 1, 0, 0, 0, status])[..], results].concat()
}

#[test]
fn calls_and_replies_are_those_of_the_standard() {
    let page = |page: &'static [u8]| Answer::Page(page.into());
    let failure = Failure { why: "the server could not do it (system error)".into(), status: 0, ..gone() };
    for (asks, message, answers, reply) in [
        (Call::Ping, call(0, b""), Answer::Done, accepted(0, b"")),
        (fetch("http://a/"), call(2, URL), page(b"a\0b"), accepted(0, b"\0\0\0\x03a\0b\0")),
        (fetch("http://a/"), call(2, URL), page(b"abcd"), accepted(0, b"\0\0\0\x04abcd")),
        (fetch("http://a/"), call(2, URL), page(b""), accepted(0, b"\0\0\0\0")),
        (fetch("http://a/"), call(2, URL), Answer::Failure(failure), accepted(5, b"")),
    ] {
        let wire = record(&message);
        for piece in 1..=wire.len() {
            let heard = asked(Server::new(LIMITS), &wire, piece);
            let [Ok(heard)] = &heard[..] else { panic!("{asks:?}: {heard:?}") };
            assert_eq!(heard.call, asks);
            assert_eq!(sent(&heard.reply, &answers), record(&reply), "{asks:?}");
        }
        let heard = datagram(&message).unwrap();
        assert_eq!((heard.call, sent(&heard.reply, &answers)), (asks.clone(), reply.clone()));

        let mut client = Client::new(XID, LIMITS);
        assert_eq!(client.encode(&asks).unwrap(), wire);
        assert_eq!(answer(&mut client, &record(&reply), 5), Ok(Some(answers)));
    }
}

#[test]
fn a_record_may_come_in_fragments() {
    let message = call(1, URL);
    for cut in 0..message.len() {
        let (first, second) = message.split_at(cut);
        let wire = [&words(&[cut as u32])[..], first, &record(second)].concat();
        assert_eq!(heard(Server::new(LIMITS), &wire, 7), [Ok(fetch("http://a/"))]);
    }
}

#[test]
fn a_rejected_onc_call_gets_a_reply_and_the_connection_continues() {
    let with = |word: usize, value: u32| {
        let mut message = call(1, URL);
        message[word * 4..word * 4 + 4].copy_from_slice(&value.to_be_bytes());
        message
    };
    let credential = |flavour: u32, body: &[u8]| {
        let head = words(&[XID, 0, 2, 0x2345_1111, 1, 1, flavour, body.len() as u32]);
        [&head[..], body, &words(&[0, 0]), URL].concat()
    };
    let long_verifier = [&words(&[XID, 0, 2, 0x2345_1111, 1, 0, 0, 0, 0, 401])[..], &[0; 404]].concat();
    for (what, message, reply) in [
        ("rpc version", with(2, 3), words(&[XID, 1, 1, 0, 2, 2])),
        ("program", with(3, 100_000), accepted(1, b"")),
        ("version", with(4, 2), accepted(2, &words(&[1, 1]))),
        ("procedure", with(5, 3), accepted(3, b"")),
        ("no argument", call(1, b""), accepted(4, b"")),
        ("url too long for its message", call(1, b"\0\0\0\x09http"), accepted(4, b"")),
        ("url of 4 GiB", call(1, b"\xff\xff\xff\xff"), accepted(4, b"")),
        ("url not utf-8", call(1, b"\0\0\0\x01\xff\0\0\0"), accepted(4, b"")),
        ("url with a NUL", call(1, b"\0\0\0\x01\0\0\0\0"), accepted(4, b"")),
        ("bytes after the argument", call(1, &[URL, b"more"].concat()), accepted(4, b"")),
        ("unknown flavour", credential(6, b""), words(&[XID, 1, 1, 1, 2])),
        ("empty system credential", credential(1, b""), words(&[XID, 1, 1, 1, 1])),
        ("17 groups", credential(1, &words(&[0, 0, 0, 0, 17])), words(&[XID, 1, 1, 1, 1])),
        ("bytes after the groups", credential(1, &words(&[0, 0, 0, 0, 0, 0])), words(&[XID, 1, 1, 1, 1])),
        ("a long verifier", long_verifier, words(&[XID, 1, 1, 1, 3])),
    ] {
        let rejected = datagram(&message).unwrap_err();
        assert_eq!((&rejected.reply[..], rejected.close), (&reply[..], false), "{what}");
        if message.len() <= LIMITS.message {
            let wire = [record(&message), record(&call(0, b""))].concat();
            let expected = [Err((Bytes::from(record(&reply)), false)), Ok(Call::Ping)];
            assert_eq!(heard(Server::new(LIMITS), &wire, 9), expected, "{what}");
        }
    }
    let long = [&words(&[XID, 0, 2, 0x2345_1111, 1, 0, 1, 401])[..], &[0; 404], &words(&[0, 0])].concat();
    assert_eq!(datagram(&long).unwrap_err().reply, words(&[XID, 1, 1, 1, 1]), "a long credential");
}

#[test]
fn a_system_credential_is_read() {
    let body = [&words(&[9, 3])[..], b"box\0", &words(&[1000, 1000, 2, 4, 27])].concat();
    let head = words(&[XID, 0, 2, 0x2345_1111, 1, 1, 1, body.len() as u32]);
    let message = [&head[..], &body, &words(&[0, 0]), URL].concat();
    assert_eq!(datagram(&message).unwrap().call, fetch("http://a/"));
}

#[test]
fn bytes_that_are_no_call_close_the_connection_at_once() {
    let reply = record(&accepted(0, b""));
    for (wire, what) in [
        (&b"GET / HTTP/1.1\r\n"[..], "another protocol: a fragment too long"),
        (b"\x80\0\x01\x2d, no call", "a record over the limit"),
        (b"\xff\xff\xff\xff, no call", "a fragment of 2 GiB"),
        (&[0; 17 * 4], "empty fragments"),
        (b"\x80\0\0\0", "an empty record"),
        (b"\x80\0\0\x08\x01\x02\x03\x04\0\0\0\0", "a call without a version"),
        (&reply, "a reply"),
    ] {
        for piece in [1, 99] {
            assert_eq!(heard(Server::new(LIMITS), wire, piece), [Err((Bytes::new(), true))], "{what}");
        }
    }
}

#[test]
fn a_call_over_the_limit_is_refused_once_its_head_has_come() {
    let message = call(1, &[&words(&[400])[..], &[b'x'; 400]].concat());
    let rest = record(&message[30..]);
    let fragments = [&words(&[30])[..], &message[..30], &rest].concat();
    let refused = Err((Bytes::from(record(&accepted(4, b""))), true));
    for wire in [record(&message)[..44].to_vec(), record(&message), fragments] {
        for piece in [1, 999] {
            assert_eq!(heard(Server::new(LIMITS), &wire, piece), std::slice::from_ref(&refused));
        }
    }
}

#[test]
fn both_fetches_have_the_same_messages_and_one_ends_at_nul() {
    let asked = |number: u32| datagram(&call(number, URL)).unwrap();
    let [string, bytes] = [1, 2].map(asked);
    assert_eq!((&string.call, string.reply.ends_at_nul()), (&fetch("http://a/"), true));
    assert_eq!((&bytes.call, bytes.reply.ends_at_nul()), (&fetch("http://a/"), false));
    assert_eq!(string.reply.page(4), bytes.reply.page(4));
}

#[test]
fn a_page_is_whole_or_an_error() {
    let [Ok(stream)] = &asked(Server::new(LIMITS), &record(&call(1, URL)), 99)[..] else { panic!("no call") };
    assert!(stream.reply.page(LONGEST_PAGE).is_some());
    assert_eq!(stream.reply.page(LONGEST_PAGE + 1), None);
    let one = datagram(&call(1, URL)).unwrap().reply;
    // A datagram has 8,800 bytes, and 28 of them precede the page.
    assert!(one.page(8772).is_some());
    assert_eq!(one.page(8773), None);

    let page = Bytes::from(vec![7; 1000]);
    let pieces = one.page(page.len()).unwrap().around(page.clone());
    assert!(pieces.iter().any(|piece| piece.as_ptr() == page.as_ptr() && piece.len() == page.len()));
}

#[test]
fn failures_are_of_three_kinds() {
    let (garbage, denied, failed) = (accepted(4, b""), words(&[XID, 1, 1, 1, 5]), accepted(5, b""));
    for (statuses, reply) in
        [(&[400, 414][..], garbage), (&[401, 403, 407], denied), (&[0, 404, 410, 500, 502, 503, 504], failed)]
    {
        for &status in statuses {
            let asked = datagram(&call(1, URL)).unwrap();
            assert_eq!(asked.reply.failure(&Failure { status, ..gone() }), reply, "{status}");
        }
    }
}

#[test]
fn a_client_reads_why_there_is_no_page() {
    let denied = |rest: &[u32]| [words(&[XID, 1, 1]), words(rest)].concat();
    for (reply, why) in [
        (accepted(1, b""), "the server does not have the program"),
        (accepted(2, &words(&[3, 4])), "the server has versions 3 to 4 of the program"),
        (accepted(3, b""), "the server's program does not have the procedure"),
        (accepted(4, b""), "the server cannot use the arguments (garbage arguments)"),
        (denied(&[0, 2, 2]), "the server speaks versions 2 to 2 of rpc"),
        (denied(&[1, 1]), "the server rejects the caller (authentication status 1)"),
        (denied(&[1, 5]), "not permitted (authentication too weak)"),
    ] {
        let mut client = Client::new(XID, LIMITS);
        client.encode(&fetch("http://a/")).unwrap();
        let expected = Failure { what: "http://a/".into(), why: why.into(), status: 0 };
        assert_eq!(answer(&mut client, &record(&reply), 5), Ok(Some(Answer::Failure(expected))));
    }
}

#[test]
fn a_client_waits_for_its_own_answer_and_refuses_what_is_none() {
    let mut client = Client::new(XID, LIMITS);
    client.encode(&fetch("http://a/")).unwrap();
    client.encode(&fetch("http://b/")).unwrap();
    let late = accepted(0, b"\0\0\0\x01a\0\0\0");
    assert_eq!(answer(&mut client, &record(&late), 5), Ok(None));
    let mut right = late.clone();
    right[3] += 1;
    assert_eq!(answer(&mut client, &record(&right), 5), Ok(Some(Answer::Page(b"a"[..].into()))));

    let too_long = accepted(0, &[&words(&[3001])[..], &[7; 3004]].concat());
    for (reply, why) in [
        (call(0, b""), "a message of type 0, not a reply"),
        (words(&[XID, 1, 2]), "a reply of status 2"),
        (accepted(6, b""), "a reply accepted with status 6"),
        (too_long, "3001 bytes where 3000 are the most"),
    ] {
        let mut client = Client::new(XID, LIMITS);
        client.encode(&fetch("http://a/")).unwrap();
        assert_eq!(answer(&mut client, &record(&reply), 5).unwrap_err().to_string(), why);
    }
    for call in [Call::Statistics, Call::Reset] {
        assert!(client.encode(&call).is_err());
    }
}

#[test]
fn rpcbind_is_asked_as_rfc_1833_says() {
    let (transport, address) = (Transport::Tcp, "127.0.0.1:8080".parse().unwrap());
    let six = "[::1]:8080".parse().unwrap();
    let strings = b"\0\0\0\x03tcp\0\0\0\0\x10127.0.0.1.31.144\0\0\0\0";
    let six_strings = b"\0\0\0\x04udp6\0\0\0\x0a::1.31.144\0\0\0\0\0\0";
    for (request, version, number, arguments) in [
        (Request::Set { transport, address }, 4, 1, &strings[..]),
        (Request::Set { transport: Transport::Udp, address: six }, 4, 1, six_strings),
        (Request::Unset, 4, 2, &[0; 12]),
        (Request::Address { transport, address }, 4, 3, strings),
        (Request::SetPort { transport, port: 8080 }, 2, 1, b"\0\0\0\x06\0\0\x1f\x90"),
        (Request::SetPort { transport: Transport::Udp, port: 8080 }, 2, 1, b"\0\0\0\x11\0\0\x1f\x90"),
        (Request::UnsetPort, 2, 2, &[0; 8]),
    ] {
        let head = words(&[XID, 0, 2, 100_000, version, number, 0, 0, 0, 0, 0x2345_1111, 1]);
        let mut client = rpcbind::Client::new(0x2345_1111, 1, XID - 1);
        assert_eq!(client.encode(request), record(&[&head[..], arguments].concat()), "{request:?}");
    }
}

#[test]
fn rpcbind_answers() {
    use rpcbind::Answer::{Address, Done, Failure, Refused};
    let (transport, address) = (Transport::Tcp, "127.0.0.1:8080".parse().unwrap());
    let find = Request::Address { transport, address };
    for (request, reply, expected) in [
        (Request::Unset, accepted(0, &words(&[1])), Ok(Some(Done))),
        (Request::Unset, accepted(0, &words(&[0])), Ok(Some(Refused))),
        (Request::Unset, accepted(0, &words(&[2])), Err("2 where 0 or 1 should be")),
        (find, accepted(0, b"\0\0\0\x03::1\0"), Ok(Some(Address("::1".into())))),
        (find, accepted(0, &words(&[0])), Ok(Some(Address(String::new())))),
        (find, accepted(1, b""), Ok(Some(Failure("the server does not have the program".into())))),
        (find, accepted(0, &words(&[257])), Err("257 bytes where 256 are the most")),
    ] {
        let mut client = rpcbind::Client::new(0x2345_1111, 1, XID - 1);
        client.encode(request);
        let got = client.decode(&mut BytesMut::from(&record(&reply)[..])).map_err(|why| why.to_string());
        assert_eq!(
            got.as_ref().map_err(String::as_str),
            expected.as_ref().map_err(|why| *why),
            "{request:?}"
        );
    }
}

proptest! {
    #[test]
    fn the_onc_protocol_carries_any_calls_and_replies_in_any_pieces(
        exchanges in prop::collection::vec(
            any_url().prop_flat_map(|url| {
                let call = fetch(&url);
                any_answer(&call).prop_map(move |answer| (call.clone(), answer))
            }),
            1..4,
        ),
        piece in 1..400_usize,
        xid in any::<u32>(),
    ) {
        let (mut client, mut server) = (Client::new(xid, LIMITS), Server::new(LIMITS));
        for (call, reply) in exchanges {
            let (asked, got) = exchange(&mut client, &mut server, (&call, &reply), piece);
            prop_assert_eq!(asked, call);
            match (got, reply) {
                // The protocol does not carry the reason.
                (Answer::Failure(_), Answer::Failure(_)) => {}
                (got, reply) => prop_assert_eq!(got, reply),
            }
        }
    }

    #[test]
    fn any_bytes_are_heard_alike_however_they_are_cut(
        rest in prop::collection::vec(prop_oneof![0..20_u8, any::<u8>()], 0..400),
        called in any::<bool>(),
        piece in 1..40_usize,
    ) {
        let wire = if called { record(&call(1, &rest)) } else { rest };
        prop_assert_eq!(heard(Server::new(LIMITS), &wire, piece), heard(Server::new(LIMITS), &wire, 1000));
        let _ = datagram(&wire);
    }

    #[test]
    fn any_bytes_answer_a_client_or_do_not(
        rest in prop::collection::vec(prop_oneof![0..20_u8, any::<u8>()], 0..400),
        replied in any::<bool>(),
        piece in 1..40_usize,
    ) {
        let wire = if replied { record(&[&words(&[XID, 1])[..], &rest].concat()) } else { rest };
        let outcomes = [piece, 1000].map(|piece| {
            let mut client = Client::new(XID, LIMITS);
            client.encode(&fetch("a")).unwrap();
            answer(&mut client, &wire, piece)
        });
        prop_assert_eq!(&outcomes[0], &outcomes[1]);
    }
}
