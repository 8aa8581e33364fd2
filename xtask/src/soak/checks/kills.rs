//! Repeated `kill -9` of a proxy with a disk under load: it starts again, and the contents that it reads from its disk
//! are complete and no older than an acknowledged purge.

use super::Task;
use super::purges::{self, Purger};
use crate::soak::server::Larder;
use anyhow::{Context, Result};
use std::time::Duration;

pub(super) fn run(task: &Task<'_>) -> Result<()> {
    let pages = purges::pages(300, &[200, 3_000, 20_000, 90_000]);
    let port = pages.serve();
    let mut larder = Larder::start(
        task.larder,
        &format!(
            "[memory]\nsize = '2MiB'\n[[disk]]\npath = 'disk'\nsize = '64MiB'\n\
             [[site]]\norigin = 'http://127.0.0.1:{port}'\nstale_if_error = '0s'\n"
        ),
    )?;
    let (site, admin) = (larder.site, larder.admin);
    std::thread::scope(|scope| {
        for thread in 1..3 {
            let (random, pages) = (task.random(thread), &*pages);
            scope.spawn(move || purges::read(task, pages, site, random));
        }
        let (mut random, pages) = (task.random(3), &*pages);
        scope.spawn(move || {
            let mut purger = Purger::new(task, pages, admin, None);
            while !task.over.is_over() {
                purger.purge(&mut random);
                std::thread::sleep(Duration::from_millis(50 + random.below(400)));
            }
        });
        let mut random = task.random(0);
        while !task.over.is_over() {
            task.over.sleep(Duration::from_millis(1_000 + random.below(19_000)));
            larder.kill();
            larder.start_again().context("after kill -9")?;
            task.findings.faults.add();
        }
        Ok(())
    })
}
