//! `larder serve`: binds, prints its addresses, and turns signals into reloads, upgrades, drains and stops.

pub(super) mod logging;
mod watchdog;
mod watched_files;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use larder_proxy::base::notify;
use larder_proxy::settings::Role;
use larder_proxy::{Arrival, Settings};
use larder_server::{ConfigFile, Control, Front, GivenSockets, Predecessor, Server};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2, SIGXFSZ};
use signal_hook::iterator::Signals;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tracing::{error, info, warn};

use self::watched_files::WatchedFiles;
use crate::cli::units::counted;
use crate::cli::{Failure, WatchAllocator, open_files, say};
use crate::config::flags::{Flags, Run};
use crate::config::self_signed::{self, SelfSigned};
use crate::config::{self, ConfigError, names, places, session_key};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder serve
      a forward proxy on 127.0.0.1:3128; try: curl -x http://127.0.0.1:3128 http://example.com/
  larder serve --listen 127.0.0.1:8080 --origin http://127.0.0.1:3000
      a cache in front of a server
  larder serve --origin http://127.0.0.1:3000 --tls-self-signed
      the same over TLS, too, with a self-signed certificate for testing
  larder serve --line 127.0.0.1:3130
      also a listener for the line protocol; try: echo http://example.com/ | nc 127.0.0.1 3130
  larder serve --config larder.toml --memory 4GiB
      the config in the file, with more memory

Signals: HUP reads the file again, USR2 upgrades like larder upgrade, TERM and INT finish the requests in progress, a
second one stops at once.
LARDER_LOG=debug shows more on standard error.";

/// Serves until told to stop, or until a successor serves. Takes over from `predecessor`, if there is one.
pub(crate) fn run(
    run: &Run,
    predecessor: Option<Predecessor>,
    watch_allocator: WatchAllocator,
) -> Result<(), Failure> {
    let given = GivenSockets::from_environment();
    logging::start("info", logging::FILTERS).map_err(Failure::Refused)?;
    open_files::raise();
    let files = WatchedFiles::default();
    let source = ConfigSource { run: run.clone(), files: files.clone() };
    let settings = source.load().map_err(|error| Failure::Refused(error.to_string()))?;
    let self_signed = self_signed::provide(&settings).map_err(Failure::Failed)?;
    let of_admin = self_signed::provide_for_admin(&settings).map_err(Failure::Failed)?;
    let signals = Signals::new([SIGHUP, SIGINT, SIGTERM, SIGUSR2, SIGXFSZ])
        .map_err(|error| Failure::Failed(format!("cannot listen to signals: {error}")))?;
    let succeeds = predecessor.is_some();
    let mut server = Server::bind(settings.clone(), predecessor, given)
        .map_err(|error| Failure::Failed(error.to_string()))?;
    if let Some(path) = &run.config {
        server.compare_with(config_file(path, &run.flags));
    }
    watch_allocator(Arc::clone(server.store()))
        .map_err(|error| Failure::Failed(format!("cannot watch the allocator: {error}")))?;
    announce(&server, &settings, of_admin.as_ref());
    if let Some(SelfSigned { file, fingerprint }) = self_signed {
        say(&format!("certificate {}, SHA-256 {fingerprint}", file.display()));
        say(&format!("to try it: {}", trusting(&file, &server, &settings)));
    }
    let serving = status(&server);
    let (sender, control) = unbounded_channel();
    let at_start = serving.clone();
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || obey(signals, &settings, &source, &serving, &sender))
        .map_err(|error| Failure::Failed(format!("cannot watch signals: {error}")))?;
    files.start().map_err(|error| Failure::Failed(format!("cannot watch files: {error}")))?;
    watchdog::answer(server.liveness())
        .map_err(|error| Failure::Failed(format!("cannot answer the watchdog: {error}")))?;
    // The kernel queues connections from here on. A successor is not the main process yet: its predecessor tells when.
    if !succeeds {
        notify::ready(&at_start);
    }
    server.run(control, notify::main_pid).map_err(|error| Failure::Failed(error.to_string()))
}

/// Returns what this process does, for the service manager.
fn status(server: &Server) -> String {
    let addresses = server.addresses().into_iter().map(|(_, address)| address.to_string());
    let places: Vec<_> = addresses.chain(server.sockets().map(places::show_socket)).collect();
    format!("serving {}", places.join(", "))
}

/// The arguments and the files from which the settings are read, at the start and after each SIGHUP.
struct ConfigSource {
    run: Run,
    files: WatchedFiles,
}

impl ConfigSource {
    /// Returns the settings at present; warnings go to the log.
    fn load(&self) -> Result<Settings, ConfigError> {
        let mut settings = self.files.load(|| config::load(self.run.config.as_deref(), &self.run.flags))?;
        if let Err(why) = session_key::provide(&mut settings) {
            warn!("{why}");
        }
        config::warnings(&settings).iter().for_each(|warning| warn!("{warning}"));
        open_files::plan(&mut settings).map_err(|problem| ConfigError { problems: vec![problem] })?;
        Ok(settings)
    }

    /// Returns the settings at present; `None`, with the reasons in the log, to keep the old ones.
    fn reload(&self, running: &Settings) -> Option<Settings> {
        match self.load() {
            Ok(mut settings) => {
                for difference in config::needs_restart(running, &settings) {
                    warn!("{difference}");
                }
                settings.keys = settings.keys.reloaded(&running.keys);
                Some(settings)
            }
            Err(wrong) => {
                for problem in wrong.problems {
                    error!("{problem}");
                }
                error!("the old config stays in force");
                None
            }
        }
    }
}

