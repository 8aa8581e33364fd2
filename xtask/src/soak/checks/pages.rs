//! Pages that change: an origin that counts their versions, contents that include their versions, and the acknowledged
//! versions, which are the minimum for later reads.

use super::Task;
use crate::client::{Answer, Client};
use crate::soak::content;
use crate::soak::ordinary::Random;
use anyhow::{Context, Result};
use larder_testkit::{Seen, answer, listen, locked};
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Hosts, tags and kinds of pages.
pub(super) const HOSTS: u64 = 2;
pub(super) const TAGS: u64 = 5;
pub(super) const KINDS: [&str; 2] = ["users", "paths"];

/// The origin's fields for its pages, and their lengths.
pub(super) struct Form {
    pub(super) count: u64,
    pub(super) lengths: &'static [usize],
    /// The fields of each response.
    pub(super) lines: &'static str,
    pub(super) has_etags: bool,
    /// Whether a path shows its user.
    pub(super) is_coupled: bool,
    /// For a control: occasionally a byte of the content is wrong.
    pub(super) is_damaged: bool,
}

/// The versions of a page and of the user that it shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PageVersions {
    pub(super) own: u64,
    pub(super) user: u64,
}

/// The pages of an origin.
pub(super) struct Pages {
    form: Form,
    versions: Vec<AtomicU64>,
    acknowledged: Vec<AtomicU64>,
    /// The versions of changes with a field `Change`, by the value of the field.
    committed: Mutex<HashMap<String, u64>>,
}

/// Returns the path of a page: even numbers are users, odd ones are paths of these users.
pub(super) fn path(page: u64) -> String {
    format!("/{}/{}", KINDS[(page % 2) as usize], page / 2)
}

pub(super) fn host(page: u64) -> String {
    format!("h{}.test", page / 2 % HOSTS)
}

fn number(path: &str) -> Option<u64> {
    let (kind, id) = path.strip_prefix('/')?.split_once('/')?;
    let kind = KINDS.iter().position(|known| *known == kind)? as u64;
    Some(id.parse::<u64>().ok()?.checked_mul(2)? + kind)
}

impl Pages {
    pub(super) fn new(form: Form) -> Arc<Self> {
        let zeros = || (0..form.count).map(|_| AtomicU64::new(0)).collect();
        let (versions, acknowledged) = (zeros(), zeros());
        Arc::new(Self { form, versions, acknowledged, committed: Mutex::default() })
    }

    pub(super) fn count(&self) -> u64 {
        self.form.count
    }

    /// Returns a random page; low numbers are the most frequent.
    pub(super) fn some(&self, random: &mut Random) -> u64 {
        let most = random.below(self.form.count) + 1;
        random.below(most)
    }

    /// Serves the pages until the program ends. Returns the port.
    pub(super) fn serve(self: &Arc<Self>) -> u16 {
        let (pages, (listener, address)) = (Arc::clone(self), listen());
        answer(listener, move |request, stream| pages.answer(request, stream));
        address.port()
    }

    fn answer(&self, request: &Seen, stream: &mut TcpStream) -> io::Result<()> {
        let page = number(&request.target).filter(|page| *page < self.form.count);
        let bytes = match page {
            None => content::answer("404 Not Found", "", b"no such page"),
            Some(page) if request.method == "GET" => self.get(page, request),
            Some(page) => {
                let wait = request.field("wait").and_then(|text| text.parse().ok()).unwrap_or(0);
                std::thread::sleep(Duration::from_millis(wait));
                let version = self.change(page);
                if let Some(name) = request.field("change") {
                    self.commits().insert(name.to_owned(), version);
                }
                if request.field("cut").is_some() {
                    return stream.shutdown(Shutdown::Both);
                }
                content::answer("200 OK", &format!("Version: {version}\r\n"), b"")
            }
        };
        stream.write_all(&bytes)
    }

