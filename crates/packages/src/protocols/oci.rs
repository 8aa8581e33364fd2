//! OCI distribution: blobs and manifests by digest, tags.
//!
//! Registries redirect requests for blobs to stores of objects, whose paths have the digest as well: `/blobs/sha256:..`,
//! or `/sha256/ab/abcd../data` (the layout of `distribution`).

use super::{Protocol, last_segment};
use crate::digest::{Algorithm, Digest};
use crate::resource::{Kind, Resource};

pub(crate) fn resource(path: &str) -> Option<Resource<'_>> {
    let (before, last) = last_segment(path)?;
    let is_manifest = before.ends_with("/manifests") && before.starts_with("/v2/");
    let digest = match before.ends_with("/blobs") || is_manifest {
        true => Digest::oci(last),
        false => stored(path),
    };
    match digest {
        Some(_) => Some(Resource::new(Protocol::Oci, Kind::Content).with_digest(digest)),
        None if is_manifest && is_tag(last) => Some(Resource::new(Protocol::Oci, Kind::Tag)),
        None => None,
    }
}

/// Whether this is the name of a tag (distribution-spec, "Pulling manifests").
fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

/// Returns the digest in the path of a stored object.
fn stored(path: &str) -> Option<Digest> {
    let path = path.strip_suffix("/data").unwrap_or(path);
    let mut segments = path.rsplit('/');
    let (digits, start, name) = (segments.next()?, segments.next()?, segments.next()?);
    let is_place = name == "sha256" && start.len() == 2 && digits.starts_with(start);
    is_place.then(|| Digest::hex(Algorithm::Sha256, digits))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_and_manifests_by_digest_are_content_and_tags_are_not() {
        let digits = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        let digest = Digest::hex(Algorithm::Sha256, digits);
        for (path, is_content) in [
            (format!("/v2/library/debian/blobs/sha256:{digits}"), true),
            (format!("/v2/a/b/c/manifests/sha256:{digits}"), true),
            (format!("/registry-v2/docker/registry/v2/blobs/sha256/58/{digits}/data"), true),
            (format!("/datastorage/registry/sha256/58/{digits}"), true),
            (format!("/ghcr1/blobs/sha256:{digits}"), true),
            ("/v2/library/debian/manifests/bookworm-slim".to_owned(), false),
        ] {
            let resource = resource(&path).unwrap_or_else(|| panic!("{path}"));
            let expected = if is_content { (Kind::Content, digest) } else { (Kind::Tag, None) };
            assert_eq!((resource.kind, resource.digest), expected, "{path}");
        }
    }

    #[test]
    fn other_paths_are_nothing() {
        let digits = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        for path in [
            "/v2/",
            "/v2/_catalog",
            "/v2/a/tags/list",
            "/v2/a/blobs/uploads/",
            "/v2/a/manifests/sha256:00",
            &format!("/sha256/59/{digits}"),
            &format!("/v2/a/blobs/sha256:{}", digits.to_uppercase()),
        ] {
            assert_eq!(resource(path), None, "{path}");
        }
    }
}
