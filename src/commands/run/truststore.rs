//! A keystore of Java with trusted certificates, in its oldest form (JKS), which all versions read.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

/// The password by which Java checks that the file is intact, as that of its own keystores.
pub(super) const PASSWORD: &str = "changeit";

const MAGIC: u32 = 0xFEED_FEED;
const VERSION: u32 = 2;
const TRUSTED_CERTIFICATE: u32 = 2;
/// A constant of the format, which is hashed between the password and the content.
const SALT: &[u8] = b"Mighty Aphrodite";

/// Returns a keystore with these certificates in DER.
pub(super) fn jks<'c>(certificates: impl Iterator<Item = &'c [u8]>) -> Vec<u8> {
    let mut entries = Vec::new();
    let mut count = 0_u32;
    for certificate in certificates {
        entries.extend(TRUSTED_CERTIFICATE.to_be_bytes());
        text(&mut entries, &format!("larder-{count}"));
        // The time at which it was added.
        entries.extend(0_u64.to_be_bytes());
        text(&mut entries, "X.509");
        entries.extend((certificate.len() as u32).to_be_bytes());
        entries.extend(certificate);
        count += 1;
    }
    let mut store = [MAGIC, VERSION, count].map(u32::to_be_bytes).concat();
    store.append(&mut entries);
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    PASSWORD.encode_utf16().for_each(|unit| hash.update(&unit.to_be_bytes()));
    hash.update(SALT);
    hash.update(&store);
    store.extend(hash.finish().as_ref());
    store
}

/// Appends a text of less than 64 KiB behind its length.
fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u16).to_be_bytes());
    out.extend(text.as_bytes());
}
