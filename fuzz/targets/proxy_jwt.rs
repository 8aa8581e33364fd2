//! A set of keys in a line, and a token behind it: no panic, and no token passes that no key has signed.

#![no_main]

use larder_proxy::settings::{JwkSet, Jwt, KeySource, Origin};
use libfuzzer_sys::fuzz_target;

/// A key whose owner has signed nothing.
const KEYS: &[u8] = br#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "one",
    "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (set, token) = text.split_once('\n').unwrap_or(("", text));
    let Ok(own) = JwkSet::parse(KEYS) else { return };
    let jwt = Jwt {
        keys: KeySource::Url(Origin::new(true, "id.example")),
        issuer: "https://id.example".to_owned(),
        audience: vec!["shop".to_owned()],
        cookie: None,
        claims: Vec::new(),
        send: Vec::new(),
        skew: 60,
    };
    assert!(jwt.verify(&own, token, 1_500).is_err(), "{token}");
    if let Ok(set) = JwkSet::parse(set.as_bytes()) {
        let _ = jwt.verify(&set, token, 1_500);
    }
});
