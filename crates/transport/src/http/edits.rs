//! Changes of field lines by rules: in a request's map and in an origin's lines. Those of replies are changed while
//! they are written.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::response::Lines;
use crate::base::settings::{CookieFilter, Edits};

impl Edits {
    /// Removes the fields of a request that are removed or replaced, and cookies.
    pub fn remove_from(&self, fields: &mut HeaderMap) {
        for own in &self.remove {
            fields.remove(own);
        }
        if self.remove.iter().any(|own| own.as_str().ends_with('*')) {
            let gone: Vec<_> = fields.keys().filter(|own| self.removes(own.as_ref())).cloned().collect();
            gone.iter().for_each(|own| drop(fields.remove(own)));
        }
        if let Some(filter) = &self.cookies {
            filter_cookies(filter, fields);
        }
        for (name, _) in &self.set {
            fields.remove(name);
        }
    }

    /// Changes the fields of a request.
    pub fn apply(&self, fields: &mut HeaderMap) {
        self.remove_from(fields);
        for (name, value) in &self.set {
            fields.append(name, value.clone());
        }
        for (name, value) in &self.default {
            if !fields.contains_key(name) {
                fields.append(name, value.clone());
            }
        }
        for (name, value) in &self.add {
            fields.append(name, value.clone());
        }
    }

    /// Changes the fields of an origin's answer of this status.
    pub fn apply_to_lines(&self, status: StatusCode, lines: &mut Lines) {
        if !self.is_empty() {
            let missing = self.missing(status, lines.iter());
            let more = self.set.iter().chain(missing).chain(&self.add);
            let more = more.map(|(name, value)| (name.as_str(), value.as_bytes()));
            lines.rebuild(|name, value| self.keep(name, value), more);
        }
    }

    /// Changes the fields of a 304. They replace fields of a stored response that was changed already, so that only
    /// fields are added that the 304 has.
    pub fn apply_to_news(&self, news: &mut HeaderMap) {
        let kept = news.iter().filter(|(name, value)| self.keep(name.as_str().as_bytes(), value.as_bytes()));
        let added = self.add.iter().filter(|(name, _)| news.contains_key(name));
        let written = self.set.iter().chain(added).map(|(name, value)| (name, value));
        *news = kept.chain(written).map(|(name, value)| (name.clone(), value.clone())).collect();
    }

    /// Returns the defaults for a response of this status. A 304 gets none: it need not repeat the fields of the
    /// response that it confirms, and a default would replace them.
    pub fn defaults(&self, status: StatusCode) -> Vec<&(HeaderName, HeaderValue)> {
        let is_set = |name: &HeaderName| self.set.iter().any(|(set, _)| set == name);
        let may_be_added = |(name, _): &&(HeaderName, _)| status != StatusCode::NOT_MODIFIED && !is_set(name);
        self.default.iter().filter(may_be_added).collect()
    }

    /// Returns the defaults that a response with these lines gets.
    fn missing<'l>(
        &self,
        status: StatusCode,
        lines: impl Iterator<Item = (&'l [u8], &'l [u8])>,
    ) -> Vec<&(HeaderName, HeaderValue)> {
        let mut missing = self.defaults(status);
        if !missing.is_empty() {
            for (kept, _) in lines.filter(|(name, value)| self.keep(name, value)) {
                missing.retain(|(name, _)| !kept.eq_ignore_ascii_case(name.as_str().as_bytes()));
            }
        }
        missing
    }

    /// Whether a line of a response is kept.
    pub fn keep(&self, name: &[u8], value: &[u8]) -> bool {
        let is_cookie = || name.eq_ignore_ascii_case(b"set-cookie");
        let cookie = || value.split(|byte| *byte == b';').next().unwrap_or_default();
        let is_set = |(own, _): &(HeaderName, _)| name.eq_ignore_ascii_case(own.as_str().as_bytes());
        !self.removes(name)
            && !self.set.iter().any(is_set)
            && self.cookies.as_ref().is_none_or(|filter| !is_cookie() || filter.keeps(cookie()))
    }

    /// Whether the lines called `name` (lower case) are removed or replaced.
    pub fn replace(&self, name: &str) -> bool {
        self.removes(name.as_bytes()) || self.set.iter().any(|(own, _)| own.as_str() == name)
    }

    /// Whether the lines called `name` (lower case) of a request may change.
    pub fn may_change(&self, name: &str) -> bool {
        let mut written = self.default.iter().chain(&self.add);
        self.replace(name)
            || written.any(|(own, _)| own.as_str() == name)
            || (name == header::COOKIE && self.cookies.is_some())
    }

    /// Returns the values that a request gets under `name` (lower case).
    pub fn written<'e>(&'e self, name: &'e str) -> impl Iterator<Item = &'e [u8]> + 'e {
        let is_called = move |(own, _): &&(HeaderName, HeaderValue)| own.as_str() == name;
        self.set.iter().chain(&self.add).filter(is_called).map(|(_, value)| value.as_bytes())
    }

    /// Returns the default value for a request without a line called `name` (lower case). It precedes added values.
    pub fn default_of(&self, name: &str) -> Option<&[u8]> {
        let is_set = self.set.iter().any(|(own, _)| own.as_str() == name);
        let default = self.default.iter().find(|(own, _)| own.as_str() == name).filter(|_| !is_set);
        default.map(|(_, value)| value.as_bytes())
    }
}

fn filter_cookies(filter: &CookieFilter, fields: &mut HeaderMap) {
    let kept: Vec<Vec<u8>> = fields
        .get_all(header::COOKIE)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b';'))
        .map(<[u8]>::trim_ascii)
        .filter(|pair| !pair.is_empty() && filter.keeps(pair))
        .map(<[u8]>::to_vec)
        .collect();
    fields.remove(header::COOKIE);
    if let Ok(value) = HeaderValue::from_bytes(&kept.join(&b"; "[..]))
        && !value.is_empty()
    {
        fields.insert(header::COOKIE, value);
    }
}
