//! Memory under pages with unique fields, whose lengths change with time, and under 304s: the resident memory stays
//! within the promised limit for the budget.

use super::Task;
use crate::client::Client;
use crate::soak::content;
use crate::soak::ordinary::Random;
use crate::soak::server::{BUDGET, Larder, most_resident};
use anyhow::Result;
use larder_testkit::{answer, listen, resident};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PAGES: u64 = 30_000;
/// The interval between samples.
const SAMPLE: Duration = Duration::from_secs(1);
/// The maximum lengths of contents, and of their fields, in each phase; the actual lengths are random.
const PHASES: [(u64, u64); 6] =
    [(2_000, 300), (60_000, 1_000), (700, 8_000), (16_000, 200), (4_000, 4_000), (200_000, 100)];
/// The number of samples in a phase.
const PHASE: u64 = 20;
/// The factor by which a control increases the budget.
const TOO_MUCH: u64 = 16;

pub(super) fn run(task: &Task<'_>) -> Result<()> {
    let phase = Arc::new(AtomicU64::new(0));
    let port = origin(&phase);
    let times = if task.leaves_out("budget") { TOO_MUCH } else { 1 };
    let larder = Larder::start(
        task.larder,
        &format!(
            "[memory]\nsize = '{}MiB'\n[[site]]\norigin = 'http://127.0.0.1:{port}'\n",
            (BUDGET >> 20) * times
        ),
    )?;
    std::thread::scope(|scope| {
        for thread in 1..4 {
            let (random, site) = (task.random(thread), larder.site);
            scope.spawn(move || read(task, site, random));
        }
        watch(task, &larder, &phase)
    })
}

fn watch(task: &Task<'_>, larder: &Larder, phase: &AtomicU64) -> Result<()> {
    let (limit, mut most) = (most_resident(BUDGET), 0);
    for sample in 1.. {
        task.over.sleep(SAMPLE);
        let bytes = resident(larder.id())?;
        if bytes > limit && bytes > most {
            let (bytes, limit) = (bytes >> 20, limit >> 20);
            task.violation(&format!("{bytes} MiB resident in phase {}, limit {limit}", sample / PHASE));
        }
        most = most.max(bytes);
        if sample % PHASE == 0 {
            phase.fetch_add(1, Ordering::Relaxed);
            task.findings.changes.add();
        }
        if task.over.is_over() {
            println!("checker memory: {} MiB resident at most, limit {}", most >> 20, limit >> 20);
            break;
        }
    }
    Ok(())
}

/// Serves pages, about half of which have to be validated after a second. Each answer has a unique field. Returns the
/// port.
fn origin(phase: &Arc<AtomicU64>) -> u16 {
    let (phase, answers) = (Arc::clone(phase), Arc::new(AtomicU64::new(0)));
    let (listener, address) = listen();
    answer(listener, move |request, stream| {
        let mut random = Random(answers.fetch_add(1, Ordering::Relaxed));
        let (body, field) = PHASES[phase.load(Ordering::Relaxed) as usize % PHASES.len()];
        let unique = format!("{:016x}", random.next()).repeat(1 + random.below(field / 16 + 1) as usize);
        let lifetime = if random.coin() { 1 } else { 600 };
        let lines = format!("Cache-Control: max-age={lifetime}\r\nETag: \"1\"\r\nX-Request-Id: {unique}\r\n");
        let number = request.target.rsplit('/').next().and_then(|text| text.parse().ok()).unwrap_or(0);
        let bytes = match request.field("if-none-match") {
            Some(_) if random.coin() => content::answer("304 Not Modified", &lines, b""),
            _ => content::answer("200 OK", &lines, &content::of(number, random.below(body) as usize)),
        };
        stream.write_all(&bytes)
    });
    address.port()
}

fn read(task: &Task<'_>, port: u16, mut random: Random) {
    let mut client = Client::to(port);
    while !task.over.is_over() {
        // Low numbers are requested most.
        let most = 1 + random.below(PAGES);
        let number = random.below(most);
        let answer = client.ask(&format!("GET /m/{number}"), "Host: m.test\r\n");
        task.findings.reads.add();
        match answer {
            Ok(answer) if answer.status == 200 => {
                if !answer.is_whole || answer.body != content::of(number, answer.body.len()) {
                    task.violation(&format!("http://m.test/m/{number}: wrong content"));
                }
            }
            _ => task.findings.unanswered.add(),
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}
