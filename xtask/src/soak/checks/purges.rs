//! Purges under load: a response read after the acknowledgement of a purge was produced after the purge was sent.

use super::Task;
use super::pages::{Form, HOSTS, KINDS, Pages, Reader, TAGS, host, path};
use crate::client::Client;
use crate::soak::ordinary::Random;
use crate::soak::server::Larder;
use anyhow::Result;
use std::sync::Arc;
use std::time::Duration;

/// The scope of a purge.
#[derive(Debug, PartialEq)]
enum Scope {
    Page(u64),
    Tag(u64),
    Prefix { host: u64, kind: u64 },
    Host(u64),
}

impl Scope {
    fn some(pages: &Pages, random: &mut Random) -> Self {
        match random.below(10) {
            0 => Self::Host(random.below(HOSTS)),
            1..=2 => Self::Prefix { host: random.below(HOSTS), kind: random.below(2) },
            3..=4 => Self::Tag(random.below(TAGS)),
            _ => Self::Page(pages.some(random)),
        }
    }

    fn reaches(&self, page: u64) -> bool {
        match *self {
            Self::Page(this) => this == page,
            Self::Tag(tag) => page % TAGS == tag,
            Self::Prefix { host, kind } => page / 2 % HOSTS == host && page % 2 == kind,
            Self::Host(host) => page / 2 % HOSTS == host,
        }
    }

    /// Returns the query for `POST /purge`.
    fn query(&self) -> String {
        match *self {
            Self::Page(page) => format!("url=http://{}{}", host(page), path(page)),
            Self::Tag(tag) => format!("tag=t{tag}"),
            Self::Prefix { host, kind } => format!("prefix=http://h{host}.test/{}/", KINDS[kind as usize]),
            Self::Host(host) => format!("host=h{host}.test"),
        }
    }

    /// Returns a `PURGE` request to the site's listener, and its fields. Tags affect only the objects of that site,
    /// which has all of them.
    fn request(&self) -> (String, String) {
        let site = |host: u64| format!("Host: h{host}.test\r\n");
        match *self {
            Self::Page(page) => (format!("PURGE {}", path(page)), site(page / 2 % HOSTS)),
            Self::Tag(tag) => ("PURGE /".to_owned(), format!("{}xkey: t{tag}\r\n", site(0))),
            Self::Prefix { host, kind } => (
                format!("PURGE /{}/", KINDS[kind as usize]),
                format!("{}Larder-Purge: prefix\r\n", site(host)),
            ),
            Self::Host(host) => ("PURGE /".to_owned(), format!("{}Larder-Purge: host\r\n", site(host))),
        }
    }
}

/// Sends purges to the admin listener, and by `PURGE`, too, if there is a site's port.
pub(super) struct Purger<'p> {
    task: &'p Task<'p>,
    pages: &'p Pages,
    admin: Client,
    site: Option<Client>,
}

impl<'p> Purger<'p> {
    pub(super) fn new(task: &'p Task<'p>, pages: &'p Pages, admin: u16, site: Option<u16>) -> Self {
        Self { task, pages, admin: Client::to(admin), site: site.map(Client::to) }
    }

    /// Changes some pages at the origin and purges them; old versions must not be read after the acknowledgement.
    pub(super) fn purge(&mut self, random: &mut Random) {
        let scope = Scope::some(self.pages, random);
        let reached = (0..self.pages.count()).filter(|page| scope.reaches(*page));
        let versions: Vec<_> = reached.map(|page| (page, self.pages.change(page))).collect();
        if !self.task.leaves_out("purges") && !self.send(&scope, random) {
            self.task.findings.unanswered.add();
            return;
        }
        versions.iter().for_each(|(page, version)| self.pages.acknowledge(*page, *version));
        self.task.findings.changes.add();
    }

    fn send(&mut self, scope: &Scope, random: &mut Random) -> bool {
        let answer = match &mut self.site {
            Some(site) if random.coin() => {
                let (request, fields) = scope.request();
                site.ask(&request, &fields)
            }
            _ => {
                let hard = if random.coin() { "&hard" } else { "" };
                let count = if random.below(4) == 0 { "&count" } else { "" };
                let request = format!("POST /purge?{}{hard}{count}", scope.query());
                self.admin.ask(&request, "Host: localhost\r\nLarder-Admin: 1\r\n")
            }
        };
        match answer {
            Ok(answer) if answer.status == 200 => true,
            Ok(answer) => {
                let text = String::from_utf8_lossy(&answer.body).into_owned();
                self.task.violation(&format!("{scope:?} was answered {}: {text}", answer.status));
                false
            }
            Err(_) => false,
        }
    }
}

