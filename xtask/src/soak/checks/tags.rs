//! Tag gateways in front of a backend that commits some changes after all clients have stopped waiting, with and
//! without `push`: no read is older than an acknowledged version, and no response gets a tag or a lifetime while a
//! change may still happen.

use super::Task;
use super::pages::{Form, Pages, Reader, path};
use crate::client::Client;
use crate::soak::ordinary::Random;
use crate::soak::server::Larder;
use anyhow::Result;
use larder_testkit::locked;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The duration of a round. Each has a new gateway and a new cache; chance decides which of them stops waiting first.
const ROUND: Duration = Duration::from_secs(60);
/// The time for which a change with an unknown result may still happen. The backend takes less than half of it.
const DOUBT: Duration = Duration::from_secs(5);
const IMPATIENT: &str = "[timeouts]\nfirst_byte = '300ms'\n";
/// One in this number of changes is committed late or gets no answer.
const FAULT: u64 = 80;
/// The least and the most milliseconds until a late commit: less than half of `DOUBT`, and long after the 300 ms of
/// `IMPATIENT`. On a busy machine, a gateway notices only some time later that the cache has disconnected; until then, the
/// change is under way, and tags from before it are valid.
const LATE: [u64; 2] = [1_200, 2_200];
const PUSH: &str = "push.test";
const ALWAYS: &str = "always.test";

/// A site behind a gateway and a cache.
struct Site<'t> {
    task: &'t Task<'t>,
    host: &'static str,
    pages: Arc<Pages>,
    gateway: u16,
    cache: u16,
    /// Whether the gateway stops waiting for the backend; if not, the cache stops waiting for the gateway.
    gateway_gives_up: bool,
    begun: Instant,
    /// The minimum time until which each kind of pages is in doubt.
    doubts: [Mutex<Option<Instant>>; 2],
}

pub(super) fn run(task: &Task<'_>) -> Result<()> {
    let mut random = task.random(0);
    while !task.over.is_over() {
        round(task, &mut random)?;
    }
    Ok(())
}

fn backend(has_etags: bool) -> Result<(Arc<Pages>, u16)> {
    let lengths = &[40, 700, 5_000];
    let form = Form { count: 12, lengths, lines: "", has_etags, is_coupled: true, is_damaged: false };
    let pages = Pages::new(form);
    let port = pages.serve();
    Ok((pages, port))
}

fn round(task: &Task<'_>, random: &mut Random) -> Result<()> {
    let (pushed, pushing) = backend(random.coin())?;
    let (validated, asked) = backend(random.coin())?;
    let gateway_gives_up = random.coin();
    let [before, behind] = if gateway_gives_up { ["", IMPATIENT] } else { [IMPATIENT, ""] };
    let couple = if task.leaves_out("couplings") { "" } else { "couple = { users = ['paths'] }\n" };
    let doubt = if task.leaves_out("doubt") { Duration::ZERO } else { DOUBT };
    let doubt = format!("tag_doubt = '{}s'\nretries = {}\n", doubt.as_secs(), random.below(2));
    let site = |host, port: u16, keys: &str| {
        format!("[[site]]\nhosts = ['{host}']\norigin = 'http://127.0.0.1:{port}'\n{doubt}{keys}")
    };
    let gateway = format!(
        "{behind}{}{}",
        site(PUSH, pushing, &format!("role = 'tags'\npush = true\n{couple}")),
        site(ALWAYS, asked, &format!("role = 'tags'\n{couple}"))
    );
    let gateway = Larder::start(task.larder, &gateway)?;
    let cache = format!(
        "{before}{}{}",
        site(PUSH, gateway.site, ""),
        site(ALWAYS, gateway.site, "validate = 'always'\n")
    );
    let cache = Larder::start(task.larder, &cache)?;
    let sites = [(PUSH, pushed), (ALWAYS, validated)].map(|(host, pages)| Site {
        task,
        host,
        pages,
        gateway: gateway.site,
        cache: cache.site,
        gateway_gives_up,
        begun: Instant::now(),
        doubts: Default::default(),
    });
    std::thread::scope(|scope| {
        for site in &sites {
            for thread in 0..4 {
                let random = Random(random.next());
                scope.spawn(move || match thread {
                    0 => site.write(random),
                    1 => site.read_from_gateway(random),
                    _ => site.read(random),
                });
            }
        }
    });
    Ok(())
}

