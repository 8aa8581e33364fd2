//! Each client, in a first run and in a second one with an empty home: the second makes no request for content.

use std::fs;
use std::process::Command;

use aws_lc_rs::digest;
use larder_testkit::{Authority, programs};

use crate::{Registry, User, origin};

/// Runs `script` twice, with `$URL` in its environment, and checks what it prints and what it downloads.
fn twice(program: &str, script: &str) {
    if programs::find(program).is_none() {
        eprintln!("skipped: {program} is not installed");
        return;
    }
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let url = registry.url();
    let script = script.replace("$URL", &url);
    for hits in [0, 1] {
        let run = user.run(&["--host", "localhost"], &["sh", "-ec", &script]).succeeded();
        assert!(run.said().contains("/package"), "{} {}", run.said(), run.told());
        assert_eq!(run.number("hits"), hits, "{}", run.told());
    }
    assert_eq!(registry.count(), 1);
    // The roots of the system are trusted as before, so that a tunnelled host works, too.
    let run = user.run(&[], &["sh", "-ec", &script]).succeeded();
    assert_eq!((run.number("requests"), registry.count()), (0, 2), "{}", run.told());
}

#[test]
fn curl() {
    twice("curl", "curl -sS $URL/package");
}

#[test]
fn wget() {
    twice("wget", "wget -qO- $URL/package");
}

/// [`twice`] for a script of Python that needs `module`. The Python of the system has the modules of its packages.
fn python(module: &str, script: &str) {
    let program = ["/usr/bin/python3", "python3"].into_iter().find(|program| {
        let asked = Command::new(program).args(["-c", &format!("import {module}")]).output();
        asked.is_ok_and(|output| output.status.success())
    });
    match program {
        Some(program) => twice(program, &format!("{program} -c \"import {module}; {script}\"")),
        None => eprintln!("skipped: {module} of Python is not installed"),
    }
}

#[test]
fn python_urllib() {
    python("urllib.request", "print(urllib.request.urlopen('$URL/package').read().decode())");
}

#[test]
fn python_requests() {
    python("requests", "print(requests.get('$URL/package').text)");
}

#[test]
fn python_httpx() {
    python("httpx", "print(httpx.get('$URL/package').text)");
}

#[test]
fn node_fetch() {
    twice("node", "node -e \"fetch('$URL/package').then(r => r.text()).then(console.log)\"");
}

#[test]
fn node_https() {
    twice("node", "node -e \"require('https').get('$URL/package', r => r.pipe(process.stdout))\"");
}

#[test]
fn java() {
    let program = "import java.net.*; import java.net.http.*; class A { public static void main(String[] a) throws Exception { \
        var c = HttpClient.newBuilder().proxy(ProxySelector.getDefault()).build(); \
        System.out.println(c.send(HttpRequest.newBuilder(URI.create(a[0])).build(), HttpResponse.BodyHandlers.ofString()).body()); } }";
    let script = format!("printf '%s' '{program}' > A.java; java A.java $URL/package");
    twice("java", &script);
}

/// A registry whose files are those of a folder, by their paths.
pub(super) fn files(of: &[(&str, Vec<u8>)]) -> larder_testkit::Origin {
    let of: Vec<_> = of.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.clone())).collect();
    larder_testkit::Origin::answering(move |seen| {
        let path = seen.target.split('?').next().unwrap_or_default();
        let found = of.iter().find(|(known, _)| known == path);
        match found {
            Some((path, bytes)) => {
                let kind = if path.ends_with('/') { "text/html" } else { "application/octet-stream" };
                let head = format!("200 OK\nCache-Control: max-age=1000\nContent-Type: {kind}");
                larder_testkit::Answer::with_body(&head, bytes)
            }
            None => larder_testkit::Answer::with_body("404 Not Found", b"none"),
        }
    })
}

#[test]
fn git() {
    let registry = Registry::before(files(&[]));
    let user = User::of(&registry);
    let url = format!("{}/repository.git", registry.url());
    // A repository that is not there: the request has come, over https, and its answer is told.
    let run = user.run(&["--host", "localhost"], &["git", "ls-remote", &url]);
    assert_eq!((run.code(), run.number("requests")), (128, 1), "{}", run.told());
    assert!(run.told().contains("not found"), "{}", run.told());
}

/// Installs a wheel in each of two new environments with a program and these options.
fn installs_a_wheel(program: &str, options: &str) {
    if programs::find(program).is_none() {
        eprintln!("skipped: {program} is not installed");
        return;
    }
    let page = b"<a href=\"tiny-1.0-py3-none-any.whl\">tiny-1.0-py3-none-any.whl</a>".to_vec();
    let wheel = "/simple/tiny/tiny-1.0-py3-none-any.whl";
    let registry = Registry::before(files(&[("/simple/tiny/", page), (wheel, zip(WHEEL))]));
    let user = User::of(&registry);
    let install = format!("{program} {options} -q --target site --index-url {}/simple/ tiny", registry.url());
    // uv looks at the metadata in a wheel before it downloads the whole.
    let mut count = None;
    for _ in 0..2 {
        let _ = fs::remove_dir_all(user.home().join("site"));
        user.run(&["--host", "localhost"], &["sh", "-ec", &install]).succeeded();
        assert!(user.home().join("site/tiny.py").exists());
        let asked = registry.origin.count_of(wheel);
        assert_eq!(*count.get_or_insert(asked), asked);
    }
}

