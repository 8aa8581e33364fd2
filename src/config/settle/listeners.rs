//! The listeners for clients: their addresses, and whether the other keys suit them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use larder_proxy::settings::{Door, Listener, Role, UnixSockets};

use super::problems::Problems;
use crate::config::draft::{Draft, ListenAddress};
use crate::config::places::show_socket;

const REVERSE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
const REVERSE_TLS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8443);
const FORWARD_PROXY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3128);

/// The listeners for clients.
pub(super) struct Listeners {
    /// The listeners for HTTP at addresses.
    pub(super) http: Vec<Listener>,
    /// The listeners for sites at Unix sockets.
    pub(super) sockets: UnixSockets,
    /// The RPC listeners.
    pub(super) doors: Vec<(Door, SocketAddr)>,
}

impl Listeners {
    /// Returns the listeners of `draft`: those that it names, and the defaults of those that it does not name.
    pub(super) fn of(draft: &Draft) -> Self {
        let (mut reverse, mut paths) = (Vec::new(), Vec::new());
        for listen in draft.reverse_listen.iter().flatten() {
            match listen {
                ListenAddress::Address(address) => reverse.push(*address),
                ListenAddress::Socket(path) => paths.push(path.clone()),
            }
        }
        let default = |is_wanted: bool, address| if is_wanted { vec![address] } else { Vec::new() };
        let has_sites = !draft.sites.is_empty();
        if draft.reverse_listen.is_none() {
            reverse = default(has_sites, REVERSE);
        }
        let has_certificates = !draft.values.certificates.is_empty() || has_acme(draft);
        let reverse_tls = draft.reverse_listen_tls.clone();
        let reverse_tls = reverse_tls.unwrap_or_else(|| default(has_sites && has_certificates, REVERSE_TLS));
        let forward = draft.forward_listen.clone().unwrap_or_else(|| default(!has_sites, FORWARD_PROXY));
        let http = [
            (reverse, Role::Reverse, false),
            (reverse_tls, Role::Reverse, true),
            (forward, Role::Forward, false),
            (draft.forward_listen_tls.clone(), Role::Forward, true),
        ];
        let doors = [
            (Door::Thrift, &draft.thrift_listen),
            (Door::Onc, &draft.onc_listen),
            (Door::Line, &draft.line_listen),
        ];
        let listeners = |(addresses, role, tls): (Vec<_>, _, _)| {
            addresses.into_iter().map(move |address| Listener { address, role, tls })
        };
        Self {
            http: http.into_iter().flat_map(listeners).collect(),
            sockets: UnixSockets { paths, mode: draft.values.sockets.mode },
            doors: doors
                .into_iter()
                .flat_map(|(door, listen)| listen.iter().map(move |address| (door, *address)))
                .collect(),
        }
    }

    /// Returns the first address.
    pub(super) fn first(&self) -> Option<SocketAddr> {
        let http = self.http.first().map(|listener| listener.address);
        http.or_else(|| self.doors.first().map(|(_, address)| *address))
    }

    /// Whether there are listeners at Unix sockets.
    pub(super) fn has_sockets(&self) -> bool {
        !self.sockets.paths.is_empty()
    }

    /// Checks that the listeners, the sites, the certificates and the permitted clients suit each other.
    pub(super) fn check(&self, draft: &Draft, problems: &mut Problems<'_>) {
        self.check_sockets(problems);
        self.check_purposes(draft, problems);
        self.check_addresses(draft, problems);
        self.check_clients(draft, problems);
        self.check_certificates(draft, problems);
        self.check_sites_over_tls(draft, problems);
    }

    fn check_sockets(&self, problems: &mut Problems<'_>) {
        let paths = &self.sockets.paths;
        for (at, path) in paths.iter().enumerate() {
            if paths[..at].contains(path) {
                problems.add(&["reverse.listen"], &format!("reverse.listen has {} twice", show_socket(path)));
            }
        }
    }

    /// Checks that listeners for sites have a site, and sites a listener.
    fn check_purposes(&self, draft: &Draft, problems: &mut Problems<'_>) {
        let is_reverse = |listener: &Listener| listener.role == Role::Reverse;
        let has_reverse = self.has_sockets() || self.http.iter().any(is_reverse);
        match (has_reverse, draft.sites.first()) {
            (true, None) => {
                let is_only_tls = !self.has_sockets() && self.have_sites_only_tls();
                let key = if is_only_tls { "reverse.listen_tls" } else { "reverse.listen" };
                let text = match is_only_tls && draft.values.certificates.is_empty() {
                    true => {
                        "reverse.listen_tls needs an origin and a certificate: add a [[site]] and a [[tls]], or --origin URL with \
                         --tls-cert and --tls-key"
                    }
                    false => &format!("{key} needs an origin: add a [[site]], or --origin URL"),
                };
                problems.add(&[key, "site"], text);
            }
            (false, Some(site)) => {
                problems.add_to_site(site, "no listener serves this site: reverse.listen is empty");
            }
            _ if self.http.is_empty() && !self.has_sockets() && self.doors.is_empty() => {
                let text = "nothing listens: forward.listen is empty, and there is no [[site]]";
                problems.add(&["forward.listen", "site"], text);
            }
            _ => {}
        }
    }