impl Site<'_> {
    fn goes_on(&self) -> bool {
        !self.task.over.is_over() && self.begun.elapsed() < ROUND
    }

    fn read(&self, mut random: Random) {
        let mut reader = Reader::new(self.task, &self.pages, self.cache);
        while self.goes_on() {
            let page = self.pages.some(&mut random);
            reader.read(self.host, page, random.coin(), self.pages.least(page));
            std::thread::sleep(Duration::from_millis(random.below(25)));
        }
    }

    /// Reads the gateway's answers to caches while it is in doubt.
    fn read_from_gateway(&self, mut random: Random) {
        let mut reader = Reader::new(self.task, &self.pages, self.gateway);
        while self.goes_on() {
            let page = self.pages.some(&mut random);
            let begun = self.doubt(page);
            let answer = reader.read(self.host, page, false, self.pages.least(page));
            if let (Some(answer), true) = (answer, begun.is_some_and(|until| Instant::now() < until)) {
                let lifetime = answer.joined("cache-control");
                let is_forbidden = answer.field("etag").is_some_and(is_generated)
                    || (self.host == PUSH && !lifetime.contains("no-store"));
                if is_forbidden {
                    let (path, tag) = (path(page), answer.field("etag"));
                    let told = format!("read tag {tag:?} and lifetime `{lifetime}` in doubt");
                    self.task.violation(&format!("http://{}{path} at the gateway: {told}", self.host));
                }
            }
            std::thread::sleep(Duration::from_millis(20 + random.below(60)));
        }
    }

    fn doubt(&self, page: u64) -> Option<Instant> {
        *locked(&self.doubts[(page % 2) as usize])
    }

    fn write(&self, mut random: Random) {
        // If each use is validated, changes need not pass the cache.
        let ports = if self.host == PUSH { [self.cache; 2] } else { [self.cache, self.gateway] };
        let mut clients = ports.map(Client::to);
        let mut number = 0;
        while self.goes_on() {
            let (page, by) = (self.pages.some(&mut random), random.below(2) as usize);
            number += 1;
            let fault = match random.below(FAULT) {
                // Without couplings, ordinary changes have to be missed.
                _ if self.task.leaves_out("couplings") => String::new(),
                0 => format!("Wait: {}\r\n", LATE[0] + random.below(LATE[1] - LATE[0])),
                1 => format!("Wait: {}\r\nCut: 1\r\n", random.below(200)),
                _ => String::new(),
            };
            self.change(&mut clients[by], page, &format!("{number}"), &fault);
            std::thread::sleep(Duration::from_millis(20 + random.below(200)));
        }
    }

    fn change(&self, client: &mut Client, page: u64, name: &str, fault: &str) {
        let begun = Instant::now();
        let fields = format!("Host: {}\r\nChange: {name}\r\n{fault}", self.host);
        let answer = client.ask(&format!("PUT {}", path(page)), &fields);
        if let Ok(answer) = &answer
            && let (200, Some(version)) =
                (answer.status, answer.field("version").and_then(|text| text.parse().ok()))
        {
            self.pages.acknowledge(page, version);
            self.task.findings.changes.add();
            return;
        }
        self.task.findings.faults.add();
        if answer.is_ok_and(|answer| matches!(answer.status, 502 | 504)) && self.gateway_gives_up {
            // Counted from the request, which is earlier than the moment at which the gateway stopped waiting.
            let kinds = if page.is_multiple_of(2) { &self.doubts[..] } else { &self.doubts[1..] };
            for doubt in kinds {
                *locked(doubt) = Some(begun + DOUBT);
            }
        }
        // From its commit on, the change has to be visible, although no client received an acknowledgement.
        while self.goes_on() {
            if let Some(version) = self.pages.committed(name) {
                return self.pages.acknowledge(page, version);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Whether a tag is the gateway's: the backend's own tags are two numbers.
fn is_generated(tag: &str) -> bool {
    !tag.trim_matches('"').bytes().all(|byte| byte == b'-' || byte.is_ascii_digit())
}
