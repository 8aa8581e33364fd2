//! The values of a config with a special syntax: addresses, hosts, origins, tokens, policies, databases.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use http::uri::Authority;
use http::{HeaderName, Uri};
use ipnet::IpNet;
use larder_evict::Spec;
use larder_proxy::exchange::forwarded::is_dropped;
use larder_proxy::settings::{Door, HostHeader, PathPrefix, Role};
use larder_semantics::coding::MediaRange;

use super::draft::AdminAddress;
use super::draft::DatabasePlace;
use super::registries::WORD;
use crate::cli::words::{hint, nearest};

/// The word for the statistics database in the state directory.
const DEFAULT_DATABASE: &str = "auto";
/// The word for no statistics database.
pub(super) const NO_DATABASE: &str = "none";

/// Returns the name of an RPC listener in lists and logs.
pub(crate) fn door_name(door: Door, tls: bool) -> String {
    if tls { format!("{}, TLS", door.name()) } else { door.name().to_owned() }
}

/// Returns the name of a listener for HTTP in lists and logs.
pub(crate) fn front_name(role: Role, tls: bool) -> &'static str {
    match (role, tls) {
        (Role::Reverse, false) => "reverse",
        (Role::Reverse, true) => "reverse, TLS",
        (Role::Forward, false) => "forward",
        (Role::Forward, true) => "forward, TLS",
    }
}

/// Parses a media type, or a pattern of media types with a star.
pub(super) fn media_range(text: &str) -> Result<MediaRange, String> {
    MediaRange::parse(text).ok_or_else(|| {
        format!("{} is not a media type, such as 'text/html', 'text/*' or 'application/*+json'", quoted(text))
    })
}

/// Parses `ADDRESS:PORT`, where clients connect.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let port = |port: &str| port.parse::<u16>().is_ok();
        match text.rsplit_once(':') {
            Some(("" | "*", digits)) if port(digits) => format!(
                "{} is not an address with a port: write '0.0.0.0:{digits}' for all addresses of this machine, or \
                 '[::]:{digits}' for those of IPv6, too",
                quoted(text)
            ),
            Some((name, digits)) if port(digits) && name.eq_ignore_ascii_case("localhost") => format!(
                "{} is a name and not an address: write '127.0.0.1:{digits}' or '[::1]:{digits}'",
                quoted(text)
            ),
            _ => format!("{} is not an address with a port, such as '127.0.0.1:8080'", quoted(text)),
        }
    })
}

/// Parses an address, or a network such as `10.0.0.0/8`.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    let network = text.parse().ok().or_else(address);
    let network = network.ok_or_else(|| {
        format!("{} is neither an address nor a network such as '10.0.0.0/8'", quoted(text))
    })?;
    let whole = network.trunc();
    match whole == network {
        true => Ok(network),
        false => Err(format!("{}: a network of {} bits is '{whole}'", quoted(text), network.prefix_len())),
    }
}

/// Formats a network for [`network`].
pub(super) fn show_network(network: &IpNet) -> String {
    match network.prefix_len() == network.max_prefix_len() {
        true => network.addr().to_string(),
        false => network.to_string(),
    }
}

/// Parses an address, alone or as a URL, whose `https` means TLS.
pub(super) fn admin_address(text: &str) -> Result<AdminAddress, String> {
    let (tls, bare) = match text.split_once("://") {
        None => (false, text),
        Some(("http", rest)) => (false, rest),
        Some(("https", rest)) => (true, rest),
        Some((scheme, _)) => {
            return Err(format!("{}: scheme {} is neither http nor https", quoted(text), quoted(scheme)));
        }
    };
    let address = address(bare.strip_suffix('/').unwrap_or(bare))?;
    Ok(AdminAddress { address, tls })
}

/// Formats an address for [`admin_address`].
pub(super) fn show_admin_address(admin: &AdminAddress) -> String {
    let AdminAddress { address, tls } = admin;
    if *tls { format!("https://{address}") } else { address.to_string() }
}

/// Parses an address, or `off`.
pub(crate) fn admin(text: &str) -> Result<Option<AdminAddress>, String> {
    match text {
        "off" => Ok(None),
        _ => admin_address(text).map(Some).map_err(|error| format!("{error}, nor 'off'")),
    }
}

/// Parses a policy that can serve: one that does not need to know the future.
pub(crate) fn policy(text: &str) -> Result<Spec, String> {
    let spec = Spec::parse(text).map_err(|error| error.to_string())?;
    match spec.listing().is_offline {
        false => Ok(spec),
        true => {
            let name = spec.name();
            Err(format!("policy '{name}' needs future requests; it runs in larder simulate only"))
        }
    }
}

