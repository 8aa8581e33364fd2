//! Registries whose contents can be forged: of static files, or in front of another server.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest::{self, Algorithm};
use larder_testkit::{Answer, Authority, Client, Origin, Seen, output};

use crate::Registry;

/// A name of this machine in URLs. Programs in Go, and browsers, use no proxy for `localhost` and 127.0.0.1.
pub(super) const ANY: &str = "0.0.0.0";

/// The fields and the content of a response.
type Found = Option<(String, Vec<u8>)>;

/// A registry whose contents can be forged.
pub(super) struct Shelf {
    pub(super) registry: Registry,
    pub(super) url: String,
    pub(super) contents: Vec<String>,
    is_forged: Arc<AtomicBool>,
    downloads: Arc<AtomicUsize>,
}

impl Shelf {
    /// Starts a registry at `host` that answers what `find` returns for a request and its own URL. `contents` are the paths of
    /// packages, which no second run may ask for.
    pub(super) fn new(
        host: &str,
        contents: &[String],
        find: impl Fn(&Seen, &str) -> Found + Send + Sync + 'static,
    ) -> Self {
        let (url, is_forged, downloads) =
            (Arc::new(OnceLock::<String>::new()), Arc::default(), Arc::default());
        let (own, forged, counted): (_, Arc<AtomicBool>, Arc<AtomicUsize>) =
            (Arc::clone(&url), Arc::clone(&is_forged), Arc::clone(&downloads));
        let of = contents.to_vec();
        let origin = Origin::answering(move |seen| {
            let Some((fields, mut content)) = find(seen, own.get().expect("it listens")) else {
                return Answer::with_body("404 Not Found\nCache-Control: max-age=1000", b"none");
            };
            if of.contains(&seen.target) {
                counted.fetch_add(usize::from(seen.method == "GET"), Ordering::Relaxed);
                if forged.load(Ordering::Acquire) {
                    content.fill(b'x');
                }
            }
            let head = format!("200 OK\n{fields}");
            match &*seen.method {
                "HEAD" => {
                    let (head, length) = (head.replace('\n', "\r\n"), content.len());
                    Answer::raw(format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n"))
                }
                _ => Answer::with_body(&head, &content),
            }
        });
        let registry = Registry::with(origin, Authority::new(), &[host], "");
        let known = format!("https://{host}:{}", registry.port());
        url.set(known.clone()).expect("once");
        Self { registry, url: known, contents: contents.to_vec(), is_forged, downloads }
    }

    /// Starts a registry of these files, by their paths. In texts, `$URL` becomes its URL.
    pub(super) fn of(host: &str, contents: &[&str], files: Vec<(String, Vec<u8>)>) -> Self {
        let contents: Vec<_> = contents.iter().map(|path| (*path).to_owned()).collect();
        Self::new(host, &contents, move |seen, url| {
            let path = seen.target.split('?').next().unwrap_or_default();
            let (_, content) = files.iter().find(|(known, _)| known == path)?;
            let content = match std::str::from_utf8(content) {
                Ok(text) => text.replace("$URL", url).into_bytes(),
                Err(_) => content.clone(),
            };
            let kind = if path.ends_with('/') { "text/html" } else { "application/octet-stream" };
            Some((format!("Cache-Control: max-age=1000\nContent-Type: {kind}"), content))
        })
    }

    /// Starts a registry over TLS before a server without.
    pub(super) fn before(host: &str, contents: &[String], server: SocketAddr) -> Self {
        Self::new(host, contents, move |seen, url| {
            let host = url.trim_start_matches("https://");
            let passed = seen.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
            let passed: String = passed.map(|(name, value)| format!("\n{name}: {value}")).collect();
            let own = format!("Host: {host}\nX-Forwarded-Proto: https\nConnection: close");
            let answer = Client::to(server).ask(&format!("{} {}\n{own}{passed}", seen.method, seen.target));
            let is_of_message = |name: &str| {
                ["connection", "keep-alive", "content-length", "transfer-encoding"]
                    .contains(&&*name.to_lowercase())
            };
            let fields = answer.fields.iter().filter(|(name, _)| !is_of_message(name));
            let fields: Vec<_> = fields.map(|(name, value)| format!("{name}: {value}")).collect();
            (answer.status == 200).then(|| (fields.join("\n"), answer.body))
        })
    }

    /// From now on, contents have other bytes, or those that they should have.
    pub(super) fn forge(&self, is_forged: bool) {
        self.is_forged.store(is_forged, Ordering::Release);
    }

    /// Returns how often contents were asked for.
    pub(super) fn downloads(&self) -> usize {
        self.downloads.load(Ordering::Relaxed)
    }

    pub(super) fn host(&self) -> &str {
        self.url.trim_start_matches("https://").split(':').next().expect("a host")
    }
}

/// Returns a digest of `content` in hexadecimal digits.
pub(super) fn hex(algorithm: &'static Algorithm, content: &[u8]) -> String {
    let sum = digest::digest(algorithm, content);
    sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn sha256(content: &[u8]) -> String {
    hex(&digest::SHA256, content)
}

/// Returns a ZIP archive with these files.
pub(super) fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a directory");
    let written = files.iter().map(|(name, text)| format!("z.writestr({name:?}, {text:?})\n"));
    let script = format!(
        "import zipfile\nz = zipfile.ZipFile('a.zip', 'w')\n{}z.close()",
        written.collect::<String>()
    );
    output(Command::new("/usr/bin/python3").args(["-c", &script]).current_dir(folder.path()));
    fs::read(folder.path().join("a.zip")).expect("an archive")
}

/// Returns an archive (tar, gzip) of a folder with these files.
pub(super) fn archive(folder: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let root = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        let path = root.path().join(folder).join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    let mut tar = Command::new("tar");
    output(tar.args(["-czf", "a.tgz", folder]).current_dir(root.path()));
    fs::read(root.path().join("a.tgz")).expect("an archive")
}
