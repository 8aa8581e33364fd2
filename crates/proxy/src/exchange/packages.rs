//! Registries of packages: what their indexes have said, and what follows for requests and responses.
//!
//! A rule with `packages` turns this on. The protocols are in [`larder_packages`]; here are the state that all requests
//! share, its file, and the settings that follow for a response.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::StatusCode;
use larder_packages::age::Dates;
use larder_packages::{
    Digest, Document, FileRecords, Keep, Place, Protocol, Resource, Source, StoredContent, UrlId, Version,
};
use larder_semantics::fields::Fields;
use larder_semantics::key;
use larder_semantics::storable::{Cookies, Rules};
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

use crate::base::clock;
use crate::base::counted::counted;
use crate::base::settings::Settings;
use crate::exchange::ruling::Ruling;
use crate::net::byte_budget::ByteBudget;

/// The lifetime of content that does not change, in seconds.
pub(crate) const FOREVER: u32 = 365 * 86_400;

/// The length in bytes beyond which the file is written again, with what is still known, which is shorter in any case.
const LONGEST_LOG: u64 = 256 << 20;

/// The most bytes of index documents that are held to be read. One client has at most half.
const DOCUMENTS: usize = 256 << 20;

/// The state of registries, kept for the life of the process.
#[derive(Debug)]
pub struct Packages {
    learned: Mutex<FileRecords>,
    is_loaded: AtomicBool,
    /// The file that tells later processes what was learned; `None` without a disk.
    log: Option<PathBuf>,
    /// Whether all clients are one user.
    is_for_one: bool,
    /// The index documents that are held to be read.
    pub(crate) documents: ByteBudget,
    counts: PackageCounters,
}

counted! {
    /// The counts of contents of packages so far.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct PackageCounts, PackageCounters {
        /// Contents that are compared with a digest.
        verified,
        /// Files whose digest is not known.
        unverified,
        /// Contents that were refused, since their digest is another one.
        refused,
    }
}

/// A file whose digest is new, although content of it may be stored.
#[derive(Debug)]
pub(crate) struct StaleFile {
    /// The cache key.
    pub(crate) key: Vec<u8>,
    /// Its digests; empty if the stored content is known to be another one.
    pub(crate) digests: Vec<Digest>,
}

