//! Limits that rules set: counts requests against them, and refuses requests beyond them.

use std::time::Instant;

use http::{HeaderValue, StatusCode, header};
use larder_rules::Pattern;
use larder_semantics::readings;
use larder_semantics::status::Why;

use crate::base::networks::network;
use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::{CountedRequests, LimitBy};
use crate::exchange::reply::{Reply, Source};
use crate::exchange::request::Request;
use crate::exchange::route::Route;
use crate::exchange::target::ruled_host;
use crate::net::limiter::{ExceededLimit, Holder, LimitEntry, Limiter};

/// Whether `request` has limits on requests of the kind `counted`. A request that another node forwards was counted
/// there.
pub(crate) fn has_limits(request: &Request, counted: CountedRequests) -> bool {
    !request.by_peer && request.ruling.limits.iter().any(|limiter| limiter.limit.counted == counted)
}

/// Counts `request` against its limits on requests of the kind `counted`, unless it counts against them already. Errors:
/// the refusal (429) if a limit is exceeded; then the request counts against none.
pub(crate) fn enter(request: &Request, counted: CountedRequests) -> Result<(), Box<Reply>> {
    if !has_limits(request, counted) || request.entered.have(counted) {
        return Ok(());
    }
    let now = Instant::now();
    let (mut taken, mut entered): (Vec<(&Limiter, Holder)>, Vec<LimitEntry>) = Default::default();
    for limiter in request.ruling.limits.iter().filter(|limiter| limiter.limit.counted == counted) {
        let holder = holder(limiter, request);
        match limiter.enter(holder, now) {
            Ok(in_progress) => {
                taken.push((limiter, holder));
                entered.extend(in_progress);
            }
            Err(beyond) => {
                taken.into_iter().for_each(|(limiter, holder)| limiter.give_back(holder));
                return Err(Box::new(refusal(limiter, beyond)));
            }
        }
    }
    request.entered.add(counted, entered);
    Ok(())
}

/// Returns the holder of the bucket that `request` counts against.
fn holder(limiter: &Limiter, request: &Request) -> Holder {
    match &limiter.limit.by {
        LimitBy::Client => limiter.holder(network(request.client.ip(), 32, 64)),
        LimitBy::Network => limiter.holder(network(request.client.ip(), 24, 48)),
        LimitBy::Host => limiter.holder(ruled_host(&request.authority).to_ascii_lowercase()),
        LimitBy::Field(name) => {
            let fields = request.sent_fields();
            let is_for_proxy =
                matches!(request.route, Route::Anywhere) && *name == header::PROXY_AUTHORIZATION;
            let credentials = request.credentials.iter().filter(|_| is_for_proxy);
            one_holder(limiter, credentials.chain(fields.get_all(name)).map(HeaderValue::as_bytes))
        }
        LimitBy::Parameter(name) => {
            let pairs =
                request.sent_path().split_once('?').into_iter().flat_map(|(_, query)| query.split('&'));
            one_holder(limiter, pairs.flat_map(|pair| values(name, readings::parameters(pair))))
        }
        LimitBy::Cookie(name) => {
            let lines = request.sent_fields().get_all(header::COOKIE).iter();
            let parts = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
            one_holder(limiter, parts.flat_map(|part| values(name, readings::cookies(part))))
        }
        LimitBy::All => limiter.holder(()),
    }
}

/// Returns the values that origins may read under this name, decoded.
fn values<'p, T: AsRef<[u8]> + ?Sized + 'p>(
    name: &Pattern,
    pairs: impl Iterator<Item = (&'p T, &'p T)>,
) -> impl Iterator<Item = Vec<u8>> {
    let own = pairs.filter(|(own, _)| name.matches_name(own.as_ref()));
    own.map(|(_, value)| readings::decode(value.as_ref()).trim_ascii().to_vec())
}

/// Returns the holder of the bucket for the one of `values`, which may be there several times. Requests with several
/// share a bucket: an origin reads one of them, and no client may get a new bucket by another one beside it.
fn one_holder<V: AsRef<[u8]>>(limiter: &Limiter, mut values: impl Iterator<Item = V>) -> Holder {
    let value = values.next();
    let is_alone = values.all(|other| Some(other.as_ref()) == value.as_ref().map(AsRef::as_ref));
    limiter.holder((value.as_ref().filter(|_| is_alone).map(AsRef::as_ref), is_alone))
}

fn refusal(limiter: &Limiter, beyond: ExceededLimit) -> Reply {
    let limit = &limiter.limit;
    let by = match &limit.by {
        LimitBy::Client => "for each client",
        LimitBy::Network => "for each network",
        LimitBy::Host => "for each host",
        LimitBy::Field(_) => "for each value of a field",
        LimitBy::Parameter(_) => "for each value of a parameter",
        LimitBy::Cookie(_) => "for each value of a cookie",
        LimitBy::All => "for all clients together",
    };
    let (most, seconds) = match (beyond, limit.rate, limit.concurrent) {
        (ExceededLimit::Rate(wait), Some(rate), _) => {
            (rate.to_string(), wait.as_nanos().div_ceil(1_000_000_000).max(1))
        }
        (_, _, most) => (format!("{} at once", most.unwrap_or(0)), 1),
    };
    let text = format!("429: a rule of this proxy allows {most} {by}; try again in {seconds} s\n");
    let outcome = Outcome::forwarded(Kind::Refused, Why::RateLimited);
    retry_after(Reply::text(StatusCode::TOO_MANY_REQUESTS, text, outcome), seconds)
}

/// Returns `reply` with the seconds after which the client may try again.
pub(crate) fn retry_after(mut reply: Reply, seconds: u128) -> Reply {
    if let (Source::Fields(fields), Ok(seconds)) =
        (&mut reply.fields, HeaderValue::try_from(seconds.to_string()))
    {
        fields.insert(header::RETRY_AFTER, seconds);
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one_client() {
        for (one, other, of_client, of_network) in [
            ("10.0.0.1", "10.0.0.2", false, true),
            ("10.0.0.1", "::ffff:10.0.0.1", true, true),
            ("10.0.0.1", "10.0.1.1", false, false),
            ("2001:db8::1", "2001:db8::ffff:1", true, true),
            ("2001:db8::1", "2001:db8:0:1::1", false, true),
            ("2001:db8::1", "2001:db8:1::1", false, false),
        ] {
            let same = |bits4, bits6| {
                let [one, other] = [one, other].map(|text| network(text.parse().unwrap(), bits4, bits6));
                one == other
            };
            assert_eq!((same(32, 64), same(24, 48)), (of_client, of_network), "{one} {other}");
        }
    }
}