/// Parses the URL of an OpenTelemetry collector, and removes a slash at its end.
pub(super) fn collector(text: &str) -> Result<String, String> {
    let is_one = |uri: &Uri| {
        let host = uri.authority().filter(|authority| !authority.as_str().contains('@')).map(Authority::host);
        matches!(uri.scheme_str(), Some("http" | "https"))
            && host.is_some_and(|host| !host.is_empty())
            && uri.query().is_none()
    };
    match text.parse().ok().filter(is_one) {
        Some(_) => Ok(text.trim_end_matches('/').to_owned()),
        None => Err(format!("{} is not a collector such as 'http://127.0.0.1:4318'", quoted(text))),
    }
}

/// Parses a host of a site: a name, an address, or `*.` and a name; in lower case.
pub(crate) fn host(text: &str) -> Result<String, String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    if name == "*" {
        return Err("'*': leave 'hosts' out to take every host".to_owned());
    }
    let literal = name.starts_with('[') && name.ends_with(']');
    if name.contains("://") {
        return Err(format!("{}: write the name of the host alone, without http://", quoted(text)));
    }
    if !name.is_ascii() {
        return Err(format!("{}: write it in ASCII, such as xn--bcher-kva.example", quoted(text)));
    }
    if !literal && name.contains(':') {
        let is_address = name.parse::<Ipv6Addr>().is_ok();
        let what =
            if is_address { "an IPv6 address in brackets, such as [::1]" } else { "it without a port" };
        return Err(format!("{}: write {what}", quoted(text)));
    }
    let valid = match literal {
        true => name[1..name.len() - 1].parse::<Ipv6Addr>().is_ok(),
        false => name.strip_prefix("*.").unwrap_or(&name).split('.').all(is_label),
    };
    if valid { Ok(name) } else { Err(format!("{} is not a host name", quoted(text))) }
}

/// Parses a host whose tunnels are intercepted: as [`host`], or the word for public registries, or `*`.
pub(crate) fn intercepted(text: &str) -> Result<String, String> {
    if text == "*" || text == WORD {
        return Ok(text.to_owned());
    }
    host(text)
}

/// Whether every request for the host `later` also matches the host `earlier`.
pub(super) fn covers(earlier: &str, later: &str) -> bool {
    match earlier.strip_prefix('*') {
        Some(suffix) => {
            earlier == later || later.trim_start_matches('*').len() > suffix.len() && later.ends_with(suffix)
        }
        None => earlier == later,
    }
}

/// Parses the `Host` for the origin: `preserve`, `origin`, or a value with a port if there is one.
pub(super) fn host_header(text: &str) -> Result<HostHeader, String> {
    match text {
        "preserve" => return Ok(HostHeader::Preserve),
        "origin" => return Ok(HostHeader::Origin),
        _ => {}
    }
    if let Some(near) = nearest(text, ["preserve", "origin"]) {
        return Err(format!("unknown word {}; did you mean '{near}'?", quoted(text)));
    }
    match text.parse::<http::uri::Authority>() {
        Ok(authority) if !text.contains('@') && !authority.host().is_empty() => {
            Ok(HostHeader::Set(text.to_owned()))
        }
        _ => Err(format!("{} is neither 'preserve', nor 'origin', nor a host", quoted(text))),
    }
}

/// Formats a value for [`host_header`].
pub(super) fn show_host_header(host: &HostHeader) -> String {
    match host {
        HostHeader::Preserve => "preserve".to_owned(),
        HostHeader::Origin => "origin".to_owned(),
        HostHeader::Set(value) => value.clone(),
    }
}

/// Parses a token (RFC 9110 section 5.6.2), as in field names and in pseudonyms of `Via`.
pub(super) fn token(text: &str) -> Result<String, String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_token) {
        true => Ok(text.to_owned()),
        false => Err(format!("{} is not a token: letters, digits and -._~ only", quoted(text))),
    }
}

/// Parses a field name, and makes it lower-case.
pub(super) fn field_name(text: &str) -> Result<String, String> {
    token(text).map(|name| name.to_ascii_lowercase())
}

/// Parses the name of a field with a client's address. Only fields that never reach origins may be trusted.
pub(super) fn real_ip(text: &str) -> Result<HeaderName, String> {
    let name =
        HeaderName::from_bytes(field_name(text)?.as_bytes()).ok().filter(|name| is_dropped(name.as_str()));
    let is_list = |name: &HeaderName| matches!(name.as_str(), "x-forwarded-for" | "forwarded");
    name.filter(|name| !is_list(name)).ok_or_else(|| {
        format!(
            "{} is not a field with one address, such as X-Real-IP, CF-Connecting-IP or True-Client-IP",
            quoted(text)
        )
    })
}

