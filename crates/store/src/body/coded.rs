//! A stored response's content in other codings than the origin's.
//!
//! The forms belong to their response: they are charged with it, and every change of what is stored takes them along or
//! drops them with it. They are made from the stored content and can be made again, so no disk has them.

use std::sync::Arc;

use larder_semantics::coding::{self, Coding};

use crate::charge::allocated;
use crate::{Body, Entry, Extent, Memory};

/// Content, and its forms in other codings.
#[derive(Debug)]
pub struct Coded {
    plain: Body,
    /// Without a body: it is not worth it.
    forms: Vec<(Coding, Option<Body>)>,
    /// The response's `Vary` names `Accept-Encoding` itself.
    varies: bool,
}

impl Coded {
    /// The content without a coding.
    pub(crate) fn plain(&self) -> &Body {
        &self.plain
    }

    /// Whether the `Vary` of the response names `Accept-Encoding`, or anything: it was read once for all hits.
    #[inline]
    pub fn varies(&self) -> bool {
        self.varies
    }

    /// The content in `coding`, if there is such a form.
    #[inline]
    pub fn form(&self, coding: Coding) -> Option<&Body> {
        self.forms.iter().find(|(own, _)| *own == coding)?.1.as_ref()
    }

    /// Whether it has been tried to make the form in `coding`.
    pub fn is_tried(&self, coding: Coding) -> bool {
        self.forms.iter().any(|(own, _)| *own == coding)
    }

    /// The forms.
    pub fn forms(&self) -> impl Iterator<Item = (Coding, &Body)> {
        self.forms.iter().filter_map(|(coding, body)| Some((*coding, body.as_ref()?)))
    }

    /// Bytes of all forms together.
    pub(crate) fn len(&self) -> u64 {
        self.forms().map(|(_, body)| body.len()).sum()
    }

    /// The same content with one more form, or with the note that there is no use in it.
    fn with(entry: &Entry, coding: Coding, form: Option<Body>) -> Self {
        let others = entry.coded().map_or(&[][..], |coded| &coded.forms).iter();
        let others = others.filter(|(own, _)| *own != coding);
        let forms = others.map(|(own, body)| (*own, body.as_ref().map(Body::duplicate)));
        let forms: Vec<_> = forms.chain([(coding, form)]).collect();
        Self { plain: entry.body().duplicate(), forms, varies: coding::varies(&entry.fields()) }
    }

    pub(crate) fn charge(&self) -> u64 {
        let own = size_of::<Self>() + 2 * size_of::<usize>();
        let list = self.forms.capacity() * size_of::<(Coding, Option<Body>)>();
        let bodies = self.forms().map(|(_, body)| body.charge()).sum::<u64>();
        self.plain.charge() + bodies + (allocated(own) + allocated(list)) as u64
    }

    /// Checks that each coding has one form, which is shorter than the content.
    pub(crate) fn validate(&self) -> Result<(), String> {
        for (at, (coding, body)) in self.forms.iter().enumerate() {
            if self.forms[..at].iter().any(|(other, _)| other == coding) {
                return Err(format!("two forms in {}", coding.token()));
            }
            if body.as_ref().is_some_and(|body| body.len() >= self.plain.len() || body.forms().is_some()) {
                return Err(format!("the form in {} is no shorter than the content", coding.token()));
            }
        }
        Ok(())
    }
}

impl Memory {
    /// Puts the form of `entry`'s content in `coding` beside it, or the note that there is no use in one. False if
    /// `entry` is not stored any more as it was, or there is no room for the form.
    pub fn add_form(&self, entry: &Entry, coding: Coding, form: Option<Body>) -> bool {
        let body = Body::coded(Coded::with(entry, coding, form));
        entry.with_forms(body).is_some_and(|new| self.grow(entry, &new))
    }
}

/// The body for bytes that are all there: long ones in `extent`, from where they are sent as other long bodies are.
///
/// # Errors
/// The kernel's, when a memory file takes no more.
pub fn body_of(bytes: Vec<u8>, extent: impl FnOnce(u64) -> std::io::Result<Extent>) -> std::io::Result<Body> {
    let len = bytes.len() as u64;
    if len < super::SENDFILE_FROM {
        return Ok(Body::Heap(bytes.into()));
    }
    let extent = extent(len)?;
    extent.append(&bytes)?;
    Ok(Body::file(Arc::new(extent)))
}
