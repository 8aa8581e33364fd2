//! A tag of our own for a stored response that came without a validator, on a site where each use is validated.
//!
//! It is the one that a gateway makes of the same answer; kept nowhere, since few ask for it.

use http::{HeaderMap, HeaderValue, header};
use larder_semantics::revalidate;
use larder_semantics::storable::Rules;
use larder_store::Entry;

/// Content up to so many bytes is read for it.
const MOST: u64 = 1 << 20;

/// The tag of `entry`, if it has to be validated and came without what it takes.
pub(crate) async fn of(rules: &Rules, entry: &Entry) -> Option<HeaderValue> {
    let (fields, length) = (entry.fields(), entry.body().len());
    if !rules.validated || revalidate::has_strong(&fields, entry.freshness().date) || length > MOST {
        return None;
    }
    let content = entry.body().load(0, usize::try_from(length).ok()?).await.ok()?;
    Some(larder_tags::entity_tag(&fields, &content))
}

/// Shows this tag and no date, which a change within its second would not tell.
pub(crate) fn show(asked: &mut HeaderMap, tag: &HeaderValue) {
    asked.remove(header::IF_MODIFIED_SINCE);
    asked.insert(header::IF_NONE_MATCH, tag.clone());
}
