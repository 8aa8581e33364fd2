//! Weighted choices: `Accept-Language`, `Accept-Encoding` and `Accept-Charset` (RFC 9110 section 12.5).

use std::cmp::Reverse;

use crate::fields::{Fields, is_token, members, parameters};

/// The most weighted choices that are normalised; longer lists count as written.
const MOST_CHOICES: usize = 16;

/// The members of `Accept-Language` and similar fields, the best first; equal ones by name, or in their order.
pub(crate) struct Choices<'a> {
    sorted: [Choice<'a>; MOST_CHOICES],
    count: usize,
}

/// A choice, and its weight in thousandths.
#[derive(Clone, Copy, Default)]
pub(crate) struct Choice<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) weight: u16,
}

impl<'a> Choices<'a> {
    /// Returns `None` if a member is malformed or there are too many.
    pub(crate) fn of(request: &'a impl Fields, name: &'a str, is_ordered: bool) -> Option<Self> {
        let mut choices = Self { sorted: [Choice::default(); MOST_CHOICES], count: 0 };
        for member in members(request, name) {
            *choices.sorted.get_mut(choices.count)? = Choice::parse(member)?;
            choices.count += 1;
        }
        let order = |choice: &Choice<'_>, other: &Choice<'_>| {
            let names = || lower_of(choice.name).cmp(lower_of(other.name));
            let weights = Reverse(choice.weight).cmp(&Reverse(other.weight));
            if is_ordered { weights } else { weights.then_with(names) }
        };
        // A stable sort, without an allocation for so few choices.
        choices.sorted[..choices.count].sort_by(order);
        Some(choices)
    }

    /// Returns the choices, the best first.
    pub(crate) fn sorted(&self) -> &[Choice<'a>] {
        &self.sorted[..self.count]
    }

    pub(crate) fn emit(&self, emit: &mut impl FnMut(&[u8]) -> bool) {
        let mut choices = self.sorted[..self.count].iter().enumerate();
        choices.all(|(index, choice)| {
            let is_lower = !choice.name.iter().any(u8::is_ascii_uppercase);
            (index == 0 || emit(b","))
                && (if is_lower {
                    emit(choice.name)
                } else {
                    lower_of(choice.name).all(|byte| emit(&[byte]))
                })
                && (choice.weight == 1000 || {
                    let digit = |unit| b'0' + (choice.weight / unit % 10) as u8;
                    emit(&[b';', b'q', b'=', b'0', b'.', digit(100), digit(10), digit(1)])
                })
        });
    }
}

impl<'a> Choice<'a> {
    fn parse(member: &'a [u8]) -> Option<Self> {
        let mut parts = parameters(member);
        let name = parts.next().filter(|name| is_token(name))?;
        let weight = match parts.next() {
            None => 1000,
            Some([b'q' | b'Q', b'=', value @ ..]) => weight(value)?,
            Some(_) => return None,
        };
        parts.next().is_none().then_some(Self { name, weight })
    }
}

fn lower_of(name: &[u8]) -> impl Iterator<Item = u8> {
    name.iter().map(u8::to_ascii_lowercase)
}

/// Returns a `qvalue` in thousandths (RFC 9110 section 12.4.2).
pub(crate) fn weight(value: &[u8]) -> Option<u16> {
    let (&unit, rest) = value.split_first()?;
    let decimals = match rest {
        [] => rest,
        [b'.', decimals @ ..] if decimals.len() <= 3 && decimals.iter().all(u8::is_ascii_digit) => decimals,
        _ => return None,
    };
    let digit = |at: usize| u16::from(decimals.get(at).map_or(0, |digit| digit - b'0'));
    let thousandths = digit(0) * 100 + digit(1) * 10 + digit(2);
    match unit {
        b'0' => Some(thousandths),
        b'1' if thousandths == 0 => Some(1000),
        _ => None,
    }
}
