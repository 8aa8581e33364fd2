//! Protocols of systems: apt, registries of images, git, and downloads that are resumed.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use larder_testkit::{
    Answer, Authority, Origin, PATIENCE, Process, Seen, free, not_tested, output, programs,
};
use tempfile::TempDir;

use crate::shelf::{ANY, Shelf, sha256};
use crate::{Registry, User};

/// A mirror of Debian: the versions of its `Release`, its `Packages` and its package, which differ in the middle of an update.
const MIRROR: [([usize; 3], bool); 5] = [
    ([0, 0, 0], true),
    // The index of another version than `Release` says.
    ([1, 0, 0], false),
    // A package that is another one than the index says.
    ([1, 1, 0], false),
    ([1, 1, 1], true),
    ([1, 1, 1], true),
];

/// Makes a repository with the package `p`, which contains a file with this text.
fn repository(text: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    let make = "mkdir -p conf tree/DEBIAN; echo $0 > tree/p\n\
        printf 'Package: p\nVersion: 1\nArchitecture: all\nMaintainer: n <n@e.test>\nDescription: p\n' > tree/DEBIAN/control\n\
        dpkg-deb --root-owner-group --build tree p.deb >/dev/null\n\
        printf 'Codename: stable\nArchitectures: amd64\nComponents: main\n' > conf/distributions\n\
        reprepro --silent -S admin -P optional includedeb stable p.deb";
    output(Command::new("sh").args(["-ec", make, text]).current_dir(folder.path()));
    folder
}

fn mirror(step: &Arc<AtomicUsize>) -> Origin {
    let (step, trees) = (Arc::clone(step), ["old", "new"].map(repository));
    Origin::answering(move |seen| {
        let (versions, _) = MIRROR[step.load(Ordering::Acquire)];
        let version = match &*seen.target {
            "/dists/stable/Release" => versions[0],
            index if index.starts_with("/dists/") => versions[1],
            _ => versions[2],
        };
        match fs::read(trees[version].path().join(&seen.target[1..])) {
            Ok(content) => Answer::file(
                seen,
                &format!("\"{version}\""),
                "Last-Modified: Fri, 01 Jan 2021 00:00:00 GMT",
                &content,
            ),
            Err(_) => Answer::with_body("404 Not Found", b""),
        }
    })
}

#[test]
fn apt_gets_what_the_current_index_says_or_nothing() {
    for program in ["apt-get", "dpkg-deb", "reprepro"] {
        if programs::find(program).is_none() {
            return not_tested(program);
        }
    }
    let step = Arc::new(AtomicUsize::new(0));
    let registry = Registry::before(mirror(&step));
    let user = User::of(&registry);
    let script = format!(
        "rm -rf m; mkdir -p m/etc/apt/preferences.d m/state/lists/partial m/cache/archives/partial; cd m; : > status\n\
         echo 'deb [trusted=yes arch=amd64] {} stable main' > etc/apt/sources.list\n\
         apt() {{ apt-get -qq -o Dir=$PWD -o Dir::State=state -o Dir::State::status=$PWD/status -o Dir::Cache=cache \
         -o APT::Architecture=amd64 -o Acquire::Languages=none -o Acquire::Retries=0 -o APT::Sandbox::User= \
         -o APT::Update::Error-Mode=any \"$@\"; }}\n\
         apt update && apt download p && dpkg-deb --fsys-tarfile p_1_all.deb | tar -xO ./p",
        registry.url()
    );
    for (at, (versions, is_whole)) in MIRROR.into_iter().enumerate() {
        step.store(at, Ordering::Release);
        let run = user.run(&["--host", "localhost"], &["sh", "-c", &script]);
        assert_eq!(run.code() == 0, is_whole, "{versions:?} {}{}", run.said(), run.told());
        if is_whole {
            assert_eq!(run.said(), ["old\n", "new\n"][versions[2]]);
        } else {
            assert!(run.told().contains(" is refused: the content has the digest "), "{}", run.told());
        }
    }
    // The forged one, and each of the good ones once.
    let package = "/pool/main/p/p/p_1_all.deb";
    assert_eq!(registry.origin.count_of(package), 3);
    assert_eq!(user.tunnelled("localhost", &script), "new\n");
    assert_eq!(registry.origin.count_of(package), 4);
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Returns the manifest of an image with this config and these layers.
fn manifest(config: &[u8], layers: &[&[u8]]) -> Vec<u8> {
    let descriptor = |kind: &str, content: &[u8]| {
        let kind = format!("application/vnd.oci.image.{kind}");
        serde_json::json!({"mediaType": kind, "digest": format!("sha256:{}", sha256(content)), "size": content.len()})
    };
    let layers: Vec<_> = layers.iter().map(|layer| descriptor("layer.v1.tar", layer)).collect();
    let config = descriptor("config.v1+json", config);
    let manifest =
        serde_json::json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
    manifest.to_string().into_bytes()
}

/// A registry of images that wants a token, and can refuse to tell what tags mean.
fn images(layers: &[Vec<u8>], url: Arc<OnceLock<String>>, is_limited: Arc<AtomicBool>) -> Origin {
    let config =
        br#"{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[]}}"#
            .to_vec();
    let manifest = manifest(&config, &layers.iter().map(Vec::as_slice).collect::<Vec<_>>());
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
        let kind = if is_manifest { MANIFEST } else { "application/octet-stream" };
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
        return not_tested("skopeo");
    }
    let (url, is_limited) = (Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(false)));
    let layers: Vec<_> = [b'a', b'b'].map(|byte| vec![byte; 100_000]).to_vec();
    let origin = images(&layers, Arc::clone(&url), Arc::clone(&is_limited));
    let registry = Registry::with(origin, Authority::new(), &[ANY], "");
    url.set(format!("https://{ANY}:{}", registry.port())).expect("once");
    let user = User::of(&registry);
    let pull_with = |options: &[&str], image: &str| {
        let _ = fs::remove_dir_all(user.home().join("image"));
        let image = format!("docker://{ANY}:{}/{image}:v1", registry.port());
        let words = ["skopeo", "--insecure-policy", "copy", "-q", &image, "dir:image"];
        let run = user.run(options, &words).succeeded();
        for layer in &layers {
            assert!(fs::read(user.home().join("image").join(sha256(layer))).expect("a layer") == *layer);
        }
        run
    };
    let pull = |image: &str| pull_with(&["--host", ANY], image);
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
    assert_eq!(pull_with(&["--host", ANY, "--offline"], "a").number("hits"), 4);
    assert_eq!(registry.count(), asked);
}