impl Packages {
    /// Creates the state for a process with these settings.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            learned: Mutex::default(),
            is_loaded: AtomicBool::new(false),
            log: settings.disks.first().map(|disk| disk.path.join("packages.log")),
            is_for_one: settings.forward.one_user,
            documents: ByteBudget::new(DOCUMENTS),
            counts: PackageCounters::default(),
        }
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> PackageCounts {
        self.counts.report()
    }

    /// Counts content that was refused.
    pub(crate) fn count_refused(&self) {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the content of `resource`, whose cache key is `key`, is fetched, and returns the digests that it may have;
    /// empty if none is known.
    pub(crate) fn fetch(&self, key: &[u8], resource: &Resource<'_>) -> Vec<Digest> {
        let digests = self.digests(key, resource);
        match digests.is_empty() {
            true if !resource.is_file() => {}
            true => _ = self.counts.unverified.fetch_add(1, Ordering::Relaxed),
            false => _ = self.counts.verified.fetch_add(1, Ordering::Relaxed),
        }
        let line = match resource.digest {
            Some(digest) => self.learned().fetch_content(digest, key),
            None => self.learned().fetch(id(key, resource)),
        };
        self.write(line.as_deref().unwrap_or_default());
        digests
    }

    /// Returns the digests that the content of `resource`, whose cache key is `key`, may have; empty if none is known.
    pub(crate) fn digests(&self, key: &[u8], resource: &Resource<'_>) -> Vec<Digest> {
        match resource.digest {
            Some(digest) => vec![digest],
            None => {
                let mut learned = self.learned();
                learned.of(id(key, resource)).map(|record| record.digests()).unwrap_or_default()
            }
        }
    }

    /// Returns the date of the version of `resource`, whose cache key is `key`, if it is known.
    pub(crate) fn date(&self, key: &[u8], resource: &Resource<'_>, dates: Dates) -> Option<u32> {
        let published = self.learned().of(id(key, resource)).and_then(|record| record.published);
        let seen = || self.seen(resource.protocol, resource.version.as_ref()?).into();
        dates.choose(published, if dates == Dates::Registry { None } else { seen() })
    }

    /// Learns when the version of `resource`, whose cache key is `key`, was published.
    pub(crate) fn set_date(&self, key: &[u8], resource: &Resource<'_>, published: u32) {
        let said = (None, Some(published));
        let news = self.learned().learn(id(key, resource), Source::Same, said, clock::now());
        self.write(news.as_ref().map_or("", |news| &news.line));
    }

    /// Returns when this version was first seen, which is now if it has not been seen before.
    pub(crate) fn seen(&self, protocol: Protocol, Version { name, number }: &Version<'_>) -> u32 {
        let (now, name) = (clock::now(), format!("{}:{name}@{number}", protocol.name()));
        let id = UrlId::of(name.as_bytes());
        let (news, seen) = {
            let mut learned = self.learned();
            let news = learned.learn(id, Source::Same, (None, None), now);
            (news, learned.of(id).and_then(|record| record.seen))
        };
        self.write(news.as_ref().map_or("", |news| &news.line));
        seen.unwrap_or(now)
    }

    /// Returns the URL, as a cache key, for which content with this digest was fetched last.
    pub(crate) fn twin(&self, digest: &Digest) -> Option<Box<[u8]>> {
        self.learned().content(digest).map(Into::into)
    }

    /// Returns the digest of a manifest that the tag at `key` last named to a client with these credentials.
    pub(crate) fn tag(&self, key: &[u8], credentials: Option<&[u8]>) -> Option<Digest> {
        self.learned().of(self.tag_id(key, credentials))?.digests().first().copied()
    }

    /// Sets the digest that the tag at `key` names to a client with these credentials.
    pub(crate) fn set_tag(&self, key: &[u8], credentials: Option<&[u8]>, digest: Digest) {
        let tag = self.tag_id(key, credentials);
        let news = self.learned().learn(tag, Source::Same, (Some(digest), None), clock::now());
        self.write(news.as_ref().map_or("", |news| &news.line));
    }

    /// Returns the identity of a tag as clients with these credentials see it.
    fn tag_id(&self, key: &[u8], credentials: Option<&[u8]>) -> UrlId {
        let credentials = credentials.filter(|_| !self.is_for_one).unwrap_or_default();
        UrlId::of(&[key, b"\n", credentials].concat())
    }

    /// Learns what an index document says, whose URL has the cache key `index`. Returns the files with new digests of which
    /// content may be stored.
    pub(crate) fn learn(&self, document: Document, index: &[u8], content: &[u8]) -> Vec<StaleFile> {
        let Some((role, target)) = key::of_url(index).split_last() else { return Vec::new() };
        let path = key::parse(target).and_then(|(_, _, path)| str::from_utf8(path).ok()).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default();
        let mut registry = key::origin(target).unwrap_or_default().to_vec();
        let source = Source::Other(UrlId::of(&registry));
        registry.extend_from_slice(document.registry(path).as_bytes());
        let registry = UrlId::of(&registry);
        let template = self.learned().template(registry);
        let (mut lines, mut stale, now) = (String::new(), Vec::new(), clock::now());
        for item in document.read(path, content, template.as_deref()) {
            let mut file = Vec::new();
            let (id, source) = match item.place {
                Place::Template(template) => {
                    let line = self.learned().set_template(registry, template.into_owned());
                    lines.push_str(line.as_deref().unwrap_or_default());
                    continue;
                }
                Place::Coordinate(name, path) => {
                    if path.is_some_and(|path| key::resolve(target, path.as_bytes(), &mut file).is_some()) {
                        file.push(*role);
                    }
                    (UrlId::of(name.as_bytes()), source)
                }
                Place::Url(reference) => {
                    if key::resolve(target, reference.as_bytes(), &mut file).is_none() {
                        continue;
                    }
                    let source = if key::same_origin(target, &file) { Source::Same } else { source };
                    file.push(*role);
                    (UrlId::of(&file), source)
                }
            };
            let mut learned = self.learned();
            let Some(news) = learned.learn(id, source, (item.digest, item.published), now) else { continue };
            lines.push_str(&news.line);
            let mut digests = || learned.of(id).map(|record| record.digests()).unwrap_or_default();
            match news.stored {
                StoredContent::Good => {}
                StoredContent::Unverified => stale.push(StaleFile { digests: digests(), key: file }),
                StoredContent::Old => stale.push(StaleFile { digests: Vec::new(), key: file }),
            }
        }
        self.write(&lines);
        stale
    }

    /// Returns what was learned, by earlier processes as well.
    fn learned(&self) -> MutexGuard<'_, FileRecords> {
        let mut learned = self.learned.lock();
        if !self.is_loaded.swap(true, Ordering::Relaxed)
            && let Some(file) = self.log.as_ref().and_then(|path| File::open(path).ok())
        {
            BufReader::new(file).lines().map_while(Result::ok).for_each(|line| learned.read(&line));
        }
        learned
    }

    /// Writes lines for later processes, in one piece, since others may write to the same file.
    fn write(&self, lines: &str) {
        let Some(path) = self.log.as_ref().filter(|_| !lines.is_empty()) else { return };
        let mut options = OpenOptions::new();
        options.create(true).mode(0o600);
        let mut written = || {
            let mut file = options.clone().append(true).open(path)?;
            file.write_all(lines.as_bytes())?;
            if file.metadata()?.len() <= LONGEST_LOG {
                return Ok(());
            }
            let new = path.with_extension("new");
            let known: String = self.learned().lines().collect();
            options.write(true).truncate(true).open(&new)?.write_all(known.as_bytes())?;
            std::fs::rename(new, path)
        };
        if let Err(error) = written() {
            tracing::warn!("{}: cannot write what package indexes say: {error}", path.display());
        }
    }
}

