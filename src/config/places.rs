//! Addresses of clients' connections and of origins: socket addresses, URLs, Unix sockets.

use std::path::{Path, PathBuf};

use http::Uri;
use larder_proxy::settings::{Origin, is_service};
use toml::de::{DeTable, DeValue};

use super::buckets;
use super::draft::ListenAddress;
use super::names::{address, prefix, quoted};
use crate::cli::words::nearest;

/// The largest weight of an origin.
const MOST_WEIGHT: u16 = 256;
/// The longest path of a Unix socket, in bytes: the kernel's structure has room for no more.
const MOST_OF_SOCKET: usize = 107;

/// Parses `ADDRESS:PORT` or `unix:/PATH`, where clients of sites connect.
pub(crate) fn listen(text: &str) -> Result<ListenAddress, String> {
    match text.strip_prefix(Origin::SOCKET) {
        Some(path) => unix_socket(path).map(|()| ListenAddress::Socket(PathBuf::from(path))),
        None => address(text)
            .map(ListenAddress::Address)
            .map_err(|error| format!("{error}, or 'unix:/run/larder.sock'")),
    }
}

/// Formats an address for [`listen`].
pub(super) fn show_listen(listen: &ListenAddress) -> String {
    match listen {
        ListenAddress::Address(address) => address.to_string(),
        ListenAddress::Socket(path) => show_socket(path),
    }
}

/// Formats the path of a Unix socket.
pub(crate) fn show_socket(path: &Path) -> String {
    format!("{}{}", Origin::SOCKET, path.display())
}

/// Checks whether `path` can be that of a Unix socket.
fn unix_socket(path: &str) -> Result<(), String> {
    let wrong = |why: &str| format!("'{}{}': {why}", Origin::SOCKET, path.escape_debug());
    if !path.starts_with('/') {
        return Err(wrong("write the absolute path of the socket, such as 'unix:/run/app.sock'"));
    }
    if path.len() > MOST_OF_SOCKET {
        return Err(wrong(&format!("paths of sockets have at most {MOST_OF_SOCKET} bytes")));
    }
    match path.chars().any(|char| char.is_control() || char.is_whitespace()) || path.ends_with('/') {
        true => Err(wrong("this is not the path of a socket")),
        false => Ok(()),
    }
}

/// Parses `unix:/SOCKET` or `unix:/SOCKET:/PATH`.
fn socket_origin(text: &str) -> Result<Origin, String> {
    let rest = &text[Origin::SOCKET.len()..];
    let (socket, path) = rest.split_once(":/").unzip();
    let socket = socket.unwrap_or(rest);
    unix_socket(socket)?;
    let path = path.map(|path| prefix(&format!("/{path}"))).transpose()?;
    Ok(Origin { path, ..Origin::new(false, [Origin::SOCKET, socket].concat()) })
}

/// Parses an origin's URL, then `weight=NUMBER` if it is not 1, and `backup` if it is one.
pub(crate) fn origin(text: &str) -> Result<Origin, String> {
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    let url = words.next().unwrap_or_default();
    let mut origin = buckets::any(url).unwrap_or_else(|| server(url))?;
    for word in words {
        match word.strip_prefix("weight=") {
            Some(number) => origin.weight = weight(text, number)?,
            None if word == "backup" => origin.is_backup = true,
            None => {
                let (url, name) = (url.escape_debug(), word.split('=').next().unwrap_or_default());
                let backup = nearest(name, ["backup", "weight"]).filter(|near| *near == "backup");
                let example = backup.unwrap_or("weight=3");
                let why = format!("expected a weight or 'backup' behind the URL, such as '{url} {example}'");
                return Err(format!("{}: {why}", quoted(text)));
            }
        }
    }
    Ok(origin)
}

/// Returns the error about an origin that is a table, as other programs have it, with what to write instead.
pub(super) fn no_table(table: &DeTable<'_>) -> String {
    let value = |name: &str| Some(table.iter().find(|(key, _)| key.get_ref() == name)?.1.get_ref());
    let url = value("url").and_then(DeValue::as_str).unwrap_or("http://10.0.0.1");
    let weight = value("weight").and_then(DeValue::as_integer);
    let weight = weight.map(|number| format!(" weight={}", number.as_str())).unwrap_or_default();
    let backup = if value("backup").and_then(DeValue::as_bool) == Some(true) { " backup" } else { "" };
    format!(
        "an origin is text, with its options behind its URL: write \"{}{weight}{backup}\"",
        url.escape_debug()
    )
}

/// Parses the URL of a service of a site, such as the one that decides about its requests.
pub(crate) fn service(text: &str) -> Result<Origin, String> {
    let service = origin(text)?;
    match service.bucket {
        Some(_) => Err(format!("{}: a bucket is no service", quoted(text))),
        None => Ok(service),
    }
}