    fn get(&self, page: u64, request: &Seen) -> Vec<u8> {
        let shown = self.shown(page);
        let etag = format!("\"{}-{}\"", shown.own, shown.user);
        let mut lines = format!("{}Cache-Tag: t{}\r\n", self.form.lines, page % TAGS);
        if self.form.has_etags {
            lines += &format!("ETag: {etag}\r\n");
            if request.field("if-none-match") == Some(&etag) {
                return content::answer("304 Not Modified", &lines, b"");
            }
        }
        let mut content = self.content(page, shown);
        if self.form.is_damaged && shown == PageVersions::default() {
            let middle = content.len() / 2;
            content[middle] ^= 1;
        }
        content::answer("200 OK", &lines, &content)
    }

    fn shown(&self, page: u64) -> PageVersions {
        let of = |page: u64| self.versions[page as usize].load(Ordering::SeqCst);
        // A user is read before its path: the shown version is then current or old, and later reads are at least as
        // new.
        let user = if self.form.is_coupled && page % 2 == 1 { of(page - 1) } else { 0 };
        PageVersions { user, own: of(page) }
    }

    /// Returns a content that repeats a line with the path and the versions.
    fn content(&self, page: u64, shown: PageVersions) -> Vec<u8> {
        let lengths = self.form.lengths;
        let line = format!("{} {} {}\n", path(page), shown.own, shown.user);
        line.bytes().cycle().take(lengths[page as usize % lengths.len()]).collect()
    }

    /// Creates a new version of a page at the origin.
    pub(super) fn change(&self, page: u64) -> u64 {
        self.versions[page as usize].fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Acknowledges a version: reads that begin from now on must not show an older one.
    pub(super) fn acknowledge(&self, page: u64, version: u64) {
        self.acknowledged[page as usize].fetch_max(version, Ordering::SeqCst);
    }

    /// Returns the minimum versions for a read that begins now.
    pub(super) fn least(&self, page: u64) -> PageVersions {
        let of = |page: u64| self.acknowledged[page as usize].load(Ordering::SeqCst);
        let user = if self.form.is_coupled && page % 2 == 1 { of(page - 1) } else { 0 };
        PageVersions { user, own: of(page) }
    }

    /// Returns the version that the change of this name has created, once it has.
    pub(super) fn committed(&self, name: &str) -> Option<u64> {
        self.commits().get(name).copied()
    }

    fn commits(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        locked(&self.committed)
    }

    /// Returns the versions in a content, after comparing every received byte. Fails on a content that belongs to no
    /// version of the page.
    pub(super) fn read(&self, page: u64, answer: &Answer) -> Result<PageVersions> {
        let body = &answer.body;
        let line = body.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let text = String::from_utf8_lossy(line);
        let mut words = text.split(' ').skip(1).map(str::parse);
        let shown = match (words.next(), words.next()) {
            (Some(Ok(own)), Some(Ok(user))) => PageVersions { own, user },
            _ => anyhow::bail!("wrong content of {} bytes: `{:.60}`", body.len(), text),
        };
        let right = self.content(page, shown);
        let is_right = if answer.is_whole { *body == right } else { right.starts_with(body) };
        let differs = || body.iter().zip(&right).position(|(one, other)| one != other).unwrap_or(right.len());
        is_right.then_some(shown).with_context(|| {
            format!("wrong content of {} bytes of version {shown:?} from byte {} on", body.len(), differs())
        })
    }
}

/// Returns the error of a page that shows `shown` although it must show at least `least`.
pub(super) fn older(shown: PageVersions, least: PageVersions) -> Option<String> {
    let is_older = shown.own < least.own || shown.user < least.user;
    is_older.then(|| format!("read {shown:?}, acknowledged before were {least:?}"))
}

/// A client that reads pages, and may validate stored ones.
pub(super) struct Reader<'r> {
    pub(super) task: &'r Task<'r>,
    pub(super) pages: &'r Pages,
    client: Client,
    /// Entity-tags with the versions of their contents, by page.
    kept: HashMap<u64, (String, PageVersions)>,
}

impl<'r> Reader<'r> {
    pub(super) fn new(task: &'r Task<'r>, pages: &'r Pages, port: u16) -> Self {
        Self { task, pages, client: Client::to(port), kept: HashMap::new() }
    }

