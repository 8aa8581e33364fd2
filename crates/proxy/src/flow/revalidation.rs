//! Requests to the origin for a URL with a stored response: for the whole response, a validation, or the missing part.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use larder_semantics::fields::Fields;
use larder_semantics::range::ContentRange;
use larder_semantics::revalidate;
use larder_store::Entry;

use crate::exchange::plan::Plan;
use crate::exchange::request::Request;
use crate::exchange::ruling::Ruling;
use crate::flow::slices::FirstSlice;
use crate::flow::upstream::Answer;

/// The request with which a stored response is revalidated or completed.
pub(crate) enum Revalidation {
    /// Requests what the client does: the response is not going to be stored.
    AsAsked,
    /// Requests the whole response, regardless of the stored one.
    Whole,
    /// Asks whether this response is still valid.
    Validate(Entry),
    /// Requests the part that this response lacks.
    Rest(Entry, ContentRange),
    /// Requests a slice, unless this response, which is stored by slices, is still valid.
    First(Option<Entry>, FirstSlice),
}

impl Revalidation {
    /// Returns the form of the request about `stored`, for a client's request that may want a part.
    pub(crate) fn about(stored: Option<&Entry>, wants_part: bool) -> Self {
        // A 304 stands for success: the origin has another response now than a stored redirect or error (RFC 9110 section 15.4.5).
        let Some(entry) = stored.filter(|entry| entry.status().is_success()) else { return Self::Whole };
        if entry.status() != StatusCode::PARTIAL_CONTENT {
            return Self::Validate(entry.clone());
        }
        let held = ContentRange::of(&entry.fields());
        match held.filter(|held| !wants_part && *held.range().start() == 0 && held.rest().is_some()) {
            Some(held) => Self::Rest(entry.clone(), held),
            None => Self::Whole,
        }
    }

    /// Returns the fields of the request to the origin, for a client's request with the fields `own`; `None` if they are
    /// the same.
    pub(crate) fn fields(&self, own: &HeaderMap, wants_part: bool) -> Option<Box<HeaderMap>> {
        let is_unchanged = match self {
            Self::AsAsked => true,
            Self::Whole => !revalidate::has_evaluated(own),
            Self::Validate(_) | Self::Rest(..) | Self::First(..) => false,
        };
        if is_unchanged {
            return None;
        }
        let mut fields = Box::new(own.clone());
        self.ask(&mut fields, wants_part);
        Some(fields)
    }

    /// Returns the rules for the stored response that a 304 confirms, and the fields of the 304 after the changes by
    /// these rules, or by those of the request. `None` for other answers.
    pub(crate) fn confirmed(
        &self,
        plan: &Plan,
        request: &Request,
        answer: &Answer,
    ) -> Option<(Option<Arc<Ruling>>, HeaderMap)> {
        let (Self::Validate(entry) | Self::First(Some(entry), _)) = self else { return None };
        if answer.status != StatusCode::NOT_MODIFIED {
            return None;
        }
        let mut news = answer.written();
        let by_update = request.rule_update(plan, entry, &news);
        if !answer.by_peer {
            let ruling = by_update.as_ref().unwrap_or(&request.ruling);
            request.response_edits(plan, ruling).apply_to_news(&mut news);
        }
        Some((by_update, news))
    }

    /// Adds the conditions of this revalidation to the fields of the request to the origin.
    fn ask(&self, fields: &mut HeaderMap, wants_part: bool) {
        match self {
            Self::AsAsked => {}
            // A whole response is stored for all clients; the conditions of this client are evaluated here.
            Self::Whole if !wants_part => revalidate::remove_evaluated(fields),
            Self::Whole => {
                for name in [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE] {
                    fields.remove(name);
                }
            }
            Self::Validate(entry) => revalidate::condition(&entry.fields(), fields),
            Self::First(stored, first) => {
                match stored {
                    Some(entry) => revalidate::condition(&entry.fields(), fields),
                    None => revalidate::remove_evaluated(fields),
                }
                fields.extend(HeaderValue::try_from(first.wanted()).map(|wanted| (header::RANGE, wanted)));
            }
            Self::Rest(entry, held) => {
                revalidate::remove_evaluated(fields);
                if let Some(rest) = held.rest().and_then(|rest| HeaderValue::try_from(rest).ok()) {
                    fields.insert(header::RANGE, rest);
                }
                let tag = entry.fields().first("etag").and_then(|tag| HeaderValue::from_bytes(tag).ok());
                if let Some(tag) = tag.filter(|tag| !tag.as_bytes().starts_with(b"W/")) {
                    fields.insert(header::IF_RANGE, tag);
                }
            }
        }
    }
}
