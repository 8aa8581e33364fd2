//! Protocols of systems: apt, registries of images, git, and downloads that are resumed.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use larder_testkit::{Answer, Authority, Origin, Seen, output, programs};

use crate::{Registry, User};

fn sha256(content: &[u8]) -> String {
    let sum = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, content);
    sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A mirror of Debian: the versions of its `Release`, its `Packages` and its package, which differ in the middle of an update.
const MIRROR: [([u8; 3], bool); 5] = [
    ([0, 0, 0], true),
    // The index of another version than `Release` says.
    ([1, 0, 0], false),
    // A package that is another one than the index says.
    ([1, 1, 0], false),
    ([1, 1, 1], true),
    ([1, 1, 1], true),
];

fn mirror(step: &Arc<AtomicUsize>) -> Origin {
    let package = |version: u8| [b'0' + version; 5_000];
    let packages = move |version: u8| {
        let digest = sha256(&package(version));
        format!(
            "Package: p\nVersion: 1\nArchitecture: all\nMaintainer: n <n@e.test>\nFilename: pool/p_1_all.deb\nSize: 5000\n\
             SHA256: {digest}\nDescription: p\n\n"
        )
    };
    let step = Arc::clone(step);
    Origin::answering(move |seen| {
        let ([release, index, deb], _) = MIRROR[step.load(Ordering::Acquire)];
        let (version, content) = match &*seen.target {
            "/dists/stable/Release" => {
                let index = packages(release);
                let (digest, length) = (sha256(index.as_bytes()), index.len());
                let text = format!(
                    "Suite: stable\nCodename: stable\nDate: Fri, 01 Jan 2021 00:00:0{release} UTC\nArchitectures: all\nComponents: main\n\
                     SHA256:\n {digest} {length} main/binary-all/Packages\n"
                );
                (release, text.into_bytes())
            }
            "/dists/stable/main/binary-all/Packages" => (index, packages(index).into_bytes()),
            "/pool/p_1_all.deb" => (deb, package(deb).to_vec()),
            _ => return Answer::with_body("404 Not Found", b""),
        };
        Answer::file(
            seen,
            &format!("\"{version}\""),
            "Last-Modified: Fri, 01 Jan 2021 00:00:00 GMT",
            &content,
        )
    })
}

#[test]
fn apt_gets_what_the_current_index_says_or_nothing() {
    if programs::find("apt-get").is_none() {
        eprintln!("skipped: apt-get is not installed");
        return;
    }
    let step = Arc::new(AtomicUsize::new(0));
    let registry = Registry::before(mirror(&step));
    let user = User::of(&registry);
    let script = format!(
        "rm -rf m; mkdir -p m/etc/apt/preferences.d m/state/lists/partial m/cache/archives/partial; cd m; : > status\n\
         echo 'deb [trusted=yes arch=all] {} stable main' > etc/apt/sources.list\n\
         apt() {{ apt-get -qq -o Dir=$PWD -o Dir::State=state -o Dir::State::status=$PWD/status -o Dir::Cache=cache \
         -o Acquire::Languages=none -o Acquire::Retries=0 -o APT::Sandbox::User= -o APT::Update::Error-Mode=any \"$@\"; }}\n\
         apt update && apt download p && cat p_1_all.deb",
        registry.url()
    );
    for (at, (versions, is_whole)) in MIRROR.into_iter().enumerate() {
        step.store(at, Ordering::Release);
        let run = user.run(&["--host", "localhost"], &["sh", "-c", &script]);
        assert_eq!(run.code() == 0, is_whole, "{versions:?} {}{}", run.said(), run.told());
        if is_whole {
            assert_eq!(run.said().as_bytes(), [b'0' + versions[2]; 5_000]);
        } else {
            assert!(run.told().contains(" is refused: the content has the digest "), "{}", run.told());
        }
    }
    // The forged one, and each of the good ones once.
    assert_eq!(registry.origin.count_of("/pool/p_1_all.deb"), 3);
}