/// Returns the file at `path`, to be compared under the same flags and environment with what runs.
fn config_file(path: &Path, flags: &Flags) -> ConfigFile {
    let (path, flags) = (path.to_owned(), flags.clone());
    ConfigFile::new(path.clone(), move || match config::load(Some(&path), &flags) {
        Ok(settings) => Ok(settings.keys),
        Err(wrong) => Err(wrong.problems),
    })
}

/// Turns signals into commands for the server, for as long as the process lives. `serving` is its ordinary status for
/// the service manager.
fn obey(
    mut signals: Signals,
    running: &Settings,
    source: &ConfigSource,
    serving: &str,
    sender: &UnboundedSender<Control>,
) {
    let mut draining = false;
    // If the server has ended, the process ends too, and the command is not needed.
    let tell = |control| drop(sender.send(control));
    for signal in signals.forever() {
        match signal {
            // The write also fails, with the error that the file is too large.
            SIGXFSZ => {}
            SIGHUP => {
                notify::reloading();
                let settings = source.reload(running);
                let fault = if settings.is_none() {
                    "; the config has errors, so the old one is in force"
                } else {
                    ""
                };
                tell(settings.map_or(Control::Reopen, |settings| Control::Reload(Box::new(settings))));
                notify::ready(&format!("{serving}{fault}"));
            }
            SIGUSR2 => tell(Control::Upgrade),
            _ if draining => tell(Control::Stop),
            _ => {
                info!("finishing the requests in progress; a second signal stops at once");
                notify::stopping("finishing the requests in progress");
                draining = true;
                tell(Control::Drain);
            }
        }
    }
}

fn announce(server: &Server, settings: &Settings, of_admin: Option<&SelfSigned>) {
    let addresses = server.addresses();
    for (front, address) in &addresses {
        let name = match front {
            Front::Http(arrival) => names::front_name(arrival.role, arrival.tls).to_owned(),
            Front::Door { door, tls } => names::door_name(*door, *tls),
            Front::Peer { tls } => if *tls { "peers, TLS" } else { "peers" }.to_owned(),
        };
        say(&format!("listening on {address} ({name})"));
    }
    for path in server.sockets() {
        let name = names::front_name(Role::Reverse, false);
        say(&format!("listening on {} ({name})", places::show_socket(path)));
    }
    if let Some(admin) = server.admin() {
        let scheme = if settings.admin_tls.is_some() { "https" } else { "http" };
        say(&format!("admin on {scheme}://{}/", reachable(admin)));
    }
    if let Some(SelfSigned { file, fingerprint }) = of_admin {
        say(&format!("admin certificate {}, SHA-256 {fingerprint}", file.display()));
    }
    if let Some(intercept) = &settings.intercept {
        let (hosts, file) = (intercept.hosts.len() as u64, intercept.authority.cert.display());
        say(&format!("intercepting {}, for clients that trust {file}", counted(hosts, "host", "hosts")));
    }
    if let Some(place) = server.statistics() {
        say(&format!("statistics in {place}"));
    }
    if let Some((front, address)) = addresses.first() {
        say(&format!("try: {}", example(*front, *address, settings)));
    } else if let Some(path) = server.sockets().next() {
        let host = settings.sites.first().and_then(|site| site.hosts.first());
        let host = host.map_or_else(|| "localhost".to_owned(), |host| host.replacen('*', "www", 1));
        let (_, below) = first_site(settings);
        say(&format!("try: curl -i --unix-socket {} http://{host}{below}", path.display()));
    }
}

/// Returns a command that sends a request to this listener.
fn example(front: Front, address: SocketAddr, settings: &Settings) -> String {
    let address = reachable(address);
    let scheme = |tls| if tls { "https" } else { "http" };
    match front {
        Front::Http(Arrival { role: Role::Forward, tls }) => {
            format!("curl -x {}://{address} http://example.com/", scheme(tls))
        }
        Front::Http(Arrival { tls, .. }) => {
            let (host, path) = first_site(settings);
            format!("curl -i {host}{}://{address}{path}", scheme(tls))
        }
        Front::Peer { tls } => format!("curl -i {}://{address}/", scheme(tls)),
        Front::Door { door, .. } => {
            format!("larder fetch http://example.com/ --via {} --server {address}", door.name())
        }
    }
}

/// Returns curl's option for a request to the first site, and the site's path.
fn first_site(settings: &Settings) -> (String, String) {
    let site = settings.sites.first();
    let host = site.and_then(|site| site.hosts.first());
    let host = host.map(|host| format!("-H 'Host: {}' ", host.replacen('*', "www", 1)));
    (host.unwrap_or_default(), site.map_or_else(|| "/".to_owned(), |site| site.path.to_string()))
}

/// Returns a command that trusts the self-signed certificate in `file`, for the first listener with TLS.
fn trusting(file: &Path, server: &Server, settings: &Settings) -> String {
    let file = file.display();
    let over_tls = |(front, address): (Front, SocketAddr)| match front {
        Front::Http(Arrival { role, tls: true }) => Some((role, address.port())),
        _ => None,
    };
    match server.addresses().into_iter().find_map(over_tls) {
        Some((Role::Reverse, port)) => {
            let (host, path) = first_site(settings);
            format!("curl -i --cacert {file} {host}https://localhost:{port}{path}")
        }
        Some((Role::Forward, port)) => {
            format!("curl --proxy-cacert {file} -x https://localhost:{port} http://example.com/")
        }
        None => format!("curl --cacert {file} ..."),
    }
}

/// Returns the address at which a client on this machine reaches a listener of `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => (Ipv4Addr::LOCALHOST, address.port()).into(),
        IpAddr::V6(ip) if ip.is_unspecified() => (Ipv6Addr::LOCALHOST, address.port()).into(),
        _ => address,
    }
}
