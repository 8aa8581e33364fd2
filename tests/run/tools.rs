//! Tools that install packages: each installs the same without Larder, in a first run, in a second one, and through a tunnel;
//! and nothing of a forged package.

use std::path::Path;
use std::process::{Command, Stdio};

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use larder_testkit::{Client, PATIENCE, Process, free, not_tested, output, programs};
use tempfile::TempDir;

use crate::checksums::database;
use crate::shelf::{ANY, Shelf, archive, hex, sha256, zip};
use crate::{User, of_tools};

/// Whether a tool leaves a lockfile, which is the same without Larder.
#[derive(Clone, Copy, PartialEq)]
enum Lockfile {
    Left,
    None,
}

/// Runs `script`, which has to print its lockfile or what it has downloaded, in one new environment after the other.
fn installs(program: &str, lockfile: Lockfile, shelf: &Shelf, script: &str) {
    if programs::find(program).is_none() && !of_tools(program).is_file() {
        return not_tested(program);
    }
    let user = User::of(&shelf.registry);
    let script = script.replace("$URL", &shelf.url);
    let script = format!(
        "rm -rf new; mkdir new; cd new; export HOME=$PWD XDG_CACHE_HOME=$PWD/.cache XDG_DATA_HOME=$PWD/.data\n{script}"
    );
    let intercepted = ["--host", shelf.host()];
    shelf.forge(true);
    // It fails, and so does another client that does not look at digests.
    let others =
        shelf.contents.iter().map(|path| format!("curl -sS -o forged {}{path} && exit 9\n", shelf.url));
    std::fs::write(user.home().join("script"), &script).expect("written");
    let forged = format!("sh -e script && exit 8\n{}exit 7", others.collect::<String>());
    let run = user.run(&intercepted, &["sh", "-c", &forged]);
    assert_eq!(run.code(), 7, "{program}: {}{}", run.said(), run.told());
    for path in &shelf.contents {
        let told = format!("{path} is refused: the content has the digest ");
        assert!(run.told().contains(&told), "{program}: {}", run.told());
    }
    let refused = run.number("refused");
    assert!(refused > shelf.contents.len() as u64, "{refused} {}", run.told());
    assert!(run.told().contains(&format!(", {refused} with a wrong digest, ")), "{}", run.told());
    shelf.forge(false);
    let direct = (lockfile == Lockfile::Left).then(|| user.directly(&script));
    let before = shelf.downloads();
    let first = user.run(&intercepted, &["sh", "-ec", &script]).succeeded();
    let locked = direct.unwrap_or_else(|| first.said());
    assert!(locked.len() > 10, "{program} has printed nothing: {locked}");
    let count = shelf.contents.len();
    assert_eq!(
        (first.said(), shelf.downloads() - before),
        (locked.clone(), count),
        "{program}: {}",
        first.told()
    );
    let asked = shelf.registry.count();
    let second = user.run(&intercepted, &["sh", "-ec", &script]).succeeded();
    assert_eq!(
        (second.said(), shelf.downloads() - before),
        (locked.clone(), count),
        "{program}: {}",
        second.told()
    );
    assert!(second.number("hits") >= count as u64, "{program}: {}", second.told());
    let for_metadata = shelf.registry.count() - asked;
    assert!(for_metadata <= 3, "{program} asked {for_metadata} times: {}", second.told());
    assert_eq!(user.tunnelled(shelf.host(), &script), locked, "{program}");
    assert!(shelf.downloads() - before > count, "{program}");
}

const PACKAGE: &str = "{\"name\":\"tiny\",\"version\":\"1.0.0\"}";
const TARBALL: &str = "/tiny/-/tiny-1.0.0.tgz";