    /// Checks that no two listeners need the same address.
    fn check_addresses(&self, draft: &Draft, problems: &mut Problems<'_>) {
        let http = self.http.iter().map(|listener| (http_key(listener), listener.address));
        let doors = self.doors.iter().map(|(door, address)| (door_key(*door), *address));
        let admin = draft.admin.map(|admin| ("admin", admin.address));
        let peers = draft.cluster.engine.as_ref().map(|_| ("cluster.listen", draft.cluster.listen));
        let all: Vec<_> = http.chain(doors).chain(admin).chain(peers).collect();
        for (at, (later, address)) in all.iter().enumerate() {
            for (earlier, other) in all[..at].iter().filter(|(_, other)| clash(*other, *address)) {
                let text = format!("{later} {address} and {earlier} {other} cannot both listen");
                problems.add(&[later, earlier], &text);
            }
        }
    }

    /// Checks that clients are listed for a listener on all addresses, which may be open to the internet.
    fn check_clients(&self, draft: &Draft, problems: &mut Problems<'_>) {
        let forward = self.http.iter().filter(|listener| listener.role == Role::Forward);
        let forward = forward.map(|listener| (http_key(listener), listener.address, "forward"));
        let doors = self.doors.iter().map(|(door, address)| (door_key(*door), *address, "doors"));
        for (key, address, table) in forward.chain(doors) {
            let clients = format!("{table}.clients");
            if address.ip().to_canonical().is_unspecified() && !draft.places.contains_key(&clients) {
                let text = format!(
                    "{key} {address} can be reached from every network: name its clients in [{table}], such as \
                     clients = [\"127.0.0.0/8\", \"192.168.0.0/16\"]"
                );
                problems.add(&[key, &clients], &text);
            }
        }
    }

    /// Checks that listeners for TLS have a certificate, and that certificates have such a listener.
    fn check_certificates(&self, draft: &Draft, problems: &mut Problems<'_>) {
        let doors =
            [(draft.values.doors.thrift_tls, "thrift.tls"), (draft.values.doors.line_tls, "line.tls")];
        let door = || doors.iter().find(|(is_on, _)| *is_on).map(|(_, key)| *key);
        let over_tls = self.http.iter().find(|listener| listener.tls).map(http_key).or_else(door);
        let is_for_admin = draft.admin.is_some_and(|admin| admin.tls);
        match (over_tls, draft.values.certificates.first()) {
            // A site is missing, too, and that error is reported with it.
            (Some("reverse.listen_tls"), None) if draft.sites.is_empty() && self.have_sites_only_tls() => {}
            (Some(_), None) if has_acme(draft) => {}
            (Some(key), None) => {
                let text = format!(
                    "{key} needs a certificate: add a [[tls]] with 'cert' and 'key', or --tls-cert and --tls-key, or acme to \
                     a [[site]]"
                );
                problems.add(&[key, "tls"], &text);
            }
            (None, Some(files)) if !is_for_admin => {
                let sites = match draft.sites.is_empty() {
                    true => "add a [[site]] or --origin URL, or set",
                    false => "set reverse.listen_tls,",
                };
                let line = format!(
                    "{}: no listener uses this certificate: {sites} forward.listen_tls, thrift.tls or line.tls, or begin \
                     admin with https://",
                    files.place
                );
                problems.add_of_tables(&["tls", "reverse", "forward", "thrift", "line"], line);
            }
            _ => {}
        }
    }

    /// Checks that sites which send clients to HTTPS can be reached there.
    fn check_sites_over_tls(&self, draft: &Draft, problems: &mut Problems<'_>) {
        if self.http.iter().any(|listener| listener.role == Role::Reverse && listener.tls) {
            return;
        }
        if let Some(site) = draft.sites.iter().find(|site| site.values.only_https) {
            problems
                .add_to_site(site, "https = \"redirect\" needs a listener for TLS: set reverse.listen_tls");
        }
        if let Some(site) = draft.sites.iter().find(|site| site.values.hsts.is_some())
            && draft.values.trust.proxies.is_empty()
        {
            let text = "hsts needs a listener for TLS, or a proxy that terminates it: set reverse.listen_tls or trust";
            problems.add_to_site(site, text);
        }
    }

    /// Whether all addresses of the sites use TLS.
    fn have_sites_only_tls(&self) -> bool {
        self.http.iter().filter(|listener| listener.role == Role::Reverse).all(|listener| listener.tls)
    }
}

/// Whether an authority issues certificates for a site.
fn has_acme(draft: &Draft) -> bool {
    draft.sites.iter().any(|site| site.acme.is_some())
}

/// Returns the key with the addresses of a listener for HTTP.
fn http_key(listener: &Listener) -> &'static str {
    match (listener.role, listener.tls) {
        (Role::Reverse, false) => "reverse.listen",
        (Role::Reverse, true) => "reverse.listen_tls",
        (Role::Forward, false) => "forward.listen",
        (Role::Forward, true) => "forward.listen_tls",
    }
}

/// Returns the key with the addresses of an RPC listener.
fn door_key(door: Door) -> &'static str {
    match door {
        Door::Thrift => "thrift.listen",
        Door::Onc => "onc.listen",
        Door::Line => "line.listen",
    }
}

/// Whether two sockets cannot be bound at the same time.
fn clash(one: SocketAddr, other: SocketAddr) -> bool {
    let overlap = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && one.is_ipv4() == other.is_ipv4() && overlap
}
