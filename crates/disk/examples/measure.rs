//! Measures objects stored per second, lookups per second, and the time of a start, in a temporary folder.
//!
//! `cargo run --release -p larder-disk --example measure -- 1000000 512`: a million objects of 512 bytes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_disk::{About, Directory, Disk, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let objects: u64 = args.next().map_or(Ok(100_000), |word| word.parse())?;
    let len: usize = args.next().map_or(Ok(4096), |word| word.parse())?;
    let folder = tempfile::tempdir()?;
    let size = ((len as u64 + 400) * objects * 3 / 2).max(64 << 20);
    let open = || -> Result<Disk, Box<dyn std::error::Error>> {
        let directory = Directory::open(folder.path())?;
        Ok(Disk::open(Arc::new(directory), Options::new(size, "lru".parse()?))?)
    };
    let body = vec![7; len];
    let disk = open()?;
    let stored = timed(|| {
        for n in 0..objects {
            let about = About { len: Some(len as u64), ..About::default() };
            if let Some(mut writer) = disk.put(&n.to_le_bytes(), b"meta", about)
                && writer.write(&body)
            {
                writer.finish();
            }
            if n % 4096 == 0 {
                while disk.usage().queued > 16 << 20 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        disk.sync()
    })?;
    let found = timed(|| {
        let found = (0..objects).filter_map(|n| disk.find(&n.to_le_bytes(), 1, 0));
        println!("{} found", found.filter(|found| found.body.len() == len as u64).count());
        Ok(())
    })?;
    let usage = disk.usage();
    let each = usage.memory as f64 / usage.objects.max(1) as f64;
    println!("{} stored, {} dropped, {each:.1} bytes of memory each", usage.objects, usage.dropped);
    let closed = timed(|| disk.close())?;
    let begin = Instant::now();
    let disk = open()?;
    let opened = begin.elapsed();
    println!("{} known at once", disk.usage().objects);
    drop(disk);
    std::fs::remove_file(folder.path().join("index.larder"))?;
    let begin = Instant::now();
    let disk = open()?;
    while disk.is_scanning() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let scanned = begin.elapsed();
    let rate = |time: Duration| objects as f64 / time.as_secs_f64();
    println!("put {:.0}/s, find {:.0}/s", rate(stored), rate(found));
    println!("close {closed:.2?}, open by snapshot {opened:.2?}, open by scan {scanned:.2?}");
    Ok(())
}

fn timed(work: impl FnOnce() -> std::io::Result<()>) -> std::io::Result<Duration> {
    let begin = Instant::now();
    work().map(|()| begin.elapsed())
}