/// A registry of images that wants a token, and can refuse to tell what tags mean.
fn images(layers: &[Vec<u8>], url: Arc<OnceLock<String>>, is_limited: Arc<AtomicBool>) -> Origin {
    let descriptor = |kind: &str, content: &[u8]| {
        let kind = format!("application/vnd.oci.image.{kind}");
        serde_json::json!({"mediaType": kind, "digest": format!("sha256:{}", sha256(content)), "size": content.len()})
    };
    let config =
        br#"{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[]}}"#
            .to_vec();
    let described: Vec<_> = layers.iter().map(|layer| descriptor("layer.v1.tar", layer)).collect();
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = serde_json::json!({"schemaVersion": 2, "mediaType": media_type,
        "config": descriptor("config.v1+json", &config), "layers": described});
    let manifest = manifest.to_string().into_bytes();
    let contents: Vec<_> = [layers, &[config, manifest.clone()]].concat();
    Origin::answering(move |seen: &Seen| {
        let url = url.get().expect("it listens");
        if seen.target.starts_with("/token") {
            return Answer::with_body("200 OK\nContent-Type: application/json", b"{\"token\":\"t\"}");
        }
        if seen.field("authorization") != Some("Bearer t") {
            let realm = format!("Bearer realm=\"{url}/token\",service=\"r\",scope=\"repository:a:pull\"");
            return Answer::with_body(&format!("401 Unauthorized\nWWW-Authenticate: {realm}"), b"");
        }
        let (folder, name) = seen.target.rsplit_once('/').expect("a path");
        let is_manifest = folder.ends_with("/manifests");
        if is_manifest && is_limited.load(Ordering::Acquire) {
            return Answer::with_body("429 Too Many Requests", b"");
        }
        let found = match name {
            "v1" => Some(&manifest),
            digest => contents.iter().find(|content| digest == format!("sha256:{}", sha256(content))),
        };
        let Some(content) = found else { return Answer::with_body("200 OK", b"") };
        let kind = if is_manifest { media_type } else { "application/octet-stream" };
        let head = format!("200 OK\nContent-Type: {kind}\nDocker-Content-Digest: sha256:{}", sha256(content));
        match &*seen.method {
            "HEAD" => Answer::raw(format!(
                "HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n",
                head.replace('\n', "\r\n"),
                content.len()
            )),
            _ => Answer::with_body(&head, content),
        }
    })
}

#[test]
fn skopeo_gets_blobs_of_several_repositories_once() {
    if programs::find("skopeo").is_none() {
        eprintln!("skipped: skopeo is not installed");
        return;
    }
    let (url, is_limited) = (Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(false)));
    let layers: Vec<_> = [b'a', b'b'].map(|byte| vec![byte; 100_000]).to_vec();
    let origin = images(&layers, Arc::clone(&url), Arc::clone(&is_limited));
    // Programs in Go use no proxy for loopback addresses; this one is none to them, and leads to the same machine.
    let host = "0.0.0.0";
    let registry = Registry::with(origin, Authority::new(), &[host], "");
    url.set(format!("https://{host}:{}", registry.port())).expect("once");
    let user = User::of(&registry);
    let pull_with = |options: &[&str], image: &str| {
        let _ = fs::remove_dir_all(user.home().join("image"));
        let image = format!("docker://{host}:{}/{image}:v1", registry.port());
        let words = ["skopeo", "--insecure-policy", "copy", "-q", &image, "dir:image"];
        let run = user.run(options, &words).succeeded();
        for layer in &layers {
            assert!(fs::read(user.home().join("image").join(sha256(layer))).expect("a layer") == *layer);
        }
        run
    };
    let pull = |image: &str| pull_with(&["--host", host], image);
    pull("a");
    let asked = registry.origin.count_of(&format!("/v2/a/blobs/sha256:{}", sha256(&layers[0])));
    assert_eq!((asked, pull("b").number("hits")), (1, 4), "the manifest, its config, and two layers");
    for layer in &layers {
        assert_eq!(registry.origin.count_of(&format!("/v2/b/blobs/sha256:{}", sha256(layer))), 0);
    }
    // Beyond the limit of a registry, tags mean what they meant before.
    is_limited.store(true, Ordering::Release);
    assert_eq!(pull("a").number("hits"), 4);
    let asked = registry.count();
    assert_eq!(pull_with(&["--host", host, "--offline"], "a").number("hits"), 4);
    assert_eq!(registry.count(), asked);
}

/// A server of the repositories in `folder`, as `git http-backend` serves them.
fn repositories(folder: &Path) -> Origin {
    let folder = folder.to_owned();
    Origin::answering(move |seen| {
        let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
        let mut backend = Command::new("git");
        backend.arg("http-backend").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        backend.env("GIT_PROJECT_ROOT", &folder).env("GIT_HTTP_EXPORT_ALL", "1");
        backend.env("PATH_INFO", path).env("QUERY_STRING", query).env("REQUEST_METHOD", &seen.method);
        for (name, field) in [
            ("CONTENT_TYPE", "content-type"),
            ("HTTP_CONTENT_ENCODING", "content-encoding"),
            ("GIT_PROTOCOL", "git-protocol"),
        ] {
            backend.env(name, seen.field(field).unwrap_or_default());
        }
        let mut backend = backend.env("CONTENT_LENGTH", seen.body.len().to_string()).spawn().expect("git");
        backend.stdin.take().expect("a pipe").write_all(&seen.body).expect("written");
        let said = backend.wait_with_output().expect("an answer").stdout;
        let end = said.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
        let fields = String::from_utf8_lossy(&said[..end]).replace("\r\n", "\n");
        Answer::with_body(&format!("200 OK\n{fields}"), &said[end + 4..])
    })
}

