//! The description of a stored response in `why`.

use larder_semantics::coding::Coding;
use larder_semantics::explain;
use larder_semantics::freshness::Flags;
use larder_semantics::storable::{Rules, Times};
use larder_semantics::vary;
use larder_store::{CodedBody, Entry};

use crate::base::clock;
use crate::base::explanation::StoredView;
use crate::base::outcome::Tier;
use crate::exchange::request::Request;
use crate::exchange::target;

/// Describes `entry`, which `request` selects, and which got its lifetime from rules and times like these.
pub(super) fn describe(
    request: &Request,
    (rules, times): (&Rules, Times),
    entry: &Entry,
    tier: Tier,
) -> StoredView {
    let (freshness, now) = (entry.freshness(), clock::now());
    let source = explain::lifetime_source(rules, entry.status(), &entry.fields(), times);
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let other = Some(entry.key()).filter(|key| *key != &*request.key);
    StoredView {
        url: other.and_then(target::url),
        tier: tier.name().to_owned(),
        status: entry.status().as_u16(),
        bytes: entry.body().len(),
        age: freshness.age(now),
        lifetime: freshness.lifetime,
        lifetime_from: source.name().to_owned(),
        ttl: freshness.ttl(now),
        fresh: freshness.is_fresh(now),
        validator: freshness.flags.contains(Flags::VALIDATOR),
        vary: vary::fields(entry.signature())
            .map(|(name, value)| (name.to_owned(), value.map(text)))
            .collect(),
        forms: entry
            .coded()
            .into_iter()
            .flat_map(CodedBody::forms)
            .map(|(coding, form)| (coding.map_or("identity", Coding::token).to_owned(), form.len()))
            .collect(),
        only_by_rules: false,
        prefetched: false,
    }
}
