//! Adds coded forms to stored responses.

use larder_semantics::coding::Coding;

use crate::body::{Body, CodedBody};
use crate::{Entry, Memory};

impl Memory {
    /// Adds the form of `entry`'s content in `coding`, or without a coding, to the stored response, or the note that
    /// such a form is not worth storing or cannot be made. Returns false if `entry` has been removed or changed, or if
    /// there is no room for the form.
    pub fn add_form(&self, entry: &Entry, coding: impl Into<Option<Coding>>, form: Option<Body>) -> bool {
        let coded = CodedBody::with(entry.body().duplicate(), entry.coded(), coding.into(), form);
        let body = Body::coded(coded);
        entry.with_forms(body).is_some_and(|new| self.grow(entry, &new))
    }
}
