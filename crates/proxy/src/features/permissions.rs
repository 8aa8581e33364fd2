//! The permissions of auth services that are remembered, each under the hash of everything that its service saw of the
//! request: so the permission of one client is never that of another.
//!
//! Only permissions are remembered. Refusals may carry cookies for one client, and a client may log in at any time.

use std::collections::HashMap;
use std::time::Instant;

use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;

use crate::base::settings::Print;

/// The fields of a permission that origins get.
pub(super) type TakenFields = Vec<(HeaderName, HeaderValue)>;

/// The most permissions of one shard. Beyond, a new one takes the place of any other.
const MOST: usize = 1 << 10;
const SHARDS: usize = 16;
/// The most bytes of the fields of a permission that is remembered.
const LONGEST: usize = 1 << 10;

/// Remembered permissions, at most 16,384.
pub(super) struct Permissions([Mutex<HashMap<Print, Permission>>; SHARDS]);

struct Permission {
    until: Instant,
    fields: TakenFields,
}

impl Permissions {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }

    /// Returns the fields of the permission under `print`, if it holds at `now`.
    pub(super) fn find(&self, print: &Print, now: Instant) -> Option<TakenFields> {
        let shard = self.shard(print).lock();
        shard.get(print).filter(|own| now < own.until).map(|own| own.fields.clone())
    }

    /// Remembers a permission with these `fields` that holds until `until`.
    pub(super) fn remember(&self, print: Print, fields: &TakenFields, now: Instant, until: Instant) {
        let length: usize = fields.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if length > LONGEST {
            return;
        }
        let mut shard = self.shard(&print).lock();
        if shard.len() >= MOST && !shard.contains_key(&print) {
            shard.retain(|_, own| now < own.until);
        }
        if shard.len() >= MOST
            && let Some(other) = shard.keys().find(|other| **other != print).copied()
        {
            shard.remove(&other);
        }
        shard.insert(print, Permission { until, fields: fields.clone() });
    }

    fn shard(&self, print: &Print) -> &Mutex<HashMap<Print, Permission>> {
        &self.0[usize::from(print[0]) % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, header};
    use larder_rules::Pattern;
    use proptest::prelude::*;

    use super::*;
    use crate::base::settings::{AuthRequest, Origin, PermissionBy};

    fn auth() -> AuthRequest {
        AuthRequest {
            service: Origin::new(false, "auth.example"),
            send: vec![HeaderName::from_static("x-team")],
            take: Vec::new(),
            cache: Duration::from_secs(30),
            by: vec![
                PermissionBy::Field(header::AUTHORIZATION),
                PermissionBy::Cookie(Pattern::parse("session").unwrap()),
            ],
            fails_open: false,
        }
    }

    fn request() -> impl Strategy<Value = HeaderMap> {
        let name = prop::sample::select(vec!["authorization", "x-team", "cookie"]);
        let value = prop_oneof!["[ab]{0,2}", "(session|a)=[ab;, ]{0,3}", "session=a; session=[ab]"];
        let line = (name, value).prop_map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(&value).unwrap())
        });
        prop::collection::vec(line, 0..4).prop_map(|lines| {
            let mut fields = HeaderMap::new();
            lines.into_iter().for_each(|(name, value)| _ = fields.append(name, value));
            fields
        })
    }

    fn lines(sent: &HeaderMap) -> Vec<(&str, &[u8])> {
        let mut lines: Vec<_> = sent.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        lines.sort_by_key(|(name, _)| *name);
        lines
    }

    proptest! {
        /// A permission is found by those requests only in which the service would see the same.
        #[test]
        fn no_permission_crosses_credentials(one in request(), other in request()) {
            let auth = auth();
            let permissions = Permissions::new();
            let now = Instant::now();
            let (one, other) = (auth.fields_of(&one), auth.fields_of(&other));
            let fields = vec![(HeaderName::from_static("x-user"), HeaderValue::from_static("one"))];
            permissions.remember(auth.print(&one).unwrap(), &fields, now, now + auth.cache);
            let found = permissions.find(&auth.print(&other).unwrap(), now);
            prop_assert!(found.is_none() || lines(&one) == lines(&other));
            prop_assert_eq!(permissions.find(&auth.print(&one).unwrap(), now), Some(fields));
            prop_assert!(permissions.find(&auth.print(&one).unwrap(), now + auth.cache).is_none());
            let elsewhere = AuthRequest { service: Origin::new(true, "auth.example"), ..auth };
            prop_assert!(permissions.find(&elsewhere.print(&one).unwrap(), now).is_none());
        }
    }

    #[test]
    fn permissions_take_a_limited_amount_of_memory() {
        let permissions = Permissions::new();
        let now = Instant::now();
        let until = now + Duration::from_secs(30);
        for number in 0..u64::try_from(3 * MOST * SHARDS).unwrap() {
            let mut print = [0; 32];
            print[..8].copy_from_slice(&number.to_le_bytes());
            permissions.remember(print, &Vec::new(), now, until);
            assert!(permissions.find(&print, now).is_some(), "the last one is there");
        }
        assert_eq!(permissions.0.iter().map(|shard| shard.lock().len()).sum::<usize>(), MOST * SHARDS);
        let long = vec![(header::COOKIE, HeaderValue::from_str(&"x".repeat(LONGEST)).unwrap())];
        permissions.remember([9; 32], &long, now, until);
        assert!(permissions.find(&[9; 32], now).is_none());
    }
}
