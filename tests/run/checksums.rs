//! The checksum database of Go with one module, as a registry serves it beside the module.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::shelf::sha256;

const NAME: &str = "sum.test";
/// The type of a key for Ed25519.
const ED25519: u8 = 1;

/// Returns the value of `GOSUMDB`, and the files of the database by their paths. `module` is a name and a version, with the files in its
/// archive and its `go.mod`.
pub(super) fn database(
    module: &str,
    version: &str,
    archive: &[(&str, &str)],
    go_mod: &str,
) -> (String, Vec<(String, Vec<u8>)>) {
    let [whole, alone] = [h1(archive), h1(&[("go.mod", go_mod)])];
    let record = format!("{module} {version} {whole}\n{module} {version}/go.mod {alone}\n");
    // A tree with one record (RFC 6962 section 2.1).
    let leaf = digest(&SHA256, &[b"\0", record.as_bytes()].concat());
    let key = Ed25519KeyPair::generate().expect("a key");
    let public = [&[ED25519][..], key.public_key().as_ref()].concat();
    let number = digest(&SHA256, &[format!("{NAME}\n").as_bytes(), &public].concat());
    let number = &number.as_ref()[..4];
    let tree = format!("go.sum database tree\n1\n{}\n", STANDARD.encode(leaf.as_ref()));
    let signature = STANDARD.encode([number, key.sign(tree.as_bytes()).as_ref()].concat());
    let tree = format!("{tree}\n— {NAME} {signature}\n");
    let number: String = number.iter().map(|byte| format!("{byte:02x}")).collect();
    let of = |path: &str| format!("/sumdb/{NAME}/{path}");
    let files = vec![
        (of("supported"), Vec::new()),
        (of("latest"), tree.clone().into()),
        (of(&format!("lookup/{module}@{version}")), format!("0\n{record}\n{tree}").into()),
        (of("tile/8/0/000.p/1"), leaf.as_ref().into()),
    ];
    (format!("{NAME}+{number}+{}", STANDARD.encode(public)), files)
}

/// Returns the hash of files by which Go knows a module.
fn h1(files: &[(&str, &str)]) -> String {
    let mut files = files.to_vec();
    files.sort_unstable();
    let lines = files.iter().map(|(name, text)| format!("{}  {name}\n", sha256(text.as_bytes())));
    format!("h1:{}", STANDARD.encode(digest(&SHA256, lines.collect::<String>().as_bytes())))
}
