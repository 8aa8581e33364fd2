//! The format of `Strict-Transport-Security` in a config: `365d; includeSubDomains; preload`.

use std::time::Duration;

use larder_proxy::settings::Hsts;

use crate::cli::units::{parse_duration, show_duration};

/// Parses a duration, and the directives of RFC 6797 and of the preload lists.
pub(super) fn parse(text: &str) -> Result<Hsts, String> {
    let mut words = text.split([';', ',', ' ']).filter(|word| !word.is_empty());
    let duration = parse_duration(words.next().unwrap_or_default())?;
    let seconds = u32::try_from(duration.as_secs()).ok().filter(|_| duration.subsec_nanos() == 0);
    let max_age = seconds.ok_or_else(|| format!("{} is not in whole seconds", show_duration(duration)))?;
    let mut hsts = Hsts { max_age, subdomains: false, preload: false };
    for word in words {
        match word.to_ascii_lowercase().as_str() {
            "includesubdomains" => hsts.subdomains = true,
            "preload" => hsts.preload = true,
            _ => return Err(format!("'{}' is neither includeSubDomains nor preload", word.escape_debug())),
        }
    }
    Ok(hsts)
}

/// Formats the value so that [`parse`] reads it again.
pub(super) fn show(hsts: &Hsts) -> String {
    let mut text = show_duration(Duration::from_secs(u64::from(hsts.max_age)));
    text.push_str(if hsts.subdomains { "; includeSubDomains" } else { "" });
    text.push_str(if hsts.preload { "; preload" } else { "" });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_and_two_words_are_read() {
        for (text, field) in [
            ("365d", "max-age=31536000"),
            ("0s", "max-age=0"),
            ("1d; includeSubDomains", "max-age=86400; includeSubDomains"),
            ("1d;INCLUDESUBDOMAINS ; preload", "max-age=86400; includeSubDomains; preload"),
        ] {
            let hsts = parse(text).expect(text);
            assert_eq!(hsts.to_string(), field);
            assert_eq!(parse(&show(&hsts)), Ok(hsts));
        }
        for text in ["", "forever", "1ms", "1d; preloaded", "max-age=1", "1d; preload\r\nX: y"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
