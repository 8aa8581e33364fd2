//! Any text with placeholders: no panic, and nothing but placeholders is replaced.

#![no_main]

use std::borrow::Cow;

use larder_proxy::settings::Template;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let template = Template::of_value(text);
    let own = template.fill(|_| Cow::Borrowed(""));
    assert!(own.len() <= text.len(), "{text}");
    if template.placeholders().next().is_none() {
        assert_eq!(own, text);
    }
    if let Ok(strict) = Template::parse(text) {
        assert_eq!(strict, template, "{text}");
        assert!(strict.unknown_word().is_none() && !own.contains('{'), "{text}");
    }
});
