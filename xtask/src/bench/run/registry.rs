//! The registries of the bench: synthetic packages in a temporary folder, which nginx serves over https.

use super::super::peers::NGINX;
use super::relay;
use crate::program::certify;
use anyhow::{Context, Result, bail};
use larder_testkit::programs::find;
use larder_testkit::{Process, free_ports, output};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The numbers of packages, and the versions that the document of one of npm has.
const NPM: usize = 500;
const WHEELS: usize = 200;
const VERSIONS: usize = 20;

/// Files that a client downloads one set after the other: first the indexes, then what they name.
pub(super) struct Workload {
    pub(super) name: &'static str,
    /// Files with URLs, in the form of curl's own configuration.
    pub(super) steps: Vec<PathBuf>,
    pub(super) bytes: u64,
}

/// The server, its folder, and the files that it has.
pub(super) struct Registry {
    pub(super) certificate: String,
    pub(super) workloads: Vec<Workload>,
    /// The port of the server itself, without the line before it.
    pub(super) port: u16,
    folder: TempDir,
    _server: Process,
}

impl Registry {
    /// Makes packages, and a layer of `layer` bytes, and serves them behind a relay. Fails if a file cannot be written,
    /// or nginx does not start.
    pub(super) fn start(layer: u64) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder")?;
        let [cert, key, _] = certify(folder.path())?;
        let [port] = free_ports();
        let site = Site {
            root: folder.path().join("site"),
            url: format!("https://localhost:{}", relay::start(port)?),
        };
        let workloads = vec![site.npm()?, site.wheels()?, site.layer(layer)?];
        let config = include_str!("nginx.conf");
        let values = [
            ("@PORT@", &*port.to_string()),
            ("@FOLDER@", &folder.path().to_string_lossy()),
            ("@CERT@", &cert),
            ("@KEY@", &key),
        ];
        let config = values.iter().fold(config.to_owned(), |text, (name, value)| text.replace(name, value));
        let place = folder.path().join("nginx.conf");
        fs::write(&place, config)?;
        let nginx = find(NGINX.program).context("nginx is not installed")?;
        let mut command = Command::new(nginx);
        command.arg("-c").arg(&place).arg("-e").arg(folder.path().join("error.log"));
        let mut server = Process::start(command.stdin(Stdio::null()).stderr(Stdio::null()))?;
        server.listens(&[("127.0.0.1", port)], Duration::from_secs(10)).context("nginx")?;
        Ok(Self { certificate: cert, workloads, port, folder, _server: server })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the folder with the authority of `larder run`.
    pub(super) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }
}

/// The files of the server, and its URL.
struct Site {
    root: PathBuf,
    url: String,
}

impl Site {
    fn npm(&self) -> Result<Workload> {
        let path = |number: usize| format!("npm/p{number}/-/p{number}-1.0.{}.tgz", VERSIONS - 1);
        let files = self.files(NPM, 2 << 10, path)?;
        for (number, sum) in sums("sha1sum", &self.root, &files)?.iter().enumerate() {
            let mut document = format!("{{\"name\":\"p{number}\",\"versions\":{{");
            for version in 0..VERSIONS {
                let comma = if version == 0 { "" } else { "," };
                // Writing to a string does not fail.
                let _ = write!(
                    document,
                    "{comma}\"1.0.{version}\":{{\"name\":\"p{number}\",\"version\":\"1.0.{version}\",\"dist\":{{\"shasum\":\"{sum}\",\
                     \"tarball\":\"{}/npm/p{number}/-/p{number}-1.0.{version}.tgz\"}}}}",
                    self.url
                );
            }
            self.write(&format!("npm/p{number}.json"), &(document + "}}"))?;
        }
        let documents: Vec<_> = (0..NPM).map(|number| format!("npm/p{number}")).collect();
        self.workload("500 npm packages", &[documents, files])
    }

    fn wheels(&self) -> Result<Workload> {
        let file = |number: usize| format!("w{number}-1.0-py3-none-any.whl");
        let files = self.files(WHEELS, 8 << 10, |number| format!("wheels/{}", file(number)))?;
        for (number, sum) in sums("sha256sum", &self.root, &files)?.iter().enumerate() {
            let name = file(number);
            let page = format!("<a href=\"{}/wheels/{name}#sha256={sum}\">{name}</a>\n", self.url);
            self.write(&format!("simple/w{number}/index.html"), &page)?;
        }
        let pages: Vec<_> = (0..WHEELS).map(|number| format!("simple/w{number}/")).collect();
        self.workload("200 wheels", &[pages, files])
    }

    fn layer(&self, length: u64) -> Result<Workload> {
        self.random("layer", length)?;
        let sum = sums("sha256sum", &self.root, &["layer".to_owned()])?.remove(0);
        let name = format!("v2/layers/blobs/sha256:{sum}");
        fs::create_dir_all(self.root.join("v2/layers/blobs"))?;
        fs::rename(self.root.join("layer"), self.root.join(&name))?;
        self.workload("a layer", &[vec![name]])
    }

    /// Makes files of 1 to 128 times `least` bytes, and returns their paths.
    fn files(&self, count: usize, least: u64, path: impl Fn(usize) -> String) -> Result<Vec<String>> {
        let file = |number: usize| {
            let path = path(number);
            self.random(&path, least << (number % 8))?;
            Ok(path)
        };
        (0..count).map(file).collect()
    }

    fn random(&self, path: &str, length: u64) -> Result<()> {
        let path = self.root.join(path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let mut bytes = File::open("/dev/urandom")?.take(length);
        io::copy(&mut bytes, &mut File::create(path)?).context("cannot write packages")?;
        Ok(())
    }

    fn write(&self, path: &str, text: &str) -> Result<()> {
        let path = self.root.join(path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, text).context("cannot write an index")
    }

    /// Writes the steps of a client.
    fn workload(&self, name: &'static str, steps: &[Vec<String>]) -> Result<Workload> {
        let mut workload = Workload { name, steps: Vec::new(), bytes: 0 };
        for (number, paths) in steps.iter().enumerate() {
            let place = self.root.join(format!("{}-{number}.curl", name.replace(' ', "-")));
            let mut file = io::BufWriter::new(File::create(&place)?);
            for path in paths {
                writeln!(file, "url = \"{}/{path}\"\noutput = \"/dev/null\"", self.url)?;
                workload.bytes += fs::metadata(self.root.join(path))
                    .ok()
                    .filter(fs::Metadata::is_file)
                    .map_or(0, |about| about.len());
            }
            file.flush()?;
            workload.steps.push(place);
        }
        Ok(workload)
    }
}

/// Returns the digests of files in `folder`, by a program of coreutils.
fn sums(program: &str, folder: &Path, files: &[String]) -> Result<Vec<String>> {
    let said = output(Command::new(program).args(files).current_dir(folder));
    let sums: Vec<_> = said.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    if sums.len() != files.len() {
        bail!("{program} has told {} digests of {} files", sums.len(), files.len());
    }
    Ok(sums)
}
