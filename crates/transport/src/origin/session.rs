//! The origin that the client of one request stays with.

use std::fmt::Write;

use http::HeaderValue;
use larder_semantics::fields::Fields;
use parking_lot::Mutex;

use crate::base::settings::{OriginTag, Site, Sticky};

/// The session of one request: what its cookies say, and the cookie that its client gets.
#[derive(Debug)]
pub struct Session {
    shown: Vec<OriginTag>,
    given: Mutex<Option<HeaderValue>>,
    /// Whether the cookie is for requests over TLS only.
    is_secure: bool,
}

/// The sticky sessions of a list of origins.
#[derive(Debug)]
pub(super) struct Sessions {
    /// The tags of each origin.
    tags: Vec<Vec<OriginTag>>,
    /// The cookie up to its value, and what is behind it.
    cookie: String,
    attributes: String,
    /// Whether the cookie is sent again with each answer, since its time begins again.
    is_renewed: bool,
}

impl Session {
    /// Reads the cookies of a request; `is_secure`: it came over TLS.
    pub fn read(sticky: &Sticky, fields: &impl Fields, is_secure: bool) -> Self {
        Self { shown: sticky.read(fields), given: Mutex::default(), is_secure }
    }

    /// Returns the `Set-Cookie` for its client, if it gets one.
    pub fn take(&mut self) -> Option<HeaderValue> {
        self.given.get_mut().take()
    }
}

impl Sessions {
    /// Returns the sessions of the list with this `number` among those of `site`; `None` if they are not sticky.
    pub(super) fn new(
        site: &Site,
        number: usize,
        tags: impl Fn(&Sticky) -> Vec<Vec<OriginTag>>,
    ) -> Option<Self> {
        let sticky = site.sticky.as_ref()?;
        let mut attributes = format!("; Path={}; HttpOnly; SameSite=Lax", site.path);
        if let Some(ttl) = sticky.ttl {
            // Writing to a string does not fail.
            let _ = write!(attributes, "; Max-Age={ttl}");
        }
        let cookie = format!("{}=", sticky.cookie_of(number));
        Some(Self { tags: tags(sticky), cookie, attributes, is_renewed: sticky.ttl.is_some() })
    }

    /// Returns the first origin that the client has been with, of those that it `may` stay with.
    pub(super) fn origin(&self, session: &Session, may: impl Fn(usize) -> bool) -> Option<usize> {
        (0..self.tags.len()).find(|at| self.names(session, *at) && may(*at))
    }

    /// Gives the client the cookie of the origin `at`, unless it has it.
    pub(super) fn give(&self, session: &Session, at: usize) {
        let Some(tag) = self.tags.get(at).and_then(|tags| tags.first()) else { return };
        if session.shown.iter().any(|shown| shown.is(tag)) && !self.is_renewed {
            return;
        }
        let secure = if session.is_secure { "; Secure" } else { "" };
        let line = format!("{}{}{}{secure}", self.cookie, tag.digits(), self.attributes);
        *session.given.lock() = HeaderValue::from_str(&line).ok();
    }

    fn names(&self, session: &Session, at: usize) -> bool {
        session.shown.iter().any(|shown| self.tags[at].iter().any(|own| own.is(shown)))
    }
}
