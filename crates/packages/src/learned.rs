//! What index documents have said about files: digests and dates, within bounds.
//!
//! A digest counts for the URL that an index named. An index of the same origin decides alone about its files. Indexes of other
//! origins, as that of pypi.org for files.pythonhosted.org, decide together: the content may have any of their digests,
//! so that a false index cannot keep others from good content.

use std::fmt::Write;

use aws_lc_rs::digest as hash;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_words::hex;

use crate::digest::{Digest, unhex};

/// The most files that are known. Those that were neither named nor asked for longest are forgotten.
const MOST: usize = 1 << 18;
/// The most registries whose templates are known.
const MOST_TEMPLATES: usize = 64;
/// The most contents by digest of which a place is known. When they are more, all are forgotten.
const MOST_CONTENTS: usize = 1 << 13;
/// The longest key of content, in bytes.
const LONGEST_KEY: usize = 2 << 10;
/// The most origins whose digests of one file count.
const MOST_CLAIMS: usize = 4;

/// The identity of a URL, or of a name of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UrlId(u128);

impl UrlId {
    /// Returns the identity of what these bytes name.
    pub fn of(name: &[u8]) -> Self {
        let value = hash::digest(&hash::SHA256, name);
        let (start, _) = value.as_ref().split_at(16);
        Self(start.iter().fold(0, |id, byte| id << 8 | u128::from(*byte)))
    }
}

/// The origin of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// That of the file.
    Same,
    /// Another one.
    Other(UrlId),
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    source: Source,
    digest: Digest,
}

/// What is known about a file.
#[derive(Clone, Debug, Default)]
pub struct FileRecord {
    claims: Vec<Claim>,
    /// When its version was published, as the registry says.
    pub published: Option<u32>,
    /// When an index named it first.
    pub seen: Option<u32>,
    /// Whether it was fetched, so that its content may be stored.
    is_fetched: bool,
}

impl FileRecord {
    /// Returns the digests, one of which its content must have; empty if none is known.
    pub fn digests(&self) -> Vec<Digest> {
        let own = self.claims.iter().find(|claim| claim.source == Source::Same);
        match own {
            Some(own) => vec![own.digest],
            None => self.claims.iter().map(|claim| claim.digest).collect(),
        }
    }

    /// Sets the digest by `source`; returns whether that is news.
    fn claim(&mut self, source: Source, digest: Digest) -> bool {
        let is_new = !self.claims.iter().any(|claim| claim.source == source && claim.digest == digest);
        self.claims.retain(|claim| claim.source != source);
        if self.claims.len() == MOST_CLAIMS {
            self.claims.remove(0);
        }
        // Most files have one: room for the usual four would take most of the memory.
        self.claims.reserve_exact(1);
        self.claims.push(Claim { source, digest });
        is_new
    }
}

/// What is known about files.
#[derive(Debug, Default)]
pub struct FileRecords {
    /// The files of the present generation, and those of the one before: when the first has half of the most, it becomes
    /// the second.
    recent: HashMap<UrlId, FileRecord, FixedState>,
    earlier: HashMap<UrlId, FileRecord, FixedState>,
    templates: Vec<(UrlId, String)>,
    contents: HashMap<Digest, Box<[u8]>, FixedState>,
}

impl FileRecords {
    /// Returns what is known about a file.
    pub fn of(&mut self, file: UrlId) -> Option<&FileRecord> {
        if let Some(record) = self.earlier.remove(&file) {
            self.insert(file, record);
        }
        self.recent.get(&file)
    }

    /// Learns that an index of `source` names a file, at `now`. Returns what is news.
    pub fn learn(
        &mut self,
        file: UrlId,
        source: Source,
        (digest, published): (Option<Digest>, Option<u32>),
        now: u32,
    ) -> Option<News> {
        let mut record = self.of(file).cloned().unwrap_or_default();
        let is_dated = published.is_some() && record.published != published;
        record.published = published.or(record.published);
        let is_first = record.seen.is_none();
        record.seen.get_or_insert(now);
        let before = record.digests();
        let is_claimed = digest.is_some_and(|digest| record.claim(source, digest));
        if !(is_dated || is_first || is_claimed) {
            return None;
        }
        let line = line(file, source, digest, &record);
        let stored = match record.is_fetched {
            true if before.is_empty() && is_claimed => StoredContent::Unverified,
            true if before.iter().any(|old| !record.digests().contains(old)) => StoredContent::Old,
            _ => StoredContent::Good,
        };
        self.insert(file, record);
        Some(News { line, stored })
    }

    /// Notes that a file is fetched, and may be stored. Returns the line for [`read`](Self::read), the first time.
    pub fn fetch(&mut self, file: UrlId) -> Option<String> {
        let mut record = self.of(file).cloned().unwrap_or_default();
        if std::mem::replace(&mut record.is_fetched, true) {
            return None;
        }
        let line = line(file, Source::Same, None, &record);
        self.insert(file, record);
        Some(line)
    }