/// Parses the name of the field with the ids of requests: one that origins get.
pub(super) fn request_id(text: &str) -> Result<HeaderName, String> {
    let name = HeaderName::from_bytes(field_name(text)?.as_bytes()).ok();
    let name = name.filter(|name| name.as_str().ends_with("-id") && !is_dropped(name.as_str()));
    name.ok_or_else(|| format!("{} is not a field for ids, such as X-Request-Id", quoted(text)))
}

/// Parses a path with its leading slash, without spaces or control characters.
pub(super) fn path(text: &str) -> Result<String, String> {
    match text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        true => Ok(text.to_owned()),
        false => Err(format!("{} is not a path such as '/health'", quoted(text))),
    }
}

/// Parses the path of a site.
pub(super) fn site_path(text: &str) -> Result<PathPrefix, String> {
    match text.strip_suffix("/*") {
        Some(above) => {
            let above = if above.is_empty() { "/" } else { above };
            Err(format!("{}: write {}, which includes all paths below it", quoted(text), quoted(above)))
        }
        None => prefix(text),
    }
}

/// Parses the path in an origin below which it has the resources.
pub(super) fn prefix(text: &str) -> Result<PathPrefix, String> {
    PathPrefix::new(text).ok_or_else(|| format!("{} is not a path such as '/shop'", quoted(text)))
}

/// Parses the absolute path of a socket.
pub(super) fn socket(text: &str) -> Result<PathBuf, String> {
    match Path::new(text).is_absolute() {
        true => Ok(PathBuf::from(text)),
        false => Err(format!("{} is not an absolute path such as '/run/rpcbind.sock'", quoted(text))),
    }
}

