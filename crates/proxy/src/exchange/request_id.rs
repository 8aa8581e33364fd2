//! The ids of requests, by which lines in the logs of several programs are recognised as parts of one request.

use std::sync::Arc;

/// The longest id that is taken from a proxy, in bytes.
const LONGEST: usize = 128;

/// Returns the id of a request: the one that a proxy has sent, unless it is malformed, or a new one of 32 hexadecimal
/// digits.
pub(crate) fn of(sent: Option<&[u8]>) -> Arc<str> {
    let is_valid = |id: &&[u8]| (1..=LONGEST).contains(&id.len()) && id.iter().copied().all(is_of_id);
    let sent = sent.filter(is_valid).and_then(|id| str::from_utf8(id).ok());
    sent.map_or_else(|| format!("{:032x}", fastrand::u128(..)).into(), Arc::from)
}

/// Whether an id may have this byte: lines of logs need no escapes for it.
fn is_of_id(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.:;=+/@~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_proxies_are_kept_if_they_are_well_formed() {
        for kept in ["7f", "Root=1-67891233-abcdef012345678912345678", "a:b/c"] {
            assert_eq!(&*of(Some(kept.as_bytes())), kept);
        }
        let long = "a".repeat(LONGEST + 1);
        for replaced in [None, Some(""), Some("a b"), Some("\"a"), Some("a\r\nb"), Some(&*long)] {
            let id = of(replaced.map(str::as_bytes));
            assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        }
        assert_ne!(of(None), of(None));
    }
}
