//! Any URL of a site with signed URLs: no panic, and none passes without a key.

#![no_main]

use larder_proxy::settings::SignedUrls;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(uri) = std::str::from_utf8(bytes) else { return };
    let Ok(mut urls) = SignedUrls::parse("keys", "fuzz 0123456789abcdef0123456789abcdef") else {
        return;
    };
    for in_path in [false, true] {
        urls.in_path = in_path;
        assert!(urls.verify(uri, 0).is_err(), "{uri}");
        assert!(uri.starts_with(urls.resource(uri)), "{uri}");
    }
});