fn weight(text: &str, number: &str) -> Result<u16, String> {
    let weight = number.parse().ok().filter(|weight| *weight <= MOST_WEIGHT);
    weight
        .ok_or_else(|| format!("{}: weight {} is not from 0 to {MOST_WEIGHT}", quoted(text), quoted(number)))
}

/// Checks that one of the origins gets requests when all of them answer.
pub(crate) fn check_origins(origins: &[Origin]) -> Result<(), String> {
    match origins.iter().any(|origin| origin.weight > 0 && !origin.is_backup) {
        true => Ok(()),
        false => Err("no origin gets requests: all of them are backups, or have weight=0".to_owned()),
    }
}

/// Quotes a URL without its user name and password, since errors appear in logs.
pub(super) fn shown(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return quoted(text) };
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.rfind('@') {
        Some(at) => quoted(&format!("{scheme}://***{}", &rest[at..])),
        None => quoted(text),
    }
}

/// Parses `http://HOST[:PORT][/PATH]`, the same with https, h2 (HTTP/2 over TLS) or h2c (HTTP/2 in clear), or
/// `unix:/SOCKET[:/PATH]`.
fn server(text: &str) -> Result<Origin, String> {
    let wrong = |why: &str| format!("{}: {why}", shown(text));
    if text.starts_with(Origin::SOCKET) {
        return socket_origin(text);
    }
    if let Some(socket) = text.strip_prefix("http://").filter(|rest| rest.starts_with(Origin::SOCKET)) {
        return Err(wrong(&format!(
            "write a Unix socket without http://, such as '{}'",
            socket.escape_debug()
        )));
    }
    let uri: Uri = text.parse().map_err(|_| wrong("expected http://HOST[:PORT] or https://HOST[:PORT]"))?;
    let scheme = uri.scheme_str();
    let service_scheme = scheme.and_then(|scheme| scheme.strip_suffix(Origin::SERVICE));
    let (https, http2) = match service_scheme.or(scheme) {
        Some("http") => (false, false),
        Some("https") => (true, false),
        Some("h2c") => (false, true),
        Some("h2") => (true, true),
        Some(scheme) => {
            return Err(wrong(&format!("scheme '{scheme}' is none of http, https, h2, h2c, s3 and azure")));
        }
        None if text.starts_with('/') => {
            return Err(wrong("expected http://HOST[:PORT] or https://HOST[:PORT]"));
        }
        None => {
            return Err(wrong(&format!("write the scheme too, such as 'http://{}'", text.escape_debug())));
        }
    };
    let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty()) else {
        return Err(wrong("no host in it"));
    };
    if authority.as_str().contains('@') {
        return Err(wrong("user names and passwords are not sent to origins"));
    }
    let is_service = is_service(authority.as_str());
    if is_service != service_scheme.is_some() || is_service && authority.port().is_some() {
        return Err(wrong("a service is written as in 'http+srv://_http._tcp.example', without a port"));
    }
    if uri.query().is_some() {
        return Err(wrong("an origin has no query; requests bring their own"));
    }
    // The parser returns a slash for an absent path, but an explicit slash has a different meaning here.
    let has_path = text.matches('/').count() > 2;
    let path = has_path.then(|| prefix(uri.path())).transpose()?;
    match authority.as_str()[authority.host().len()..].strip_prefix(':') {
        None => {}
        Some(port) if port.parse::<u16>().is_ok_and(|port| port > 0) => {}
        Some(port) => return Err(wrong(&format!("port '{port}' is not from 1 to 65535"))),
    }
    Ok(Origin { path, http2, ..Origin::new(https, authority.as_str().to_ascii_lowercase()) })
}

/// Parses the address of a node for other nodes: an origin without a path.
pub(super) fn node(text: &str) -> Result<Origin, String> {
    let Origin { https, http2, authority, path, .. } = server(text)?;
    if http2 {
        return Err(format!(
            "{}: nodes speak HTTP/1.1 with each other, as in 'http://{authority}'",
            quoted(text)
        ));
    }
    if is_service(&authority) {
        return Err(format!("{}: a node is one server, and no service", quoted(text)));
    }
    if authority.starts_with(Origin::SOCKET) {
        return Err(format!("{}: a node is on a network, not at a Unix socket", quoted(text)));
    }
    match path.is_none_or(|path| path.is_root()) {
        true => Ok(Origin::new(https, authority)),
        false => Err(format!("{}: a node has no path", quoted(text))),
    }
}

