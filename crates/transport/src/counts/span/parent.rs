//! The field `traceparent`, which propagates spans between programs (W3C Trace Context section 3.2).

use std::fmt::{self, Display};

use larder_semantics::fields::Fields;

use crate::http::names::TRACEPARENT;

/// The length of a value of version 00, and of the corresponding beginning of later versions.
const LENGTH: usize = 55;
/// The flag of a recorded span.
const SAMPLED: u64 = 1;
/// The flag of a random trace id (Trace Context Level 2 section 3.2.2.5.2), which all spans of a trace have or lack.
const RANDOM: u64 = 2;

/// A span as propagated to other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traceparent {
    /// The trace id. Not 0.
    pub trace: u128,
    /// The span id. Not 0.
    pub span: u64,
    /// Whether it is recorded.
    pub sampled: bool,
    /// Whether the trace id is said to be random.
    pub random: bool,
}

impl Traceparent {
    /// Parses the field in `fields`; `None` unless there is exactly one valid line.
    pub fn of(fields: &impl Fields) -> Option<Self> {
        let mut lines = fields.lines(TRACEPARENT);
        let (line, None) = (lines.next()?, lines.next()) else { return None };
        Self::read(line)
    }

    fn read(value: &[u8]) -> Option<Self> {
        let (known, beyond) = value.split_at_checked(LENGTH)?;
        let mut parts = known.split(|byte| *byte == b'-');
        let version = hex(parts.next()?, 2)?;
        let (trace, span, flags) = (parts.next()?, hex(parts.next()?, 16)?, hex(parts.next()?, 2)?);
        let (high, low) = trace.split_at_checked(16)?;
        let trace = u128::from(hex(high, 16)?) << 64 | u128::from(hex(low, 16)?);
        let fits = match version {
            0 => beyond.is_empty(),
            0xff => false,
            _ => matches!(beyond.first(), None | Some(b'-')),
        };
        let [sampled, random] = [SAMPLED, RANDOM].map(|flag| flags & flag != 0);
        (fits && trace != 0 && span != 0).then_some(Self { trace, span, sampled, random })
    }

    /// Creates the root span of a new trace.
    pub fn root(sampled: bool) -> Self {
        Self { trace: fastrand::u128(1..), span: fastrand::u64(1..), sampled, random: false }
    }

    /// Creates a child span of this span.
    pub fn child(self) -> Self {
        Self { span: fastrand::u64(1..), ..self }
    }
}

impl Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u64::from(self.sampled) * SAMPLED + u64::from(self.random) * RANDOM;
        write!(f, "00-{:032x}-{:016x}-{flags:02x}", self.trace, self.span)
    }
}

/// Parses a number of exactly `digits` hexadecimal digits in lower case.
fn hex(text: &[u8], digits: usize) -> Option<u64> {
    let is_one = text.len() == digits && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let text = str::from_utf8(text).ok().filter(|_| is_one)?;
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn values_are_read_strictly() {
        let is = |sampled, random| {
            Some(Traceparent {
                trace: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
                span: 0xb7ad_6b71_6920_3331,
                sampled,
                random,
            })
        };
        for (value, expected) in [
            (format!("00-{TRACE}-{SPAN}-01"), is(true, false)),
            (format!("00-{TRACE}-{SPAN}-00"), is(false, false)),
            (format!("00-{TRACE}-{SPAN}-03"), is(true, true)),
            (format!("00-{TRACE}-{SPAN}-fe"), is(false, true)),
            (format!("00-{TRACE}-{SPAN}-01-"), None),
            (format!("cc-{TRACE}-{SPAN}-01"), is(true, false)),
            (format!("cc-{TRACE}-{SPAN}-01-what-will-be"), is(true, false)),
            (format!("cc-{TRACE}-{SPAN}-01.what"), None),
            (format!("ff-{TRACE}-{SPAN}-01"), None),
            (format!("0-{TRACE}-{SPAN}-001"), None),
            (format!("00-{TRACE}-{SPAN}-0"), None),
            (format!("00-{TRACE}-{SPAN}-+1"), None),
            (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), None),
            (format!("00-{TRACE}-{}-01", SPAN.to_uppercase()), None),
            (format!("00-{}-{SPAN}-01", "0".repeat(32)), None),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)), None),
            (format!("00_{TRACE}_{SPAN}_01"), None),
            (format!(" 00-{TRACE}-{SPAN}-01"), None),
            (String::new(), None),
        ] {
            assert_eq!(Traceparent::read(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn two_lines_say_nothing() {
        let value = format!("00-{TRACE}-{SPAN}-01");
        let mut fields = HeaderMap::new();
        fields.append(TRACEPARENT, value.parse().unwrap());
        assert!(Traceparent::of(&fields).is_some());
        fields.append(TRACEPARENT, value.parse().unwrap());
        assert_eq!(Traceparent::of(&fields), None);
    }

    proptest! {
        #[test]
        fn a_printed_traceparent_reads_as_the_same(trace in 1u128.., span in 1u64.., sampled: bool, random: bool) {
            let parent = Traceparent { trace, span, sampled, random };
            prop_assert_eq!(Traceparent::read(parent.to_string().as_bytes()), Some(parent));
        }

        #[test]
        fn nothing_is_too_strange_to_read(value in "[0-9a-f-]{50,60}|\\PC{0,60}") {
            let _ = Traceparent::read(value.as_bytes());
        }
    }
}