/// Returns pages of many lengths, fresh for an hour.
pub(super) fn pages(count: u64, lengths: &'static [usize]) -> Arc<Pages> {
    let lines = "Cache-Control: max-age=3600\r\n";
    Pages::new(Form { count, lengths, lines, has_etags: true, is_coupled: false, is_damaged: false })
}

/// The load on a proxy with a disk.
pub(super) struct DiskLoad {
    /// The size of the memory tier.
    pub(super) memory: &'static str,
    /// Threads that read pages.
    pub(super) readers: u64,
    /// The shortest pause between two purges, and what chance adds to it, in milliseconds.
    pub(super) pause: (u64, u64),
}

/// Calls `disturb` with a proxy again and again until the run is over, beside reads and purges of its pages.
pub(super) fn disturb(
    task: &Task<'_>,
    load: &DiskLoad,
    mut disturb: impl FnMut(&mut Larder, &mut Random) -> Result<()>,
) -> Result<()> {
    let pages = pages(300, &[200, 3_000, 20_000, 90_000]);
    let (port, memory) = (pages.serve(), load.memory);
    let mut larder = Larder::start(
        task.larder,
        &format!(
            "[memory]\nsize = '{memory}'\n[[disk]]\npath = 'disk'\nsize = '64MiB'\n\
             [[site]]\norigin = 'http://127.0.0.1:{port}'\nstale_if_error = '0s'\n"
        ),
    )?;
    let (site, admin) = (larder.site, larder.admin);
    std::thread::scope(|scope| {
        for thread in 1..=load.readers {
            let (random, pages) = (task.random(thread), &*pages);
            scope.spawn(move || read(task, pages, site, random));
        }
        let (mut random, pages) = (task.random(load.readers + 1), &*pages);
        scope.spawn(move || {
            let mut purger = Purger::new(task, pages, admin, None);
            while !task.over.is_over() {
                purger.purge(&mut random);
                let (least, more) = load.pause;
                std::thread::sleep(Duration::from_millis(least + random.below(more)));
            }
        });
        let mut random = task.random(0);
        while !task.over.is_over() {
            disturb(&mut larder, &mut random)?;
        }
        Ok(())
    })
}

/// Reads until the run is over.
pub(super) fn read(task: &Task<'_>, pages: &Pages, port: u16, mut random: Random) {
    let mut reader = Reader::new(task, pages, port);
    while !task.over.is_over() {
        let page = pages.some(&mut random);
        let is_answered = reader.read(&host(page), page, random.below(4) == 0, pages.least(page)).is_some();
        // If a proxy does not answer, the next request waits longer.
        let pause = random.below(20) + if is_answered { 0 } else { 50 };
        std::thread::sleep(Duration::from_millis(pause));
    }
}

pub(super) fn run(task: &Task<'_>) -> Result<()> {
    let pages = pages(200, &[300, 3_000, 20_000]);
    let port = pages.serve();
    let larder = Larder::start(
        task.larder,
        &format!(
            "[[site]]\norigin = 'http://127.0.0.1:{port}'\npurge_from = ['127.0.0.1']\nstale_if_error = '0s'\n"
        ),
    )?;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (mut random, pages, larder) = (task.random(thread), &*pages, &larder);
            scope.spawn(move || {
                if thread > 1 {
                    return read(task, pages, larder.site, random);
                }
                let mut purger = Purger::new(task, pages, larder.admin, Some(larder.site));
                while !task.over.is_over() {
                    purger.purge(&mut random);
                    std::thread::sleep(Duration::from_millis(random.below(200)));
                }
            });
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Scope;

    #[test]
    fn a_scope_reaches_the_pages_that_its_words_name() {
        for (scope, query, request, reached) in [
            (Scope::Page(3), "url=http://h1.test/paths/1", "PURGE /paths/1", vec![3]),
            (Scope::Tag(2), "tag=t2", "PURGE /", vec![2, 7]),
            (Scope::Prefix { host: 1, kind: 0 }, "prefix=http://h1.test/users/", "PURGE /users/", vec![2, 6]),
            (Scope::Host(0), "host=h0.test", "PURGE /", vec![0, 1, 4, 5]),
        ] {
            assert_eq!((scope.query().as_str(), scope.request().0.as_str()), (query, request));
            assert_eq!((0..8).filter(|page| scope.reaches(*page)).collect::<Vec<_>>(), reached);
        }
    }
}