/// Formats an origin for [`origin`].
pub(crate) fn show_origin(origin: &Origin) -> String {
    let backup = if origin.is_backup { " backup" } else { "" };
    match origin.weight {
        1 => format!("{origin}{backup}"),
        weight => format!("{origin} weight={weight}{backup}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_servers() {
        let origin = |text| origin(text).map(|origin| show_origin(&origin));
        for right in [
            "http://127.0.0.1:3000",
            "https://docs.example",
            "http://[::1]:80",
            "http://a weight=3",
            "http://a weight=0",
            "http://a backup",
            "http://a weight=2 backup",
            "h2c://127.0.0.1:50051",
            "h2://grpc.example/api/",
        ] {
            assert_eq!(origin(right), Ok(right.to_owned()));
        }
        assert_eq!(
            node("h2c://a:1"),
            Err("'h2c://a:1': nodes speak HTTP/1.1 with each other, as in 'http://a:1'".to_owned())
        );
        assert_eq!(origin("HTTP://Docs.Example/"), Ok("http://docs.example/".to_owned()));
        assert_eq!(origin("http://a/B/c"), Ok("http://a/B/c/".to_owned()));
        let wrong = [
            ("ftp://a", "'ftp://a': scheme 'ftp' is none of http, https, h2, h2c, s3 and azure"),
            ("localhost", "'localhost': write the scheme too, such as 'http://localhost'"),
            ("http://a:0", "'http://a:0': port '0' is not from 1 to 65535"),
            ("http://a:65536", "'http://a:65536': port '65536' is not from 1 to 65535"),
            ("http://a:", "'http://a:': port '' is not from 1 to 65535"),
            ("http://a/../b", "'/../b' is not a path such as '/shop'"),
            ("http://a/?b", "'http://a/?b': an origin has no query; requests bring their own"),
            ("http://u:p@a/b", "'http://***@a/b': user names and passwords are not sent to origins"),
            (
                "http+srv://a",
                "'http+srv://a': a service is written as in 'http+srv://_http._tcp.example', without a port",
            ),
            (
                "http://_web._tcp.a",
                "'http://_web._tcp.a': a service is written as in 'http+srv://_http._tcp.example', without a port",
            ),
            (
                "h2+srv://_web._tcp.a:80",
                "'h2+srv://_web._tcp.a:80': a service is written as in 'http+srv://_http._tcp.example', without a port",
            ),
            ("http://", "'http://': expected http://HOST[:PORT] or https://HOST[:PORT]"),
            ("a b", "'a': write the scheme too, such as 'http://a'"),
            (
                "http://a 3",
                "'http://a 3': expected a weight or 'backup' behind the URL, such as 'http://a weight=3'",
            ),
            (
                "http://a backup=true",
                "'http://a backup=true': expected a weight or 'backup' behind the URL, such as 'http://a backup'",
            ),
            ("http://a weight=-1", "'http://a weight=-1': weight '-1' is not from 0 to 256"),
            ("http://a weight=", "'http://a weight=': weight '' is not from 0 to 256"),
            ("http://a weight=257", "'http://a weight=257': weight '257' is not from 0 to 256"),
        ];
        for (text, error) in wrong {
            assert_eq!(origin(text), Err(error.to_owned()));
        }
    }

    #[test]
    fn origins_may_be_unix_sockets_with_a_path() {
        for right in [
            "unix:/run/app.sock",
            "unix:/run/app.sock:/",
            "unix:/run/a:b.sock:/app/",
            "unix:/C.sock weight=2",
        ] {
            let origin = origin(right).unwrap();
            assert_eq!(
                (show_origin(&origin).as_str(), origin.host(), origin.https),
                (right, "localhost", false)
            );
        }
        let long = format!("unix:/{}", "a".repeat(107));
        let too_long = format!("'{long}': paths of sockets have at most 107 bytes");
        for (text, error) in [
            ("unix:run", "'unix:run': write the absolute path of the socket, such as 'unix:/run/app.sock'"),
            ("unix:/run/", "'unix:/run/': this is not the path of a socket"),
            ("unix:/a\tb", "'unix:/a\\tb': this is not the path of a socket"),
            ("unix:/a:/../b", "'/../b' is not a path such as '/shop'"),
            ("http://unix:/a", "'http://unix:/a': write a Unix socket without http://, such as 'unix:/a'"),
            (&long, &too_long),
        ] {
            assert_eq!(origin(text), Err(error.to_owned()));
        }
        assert_eq!(
            node("unix:/a"),
            Err("'unix:/a': a node is on a network, not at a Unix socket".to_owned())
        );
    }

    #[test]
    fn sites_are_served_at_addresses_and_sockets() {
        for right in ["127.0.0.1:80", "[::1]:0", "unix:/run/larder.sock"] {
            assert_eq!(listen(right).map(|listen| show_listen(&listen)), Ok(right.to_owned()));
        }
        let error = "'a' is not an address with a port, such as '127.0.0.1:8080', or 'unix:/run/larder.sock'";
        assert_eq!(listen("a"), Err(error.to_owned()));
    }
}
