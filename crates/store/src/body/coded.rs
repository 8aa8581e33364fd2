//! The content of a stored response in other codings than the origin's, or without a coding.
//!
//! The forms belong to their response: their bytes count in its charge, and each change of the stored
//! response takes them along or drops them. They are made from the stored content and can be made again, so
//! they are not written to disks.

use std::sync::Arc;

use larder_semantics::coding::Coding;

use super::Body;
use crate::arena::Extent;
use crate::charge::allocated;

/// Content, and its forms in other codings.
#[derive(Debug)]
pub struct CodedBody {
    plain: Body,
    /// The forms by their coding; `None` for content without one. `None` in place of a body: the form is not worth
    /// storing, or cannot be made.
    forms: Box<[(Option<Coding>, Option<Body>)]>,
}

/// The number of a form without a coding.
const IDENTITY: u8 = u8::MAX;

impl CodedBody {
    /// Returns the content `plain` with these forms.
    pub(crate) fn new(plain: Body, forms: Box<[(Option<Coding>, Option<Body>)]>) -> Self {
        Self { plain, forms }
    }

    /// Returns the number of a form in `coding`, or without a coding, which two processes understand.
    pub(crate) fn number(coding: Option<Coding>) -> u8 {
        let named = |coding| Coding::ALL.iter().position(|own| *own == coding);
        coding.and_then(named).map_or(IDENTITY, |at| at as u8)
    }

    /// Returns the coding of the forms with this number, if there is one.
    pub(crate) fn coding(number: u8) -> Option<Option<Coding>> {
        let coding = Coding::ALL.get(usize::from(number)).copied();
        (coding.is_some() || number == IDENTITY).then_some(coding)
    }

    /// Returns the content as the origin has sent it.
    pub(crate) fn plain(&self) -> &Body {
        &self.plain
    }

    /// Returns the content in `coding`, or without a coding, if that form is stored.
    #[inline]
    pub fn form(&self, coding: impl Into<Option<Coding>>) -> Option<&Body> {
        let coding = coding.into();
        self.forms.iter().find(|(own, _)| *own == coding)?.1.as_ref()
    }

    /// Whether a worker has tried to make the form in `coding`, or without a coding.
    pub fn is_tried(&self, coding: impl Into<Option<Coding>>) -> bool {
        let coding = coding.into();
        self.forms.iter().any(|(own, _)| *own == coding)
    }

    /// Iterates over the stored forms.
    pub fn forms(&self) -> impl Iterator<Item = (Option<Coding>, &Body)> {
        self.forms.iter().filter_map(|(coding, body)| Some((*coding, body.as_ref()?)))
    }

    /// Iterates over the forms that a worker has tried to make; `None` in place of a body as in the list.
    pub(crate) fn tried(&self) -> impl ExactSizeIterator<Item = (Option<Coding>, Option<&Body>)> {
        self.forms.iter().map(|(coding, body)| (*coding, body.as_ref()))
    }

    /// Returns the bytes of all forms together.
    pub(crate) fn len(&self) -> u64 {
        self.forms().map(|(_, body)| body.len()).sum()
    }

    /// Returns the content `plain` with the forms of `before` and one more, or with the note that a form in this coding
    /// is not worth storing.
    pub(crate) fn with(
        plain: Body,
        before: Option<&Self>,
        coding: Option<Coding>,
        form: Option<Body>,
    ) -> Self {
        let others = before.map_or(&[][..], |coded| &coded.forms).iter();
        let others = others.filter(|(own, _)| *own != coding);
        let forms = others.map(|(own, body)| (*own, body.as_ref().map(Body::duplicate)));
        let forms = forms.chain([(coding, form)]).collect();
        Self { plain, forms }
    }

    /// Returns the same content and forms after `change` has replaced the storage of some; `None` if all stay.
    pub(super) fn moved(&self, change: &mut dyn FnMut(&Body) -> Option<Body>) -> Option<Self> {
        let plain = change(&self.plain);
        let forms: Vec<_> = self.forms.iter().map(|(_, body)| change(body.as_ref()?)).collect();
        if plain.is_none() && forms.iter().all(Option::is_none) {
            return None;
        }
        let same = |body: &Option<Body>| body.as_ref().map(Body::duplicate);
        let both = self.forms.iter().zip(forms);
        let forms = both.map(|((coding, body), moved)| (*coding, moved.or_else(|| same(body)))).collect();
        Some(Self { plain: plain.unwrap_or_else(|| self.plain.duplicate()), forms })
    }

    pub(crate) fn charge(&self) -> u64 {
        let own = size_of::<Self>() + 2 * size_of::<usize>();
        let list = size_of_val(&*self.forms);
        let bodies = self.forms().map(|(_, body)| body.charge()).sum::<u64>();
        self.plain.charge() + bodies + (allocated(own) + allocated(list)) as u64
    }

    /// Checks that each coding has one form, which is shorter than the content without a coding.
    pub(crate) fn validate(&self) -> Result<(), String> {
        for (at, (coding, body)) in self.forms.iter().enumerate() {
            let name = coding.map_or("identity", Coding::token);
            if self.forms[..at].iter().any(|(other, _)| other == coding) {
                return Err(format!("two forms in {name}"));
            }
            let is_long = |body: &Body| coding.is_some() && body.len() >= self.plain.len();
            if body.as_ref().is_some_and(|body| is_long(body) || body.forms().is_some()) {
                return Err(format!("the form in {name} is no shorter than the content"));
            }
        }
        Ok(())
    }
}

/// Returns the body for `bytes`, which are complete: long ones go into `extent`, and are sent from it like
/// other long bodies.
///
/// # Errors
/// The kernel's error when it refuses to extend the memory file.
pub fn body_of(bytes: Vec<u8>, extent: impl FnOnce(u64) -> std::io::Result<Extent>) -> std::io::Result<Body> {
    let len = bytes.len() as u64;
    if len < super::SENDFILE_FROM {
        return Ok(Body::Heap(bytes.into()));
    }
    let extent = extent(len)?;
    extent.append(&bytes)?;
    Ok(Body::file(Arc::new(extent)))
}
