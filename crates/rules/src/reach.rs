//! Finds rules that can never hold, as far as that is easy to determine.

use crate::conditions::{Conditions, Names};
use crate::networks::Networks;
use crate::pattern::Pattern;
use crate::set::RuleSet;

impl RuleSet {
    /// Returns the rules that never hold because an earlier rule, which ends the list, holds whenever they
    /// do: each with that rule.
    pub fn unreachable(&self) -> Vec<(usize, usize)> {
        let rules: Vec<_> = self.rules().collect();
        let stopped_by = |at: usize| {
            let is_before = |earlier: &usize| {
                rules[*earlier].stop && covers(&rules[*earlier].conditions, &rules[at].conditions)
            };
            (0..at).find(is_before).map(|earlier| (at, earlier))
        };
        (0..rules.len()).filter_map(stopped_by).collect()
    }
}

impl Conditions {
    /// Whether some URL may meet the conditions on paths and hosts of both.
    pub fn may_meet(&self, other: &Self) -> bool {
        let begins =
            |one: (&str, bool), other: (&str, bool)| other.0.starts_with(one.0) && (!one.1 || other == one);
        let overlap = |one: &[Pattern], other: &[Pattern]| {
            let pair = |one: &Pattern, other: &Pattern| {
                begins(one.literal(), other.literal()) || begins(other.literal(), one.literal())
            };
            one.is_empty()
                || other.is_empty()
                || one.iter().any(|one| other.iter().any(|other| pair(one, other)))
        };
        overlap(&self.path, &other.path) && overlap(&self.host, &other.host)
    }

    /// Returns the reason why no request can meet the conditions; `None` if there is no known one.
    pub fn contradiction(&self) -> Option<String> {
        if let Some(length) = self.length.as_ref().filter(|length| length.is_empty()) {
            let (least, most) = (length.start(), length.end());
            return Some(format!("no length is {least} at least and {most} at most"));
        }
        if self.moments.are_none() {
            return Some("match.until is not after match.from".to_owned());
        }
        let own = Self { not: Vec::new(), ..self.clone() };
        if self.not.iter().any(|not| covers(not, &own)) {
            return Some("its 'not' excludes all that it matches".to_owned());
        }
        if self.path.is_empty() || self.extension.is_empty() {
            return None;
        }
        let has_other_extension = |path: &Pattern| match path.literal() {
            (text, true) => crate::path::extension(text.as_bytes()).is_none_or(|found| {
                !self.extension.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(found))
            }),
            _ => false,
        };
        let path = self.path.iter().all(has_other_extension).then(|| self.path.first()).flatten()?;
        Some(format!("the path '{path}' has none of the extensions"))
    }
}

/// Whether `earlier` holds whenever `later` does.
fn covers(earlier: &Conditions, later: &Conditions) -> bool {
    let is_part = |earlier: &[Box<str>], later: &[Box<str>]| {
        earlier.is_empty() || (!later.is_empty() && later.iter().all(|word| earlier.contains(word)))
    };
    patterns_cover(&earlier.path, &later.path)
        && patterns_cover(&earlier.host, &later.host)
        && patterns_cover(&earlier.content_type, &later.content_type)
        && (earlier.map.is_none() || earlier.map == later.map)
        && (earlier.domains.is_empty() || earlier.domains == later.domains)
        && is_part(&earlier.extension, &later.extension)
        && is_part(&earlier.method, &later.method)
        && is_part(&earlier.scheme, &later.scheme)
        && networks_cover(&earlier.client, &later.client)
        && (earlier.client_cert.is_none() || earlier.client_cert == later.client_cert)
        && (earlier.moments.are_all() || earlier.moments == later.moments)
        && names_cover(&earlier.query, &later.query)
        && names_cover(&earlier.field, &later.field)
        && names_cover(&earlier.cookie, &later.cookie)
        && names_cover(&earlier.claim, &later.claim)
        && (earlier.bucket.is_none() || earlier.bucket == later.bucket)
        && names_cover(&earlier.response_field, &later.response_field)
        && (earlier.status.is_empty() || earlier.status == later.status)
        && (earlier.length.is_none() || earlier.length == later.length)
        && earlier.not.iter().all(|not| later.not.contains(not))
}

fn patterns_cover(earlier: &[Pattern], later: &[Pattern]) -> bool {
    earlier.is_empty()
        || (!later.is_empty() && later.iter().all(|pattern| earlier.iter().any(|wide| wide.covers(pattern))))
}

fn networks_cover(earlier: &Networks, later: &Networks) -> bool {
    let is_within = |network| earlier.iter().any(|wide| wide.contains(network));
    earlier.is_empty() || (!later.is_empty() && later.iter().all(is_within))
}

fn names_cover<N: PartialEq>(earlier: &Names<N>, later: &Names<N>) -> bool {
    earlier.each.is_empty() || earlier == later
}
