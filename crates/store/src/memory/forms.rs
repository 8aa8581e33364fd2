//! Adds coded forms to stored responses.

use larder_semantics::coding::Coding;

use crate::body::Body;
use crate::{Entry, Memory};

impl Memory {
    /// Adds the form of `entry`'s content in `coding`, or without a coding, to the stored response, or the note that
    /// such a form is not worth storing or cannot be made. Returns false if `entry` has been removed or changed, or if
    /// there is no room for the form.
    pub fn add_form(&self, entry: &Entry, coding: impl Into<Option<Coding>>, form: Option<Body>) -> bool {
        entry.with_form(coding.into(), form).is_some_and(|new| self.grow(entry, &new))
    }
}