    /// Reads a page of `host`, and reports errors. `least` are the minimum versions.
    pub(super) fn read(
        &mut self,
        host: &str,
        page: u64,
        is_conditional: bool,
        least: PageVersions,
    ) -> Option<Answer> {
        let findings = &self.task.findings;
        let kept = self.kept.get(&page).filter(|_| is_conditional);
        let condition = kept.map(|(etag, _)| format!("If-None-Match: {etag}\r\n")).unwrap_or_default();
        let request = format!("GET {}", path(page));
        let answer = self.client.ask(&request, &format!("Host: {host}\r\n{condition}"));
        findings.reads.add();
        let answer = answer.ok().filter(|answer| matches!(answer.status, 200 | 304));
        let Some(answer) = answer else {
            findings.unanswered.add();
            return None;
        };
        if !answer.is_whole {
            findings.unanswered.add();
            if answer.body.len() < 100 {
                return None;
            }
        }
        let shown = match (answer.status, kept) {
            (304, Some((_, shown))) => Ok(*shown),
            _ => self.pages.read(page, &answer),
        };
        let wrong = match &shown {
            Ok(shown) => older(*shown, least),
            Err(error) => Some(error.to_string()),
        };
        if let Some(wrong) = wrong {
            let (path, status) = (path(page), answer.joined("cache-status"));
            self.task.violation(&format!("http://{host}{path}: {wrong} ({}, {status})", answer.status));
        }
        if let (Ok(shown), Some(etag), true) = (shown, answer.field("etag"), answer.status == 200) {
            self.kept.insert(page, (etag.to_owned(), shown));
        }
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::{Form, PageVersions, Pages, number, older, path};
    use crate::client::Client;

    fn pages(is_damaged: bool) -> std::sync::Arc<Pages> {
        let form =
            Form { count: 4, lengths: &[500], lines: "", has_etags: true, is_coupled: true, is_damaged };
        Pages::new(form)
    }

    #[test]
    fn a_path_names_its_page() {
        (0..9).for_each(|page| assert_eq!(number(&path(page)), Some(page)));
        assert_eq!(number("/feeds/1"), None);
    }

    #[test]
    fn a_read_may_be_newer_than_what_was_acknowledged_and_not_older() {
        let shown = |own, user| PageVersions { own, user };
        assert_eq!(older(shown(3, 2), shown(3, 1)), None);
        assert!(older(shown(2, 2), shown(3, 1)).is_some());
        assert!(older(shown(4, 0), shown(3, 1)).is_some(), "the user counts, too");
    }

    #[test]
    fn a_soak_page_reveals_its_version_and_every_wrong_byte() {
        let pages = pages(false);
        let mut client = Client::to(pages.serve());
        client.ask("PUT /users/0", "").unwrap();
        let mut answer = client.ask("GET /paths/0", "").unwrap();
        assert_eq!(pages.read(1, &answer).unwrap(), PageVersions { own: 0, user: 1 });
        assert_eq!(client.ask("GET /paths/0", "If-None-Match: \"0-1\"\r\n").unwrap().status, 304);
        assert!(pages.read(3, &answer).is_err(), "another page's");
        answer.is_whole = false;
        answer.body.truncate(300);
        assert!(pages.read(1, &answer).is_ok());
        answer.body[200] ^= 1;
        assert!(pages.read(1, &answer).is_err());
    }

    #[test]
    fn a_damaged_page_is_noticed() {
        let pages = pages(true);
        let answer = Client::to(pages.serve()).ask("GET /users/1", "").unwrap();
        assert!(pages.read(2, &answer).is_err());
    }

    #[test]
    fn a_change_that_is_cut_is_committed() {
        let pages = pages(false);
        let mut client = Client::to(pages.serve());
        assert!(client.ask("PUT /users/1", "Change: a\r\nCut: 1\r\n").is_err());
        assert_eq!(pages.committed("a"), Some(1));
        assert_eq!(pages.least(2), PageVersions::default());
        pages.acknowledge(2, 1);
        assert_eq!(pages.least(3), PageVersions { own: 0, user: 1 });
    }
}
