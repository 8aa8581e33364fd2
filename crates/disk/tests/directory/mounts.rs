//! File systems that really are full, or can no longer be written to: each is mounted for one test.
//!
//! Tests that mount run in a process with a separate mount namespace, so that no mount stays. Where mounting is not
//! allowed, as in some containers, they are skipped with a message; under `CI` they fail.

use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::support::{self, Folder, about, body, store, text, until};
use larder_disk::{Directory, Disk, Event, Options};

const LEN: usize = 20_000;
const TMPFS: &str = "mount -t tmpfs larder /mnt";
const LOOP: &str = "losetup --find";

/// Runs `command`, which has to succeed, and returns its output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?} failed: {said}");
    said
}

/// Runs `test` in a separate mount namespace, if `trial`, a shell command, succeeds there.
fn run_apart(test: &str, trial: &str) {
    let mut apart = Command::new("unshare");
    let may = apart.args(["--mount", "sh", "-c", trial]).output().is_ok_and(|tried| tried.status.success());
    if !may {
        assert!(std::env::var_os("CI").is_none(), "cannot test here: `{trial}` with mounts of its own fails");
        eprintln!("not tested: `{trial}` with mounts of its own fails here");
        return;
    }
    let mut apart = Command::new("unshare");
    apart.arg("--mount").arg(std::env::current_exe().unwrap()).args([
        &format!("mounts::{test}"),
        "--exact",
        "--ignored",
    ]);
    let said = run(&mut apart);
    assert!(said.contains("1 passed"), "{said}");
}

/// A file system, mounted at a folder while this value exists.
struct Mounted(Folder);

impl Mounted {
    fn new(words: &[&str]) -> Self {
        let mounted = Self(Folder::new());
        run(Command::new("mount").args(words).arg(mounted.0.path()));
        mounted
    }

    fn remount(&self, options: &str) {
        run(Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(self.0.path()));
    }

    fn open(&self) -> Disk {
        self.open_sized(8 << 20)
    }

    fn open_sized(&self, size: u64) -> Disk {
        let pause = |options: &mut Options| options.pause = Duration::from_millis(20);
        let disk = self.0.open_with(size, pause);
        support::until_known(&disk);
        disk
    }

    /// Waits for `event`, and calls `meanwhile` repeatedly.
    fn until(&self, event: Event, mut meanwhile: impl FnMut()) {
        until(&format!("{event:?}"), || {
            let came = self.0.events().contains(&event);
            if !came {
                meanwhile();
            }
            came
        });
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The mount namespace ends soon, too.
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Puts object `n`, and returns whether it was stored.
fn put(disk: &Disk, n: usize) -> bool {
    let Some(mut writer) = disk.put(text(n).as_bytes(), b"meta", about(LEN as u64, 1)) else { return false };
    writer.write(&body(LEN, n as u8)) && writer.finish() && disk.sync().is_ok() && is_right(disk, n)
}

/// Whether object `n` is found; asserts that its bytes are the written ones.
fn is_right(disk: &Disk, n: usize) -> bool {
    let found = disk.find(text(n).as_bytes(), 1, LEN as u64);
    found.is_some_and(|found| {
        assert!(found.content.unwrap() == body(LEN, n as u8), "object {n} is wrong");
        true
    })
}

fn count(disk: &Disk, of: usize) -> usize {
    (0..of).filter(|&n| is_right(disk, n)).count()
}

#[test]
fn a_file_system_that_gets_full() {
    run_apart("gets_full", TMPFS);
}

#[test]
#[ignore = "run by another, with mounts of its own"]
fn gets_full() {
    let mounted = Mounted::new(&["-t", "tmpfs", "-o", "size=4m", "larder"]);
    let disk = mounted.open();
    assert!((0..50).all(|n| put(&disk, n)));
    // Another program takes the room.
    let mut others = vec![0; 4 << 20];
    others.truncate((4 << 20) - disk.usage().occupied as usize - (100 << 10));
    mounted.0.write("others", &others);
    let stored = (50..250).filter(|&n| put(&disk, n)).count();
    assert!(stored > 50, "{stored} of 200 were stored in what is left: {:?}", disk.usage());
    assert!(disk.usage().write_errors > 0, "it was full");
    let said: Vec<_> = mounted.0.events().iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|said| said.ends_with(": cannot write: no space left on device")), "{said:?}");
    let kept = count(&disk, 250);
    assert!((10..=50).contains(&kept), "{kept} of 250 are there, and there is room for 50");
    mounted.0.remove("others");
    let mut n = 250;
    until("the room to be used", || {
        put(&disk, n);
        n += 1;
        count(&disk, n) >= 120
    });
    disk.validate().unwrap();
    disk.close().unwrap();
    let disk = mounted.open();
    assert!(count(&disk, n) >= 120);
}

#[test]
fn a_file_system_that_others_fill_again_and_again() {
    run_apart("is_filled_again", TMPFS);
}

