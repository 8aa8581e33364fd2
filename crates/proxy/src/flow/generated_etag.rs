//! Generated entity-tags for stored responses without a validator, on sites where each use is validated.
//!
//! A gateway generates the same tag for the same answer. The tag is not stored, since it is rarely needed.

use http::{HeaderMap, HeaderValue, header};
use larder_semantics::revalidate;
use larder_semantics::storable::Rules;

use crate::flow::revalidation::Revalidation;

/// The longest content that is read to generate a tag, in bytes.
const MOST: u64 = 1 << 20;

/// Returns the generated tag of the response that is validated, if it has to be and has no strong validator. `None` also for
/// content longer than `MOST` bytes.
pub(crate) async fn of(rules: &Rules, revalidation: &Revalidation) -> Option<HeaderValue> {
    let Revalidation::Validate(entry) = revalidation else { return None };
    let (fields, length) = (entry.fields(), entry.body().len());
    if !rules.validated || revalidate::has_strong(&fields, entry.freshness().date) || length > MOST {
        return None;
    }
    let content = entry.body().load(0, usize::try_from(length).ok()?).await.ok()?;
    Some(larder_tags::entity_tag(&fields, &content))
}

/// Makes the request conditional on `tag` alone: a date does not reveal a change within the same second.
pub(crate) fn show(asked: &mut HeaderMap, tag: &HeaderValue) {
    asked.remove(header::IF_MODIFIED_SINCE);
    asked.insert(header::IF_NONE_MATCH, tag.clone());
}