/// Parses the permissions of a file, in octal.
pub(super) fn mode(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix('0').unwrap_or(text);
    let is_octal = (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    let mode = u32::from_str_radix(digits, 8).ok().filter(|_| is_octal);
    mode.ok_or_else(|| format!("{} is not a file mode such as '0660'", quoted(text)))
}

/// Formats permissions for [`mode`].
pub(super) fn show_mode(mode: &u32) -> String {
    format!("{mode:04o}")
}

/// Parses the path of a directory or file.
pub(crate) fn directory(text: &str) -> Result<PathBuf, String> {
    match text.is_empty() || text.contains('\0') {
        true => Err(format!("{} is not a path such as '/var/cache/larder'", quoted(text))),
        false => Ok(PathBuf::from(text)),
    }
}

/// Parses the path of a log. The words with which other programs name something else than a file are refused.
pub(crate) fn log_file(text: &str) -> Result<PathBuf, String> {
    let way = match text {
        "off" | "none" | "false" => "write access_log = \"off\"",
        "stderr" | "-" => "standard output is \"stdout\"",
        _ if text.starts_with('|') || text.starts_with("syslog:") => {
            "for syslog or a program, write to standard output (docs/logs.md)"
        }
        _ => return directory(text),
    };
    Err(format!("{} is not a file: {way}", quoted(text)))
}

/// Parses a value of `User-Agent`.
pub(super) fn user_agent(text: &str) -> Result<String, String> {
    let visible = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    match visible && !text.is_empty() && text.trim() == text {
        true => Ok(text.to_owned()),
        false => Err(format!("{} is not visible ASCII such as 'Larder/1.0'", quoted(text))),
    }
}

/// Returns any text but an empty one.
pub(super) fn text(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("the text is empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// Parses the URL of a database, or a word.
pub(crate) fn database(text: &str) -> Result<DatabasePlace, String> {
    match text {
        DEFAULT_DATABASE => Ok(DatabasePlace::Default),
        NO_DATABASE => Ok(DatabasePlace::Off),
        file if is_file(file) => {
            Err(format!("{} is a file: write {}", quoted(file), quoted(&format!("sqlite:{file}"))))
        }
        url => match larder_stats::describe(url) {
            Ok(_) => Ok(DatabasePlace::At(url.to_owned())),
            Err(error) => Err(format!("{error}{}", hint(url, [DEFAULT_DATABASE, NO_DATABASE]))),
        },
    }
}

/// Whether `text` is a path rather than a URL.
fn is_file(text: &str) -> bool {
    let has_ending = [".db", ".sqlite", ".sqlite3"].iter().any(|ending| text.ends_with(ending));
    !text.contains(':') && (text.starts_with(['/', '.', '~']) || has_ending)
}

/// Formats a place for [`database`].
pub(super) fn show_database(place: &DatabasePlace) -> String {
    match place {
        DatabasePlace::Default => DEFAULT_DATABASE.to_owned(),
        DatabasePlace::Off => NO_DATABASE.to_owned(),
        DatabasePlace::At(url) => url.clone(),
    }
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Returns the user's text in quotes, on one line.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_octal() {
        assert_eq!(mode("0660").map(|mode| show_mode(&mode)), Ok("0660".to_owned()));
        assert_eq!(mode("777"), Ok(0o777));
        for text in ["660 ", "rw", "1777", "8", "", "+66"] {
            let error = format!("'{text}' is not a file mode such as '0660'");
            assert_eq!(mode(text), Err(error));
        }
    }

    #[test]
    fn networks_are_whole_ones_or_addresses() {
        for right in ["127.0.0.1", "10.0.0.0/8", "::1", "fd00::/8"] {
            assert_eq!(network(right).map(|network| show_network(&network)), Ok(right.to_owned()));
        }
        let wrong = [
            ("10.0.0.1/8", "'10.0.0.1/8': a network of 8 bits is '10.0.0.0/8'"),
            ("10.0.0.0/33", "'10.0.0.0/33' is neither an address nor a network such as '10.0.0.0/8'"),
            ("localhost", "'localhost' is neither an address nor a network such as '10.0.0.0/8'"),
        ];
        for (text, error) in wrong {
            assert_eq!(network(text), Err(error.to_owned()));
        }
    }

    #[test]
    fn hosts_are_names_without_ports() {
        let right =
            [("Docs.Example.", "docs.example"), ("*.example.com", "*.example.com"), ("[::1]", "[::1]")];
        for (text, name) in right {
            assert_eq!(host(text), Ok(name.to_owned()));
        }
        let wrong = [
            ("a.example:80", "'a.example:80': write it without a port"),
            ("::1", "'::1': write an IPv6 address in brackets, such as [::1]"),
            ("http://a.example", "'http://a.example': write the name of the host alone, without http://"),
            ("*", "'*': leave 'hosts' out to take every host"),
            ("a.*.example", "'a.*.example' is not a host name"),
            ("a..example", "'a..example' is not a host name"),
            ("", "'' is not a host name"),
            ("[::g]", "'[::g]' is not a host name"),
        ];
        for (text, error) in wrong {
            assert_eq!(host(text), Err(error.to_owned()));
        }
    }

    #[test]
    fn wildcards_cover_one_or_more_leading_labels() {
        let covered = [("a.example", "a.example"), ("*.example", "a.example"), ("*.example", "*.example")];
        let free = [("*.example", "example"), ("a.example", "*.example"), ("*.b.example", "*.example")];
        assert!(covered.into_iter().all(|(earlier, later)| covers(earlier, later)));
        assert!(covers("*.example", "*.a.example"));
        assert!(!free.into_iter().any(|(earlier, later)| covers(earlier, later)));
    }

    #[test]
    fn a_misspelt_word_is_not_taken_for_a_host() {
        assert_eq!(
            host_header("preserv"),
            Err("unknown word 'preserv'; did you mean 'preserve'?".to_owned())
        );
        assert_eq!(host_header("docs.example:81"), Ok(HostHeader::Set("docs.example:81".to_owned())));
        assert_eq!(
            host_header("a b"),
            Err("'a b' is neither 'preserve', nor 'origin', nor a host".to_owned())
        );
    }

    #[test]
    fn addresses_as_other_programs_write_them_are_refused_with_the_right_ones() {
        for (text, right) in [
            ("localhost:9145", "write '127.0.0.1:9145' or '[::1]:9145'"),
            (":8080", "write '0.0.0.0:8080' for all addresses of this machine, or '[::]:8080'"),
            ("*:8080", "write '0.0.0.0:8080' for all addresses of this machine, or '[::]:8080'"),
            ("8080", "such as '127.0.0.1:8080'"),
            (":99999", "such as '127.0.0.1:8080'"),
        ] {
            let error = address(text).unwrap_err();
            assert!(error.starts_with(&format!("'{text}' is ")) && error.contains(right), "{error}");
        }
    }

    #[test]
    fn a_place_is_a_word_or_a_url() {
        for text in ["auto", "none", "sqlite:a.db", "mysql://u:p@h/d", "postgres://h/d"] {
            assert_eq!(database(text).map(|place| show_database(&place)), Ok(text.to_owned()));
        }
        for (text, problem) in [
            ("non", "did you mean 'none'?"),
            ("sqllite:a.db", "did you mean 'sqlite'?"),
            ("mysql://u:secret@h", "names no database"),
            ("/path/x.db", "'/path/x.db' is a file: write 'sqlite:/path/x.db'"),
            ("./stats", "'./stats' is a file: write 'sqlite:./stats'"),
            ("x.db", "'x.db' is a file: write 'sqlite:x.db'"),
        ] {
            let error = database(text).unwrap_err();
            assert!(error.contains(problem) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