/// The size of the store is much larger than that of the file system.
#[test]
#[ignore = "run by another, with mounts of its own"]
fn is_filled_again() {
    let mounted = Mounted::new(&["-t", "tmpfs", "-o", "size=6m", "larder"]);
    let disk = mounted.open_sized(10 << 30);
    for n in 0..600 {
        put(&disk, n);
    }
    let there = count(&disk, 600);
    assert!(there > 200, "{there} are there, and there is room for 300: {:?}", disk.usage());
    assert!(is_right(&disk, 599), "it goes on like a store of that size");

    // Other programs take all freed space.
    let take_all = || {
        let path = mounted.0.path().join("others");
        let mut file = File::options().create(true).append(true).open(path).unwrap();
        while file.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
    };
    for n in 600..900 {
        take_all();
        put(&disk, n);
    }
    let (kept, usage) = (count(&disk, 900), disk.usage());
    assert!(kept > there / 2 && usage.full, "{kept} of {there} are left: {usage:?}");
    assert!(mounted.0.events().contains(&Event::Full));
    mounted.0.remove("others");
    let mut n = 900;
    until("the room to be used", || {
        n += 1;
        put(&disk, n) && !disk.usage().full
    });
    assert!((n + 1..n + 50).all(|n| put(&disk, n)), "{:?}", disk.usage());
    assert!(mounted.0.events().contains(&Event::Resumed));
    disk.validate().unwrap();
}

#[test]
fn few_large_segments_on_a_full_file_system() {
    run_apart("keeps_few_segments", TMPFS);
}

#[test]
#[ignore = "run by another, with mounts of its own"]
fn keeps_few_segments() {
    let mounted = Mounted::new(&["-t", "tmpfs", "-o", "size=64m", "larder"]);
    let disk = mounted.open_sized(64 << 20);
    assert!((0..50).all(|n| put(&disk, n)));
    mounted.0.write("others", &vec![0; (63 << 20) - disk.usage().occupied as usize]);
    for n in 50..250 {
        put(&disk, n);
    }
    assert!((0..50).all(|n| is_right(&disk, n)), "what it had is there: {:?}", disk.usage());
    assert!(disk.usage().full);
    mounted.0.remove("others");
    until("the room to be used", || put(&disk, 250));
    assert!((0..50).all(|n| is_right(&disk, n)) && !disk.usage().full);
}

#[test]
fn a_first_start_where_nothing_can_be_written() {
    run_apart("starts_first_read_only", TMPFS);
}

#[test]
#[ignore = "run by another, with mounts of its own"]
fn starts_first_read_only() {
    let mounted = Mounted::new(&["-t", "tmpfs", "-o", "ro", "larder"]);
    let Err(error) = Directory::open(mounted.0.path()) else { panic!("it is open") };
    assert!(error.to_string().ends_with("the file system is read-only"), "{error}");
}

#[test]
fn a_start_where_nothing_can_be_written() {
    run_apart("starts_read_only", TMPFS);
}

#[test]
#[ignore = "run by another, with mounts of its own"]
fn starts_read_only() {
    let mounted = Mounted::new(&["-t", "tmpfs", "larder"]);
    mounted.remount("ro");
    let error = Directory::open(mounted.0.path()).unwrap_err().to_string();
    assert!(error.ends_with(": the file system is read-only"), "{error}");
    for has_snapshot in [true, false] {
        let mounted = Mounted::new(&["-t", "tmpfs", "larder"]);
        let disk = mounted.open();
        (0..50).for_each(|n| store(&disk, text(n).as_bytes(), &body(LEN, n as u8), 1));
        match has_snapshot {
            true => disk.close().unwrap(),
            false => drop(disk),
        }
        mounted.remount("ro");
        let disk = mounted.open();
        assert_eq!(count(&disk, 50), 50);
        mounted.until(Event::Paused, || assert!(!put(&disk, 50)));
        assert_eq!(count(&disk, 50), 50);
        disk.remove(text(0).as_bytes());
        assert_eq!(count(&disk, 50), 49, "also what cannot be written down is gone");
        mounted.remount("rw");
        mounted.until(Event::Resumed, || _ = put(&disk, 50));
        assert!(put(&disk, 50));
        drop(disk);
        assert_eq!(count(&mounted.open(), 51), 50, "what was removed meanwhile stays away");
    }
}

#[test]
fn a_file_system_that_turns_read_only() {
    run_apart("turns_read_only", LOOP);
}

/// As the kernel does after an error: open files can no longer be written.
#[test]
#[ignore = "run by another, with mounts of its own"]
fn turns_read_only() {
    let image = Folder::new();
    let path = image.path().join("image");
    File::create_new(&path).unwrap().set_len(32 << 20).unwrap();
    run(Command::new("mkfs.ext4").arg("-q").arg(&path));
    let mounted = Mounted::new(&["-o", "loop", path.to_str().unwrap()]);
    let disk = mounted.open();
    assert!((0..100).all(|n| put(&disk, n)));
    thread::scope(|scope| {
        let load =
            scope.spawn(|| mounted.until(Event::Paused, || (100..200).for_each(|n| _ = put(&disk, n))));
        while !is_right(&disk, 110) {
            assert!(!load.is_finished());
        }
        mounted.remount("abort");
    });
    assert_eq!(count(&disk, 100), 100, "what is there is served");
    drop(disk);
    run(Command::new("umount").arg(mounted.0.path()));
    run(Command::new("mount").args(["-o", "loop"]).arg(&path).arg(mounted.0.path()));
    let disk = mounted.open();
    assert_eq!(count(&disk, 100), 100);
    assert!(put(&disk, 200));
}
