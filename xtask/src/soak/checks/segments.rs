//! Disk segments that are overwritten and truncated while the proxy runs: no wrong byte is served. A connection may be
//! cut.

use super::Task;
use super::pages::{Form, Pages, Reader, host};
use crate::soak::ordinary::Random;
use crate::soak::server::Larder;
use anyhow::{Context, Result};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

/// The number of bytes that one call overwrites.
const PIECE: usize = 64 << 10;

pub(super) fn run(task: &Task<'_>) -> Result<()> {
    let form = Form {
        count: 60,
        lengths: &[70_000, 140_000, 66_000, 300_000, 65_536, 90_000, 5_000_000],
        lines: "Cache-Control: max-age=60\r\n",
        has_etags: true,
        is_coupled: false,
        is_damaged: task.leaves_out("right-pages"),
    };
    let pages = Pages::new(form);
    let port = pages.serve();
    let larder = Larder::start(
        task.larder,
        &format!(
            "[memory]\nentries = 1\n[[disk]]\npath = 'disk'\nsize = '128MiB'\n\
             [[site]]\norigin = 'http://127.0.0.1:{port}'\n"
        ),
    )?;
    let disk = larder.folder().join("disk");
    // An answer in flight while its segment is overwritten may contain the new bytes, so faults wait for answers in
    // flight.
    let under_way = RwLock::new(());
    std::thread::scope(|scope| {
        for thread in 1..3 {
            let (random, pages, under_way, site) = (task.random(thread), &*pages, &under_way, larder.site);
            scope.spawn(move || read(task, pages, site, under_way, random));
        }
        let mut random = task.random(0);
        while !task.over.is_over() {
            task.over.sleep(Duration::from_millis(500 + random.below(2_500)));
            let _alone = under_way.write().unwrap_or_else(PoisonError::into_inner);
            damage(&disk, &mut random)?;
            task.findings.faults.add();
        }
        Ok(())
    })
}

fn read(task: &Task<'_>, pages: &Pages, port: u16, under_way: &RwLock<()>, mut random: Random) {
    let mut reader = Reader::new(task, pages, port);
    while !task.over.is_over() {
        let page = pages.some(&mut random);
        let shared = under_way.read().unwrap_or_else(PoisonError::into_inner);
        reader.read(&host(page), page, false, pages.least(page));
        drop(shared);
        std::thread::sleep(Duration::from_millis(20 + random.below(60)));
    }
}

/// Overwrites up to half of a segment, or truncates it.
fn damage(disk: &Path, random: &mut Random) -> Result<()> {
    let segments = segments(disk)?;
    if segments.is_empty() {
        return Ok(());
    }
    let path = &segments[random.below(segments.len() as u64) as usize];
    let file = OpenOptions::new().write(true).open(path).context("cannot open a segment")?;
    let size = file.metadata()?.len();
    let at = random.below(size.max(1));
    if random.below(4) == 0 {
        return file.set_len(at).context("cannot cut a segment");
    }
    let bytes: Vec<u8> = (0..PIECE).map(|_| random.next() as u8).collect();
    let end = at + (size / 2).min(size - at);
    for start in (at..end).step_by(PIECE) {
        let length = (end - start).min(PIECE as u64) as usize;
        file.write_all_at(&bytes[..length], start).context("cannot overwrite a segment")?;
    }
    Ok(())
}

fn segments(disk: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(disk).with_context(|| format!("cannot read {}", disk.display()))?;
    let mut all: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    all.retain(|path| path.extension().is_some_and(|end| end == "segment"));
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::{Random, damage};

    #[test]
    fn only_segments_are_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let [segment, other] = ["1.segment", "purges"].map(|name| folder.path().join(name));
        [&segment, &other].iter().for_each(|file| std::fs::write(file, vec![b'x'; 200_000]).unwrap());
        (0..20).for_each(|seed| damage(folder.path(), &mut Random(seed)).unwrap());
        assert!(std::fs::read(&segment).unwrap() != vec![b'x'; 200_000]);
        assert!(std::fs::read(&other).unwrap() == vec![b'x'; 200_000]);
    }
}
