//! Repeated `kill -9` of a proxy with a disk under load: it starts again, and the contents that it reads from its disk
//! are complete and no older than an acknowledged purge.

use super::Task;
use super::purges;
use anyhow::{Context, Result};
use std::time::Duration;

pub(super) fn run(task: &Task<'_>) -> Result<()> {
    let load = purges::DiskLoad { memory: "2MiB", readers: 2, pause: (50, 400) };
    purges::disturb(task, &load, |larder, random| {
        task.over.sleep(Duration::from_millis(1_000 + random.below(19_000)));
        larder.kill();
        larder.start_again().context("after kill -9")?;
        task.findings.faults.add();
        Ok(())
    })
}