/// Starts verdaccio, which keeps its package in a directory, and a registry over TLS before it.
fn verdaccio() -> (Process, TempDir, Shelf) {
    let folder = tempfile::tempdir().expect("a directory");
    let address = free();
    let config = "storage: ./storage\nuplinks: {}\npackages: {'**': {access: $all, publish: $all}}\nlog: {type: stdout, level: error}\n";
    std::fs::write(folder.path().join("config.yaml"), config).expect("written");
    let mut server = Command::new(of_tools("verdaccio"));
    server.args(["-c", "config.yaml", "-l", &address.to_string()]).current_dir(folder.path());
    let server = Process::start(server.stdout(Stdio::null()).stderr(Stdio::null()));
    let mut server = server.expect("verdaccio starts");
    server.listens(&[address], PATIENCE).expect("verdaccio listens");
    let package = archive("package", &[("package.json", PACKAGE)]);
    let sum = STANDARD.encode(digest::digest(&digest::SHA512, &package).as_ref());
    let attached = serde_json::json!({"content_type": "application/octet-stream", "data": STANDARD.encode(&package),
        "length": package.len()});
    let version = serde_json::json!({"name": "tiny", "version": "1.0.0", "dist": {"integrity": format!("sha512-{sum}"),
        "shasum": hex(&digest::SHA1_FOR_LEGACY_USE_ONLY, &package), "tarball": format!("http://{address}{TARBALL}")}});
    let document = serde_json::json!({"_id": "tiny", "name": "tiny", "dist-tags": {"latest": "1.0.0"},
        "versions": {"1.0.0": version}, "_attachments": {"tiny-1.0.0.tgz": attached}});
    let published = format!("PUT /tiny\nContent-Type: application/json\n\n{document}");
    assert_eq!(Client::to(address).ask(&published).status, 201);
    (server, folder, Shelf::before("localhost", &[TARBALL.to_owned()], address))
}