#[test]
fn pip() {
    installs_a_wheel("pip3", "install --no-cache-dir");
}

#[test]
fn uv() {
    installs_a_wheel("uv", "pip install --no-cache --python python3");
}

const WHEEL: &[(&str, &str)] = &[
    ("tiny.py", ""),
    ("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"),
    (
        "tiny-1.0.dist-info/WHEEL",
        "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    ),
    ("tiny-1.0.dist-info/RECORD", ""),
];

/// Returns a ZIP archive with these files.
fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a directory");
    let written = files.iter().map(|(name, text)| format!("z.writestr({name:?}, {text:?})\n"));
    let script = format!(
        "import zipfile\nz = zipfile.ZipFile('a.zip', 'w')\n{}z.close()",
        written.collect::<String>()
    );
    larder_testkit::output(Command::new("python3").args(["-c", &script]).current_dir(folder.path()));
    fs::read(folder.path().join("a.zip")).expect("an archive")
}

#[test]
fn go() {
    if programs::find("go").is_none() {
        eprintln!("skipped: go is not installed");
        return;
    }
    const GO_MOD: &str = "module tiny.test/tiny\n";
    let archive =
        zip(&[("tiny.test/tiny@v1.0.0/go.mod", GO_MOD), ("tiny.test/tiny@v1.0.0/tiny.go", "package tiny\n")]);
    let info = "{\"Version\":\"v1.0.0\",\"Time\":\"2020-01-01T00:00:00Z\"}".into();
    let origin = files(&[
        ("/tiny.test/tiny/@v/list", b"v1.0.0\n".to_vec()),
        ("/tiny.test/tiny/@v/v1.0.0.info", info),
        ("/tiny.test/tiny/@v/v1.0.0.mod", GO_MOD.into()),
        ("/tiny.test/tiny/@v/v1.0.0.zip", archive),
    ]);
    // Go never uses a proxy for `localhost` and 127.0.0.1.
    let registry = Registry::with(origin, Authority::new(), &["0.0.0.0"], "");
    let user = User::of(&registry);
    let url = format!("https://0.0.0.0:{}", registry.port());
    let get = format!(
        "rm -rf go go.mod go.sum; export GOPROXY={url} GOSUMDB=off GOTOOLCHAIN=local GOFLAGS=-modcacherw GOENV=off \
         GOPATH=$PWD/go GOCACHE=$PWD/go/cache; go mod init p.test/p && go get tiny.test/tiny && cat go.sum"
    );
    let mut sums = None;
    for _ in 0..2 {
        let run = user.run(&["--host", "0.0.0.0"], &["sh", "-ec", &get]).succeeded();
        assert!(run.said().contains("tiny.test/tiny v1.0.0 h1:"), "{}", run.said());
        assert_eq!(*sums.get_or_insert_with(|| run.said()), run.said());
        assert_eq!(registry.origin.count_of("/tiny.test/tiny/@v/v1.0.0.zip"), 1);
        assert_eq!(registry.origin.count_of("/tiny.test/tiny/@v/v1.0.0.mod"), 1);
    }
}

#[test]
fn maven() {
    if programs::find("mvn").is_none() {
        eprintln!("skipped: mvn is not installed");
        return;
    }
    const ABOUT: &str = "<groupId>t</groupId><artifactId>parent</artifactId><version>1.0</version>";
    let pom = |about: &str| format!("<project><modelVersion>4.0.0</modelVersion>{about}</project>");
    let parent = pom(&format!("{ABOUT}<packaging>pom</packaging>")).into_bytes();
    let sum = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &parent);
    let sum: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let file = "/t/parent/1.0/parent-1.0.pom";
    let beside = format!("{file}.sha1");
    let registry = Registry::before(files(&[(file, parent), (&beside, sum.into_bytes())]));
    let user = User::of(&registry);
    let child = format!(
        "<parent>{ABOUT}<relativePath/></parent><artifactId>child</artifactId><packaging>pom</packaging>"
    );
    fs::write(user.home().join("pom.xml"), pom(&child)).expect("written");
    let mirror = format!("<mirror><id>m</id><mirrorOf>*</mirrorOf><url>{}</url></mirror>", registry.url());
    let settings = format!("<settings><mirrors>{mirror}</mirrors></settings>");
    fs::write(user.home().join("settings.xml"), settings).expect("written");
    // No plugin runs in this phase, so that nothing else is downloaded.
    let validate = "rm -rf m2; mvn -B -q -s settings.xml -Dmaven.repo.local=$PWD/m2 validate";
    for _ in 0..2 {
        user.run(&["--host", "localhost"], &["sh", "-ec", validate]).succeeded();
        assert!(user.home().join("m2").join(&file[1..]).exists());
        // Maven sends `Cache-Control: no-cache` with each request.
        assert_eq!((registry.origin.count_of(file), registry.origin.count_of(&beside)), (1, 1));
    }
}