/// Returns the identity of `resource`, whose cache key is `key`.
fn id(key: &[u8], resource: &Resource<'_>) -> UrlId {
    UrlId::of(resource.coordinate.as_deref().map_or(key::of_url(key), str::as_bytes))
}

/// Returns the index document that a response with these fields is.
pub(crate) fn document(resource: &Resource<'_>, fields: &impl Fields) -> Option<Document> {
    let media_type = fields.first("content-type").and_then(|value| str::from_utf8(value).ok());
    resource.document().filter(|document| document.is_of_type(media_type.unwrap_or_default()))
}

/// Returns the settings for a response of this status, with these fields, to a request for `resource`, whose cache key is
/// `key`, with `Authorization` or not, as far as they follow from its protocol, in place of `ruling`; `None` if they do not
/// differ.
pub(crate) fn ruled(
    packages: &Packages,
    (key, resource, is_authorized): (&[u8], &Resource<'_>, bool),
    ruling: &Ruling,
    (status, fields): (StatusCode, &impl Fields),
) -> Option<Arc<Ruling>> {
    let is_known = !packages.digests(key, resource).is_empty();
    let (mut caching, kept) = (ruling.caching.clone(), resource.keep(is_known));
    if !is_known && (resource.is_file() || kept == Keep::Forever) && is_page(fields) {
        // It may be a page to sign in.
        return None;
    }
    match (status, kept) {
        // A part cannot be verified.
        (StatusCode::PARTIAL_CONTENT, _) if is_known => caching.stores_nothing = true,
        (StatusCode::OK, Keep::Forever) => keep(&mut caching, is_known),
        (StatusCode::OK, Keep::Validated) => {
            (caching.lifetimes.replace, caching.keeps_stale) = (Some(0), true);
        }
        (StatusCode::OK, Keep::AsSent) => {
            // Some registries send neither dates nor tags.
            caching.keeps_stale = true;
            if document(resource, fields).is_some() {
                // A version is published at any time, however old the index is.
                caching.heuristic_percent = 0;
            }
        }
        _ => return None,
    }
    // A cache of one user is private (RFC 9111 section 3), as those of package managers are.
    let is_own =
        packages.is_for_one && (is_authorized || is_known) && (resource.is_file() || kept == Keep::Forever);
    if resource.names_content() || is_own {
        (caching.ignored.private, caching.shares_authorized) = (true, true);
    }
    Some(Arc::new(ruling.with_caching(caching)))
}

/// Whether a response with these fields is a page of HTML.
fn is_page(fields: &impl Fields) -> bool {
    let media_type = fields.first("content-type").unwrap_or_default();
    media_type.get(..9).is_some_and(|start| start.eq_ignore_ascii_case(b"text/html"))
}

/// Changes the rules of caching to those for content that does not change.
fn keep(caching: &mut Rules, is_known: bool) {
    caching.lifetimes.replace = Some(FOREVER);
    caching.lifetimes.most = None;
    (caching.ignored.no_cache, caching.ignored.must_revalidate) = (true, true);
    if is_known {
        // Neither a cookie nor another field of a request changes content whose digest is known.
        (caching.is_fixed, caching.cookies) = (true, Cookies::None);
    }
}