    /// Notes that content with this digest is fetched, and may be stored under `key`. Returns the line for
    /// [`read`](Self::read), if that is news.
    pub fn fetch_content(&mut self, digest: Digest, key: &[u8]) -> Option<String> {
        if key.len() > LONGEST_KEY || self.contents.get(&digest).is_some_and(|own| **own == *key) {
            return None;
        }
        if self.contents.len() >= MOST_CONTENTS {
            self.contents.clear();
        }
        self.contents.insert(digest, key.into());
        Some(content_line(&digest, key))
    }

    /// Returns the key under which content with this digest may be stored.
    pub fn content(&self, digest: &Digest) -> Option<&[u8]> {
        self.contents.get(digest).map(|key| &**key)
    }

    /// Returns the lines that tell all that is known to [`read`](Self::read).
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let of_file = |(file, record): (&UrlId, &FileRecord)| {
            let claims = record.claims.iter().map(|claim| (claim.source, Some(claim.digest)));
            let claims: Vec<_> =
                if record.claims.is_empty() { vec![(Source::Same, None)] } else { claims.collect() };
            claims.into_iter().map(|(source, digest)| line(*file, source, digest, record)).collect::<String>()
        };
        let files = self.earlier.iter().chain(&self.recent).map(of_file);
        let templates = self.templates.iter().map(|(registry, template)| template_line(*registry, template));
        files.chain(templates).chain(self.contents.iter().map(|(digest, key)| content_line(digest, key)))
    }

    /// Reads a line that another method returned; ignores others.
    pub fn read(&mut self, line: &str) {
        let id = |word: &str| u128::from_str_radix(word, 16).ok().map(UrlId);
        if let Some((registry, template)) = line.strip_prefix(TEMPLATE).and_then(|rest| rest.split_once(' '))
        {
            id(registry)
                .into_iter()
                .for_each(|registry| _ = self.set_template(registry, template.to_owned()));
            return;
        }
        if let Some((digest, key)) = line.strip_prefix(CONTENT).and_then(|rest| rest.split_once(' ')) {
            let content = Digest::parse(digest).zip(unhex(key));
            content.into_iter().for_each(|(digest, key)| _ = self.fetch_content(digest, &key));
            return;
        }
        let parsed = || {
            let mut words = line.split(' ');
            let file = id(words.next()?)?;
            let source = match words.next()? {
                "=" => Source::Same,
                other => Source::Other(id(other)?),
            };
            let digest = Digest::parse(words.next()?);
            let mut date = || words.next().and_then(|word| word.parse::<u32>().ok());
            let dates = (date(), date());
            Some((file, source, digest, dates, line.ends_with(FETCHED)))
        };
        let Some((file, source, digest, (published, seen), is_fetched)) = parsed() else { return };
        let mut record = self.of(file).cloned().unwrap_or_default();
        (record.published, record.seen) = (published.or(record.published), record.seen.or(seen));
        record.is_fetched |= is_fetched;
        digest.into_iter().for_each(|digest| _ = record.claim(source, digest));
        self.insert(file, record);
    }

    /// Sets the template of URLs of the registry at this URL. Returns the line for [`read`](Self::read), if that is news.
    pub fn set_template(&mut self, registry: UrlId, template: String) -> Option<String> {
        if self.template(registry).as_ref() == Some(&template) || template.contains(char::is_whitespace) {
            return None;
        }
        self.templates.retain(|(own, _)| *own != registry);
        if self.templates.len() == MOST_TEMPLATES {
            self.templates.remove(0);
        }
        let line = template_line(registry, &template);
        self.templates.push((registry, template));
        Some(line)
    }

    /// Returns the template of URLs of the registry at this URL.
    pub fn template(&self, registry: UrlId) -> Option<String> {
        self.templates.iter().find(|(own, _)| *own == registry).map(|(_, template)| template.clone())
    }

    fn insert(&mut self, file: UrlId, record: FileRecord) {
        if self.recent.len() >= MOST / 2 {
            self.earlier = std::mem::take(&mut self.recent);
        }
        self.earlier.remove(&file);
        self.recent.insert(file, record);
    }

    /// Returns the number of files that are known.
    pub fn len(&self) -> usize {
        self.recent.len() + self.earlier.len()
    }

    /// Whether no file is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What an index has said that was not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// The line that tells it to [`FileRecords::read`].
    pub line: String,
    /// What that says about stored content of the file.
    pub stored: StoredContent,
}

/// What a new digest says about stored content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredContent {
    /// There is none, or it has been verified by a digest that still counts.
    Good,
    /// It was stored before its digest was known.
    Unverified,
    /// It was verified by a digest that does not count any more.
    Old,
}

/// The end of the line of a file that was fetched.
const FETCHED: &str = "+";
/// The beginnings of the other lines.
const TEMPLATE: &str = "template ";
const CONTENT: &str = "content ";

fn template_line(UrlId(registry): UrlId, template: &str) -> String {
    format!("{TEMPLATE}{registry:032x} {template}\n")
}

fn content_line(digest: &Digest, key: &[u8]) -> String {
    format!("{CONTENT}{digest} {}\n", hex(key))
}