#[test]
fn git_clones_and_fetches_what_is_current() {
    let folder = tempfile::tempdir().expect("a directory");
    let git = |words: &str| {
        let mut git = Command::new("git");
        git.args(["-C", "tree", "-c", "user.name=n", "-c", "user.email=e"]).args(words.split(' '));
        output(git.current_dir(folder.path()));
    };
    fs::create_dir(folder.path().join("tree")).expect("made");
    let commit = |content: &str| {
        fs::write(folder.path().join("tree/file"), content).expect("written");
        git("add file");
        git("commit -q -m one");
    };
    git("init -q");
    commit("one");
    let registry = Registry::before(repositories(folder.path()));
    let user = User::of(&registry);
    let clone = format!("rm -rf clone; git clone -q {} clone && cat clone/file", registry.at("/tree/.git"));
    for (content, next) in [("one", "two"), ("two", "three")] {
        let run = user.run(&["--host", "localhost"], &["sh", "-c", &clone]).succeeded();
        assert_eq!(run.said(), content);
        commit(next);
    }
    let fetch = "cd clone && git pull -q && git log --oneline | wc -l";
    let run = user.run(&["--host", "localhost"], &["sh", "-c", fetch]).succeeded();
    assert_eq!((run.said().trim(), run.number("hits")), ("3", 0), "{}", run.told());
}

#[test]
fn slices_that_were_not_stored_are_no_hit_of_the_run() {
    let archive = vec![b'a'; 12 << 20];
    let registry = Registry::before(Origin::answering(move |seen| {
        Answer::file(seen, "\"1\"", "Cache-Control: max-age=1000\nAccept-Ranges: bytes", &archive)
    }));
    let user = User::of(&registry);
    let url = registry.at("/a.tar");
    let fetch = |range: &str| {
        let run =
            user.run(&["--host", "localhost"], &["curl", "-sS", "-o", "part", "-r", range, &url]).succeeded();
        ["hits", "bytes", "bytes_from_cache"].map(|name| run.number(name))
    };
    assert_eq!(fetch("0-5242879")[0], 0);
    let [hits, bytes, from_cache] = fetch("0-");
    assert!(hits == 0 && from_cache > 5 << 20 && from_cache < bytes - (4 << 20), "{from_cache} of {bytes}");
    let [hits, bytes, from_cache] = fetch("0-");
    assert_eq!((hits, from_cache), (1, bytes));
}

#[test]
fn git_gets_the_pack_of_a_known_commit_from_the_cache() {
    let folder = tempfile::tempdir().expect("a directory");
    let make = "git init -q tree && cd tree && seq 9999 > file && git add file && \
                git -c user.name=n -c user.email=e commit -q -m one";
    output(Command::new("sh").args(["-ec", make]).current_dir(folder.path()));
    let registry = Registry::before(repositories(folder.path()));
    let user = User::of(&registry);
    let url = registry.at("/tree/.git");
    // Of another user's credentials, the cache knows nothing.
    for (credentials, hits) in
        [("", 0), ("", 1), ("Authorization: Basic YTpi", 0), ("Authorization: Basic YTpi", 1)]
    {
        let script = format!(
            "rm -rf clone; git -c http.extraHeader='{credentials}' clone -q {url} clone; git -C clone fsck"
        );
        let run = user.run(&["--host", "localhost"], &["sh", "-ec", &script]).succeeded();
        assert_eq!(run.number("hits"), hits, "{credentials} {}", run.told());
    }
    // Each clone asks what the branches are.
    assert_eq!(registry.origin.count_of("/tree/.git/git-upload-pack"), 4 + 2);
}

#[test]
fn an_interrupted_archive_is_resumed_from_the_cache() {
    let archive: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let content = archive.clone();
    let registry = Registry::before(Origin::answering(move |seen| {
        Answer::file(seen, "\"1\"", "Cache-Control: max-age=1000\nAccept-Ranges: bytes", &content)
    }));
    let user = User::of(&registry);
    let url = registry.at("/a.tar.gz");
    let resume = |script: &str| {
        fs::write(user.home().join("part"), &archive[..5_000_000]).expect("written");
        let script = script.replace("$URL", &url);
        user.run(&["--host", "localhost"], &["sh", "-ec", &script]).succeeded();
        assert!(fs::read(user.home().join("part")).expect("a file") == archive, "{script}");
    };
    resume("curl -sS -C - -o part $URL");
    let asked = registry.count();
    for script in ["curl -sS -C - -o part $URL", "wget -qc -O part $URL"] {
        resume(script);
        assert_eq!(registry.count(), asked, "{script}");
    }
    resume("curl -sS -o part $URL");
    let whole = registry.count();
    resume("rm part; curl -sS -o part $URL");
    assert_eq!(registry.count(), whole);
}
