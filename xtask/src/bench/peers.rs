//! The compared servers: THE LIST, and the fair, tuned configuration of each.
//!
//! Fair means: one worker, no log, the whole cache in memory, persistent connections to the origin.

use crate::packages::Package;
use crate::{cargo, root};
use anyhow::{Context, Result, anyhow, bail};
use larder_testkit::programs::find;
use std::fs;
use std::path::{Path, PathBuf};

/// The measured subject of a comparison of servers.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Subject {
    Hits,
    Misses,
    Memory,
}

/// The origin of a server's program.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Which {
    Floor,
    Larder,
    /// The program of the experiments.
    Lab,
    /// Thrift's own server, compiled by this bench.
    Thrift,
    Installed,
}

/// The parameters of a server: its folder, and the ports on 127.0.0.1.
pub(super) struct Setup<'a> {
    pub(super) folder: &'a Path,
    pub(super) port: u16,
    pub(super) admin: u16,
    pub(super) origin: u16,
}

/// The command that starts a server in the foreground: arguments after the program, and environment.
#[derive(Default)]
pub(super) struct Start {
    pub(super) arguments: Vec<String>,
    pub(super) environment: Option<(&'static str, String)>,
}

/// A server that can be measured.
pub(super) struct Peer {
    pub(super) name: &'static str,
    pub(super) which: Which,
    /// The Debian package; none for programs that are built here.
    pub(super) package: Option<Package>,
    pub(super) suits: fn(Subject) -> bool,
    /// Whether `misses` measures it by default.
    pub(super) usual_for_misses: bool,
    /// Writes the configuration into the folder.
    pub(super) configure: fn(&Setup) -> Result<Start>,
}

pub(super) const FLOOR: Peer = Peer {
    name: "floor",
    which: Which::Floor,
    package: None,
    suits: |subject| subject == Subject::Hits,
    usual_for_misses: false,
    configure: floor,
};

pub(super) const NGINX: Package = Package { name: "nginx-light", program: "nginx", purpose: "a peer" };
pub(super) const TRAFFIC_SERVER: Package =
    Package { name: "trafficserver", program: "traffic_server", purpose: "a peer" };
pub(super) const HAPROXY: Package = Package { name: "haproxy", program: "haproxy", purpose: "a peer" };

/// Every server, in the order of the tables.
pub(super) static ALL: &[Peer] = &[
    FLOOR,
    Peer {
        name: "larder",
        which: Which::Larder,
        package: None,
        suits: |_| true,
        usual_for_misses: true,
        configure: larder,
    },
    Peer {
        name: "nginx",
        which: Which::Installed,
        package: Some(NGINX),
        suits: |subject| subject != Subject::Memory,
        usual_for_misses: true,
        configure: nginx,
    },
    Peer {
        name: "varnish",
        which: Which::Installed,
        package: Some(Package { name: "varnish", program: "varnishd", purpose: "a peer" }),
        suits: |_| true,
        usual_for_misses: false,
        configure: varnish,
    },
    Peer {
        name: "haproxy",
        which: Which::Installed,
        package: Some(HAPROXY),
        suits: |subject| subject != Subject::Memory,
        usual_for_misses: false,
        configure: haproxy,
    },
    Peer {
        name: "trafficserver",
        which: Which::Installed,
        package: Some(TRAFFIC_SERVER),
        suits: |subject| subject != Subject::Memory,
        usual_for_misses: false,
        configure: trafficserver,
    },
];

impl Peer {
    /// Returns a server that belongs to a separate bench.
    pub(super) const fn apart(
        name: &'static str,
        which: Which,
        package: Option<Package>,
        configure: fn(&Setup) -> Result<Start>,
    ) -> Self {
        Self { name, which, package, suits: |_| false, usual_for_misses: false, configure }
    }

    /// Whether its package is none of those that are `missing`.
    pub(super) fn is_here(&self, missing: &[&Package]) -> bool {
        self.package.as_ref().is_none_or(|package| !missing.contains(&package))
    }