fn line(UrlId(file): UrlId, source: Source, digest: Option<Digest>, record: &FileRecord) -> String {
    let mut line = format!("{file:032x} ");
    let date = |date: Option<u32>| date.map_or_else(|| "-".to_owned(), |date| date.to_string());
    // Writing to a string does not fail.
    let _ = match source {
        Source::Same => write!(line, "= "),
        Source::Other(UrlId(source)) => write!(line, "{source:032x} "),
    };
    let digest = digest.map_or_else(|| "-".to_owned(), |digest| digest.to_string());
    let end = if record.is_fetched { FETCHED } else { "-" };
    let _ = writeln!(line, "{digest} {} {} {end}", date(record.published), date(record.seen));
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Algorithm;

    fn digest(content: &str) -> Digest {
        Digest::of(Algorithm::Sha256, content.as_bytes())
    }

    fn other(name: &str) -> Source {
        Source::Other(UrlId::of(name.as_bytes()))
    }

    #[test]
    fn indexes_of_other_origins_add_digests_and_the_own_one_decides() {
        let (file, mut learned) = (UrlId::of(b"https://a/f"), FileRecords::default());
        let mut learn = |source, content: &str| learned.learn(file, source, (Some(digest(content)), None), 5);
        assert!(learn(other("good"), "good").is_some());
        assert_eq!(learn(other("good"), "good"), None);
        assert!(learn(other("false"), "false").is_some());
        let digests = learned.of(file).unwrap().digests();
        assert_eq!(digests, [digest("good"), digest("false")]);
        assert_eq!(learned.of(file).unwrap().claims.capacity(), 2, "there are many files");
        learned.learn(file, Source::Same, (Some(digest("own")), None), 6);
        assert_eq!(learned.of(file).unwrap().digests(), [digest("own")]);
    }

    #[test]
    fn another_digest_tells_of_stored_content() {
        let (file, mut learned) = (UrlId::of(b"https://a/f"), FileRecords::default());
        assert!(learned.fetch(file).is_some() && learned.fetch(file).is_none());
        for (source, content, stored) in [
            (other("a"), "1", StoredContent::Unverified),
            (other("b"), "2", StoredContent::Good),
            (other("a"), "3", StoredContent::Old),
            (Source::Same, "3", StoredContent::Old),
        ] {
            let news = learned.learn(file, source, (Some(digest(content)), None), 1);
            assert_eq!(news.map(|news| news.stored), Some(stored), "{content}");
        }
        let unfetched = UrlId::of(b"https://a/g");
        for content in ["1", "2"] {
            let news = learned.learn(unfetched, Source::Same, (Some(digest(content)), None), 1);
            assert_eq!(news.map(|news| news.stored), Some(StoredContent::Good));
        }
    }

    #[test]
    fn lines_restore_what_was_learned() {
        let file = UrlId::of(b"https://a/f");
        let (mut learned, mut restored) = (FileRecords::default(), FileRecords::default());
        for (source, content, published, now) in
            [(other("a"), "1", None, 10), (Source::Same, "2", Some(3), 11), (Source::Same, "4", Some(3), 12)]
        {
            let news = learned.learn(file, source, (Some(digest(content)), published), now).unwrap();
            restored.read(news.line.trim_end());
        }
        let (registry, content) = (UrlId::of(b"https://a"), digest("content"));
        let lines = [
            learned.set_template(registry, "https://a/dl".into()),
            learned.fetch_content(content, b"key\n"),
            learned.fetch(UrlId::of(b"https://a/g")),
        ];
        assert_eq!(learned.fetch_content(content, b"key\n"), None);
        lines.iter().flatten().for_each(|line| restored.read(line.trim_end()));
        let sorted = |learned: &FileRecords| {
            let mut lines: Vec<_> = learned.lines().collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&learned), sorted(&restored));
        let mut compact = FileRecords::default();
        sorted(&learned).iter().flat_map(|lines| lines.lines()).for_each(|line| compact.read(line));
        assert_eq!(sorted(&compact), sorted(&learned));
        assert_eq!(
            (restored.template(registry), restored.content(&content)),
            (Some("https://a/dl".into()), Some(&b"key\n"[..]))
        );
        let (own, again) = (learned.of(file).unwrap().clone(), restored.of(file).unwrap());
        assert_eq!((again.digests(), again.published, again.seen), (vec![digest("4")], Some(3), Some(10)));
        assert_eq!((own.digests(), own.published, own.seen), (again.digests(), again.published, again.seen));
        ["", "x", "0 = md5:00 - -", "\u{e9} = - - -", "template x", "content sha256:00 0"]
            .iter()
            .for_each(|line| restored.read(line));
    }

    #[test]
    fn files_in_demand_stay_and_memory_is_bounded() {
        let (used, mut learned) = (UrlId::of(b"used"), FileRecords::default());
        learned.learn(used, Source::Same, (Some(digest("x")), None), 1);
        for number in 0..MOST as u32 * 2 {
            learned.insert(UrlId(number.into()), FileRecord::default());
            if number % 1000 == 0 {
                assert!(learned.of(used).is_some());
            }
        }
        assert!(learned.len() <= MOST);
        assert!(learned.of(UrlId(0)).is_none());
    }
}
