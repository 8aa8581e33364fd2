//! The purpose of a request: `Sec-Purpose` (Fetch standard), and its predecessor `Purpose`.

/// The fields that name the purpose.
pub const FIELDS: [&str; 2] = ["sec-purpose", "purpose"];

/// Whether a field line of a request marks it as a prefetch: no user has requested the response yet. Few
/// names have these lengths, so that other fields cost only a comparison of numbers.
#[inline]
pub fn is_prefetch(name: &str, value: &[u8]) -> bool {
    let is_purpose = match name.len() {
        7 | 11 => FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field)),
        _ => return false,
    };
    is_purpose && says_prefetch(value)
}

/// Whether an item of a list is `prefetch`, with parameters or without (`prefetch;prerender`).
fn says_prefetch(value: &[u8]) -> bool {
    let item = |member: &[u8]| {
        let item = member.split(|&byte| byte == b';').next().unwrap_or_default();
        item.trim_ascii().eq_ignore_ascii_case(b"prefetch")
    };
    value.split(|&byte| byte == b',').any(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetches_say_so() {
        for (name, value, expected) in [
            ("Sec-Purpose", "prefetch", true),
            ("sec-purpose", "prefetch;prerender", true),
            ("Sec-Purpose", "prefetch; anonymous-client-ip", true),
            ("Sec-Purpose", "Prefetch", true),
            ("Purpose", "prefetch", true),
            ("Purpose", "preview, prefetch", true),
            ("Purpose", "preview", false),
            ("Sec-Purpose", "prefetching", false),
            ("Sec-Purpose", "x;prefetch", false),
            ("Sec-Purpose", "", false),
            ("Referer", "prefetch", false),
            ("X-Purpose-A", "prefetch", false),
        ] {
            assert_eq!(is_prefetch(name, value.as_bytes()), expected, "{name}: {value}");
        }
    }
}