    pub(super) fn configure(&self, setup: &Setup) -> Result<Start> {
        (self.configure)(setup)
    }

    /// Returns the program's path. Fails if it was removed since the search.
    pub(super) fn program(&self, programs: &Programs) -> Result<PathBuf> {
        match (self.which, &self.package) {
            (Which::Floor, _) => Ok(programs.folder.join("floor")),
            (Which::Larder, _) => Ok(programs.larder()),
            (Which::Lab, _) => Ok(programs.lab()),
            (Which::Thrift, _) => Ok(programs.thrift()),
            (Which::Installed, Some(package)) => {
                find(package.program).ok_or_else(|| anyhow!("`{}` is not found", package.program))
            }
            (Which::Installed, None) => bail!("`{}` has no package", self.name),
        }
    }
}

/// The locations of the builds.
pub(super) struct Programs {
    folder: PathBuf,
    larder: PathBuf,
}

impl Programs {
    /// Returns the location of an existing larder, without other programs.
    pub(super) fn given(larder: &Path) -> Self {
        let folder = larder.parent().map_or_else(PathBuf::new, Path::to_owned);
        Self { folder, larder: larder.to_owned() }
    }

    pub(super) fn larder(&self) -> PathBuf {
        self.larder.clone()
    }

    pub(super) fn lab(&self) -> PathBuf {
        self.folder.join("larder-lab")
    }

    pub(super) fn thrift(&self) -> PathBuf {
        self.folder.join("thrift-constant")
    }

    /// Returns the path of the load over TLS, which is built with the floor.
    pub(super) fn tls_load(&self) -> PathBuf {
        self.folder.join("tls-load")
    }
}

/// Returns the given program, or otherwise builds only the larder, optimised as shipped.
pub(super) fn program(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(given) = given {
        return given.canonicalize().with_context(|| given.display().to_string());
    }
    let larder: Vec<_> = ALL.iter().filter(|peer| peer.which == Which::Larder).collect();
    build(&larder, None).map(|programs| programs.larder())
}

/// Builds the chosen programs that are built here, optimised as shipped, except for a given larder.
pub(super) fn build(chosen: &[&Peer], larder: Option<&Path>) -> Result<Programs> {
    let package = |peer: &&Peer| match peer.which {
        Which::Floor => Some("bench"),
        Which::Larder if larder.is_none() => Some("larder"),
        Which::Lab => Some("larder-experiment"),
        Which::Larder | Which::Thrift | Which::Installed => None,
    };
    let packages: Vec<_> =
        chosen.iter().filter_map(package).flat_map(|package| ["--package", package]).collect();
    if !packages.is_empty() {
        // One command for all, so that they share their libraries.
        let status = cargo().args(["build", "--quiet", "--release"]).args(&packages).status();
        if !status.context("cannot start cargo")?.success() {
            bail!("`cargo build --release {}` failed", packages.join(" "));
        }
    }
    // This program is in `<target>/debug/`, for any location of the target folder.
    let own = std::env::current_exe().context("cannot find the target folder")?;
    let target = own.ancestors().nth(2).map_or_else(|| root().join("target"), Path::to_owned);
    let folder = target.join("release");
    let larder = match larder {
        Some(given) => program(Some(given))?,
        None => folder.join("larder"),
    };
    Ok(Programs { folder, larder })
}

pub(super) fn start(arguments: &[&str]) -> Start {
    Start { arguments: arguments.iter().map(|&word| word.to_owned()).collect(), environment: None }
}

/// Writes a configuration with the setup's values, and returns its path.
pub(super) fn write(setup: &Setup, name: &str, template: &str) -> Result<String> {
    let folder = setup.folder.to_string_lossy();
    let text = template
        .replace("@DIR@", &folder)
        .replace("@PORT@", &setup.port.to_string())
        .replace("@ORIGIN@", &setup.origin.to_string());
    let path = setup.folder.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.to_string_lossy().into_owned())
}

fn floor(setup: &Setup) -> Result<Start> {
    Ok(start(&[&format!("127.0.0.1:{}", setup.port)]))
}