/// Returns an archive (tar, gzip) of a folder with these files.
fn archive(folder: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let root = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        let path = root.path().join(folder).join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    let mut tar = Command::new("tar");
    larder_testkit::output(tar.args(["-czf", "a.tgz", folder]).current_dir(root.path()));
    fs::read(root.path().join("a.tgz")).expect("an archive")
}

/// A registry whose index names its own URL, which is known only once it listens.
fn naming_itself(of: impl Fn(&str) -> Vec<(String, Vec<u8>)> + Send + Sync + 'static) -> Registry {
    let own = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let known = std::sync::Arc::clone(&own);
    let registry = Registry::before(larder_testkit::Origin::answering(move |seen| {
        let found = of(known.get().expect("it listens")).into_iter().find(|(path, _)| *path == seen.target);
        match found {
            Some((_, bytes)) => {
                larder_testkit::Answer::with_body("200 OK\nCache-Control: max-age=1000", &bytes)
            }
            None => larder_testkit::Answer::with_body("404 Not Found", b"none"),
        }
    }));
    own.set(registry.url()).expect("once");
    registry
}

#[test]
fn cargo() {
    let manifest = "[package]\nname = \"tiny\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    let package = archive("tiny-1.0.0", &[("Cargo.toml", manifest), ("src/lib.rs", "")]);
    let sum = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &package);
    let sum: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let line = format!(
        "{{\"name\":\"tiny\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"{sum}\",\"features\":{{}},\"yanked\":false}}\n"
    );
    let registry = naming_itself(move |url| {
        vec![
            ("/index/config.json".to_owned(), format!("{{\"dl\":\"{url}/crates\"}}").into_bytes()),
            ("/index/ti/ny/tiny".to_owned(), line.clone().into_bytes()),
            ("/crates/tiny/1.0.0/download".to_owned(), package.clone()),
        ]
    });
    let user = User::of(&registry);
    let home = user.home();
    fs::create_dir_all(home.join(".cargo")).expect("made");
    let source = format!(
        "[source.crates-io]\nreplace-with = 'local'\n[source.local]\nregistry = 'sparse+{}/index/'\n",
        registry.url()
    );
    fs::write(home.join(".cargo/config.toml"), source).expect("written");
    fs::create_dir_all(home.join("p/src")).expect("made");
    fs::write(home.join("p/src/lib.rs"), "").expect("written");
    let manifest = "[package]\nname = 'p'\nversion = '0.1.0'\nedition = '2021'\n[dependencies]\ntiny = '1'\n";
    fs::write(home.join("p/Cargo.toml"), manifest).expect("written");
    let mut lock = None;
    for _ in 0..2 {
        // A new environment: nothing is left of the first run but the cache of Larder.
        let _ = fs::remove_dir_all(home.join("cargo-home"));
        let _ = fs::remove_file(home.join("p/Cargo.lock"));
        let fetch = "mkdir -p cargo-home && cp .cargo/config.toml cargo-home && cd p && CARGO_HOME=$HOME/cargo-home cargo fetch -q";
        user.run(&[], &["sh", "-ec", fetch]).succeeded();
        let made = fs::read_to_string(home.join("p/Cargo.lock")).expect("a lockfile");
        assert_eq!(*lock.get_or_insert_with(|| made.clone()), made);
        assert_eq!(registry.count(), 3);
    }
}

#[test]
fn npm() {
    use base64::Engine;
    if programs::find("npm").is_none() {
        eprintln!("skipped: npm is not installed");
        return;
    }
    let package = archive("package", &[("package.json", "{\"name\":\"tiny\",\"version\":\"1.0.0\"}")]);
    let sum = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA512, &package);
    let sum = base64::engine::general_purpose::STANDARD.encode(sum.as_ref());
    let registry = naming_itself(move |url| {
        let metadata = format!(
            "{{\"name\":\"tiny\",\"dist-tags\":{{\"latest\":\"1.0.0\"}},\"versions\":{{\"1.0.0\":{{\"name\":\"tiny\",\
             \"version\":\"1.0.0\",\"dist\":{{\"tarball\":\"{url}/tiny/-/tiny-1.0.0.tgz\",\"integrity\":\"sha512-{sum}\"}}}}}}}}"
        );
        vec![
            ("/tiny".to_owned(), metadata.into_bytes()),
            ("/tiny/-/tiny-1.0.0.tgz".to_owned(), package.clone()),
        ]
    });
    let user = User::of(&registry);
    let home = user.home();
    fs::write(home.join(".npmrc"), format!("registry={}/\naudit=false\nfund=false\n", registry.url()))
        .expect("written");
    fs::write(home.join("package.json"), "{\"dependencies\":{\"tiny\":\"1\"}}").expect("written");
    for _ in 0..2 {
        for path in [".npm", "node_modules"] {
            let _ = fs::remove_dir_all(home.join(path));
        }
        user.run(&[], &["npm", "install", "--silent", "--no-update-notifier"]).succeeded();
        assert!(home.join("node_modules/tiny/package.json").exists());
        assert_eq!(registry.count(), 2);
    }
}
