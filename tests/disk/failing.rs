//! Disks that fail: the proxy continues, and no client gets a wrong byte.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use larder_testkit::{Answer, Client, Larder, Origin, eventually, not_tested};
use twox_hash::XxHash3_64;

use crate::{config, end, page, pages, ready, written};

/// Bytes of each of the two copies of a segment's header.
const HEADER_COPY: usize = 64;

pub(super) fn segments(directory: &Path) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "segment")).collect()
}

#[test]
fn disk_records_damaged_at_rest_are_fetched_again_counted_and_logged() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
    let config = config(directory.path(), &origin, "");
    let paths = ["/a-3000", "/b-300000", "/c-9000000"];
    let larder = Larder::start(&config);
    paths.iter().for_each(|path| _ = larder.get(path));
    written(&larder, 3);
    end(larder);
    for file in segments(directory.path()) {
        let mut bytes = fs::read(&file).unwrap();
        for at in (2_500..bytes.len()).step_by(2_500) {
            bytes[at] ^= 0x40;
        }
        fs::write(&file, bytes).unwrap();
    }
    let larder = Larder::start(&config);
    ready(&larder);
    for path in paths {
        // A long response may end incomplete once, because the error is detected while it is sent.
        let mut client = Client::to(larder.address());
        client.send(&format!("GET {path}"));
        let head = client.head();
        let length: usize = head.field("content-length").unwrap().parse().unwrap();
        let body = client.rest_of(length);
        assert!(page(path).starts_with(&body), "{path}");
        assert!(body.len() == length || length > 4 << 20, "{path} broke off");
        larder.settle();
        assert!(larder.get(path).body == page(path), "{path}");
    }
    assert_eq!(larder.stats()["disks"][0]["corrupt"], 3);
    larder.wait_for_log("record at");
}

#[test]
fn a_directory_in_use_is_taken_over_when_it_becomes_free() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
    let config = config(directory.path(), &origin, "");
    let first = Larder::start(&config);
    first.get("/a-100");
    written(&first, 1);
    let second = Larder::start(&config);
    second.wait_for_log("is in use by process");
    assert_eq!(second.stats()["disks"][0]["state"], "off");
    assert!(!second.get("/b-100").is_hit() && second.get("/b-100").is_hit());
    end(first);
    ready(&second);
    assert!(second.get("/a-100").is_hit());
}

#[test]
fn disk_files_of_a_later_format_are_ignored_and_left_unchanged() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
    let config = config(directory.path(), &origin, "");
    let larder = Larder::start(&config);
    larder.get("/a-100");
    written(&larder, 1);
    end(larder);
    let file = segments(directory.path()).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    // Changes the format in both copies of the header, each with its checksum.
    for copy in bytes.chunks_exact_mut(HEADER_COPY).take(2) {
        copy[8] = 99;
        let sum = XxHash3_64::oneshot_with_seed(0, &copy[..32]);
        copy[32..40].copy_from_slice(&sum.to_le_bytes());
    }
    fs::write(&file, &bytes).unwrap();
    let larder = Larder::start(&config);
    larder.wait_for_log("reads up to format");
    assert!(larder.get("/a-100").body == page("/a-100") && larder.get("/a-100").is_hit());
    assert_eq!(larder.stats()["disks"][0]["state"], "off");
    assert!(fs::read(&file).unwrap() == bytes);
}

#[test]
fn foreign_and_truncated_files_cost_nothing_but_themselves() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
    let config = config(directory.path(), &origin, "");
    let larder = Larder::start(&config);
    for n in 0..20 {
        larder.get(&format!("/{n}-100000"));
    }
    written(&larder, 20);
    end(larder);
    fs::write(directory.path().join("notes.txt"), "mine").unwrap();
    fs::write(directory.path().join("0000099999.segment"), "not a segment").unwrap();
    let file =
        segments(directory.path()).into_iter().find(|file| !file.ends_with("0000099999.segment")).unwrap();
    let len = fs::metadata(&file).unwrap().len();
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(len / 2).unwrap();
    let larder = Larder::start(&config);
    ready(&larder);
    for n in 0..20 {
        let path = format!("/{n}-100000");
        assert!(larder.get(&path).body == page(&path));
    }
    assert_eq!(fs::read_to_string(directory.path().join("notes.txt")).unwrap(), "mine");
    assert!(directory.path().join("0000099999.segment").exists());
}