/// Starts Debian's registry of images with the tags `one` and `two` of `a`, which share a layer, and returns the layers: of both,
/// of one, and of two.
fn docker_registry(folder: &Path) -> (Process, SocketAddr, [Vec<u8>; 3]) {
    let address = free();
    let config = format!(
        "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '{address}'}}\n",
        folder.join("storage").display()
    );
    fs::write(folder.join("config.yml"), config).expect("written");
    let mut server = Command::new("docker-registry");
    server.arg("serve").arg(folder.join("config.yml")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = Process::start(&mut server).expect("it starts");
    server.listens(&[address], PATIENCE).expect("it listens");
    let layers = [b'0', b'1', b'2'].map(|byte| vec![byte; 100_000]);
    for (tag, number) in [("one", 1), ("two", 2)] {
        let image = folder.join(tag);
        fs::create_dir(&image).expect("made");
        let config = format!(
            "{{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{{\"User\":\"{tag}\"}},\"rootfs\":{{\"type\":\"layers\",\"diff_ids\":[]}}}}"
        );
        let manifest = manifest(config.as_bytes(), &[&layers[0], &layers[number]]);
        fs::write(image.join("version"), "Directory Transport Version: 1.1\n").expect("written");
        fs::write(image.join("manifest.json"), manifest).expect("written");
        for content in [config.as_bytes(), &layers[0], &layers[number]] {
            fs::write(image.join(sha256(content)), content).expect("written");
        }
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["--insecure-policy", "copy", "-q", "--preserve-digests", "--dest-tls-verify=false"]);
        output(skopeo.args([format!("dir:{}", image.display()), format!("docker://{address}/a:{tag}")]));
    }
    (server, address, layers)
}

#[test]
fn tags_of_a_docker_registry_share_the_layers_that_one_has_fetched() {
    for program in ["skopeo", "docker-registry"] {
        if programs::find(program).is_none() {
            return not_tested(program);
        }
    }
    let folder = tempfile::tempdir().expect("a directory");
    let (_server, address, layers) = docker_registry(folder.path());
    let blobs = layers.each_ref().map(|layer| format!("/v2/a/blobs/sha256:{}", sha256(layer)));
    let shelf = Shelf::before(ANY, &blobs, address);
    let user = User::of(&shelf.registry);
    let script = |tag: &str| {
        let image = format!("docker://{}/a:{tag}", shelf.url.trim_start_matches("https://"));
        format!("rm -rf image; skopeo --insecure-policy copy -q {image} dir:image; sha256sum image/*")
    };
    shelf.forge(true);
    let forged = user.run(&["--host", ANY], &["sh", "-ec", &script("one")]);
    assert!(forged.code() != 0 && forged.number("refused") > 0, "{}", forged.told());
    shelf.forge(false);
    let (before, mut said) = (shelf.downloads(), Vec::new());
    for (tag, downloads) in [("one", 2), ("two", 3), ("one", 3), ("two", 3)] {
        let run = user.run(&["--host", ANY], &["sh", "-ec", &script(tag)]).succeeded();
        assert_eq!(shelf.downloads() - before, downloads, "{tag} {}", run.told());
        let layer = &layers[if tag == "one" { 1 } else { 2 }];
        assert!(
            run.said().contains(&sha256(layer)) && run.said().contains(&sha256(&layers[0])),
            "{}",
            run.said()
        );
        said.push(run.said());
    }
    assert_eq!(said[..2], said[2..]);
    assert_eq!(user.tunnelled(ANY, &script("two")), said[1]);
    assert_eq!(shelf.downloads() - before, 5);
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
    assert_eq!(user.tunnelled("localhost", &clone), "three");
    user.run(&["--host", "localhost"], &["sh", "-c", &clone]).succeeded();
    commit("four");
    let fetch = "cd clone && git pull -q && git log --oneline | wc -l";
    let run = user.run(&["--host", "localhost"], &["sh", "-c", fetch]).succeeded();
    assert_eq!((run.said().trim(), run.number("hits")), ("4", 0), "{}", run.told());
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
