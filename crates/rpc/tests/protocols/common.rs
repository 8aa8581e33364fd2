//! Passes bytes to codecs as a network does: in pieces of any length.

use bytes::{Bytes, BytesMut};
use larder_rpc::{
    Answer, Call, CallRequest, ClientProtocol, Failure, Limits, Malformed, ReplyEncoder, ServerProtocol,
    Statistics,
};
use proptest::prelude::*;

/// Limits that are small enough for tests to reach.
pub(crate) const LIMITS: Limits = Limits { message: 300, page: 3000 };

/// The result of a request: the call, or the bytes of its rejection and whether the connection closes.
pub(crate) type Heard<C = Call> = Result<C, (Bytes, bool)>;

/// Returns the results of `server` for `wire`, which arrives in pieces of `piece` bytes, until it wants to close.
pub(crate) fn heard<S: ServerProtocol>(server: S, wire: &[u8], piece: usize) -> Vec<Heard> {
    asked(server, wire, piece).into_iter().map(|heard| heard.map(|asked| asked.call)).collect()
}

/// Returns the results like [`heard`], with the encoders for replies.
pub(crate) fn asked<S: ServerProtocol>(
    mut server: S,
    wire: &[u8],
    piece: usize,
) -> Vec<Heard<CallRequest<S::Reply>>> {
    let mut buffer = BytesMut::new();
    let mut found = Vec::new();
    for part in wire.chunks(piece) {
        buffer.extend_from_slice(part);
        loop {
            match server.decode(&mut buffer) {
                Ok(None) => break,
                Ok(Some(asked)) => found.push(Ok(asked)),
                Err(rejected) => {
                    found.push(Err((rejected.reply, rejected.close)));
                    if rejected.close {
                        return found;
                    }
                }
            }
        }
        assert!(buffer.len() <= LIMITS.message + 4 + piece, "{} bytes wait", buffer.len());
    }
    found
}

/// Returns the result of `client` for `wire`, which arrives in pieces of `piece` bytes.
pub(crate) fn answer<C: ClientProtocol>(
    client: &mut C,
    wire: &[u8],
    piece: usize,
) -> Result<Option<Answer>, Malformed> {
    let mut buffer = BytesMut::new();
    for part in wire.chunks(piece) {
        buffer.extend_from_slice(part);
        if let Some(answer) = client.decode(&mut buffer)? {
            return Ok(Some(answer));
        }
        assert!(buffer.len() <= LIMITS.message + LIMITS.page + 4 + piece, "{} bytes wait", buffer.len());
    }
    Ok(None)
}

/// Sends `call` to `server` and `reply` back, both in pieces of `piece` bytes, and returns them as they arrive.
pub(crate) fn exchange<S: ServerProtocol>(
    client: &mut impl ClientProtocol,
    server: &mut S,
    (call, reply): (&Call, &Answer),
    piece: usize,
) -> (Call, Answer) {
    let mut buffer = BytesMut::new();
    let mut asked = None;
    for part in client.encode(call).expect("a valid call").chunks(piece) {
        assert!(asked.is_none(), "the call was complete before its end");
        buffer.extend_from_slice(part);
        asked = server.decode(&mut buffer).expect("a valid call");
    }
    let asked = asked.expect("a complete call");
    let answer = answer(client, &sent(&asked.reply, reply), piece).expect("a valid reply");
    (asked.call, answer.expect("a complete reply"))
}

/// Returns the bytes that `reply` sends for `answer`.
pub(crate) fn sent(reply: &impl ReplyEncoder, answer: &Answer) -> Vec<u8> {
    match answer {
        Answer::Page(page) => reply.page(page.len()).expect("a page that fits").around(page.clone()).concat(),
        Answer::Statistics(statistics) => reply.statistics(statistics).to_vec(),
        Answer::Done => reply.done().to_vec(),
        Answer::Failure(failure) => reply.failure(failure).to_vec(),
    }
}

pub(crate) fn fetch(url: &str) -> Call {
    Call::Fetch { url: url.to_owned() }
}

pub(crate) fn gone() -> Failure {
    Failure { what: "http://a/".into(), why: "gone".into(), status: 404 }
}

pub(crate) fn statistics() -> Statistics {
    Statistics {
        requests: 3,
        hits: 2,
        misses: 1,
        hit_ratio: 0.5,
        byte_hit_ratio: 0.25,
        average_micros: 1.5,
        p50_micros: 1.0,
        p90_micros: 2.0,
        p99_micros: 4.0,
        bytes_stored: 300,
        entries: 1,
        capacity: 64,
        capacity_unit: "bytes".into(),
        policy: "lru".into(),
        validated: 0,
        validated_hit_ratio: 0.5,
    }
}

/// Generates valid URLs.
pub(crate) fn any_url() -> impl Strategy<Value = String> {
    "[a-z:/.?=%A-Z0-9\u{e4} ]{1,200}"
}

/// Generates answers to `call`, as its client reads them.
pub(crate) fn any_answer(call: &Call) -> BoxedStrategy<Answer> {
    let Call::Fetch { url } = call else {
        return if *call == Call::Statistics { any_statistics().boxed() } else { Just(Answer::Done).boxed() };
    };
    let what = url.clone();
    let failure = ("[ -~]{1,60}", any::<u16>())
        .prop_map(move |(why, status)| Answer::Failure(Failure { what: what.clone(), why, status }));
    let page = prop::collection::vec(any::<u8>(), 0..=3000).prop_map(|page| Answer::Page(page.into()));
    prop_oneof![failure, page].boxed()
}

fn any_statistics() -> impl Strategy<Value = Answer> {
    let count = || 0..=i64::MAX as u64;
    let real = || prop::num::f64::NORMAL | prop::num::f64::ZERO;
    ([count(), count(), count()], [real(), real(), real()], "[a-z0-9:=.]{0,30}").prop_map(
        |([requests, hits, capacity], [hit_ratio, average_micros, p99_micros], policy)| {
            let rest = Statistics::default();
            let some = Statistics {
                requests,
                hits,
                hit_ratio,
                average_micros,
                p99_micros,
                capacity,
                policy,
                ..rest
            };
            Answer::Statistics(Box::new(some))
        },
    )
}
