//! The image for containers, as an OCI layout in a tarball: one layer with the program and the libraries that it is
//! linked to. Made without a daemon; `podman load` and `skopeo copy oci-archive:FILE` read it.

use super::contents::{CONFIGS, copy, write};
use super::tarball::tar;
use super::{Release, output};
use crate::root;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user of the image, who owns its folders for data: the one that other images without a shell call `nonroot`.
const USER: &str = "65532";

/// The authorities that the machine trusts, for origins over TLS.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Packs into `folder`. Fails if a file cannot be written, or `tar` fails.
pub(super) fn pack(release: &Release, folder: &Path) -> Result<PathBuf> {
    let stage = tempfile::tempdir().context("cannot create a folder")?;
    let (files, layout) = (stage.path().join("files"), stage.path().join("layout"));
    lay(release, &files)?;
    let layer = stage.path().join("layer.tar");
    output(tar(release, &files).arg("-cf").arg(&layer).arg("."))?;
    let data = ["var/cache/larder", "var/lib/larder"];
    data.iter()
        .try_for_each(|path| fs::create_dir_all(files.join(path)))
        .context("cannot create a folder")?;
    let mut append = tar(release, &files);
    append.args([format!("--owner={USER}"), format!("--group={USER}"), "--mode=0755".to_owned()]);
    output(append.arg("-rf").arg(&layer).args(data))?;
    let diff = sha256(&layer)?;
    output(Command::new("gzip").arg("-n9").arg(&layer))?;

    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs).context("cannot create a folder")?;
    let layer = add(
        &blobs,
        &fs::read(layer.with_extension("tar.gz"))?,
        "application/vnd.oci.image.layer.v1.tar+gzip",
    )?;
    let config = config(release, &diff).to_string();
    let config = add(&blobs, config.as_bytes(), "application/vnd.oci.image.config.v1+json")?;
    let media = "application/vnd.oci.image.manifest.v1+json";
    let manifest =
        json!({"schemaVersion": 2, "mediaType": media, "config": config, "layers": [layer]}).to_string();
    let mut manifest = add(&blobs, manifest.as_bytes(), media)?;
    manifest["annotations"] =
        json!({"org.opencontainers.image.ref.name": format!("larder:{}", release.version)});
    let index = json!({"schemaVersion": 2, "manifests": [manifest]}).to_string();
    write(&layout.join("index.json"), index.as_bytes())?;
    write(&layout.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    output(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&layout))?;
    let package = folder.join(format!("larder-{}-{}.oci.tar", release.version, architecture(release)));
    output(tar(release, &layout).arg("-cf").arg(&package).args(["oci-layout", "index.json", "blobs"]))?;
    Ok(package)
}

/// Puts the files of the layer into `files`.
fn lay(release: &Release, files: &Path) -> Result<()> {
    copy(&release.larder, &files.join("usr/bin/larder"))?;
    for library in libraries(&release.larder)? {
        copy(&library, &files.join(library.strip_prefix("/").unwrap_or(&library)))?;
    }
    let (from, to) = CONFIGS[1];
    copy(&root().join(from), &files.join(to))?;
    if Path::new(AUTHORITIES).exists() {
        copy(Path::new(AUTHORITIES), &files.join(&AUTHORITIES[1..]))?;
    }
    write(
        &files.join("etc/passwd"),
        format!("nonroot:x:{USER}:{USER}::/var/lib/larder:/sbin/nologin\n").as_bytes(),
    )?;
    write(&files.join("etc/nsswitch.conf"), b"hosts: files dns\n")?;
    output(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(files))?;
    Ok(())
}

/// Returns the files of the libraries that a program is linked to, with the loader; none for a static program. Fails if
/// `ldd` cannot be started.
pub(super) fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let ldd = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
    let told = String::from_utf8_lossy(&ldd.stdout).into_owned();
    let paths = told.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(paths.map(PathBuf::from).collect())
}

/// Returns the config of the image: what it runs, as whom, and how to ask for its health.
fn config(release: &Release, diff: &str) -> Value {
    json!({
        "architecture": architecture(release),
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/usr/bin", "STATE_DIRECTORY=/var/lib/larder"],
            "Entrypoint": ["larder"],
            "Cmd": ["serve", "--config", "/etc/larder/larder.toml"],
            "StopSignal": "SIGTERM",
            "Volumes": {"/var/cache/larder": {}, "/var/lib/larder": {}},
            // Docker's, which the OCI's format keeps and does not use.
            "Healthcheck": {"Test": ["CMD", "larder", "stats"], "Interval": 10_000_000_000_u64, "Timeout": 3_000_000_000_u64},
            "Labels": {
                "org.opencontainers.image.title": "larder",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{diff}")]},
    })
}

/// Returns the architecture in the words of the OCI.
fn architecture(release: &Release) -> &str {
    match release.target.split('-').next() {
        Some("x86_64") | None => "amd64",
        Some("aarch64") => "arm64",
        Some(other) => other,
    }
}

/// Adds a blob under its hash, and returns its descriptor.
fn add(blobs: &Path, bytes: &[u8], media: &str) -> Result<Value> {
    let unnamed = blobs.join("unnamed");
    write(&unnamed, bytes)?;
    let hash = sha256(&unnamed)?;
    fs::rename(&unnamed, blobs.join(&hash)).context("cannot name a blob")?;
    Ok(json!({"mediaType": media, "digest": format!("sha256:{hash}"), "size": bytes.len()}))
}

fn sha256(file: &Path) -> Result<String> {
    let told = output(Command::new("sha256sum").arg(file))?;
    Ok(told.split_whitespace().next().unwrap_or_default().to_owned())
}