#[test]
fn npm_pnpm_and_yarn() {
    if !of_tools("verdaccio").is_file() {
        return not_tested("verdaccio, which cargo x test installs,");
    }
    let (_server, _folder, shelf) = verdaccio();
    let make = "printf '{\"dependencies\":{\"tiny\":\"1\"}}' > package.json\n";
    for (program, install) in [
        (
            "npm",
            "npm install --loglevel error --no-audit --no-fund --no-update-notifier --fetch-retries 0 --registry $URL >&2\ncat package-lock.json",
        ),
        ("pnpm", "pnpm install --reporter silent --fetch-retries 0 --registry $URL\ncat pnpm-lock.yaml"),
        ("yarn", "yarn install --silent --non-interactive --no-progress --registry $URL\ncat yarn.lock"),
    ] {
        installs(
            program,
            Lockfile::Left,
            &shelf,
            &format!("{make}{install}\ntest -e node_modules/tiny/package.json"),
        );
    }
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

/// A simple index of Python with a wheel.
fn wheels() -> Shelf {
    let (wheel, path) = (zip(WHEEL), "/simple/tiny/tiny-1.0-py3-none-any.whl");
    let page = format!("<a href=\"$URL{path}#sha256={}\">tiny-1.0-py3-none-any.whl</a>", sha256(&wheel));
    Shelf::of("localhost", &[path], vec![("/simple/tiny/".into(), page.into()), (path.into(), wheel)])
}

#[test]
fn pip() {
    let script = "/usr/bin/python3 -m pip install --no-cache-dir -q --retries 0 --disable-pip-version-check \
         --root-user-action=ignore --target site --report report.json --index-url $URL/simple/ tiny\ncat report.json site/tiny.py";
    installs("/usr/bin/python3", Lockfile::Left, &wheels(), script);
}

#[test]
fn uv() {
    let script = "printf '[project]\\nname = \"p\"\\nversion = \"1\"\\nrequires-python = \">=3.8\"\\ndependencies = [\"tiny\"]\\n\
         [tool.uv]\\nindex-url = \"$URL/simple/\"\\n' > pyproject.toml\n\
         UV_HTTP_RETRIES=0 uv sync -q --no-cache --no-install-project --python /usr/bin/python3\ncat uv.lock";
    installs("uv", Lockfile::Left, &wheels(), script);
}

#[test]
fn go() {
    const GO_MOD: &str = "module tiny.test/tiny\n";
    const FILES: &[(&str, &str)] =
        &[("tiny.test/tiny@v1.0.0/go.mod", GO_MOD), ("tiny.test/tiny@v1.0.0/tiny.go", "package tiny\n")];
    let info = "{\"Version\":\"v1.0.0\",\"Time\":\"2020-01-01T00:00:00Z\"}";
    let of = |ending: &str| format!("/tiny.test/tiny/@v/{ending}");
    let (key, mut files) = database("tiny.test/tiny", "v1.0.0", FILES, GO_MOD);
    files.extend([
        (of("list"), b"v1.0.0\n".into()),
        (of("v1.0.0.info"), info.into()),
        (of("v1.0.0.mod"), GO_MOD.into()),
        (of("v1.0.0.zip"), zip(FILES)),
    ]);
    let shelf = Shelf::of(ANY, &[&of("v1.0.0.mod"), &of("v1.0.0.zip")], files);
    // It asks for the digests after the content. So a forgery is known from the second time on.
    let script = format!(
        "export GOPROXY=$URL GOSUMDB={key} GOTOOLCHAIN=local GOFLAGS=-modcacherw GOENV=off GOPATH=$PWD/go \
         GOCACHE=$PWD/go/cache\ngo mod init p.test/p 2>&1\n\
         go get tiny.test/tiny || go get tiny.test/tiny\ncat go.sum"
    );
    installs("go", Lockfile::Left, &shelf, &script);
}

#[test]
fn cargo() {
    let manifest = "[package]\nname = \"tiny\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    let package = archive("tiny-1.0.0", &[("Cargo.toml", manifest), ("src/lib.rs", "")]);
    let line = serde_json::json!({"name": "tiny", "vers": "1.0.0", "deps": [], "cksum": sha256(&package), "features": {},
        "yanked": false});
    let content = "/crates/tiny/1.0.0/download";
    let shelf = Shelf::of(
        "localhost",
        &[content],
        vec![
            ("/index/config.json".into(), b"{\"dl\":\"$URL/crates\"}".into()),
            ("/index/ti/ny/tiny".into(), format!("{line}\n").into()),
            (content.into(), package),
        ],
    );
    let toolchain = Path::new(env!("CARGO")).parent().expect("a folder").display();
    let script = format!(
        "mkdir src && : > src/lib.rs\nexport CARGO_HOME=$PWD/cargo CARGO_NET_RETRY=0 PATH={toolchain}:$PATH\n\
         printf '[package]\\nname = \"p\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n[dependencies]\\ntiny = \"1\"\\n' > Cargo.toml\n\
         cargo fetch -q --config 'source.crates-io.replace-with=\"local\"' --config 'source.local.registry=\"sparse+$URL/index/\"'\n\
         cat Cargo.lock"
    );
    installs("cargo", Lockfile::Left, &shelf, &script);
}

#[test]
fn gem_and_bundler() {
    let folder = tempfile::tempdir().expect("a directory");
    // The specification is what `gem` reads before the gem.
    let make = "printf \"Gem::Specification.new { |s| s.name = 'tiny'; s.version = '1.0.0'; s.summary = 't'; s.authors = ['a']; \
        s.files = [] }\" > tiny.gemspec; mkdir gems; gem build --silent -o gems/tiny-1.0.0.gem tiny.gemspec 2>&1; \
        ruby -e 'spec = Gem::Package.new(ARGV[0]).spec; File.binwrite(ARGV[1], Gem.deflate(Marshal.dump(spec)))' -rrubygems/package \
        gems/tiny-1.0.0.gem tiny.rz";
    if programs::find("gem").is_none() {
        return not_tested("gem");
    }
    output(Command::new("sh").args(["-ec", make]).current_dir(folder.path()).env("HOME", folder.path()));
    let read = |path: &str| std::fs::read(folder.path().join(path)).expect("a file");
    let (gem, specification) = ("/gems/tiny-1.0.0.gem", "/quick/Marshal.4.8/tiny-1.0.0.gemspec.rz");
    let info = format!("---\n1.0.0 |checksum:{}\n", sha256(&read(&gem[1..])));
    let versions = format!("created_at: 2020-01-01T00:00:00Z\n---\ntiny 1.0.0 {}\n", md5(&info));
    let shelf = Shelf::of(
        "localhost",
        &[gem],
        vec![
            ("/".into(), Vec::new()),
            ("/versions".into(), versions.into()),
            ("/info/tiny".into(), info.into()),
            (specification.into(), read("tiny.rz")),
            (gem.into(), read(&gem[1..])),
        ],
    );
    let script = "export GEM_HOME=$PWD/gems BUNDLE_PATH=$PWD/bundle BUNDLE_RETRY=0 BUNDLE_SILENCE_ROOT_WARNING=1\n\
         printf \"source '$URL'\\ngem 'tiny'\\n\" > Gemfile\n\
         gem install --silent --no-document --clear-sources --source $URL tiny\nbundle install --quiet\ncat Gemfile.lock";
    installs("bundle", Lockfile::Left, &shelf, script);
}

/// Returns the MD5 of a text, by which RubyGems notices changes.
fn md5(text: &str) -> String {
    let script = "import hashlib, sys; print(hashlib.md5(sys.argv[1].encode()).hexdigest(), end='')";
    output(Command::new("/usr/bin/python3").args(["-c", script, text]))
}

#[test]
fn maven() {
    const ABOUT: &str = "<groupId>t</groupId><artifactId>parent</artifactId><version>1.0</version>";
    let pom = |about: &str| format!("<project><modelVersion>4.0.0</modelVersion>{about}</project>");
    let parent = pom(&format!("{ABOUT}<packaging>pom</packaging>")).into_bytes();
    let file = "/t/parent/1.0/parent-1.0.pom";
    let sum = hex(&digest::SHA1_FOR_LEGACY_USE_ONLY, &parent);
    let shelf = Shelf::of(
        "localhost",
        &[file],
        vec![(file.into(), parent), (format!("{file}.sha1"), sum.into_bytes())],
    );
    let child = pom(&format!(
        "<parent>{ABOUT}<relativePath/></parent><artifactId>child</artifactId><packaging>pom</packaging>"
    ));
    // No plugin runs in this phase, so that nothing else is downloaded.
    let script = format!(
        "echo '{child}' > pom.xml\n\
         echo '<settings><mirrors><mirror><id>m</id><mirrorOf>*</mirrorOf><url>$URL</url></mirror></mirrors></settings>' > settings.xml\n\
         mvn -B -q -s settings.xml -Dmaven.repo.local=$PWD/m2 -Dmaven.wagon.http.retryHandler.count=0 validate\ncat m2{file}"
    );
    installs("mvn", Lockfile::None, &shelf, &script);
}

#[test]
fn dnf() {
    if !rustix::process::geteuid().is_root() {
        return not_tested("root, which dnf wants");
    }
    for program in ["rpmbuild", "createrepo_c", "dnf"] {
        if programs::find(program).is_none() {
            return not_tested(program);
        }
    }
    let folder = tempfile::tempdir().expect("a directory");
    let make = "printf 'Name: tiny\\nVersion: 1\\nRelease: 1\\nSummary: t\\nLicense: t\\nBuildArch: noarch\\n%%description\\n%%files\\n' \
         > tiny.spec; rpmbuild --quiet -bb --define \"_topdir $PWD/build\" --define \"_rpmdir $PWD\" tiny.spec; \
         createrepo_c -q --excludes 'build/*' .";
    output(Command::new("sh").args(["-ec", make]).current_dir(folder.path()).env("HOME", folder.path()));
    let package = "/noarch/tiny-1-1.noarch.rpm";
    let root = folder.path().to_owned();
    let shelf = Shelf::new("localhost", &[package.to_owned()], move |seen, _| {
        let content = std::fs::read(root.join(&seen.target[1..])).ok()?;
        Some((format!("Cache-Control: max-age=1000\nETag: \"{}\"", sha256(&content)), content))
    });
    // dnf reads no variable with certificates.
    let script = "printf '[main]\\nplugins=0\\ngpgcheck=0\\nreposdir=/none\\nvarsdir=/none\\n[tiny]\\nname=t\\nbaseurl=$URL\\n' > dnf.conf\n\
         dnf -q -y -c $PWD/dnf.conf --setopt=tiny.sslcacert=$CURL_CA_BUNDLE --installroot=$PWD/root --releasever=1 \
         --setopt=retries=1 --setopt=cachedir=$PWD/cache --setopt=logdir=$PWD --setopt=persistdir=$PWD/p install --downloadonly tiny \
         >/dev/null\nsha256sum cache/*/packages/tiny-1-1.noarch.rpm";
    installs("dnf", Lockfile::None, &shelf, script);
}
