//! Any bytes as a path, and behind a line end an index document of each kind: no panic, and what is left of a document is one again,
//! or nothing.

#![no_main]

use larder_packages::{Protocols, Resource};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return };
    let (Ok(path), content) = (std::str::from_utf8(&bytes[..end]), &bytes[end + 1..]) else { return };
    for protocol in Protocols::ALL.each() {
        let resource = Resource::of([protocol].into_iter().collect(), path);
        let Some(document) = resource.and_then(|resource| resource.document()) else { continue };
        assert!(path.starts_with(document.registry(path)));
        let items = document.read(path, content, Some("/dl/{prefix}/{crate}-{version}.crate"));
        assert!(items.len() <= content.len() * 2);
        if let Some(left) = document.without_young(content, &|number, _| number.len() % 2 == 0) {
            let none = document.without_young(&left, &|_, _| false);
            assert!(left.is_empty() || none.is_some());
        }
    }
});