pub(super) fn larder(setup: &Setup) -> Result<Start> {
    serve(setup, &["--stats", "none", "--memory", "1GiB"])
}

/// Returns the command of a larder with one worker and these options.
pub(super) fn serve(setup: &Setup, options: &[&str]) -> Result<Start> {
    let [listen, admin] = [setup.port, setup.admin].map(|port| format!("127.0.0.1:{port}"));
    let origin = format!("http://127.0.0.1:{}", setup.origin);
    let words = ["serve", "--listen", &listen, "--origin", &origin, "--admin", &admin, "--threads", "1"];
    Ok(start(&[&words, options].concat()))
}

/// Configures and starts larder in front of the origin, with these keys of the process and of the site.
pub(super) fn larder_of_site(setup: &Setup, process: &str, site: &str) -> Result<Start> {
    let text = format!(
        "{process}reverse.listen = \"127.0.0.1:{}\"\n[[site]]\norigin = \"http://127.0.0.1:{}\"\n{site}",
        setup.port, setup.origin
    );
    let config = write(setup, "larder.toml", &text)?;
    Ok(start(&["serve", "--config", &config, "--admin", "off", "--threads", "1", "--stats", "none"]))
}

fn nginx(setup: &Setup) -> Result<Start> {
    nginx_with(setup, "1g", NGINX_FRUGAL)
}

/// Saves nginx CPU time, but makes clients on a loopback wait 40 ms for the end of some bodies.
pub(super) const NGINX_FRUGAL: &str = "tcp_nopush on;";

/// Configures nginx with a cache of this size, and additional directives.
pub(super) fn nginx_with(setup: &Setup, size: &str, more: &str) -> Result<Start> {
    let template = include_str!("peers/nginx.conf").replace("@SIZE@", size).replace("@MORE@", more);
    let config = write(setup, "nginx.conf", &template)?;
    let folder = setup.folder.to_string_lossy();
    Ok(start(&["-c", &config, "-p", &folder, "-e", &format!("{folder}/error.log")]))
}

fn varnish(setup: &Setup) -> Result<Start> {
    let program = write(setup, "bench.vcl", include_str!("peers/varnish.vcl"))?;
    let listen = format!("127.0.0.1:{}", setup.port);
    let work = setup.folder.join("work").to_string_lossy().into_owned();
    // The log in shared memory cannot be switched off; the minimum size keeps it out of the memory figures.
    Ok(start(&[
        "-F",
        "-n",
        &work,
        "-a",
        &listen,
        "-f",
        &program,
        "-s",
        "malloc,1G",
        "-j",
        "none",
        "-T",
        "none",
        "-p",
        "thread_pools=1",
        "-p",
        "vsl_space=1M",
    ]))
}

pub(super) fn haproxy(setup: &Setup) -> Result<Start> {
    let config = write(setup, "haproxy.cfg", include_str!("peers/haproxy.cfg"))?;
    Ok(start(&["-db", "-f", &config]))
}

fn trafficserver(setup: &Setup) -> Result<Start> {
    trafficserver_with(setup, "")
}

/// Configures trafficserver, with additional lines of its map of URLs.
pub(super) fn trafficserver_with(setup: &Setup, more: &str) -> Result<Start> {
    for name in ["etc", "cache", "run", "log"] {
        fs::create_dir(setup.folder.join(name))?;
    }
    write(setup, "etc/records.config", include_str!("peers/records.config"))?;
    write(setup, "etc/remap.config", &format!("{more}map / http://127.0.0.1:@ORIGIN@/\n"))?;
    write(setup, "etc/storage.config", "@DIR@/cache 256M\n")?;
    write(setup, "etc/plugin.config", "")?;
    write(setup, "etc/ip_allow.yaml", include_str!("peers/ip_allow.yaml"))?;
    let layout = write(setup, "runroot.yaml", include_str!("peers/runroot.yaml"))?;
    Ok(Start { arguments: Vec::new(), environment: Some(("TS_RUNROOT", layout)) })
}
