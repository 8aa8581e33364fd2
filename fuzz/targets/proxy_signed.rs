//! Any URL of a site with signed URLs: no panic, and none passes without a key.

#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use larder_proxy::settings::{SignaturePlace, SignedUrls};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(uri) = std::str::from_utf8(bytes) else { return };
    let Ok(mut urls) = SignedUrls::parse("keys", "fuzz 0123456789abcdef0123456789abcdef") else {
        return;
    };
    let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
    for place in [SignaturePlace::Query, SignaturePlace::Path, SignaturePlace::Folder] {
        urls.place = place;
        assert!(urls.verify(uri, client, 0).is_err(), "{uri}");
        let resource = urls.resource(uri);
        assert!(resource.len() <= uri.len(), "{uri}");
        assert!(place == SignaturePlace::Folder || uri.starts_with(&*resource), "{uri}");
    }
});