#[test]
fn records_replace_an_unreadable_disk_snapshot() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
    let config = config(directory.path(), &origin, "");
    let larder = Larder::start(&config);
    larder.get("/a-100");
    larder.get("/b-200000");
    written(&larder, 2);
    end(larder);
    for name in fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path()) {
        if name.file_name().is_some_and(|name| name.to_string_lossy().contains("index")) {
            fs::OpenOptions::new().append(true).open(name).unwrap().write_all(b"junk").unwrap();
        }
    }
    let larder = Larder::start(&config);
    ready(&larder);
    assert!(larder.get("/a-100").is_hit() && larder.get("/b-200000").is_hit());
}

/// Starts a proxy whose disk is a file system of 3 MiB; returns `None` where none can be mounted.
fn on_a_small_disk(directory: &Path, origin: &Origin) -> Option<Larder> {
    let config = config(directory, origin, "[memory]\nsize = '1MiB'");
    let tmpfs = format!("mount -t tmpfs -o size=3m tmpfs '{}'", directory.display());
    let mut trial = Command::new("unshare");
    trial.args(["--mount", "sh", "-c", &tmpfs]).stderr(Stdio::null());
    if !trial.status().is_ok_and(|status| status.success()) {
        not_tested("a file system to mount (`unshare --mount`, tmpfs)");
        return None;
    }
    let mount = format!("{tmpfs} && exec \"$@\"");
    Some(Larder::start_behind(&["unshare", "--mount", "sh", "-c", &mount, "sh"], &config))
}

#[test]
fn a_full_disk_costs_no_request_and_not_what_it_has() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
    let Some(larder) = on_a_small_disk(directory.path(), &origin) else { return };
    for n in 0..100 {
        let path = format!("/{n}-100000");
        assert!(larder.get(&path).body == page(&path));
    }
    eventually("a failed write", || (larder.stats()["disks"][0]["write_errors"].as_u64()? > 0).then_some(()));
    for n in (0..100).rev() {
        let path = format!("/{n}-100000");
        assert!(larder.get(&path).body == page(&path));
    }
    larder.wait_for_log("cannot write");
    let objects = larder.stats()["disks"][0]["objects"].as_u64().unwrap();
    assert!(objects >= 10, "{objects} are left, and there is room for 30");
}

#[test]
fn a_response_the_disk_refuses_is_reported_as_not_written() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
    let Some(larder) = on_a_small_disk(directory.path(), &origin) else { return };
    let path = "/large-8000000";
    assert!(larder.get(path).cache().contains("stored"), "the disk has not failed yet");
    larder.wait_for_log("is not stored: the response is too large for memory, and the disk did not take it");
    eventually("the word of the disk", || (larder.stats()["disks"][0]["state"] == "full").then_some(()));
    let again = larder.get(path);
    assert!(again.cache().ends_with("detail=not-written") && again.body == page(path), "{}", again.cache());
    let why = larder.ask_admin(&format!("GET /why?url=http://site.test{path}"));
    assert!(why.text().contains("\"not-written\""), "{}", why.text());
}

#[test]
fn a_large_response_is_read_at_the_pace_of_the_disk() {
    const LENGTH: usize = 96 << 20;
    let directory = tempfile::tempdir().unwrap();
    let origin = Origin::answering(|_| {
        Answer::with_body("200 OK\nCache-Control: max-age=3600\nETag: \"1\"", &vec![b'x'; LENGTH])
    });
    let config = config(directory.path(), &origin, "[memory]\nsize = '8MiB'").replace("64MiB", "1GiB");
    let larder = Larder::start(&config);
    for (n, path) in (1..).zip(["/1", "/2"]) {
        assert_eq!(larder.get(path).body.len(), LENGTH);
        written(&larder, n);
        assert!(larder.get(path).is_hit(), "{path}: {}", larder.stats()["disks"][0]);
    }
    assert_eq!(larder.stats()["disks"][0]["dropped"], 0);
}

#[test]
fn a_directory_that_cannot_be_is_said_at_once() {
    let larder = |path: &str| {
        let command =
            ["serve", "--disk", path, "--forward", "127.0.0.1:0", "--admin", "off", "--stats", "none"];
        Command::new(env!("CARGO_BIN_EXE_larder")).args(command).output().unwrap()
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = larder(&file.path().display().to_string());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.lines().last().unwrap().contains(&format!("cannot use {}", file.path().display())),
        "{said}"
    );
}
