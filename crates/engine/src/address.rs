//! The address of the engine: one server, a master known to Sentinels, or a Redis Cluster, by the scheme of a URL.

use std::fmt;
use std::str::FromStr;

use larder_words::debug_as;
use percent_encoding::percent_decode_str;
use url::Url;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EngineKind {
    /// One server.
    Single,
    /// A master that Sentinels know by this name.
    Sentinel(String),
    /// A cluster of masters.
    Cluster,
}

/// The address of the engine, with its credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct EngineAddress {
    pub(crate) kind: EngineKind,
    /// Whether connections to the engine use TLS.
    pub tls: bool,
    /// Host names or addresses, with ports. At least one.
    pub hosts: Vec<(String, u16)>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u16,
    /// The URL as configured, password included.
    text: String,
}

/// The schemes with their kind of engine, and whether they use TLS.
const SCHEMES: &[(&str, EngineKind, bool)] = &[
    ("redis", EngineKind::Single, false),
    ("rediss", EngineKind::Single, true),
    ("redis+sentinel", EngineKind::Sentinel(String::new()), false),
    ("rediss+sentinel", EngineKind::Sentinel(String::new()), true),
    ("redis+cluster", EngineKind::Cluster, false),
    ("rediss+cluster", EngineKind::Cluster, true),
];

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl EngineAddress {
    /// Returns the supported schemes.
    pub fn schemes() -> impl Iterator<Item = &'static str> {
        SCHEMES.iter().map(|(scheme, ..)| *scheme)
    }

    /// Returns the URL, password included.
    pub fn secret(&self) -> &str {
        &self.text
    }
}

impl FromStr for EngineAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| without_scheme(text))?;
        let known = SCHEMES.iter().find(|(known, ..)| *known == scheme);
        let (_, kind, tls) = known.ok_or_else(|| unknown(scheme))?;
        if rest.contains(['?', '#']) {
            return Err("it has no query and no fragment".to_owned());
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let port = if matches!(kind, EngineKind::Sentinel(_)) { SENTINEL_PORT } else { PORT };
        let hosts = hosts.split(',').map(|host| address(host, port)).collect::<Result<Vec<_>, _>>()?;
        let (kind, database) = match kind {
            EngineKind::Sentinel(_) => {
                let (service, database) = path.split_once('/').unwrap_or((path, ""));
                if service.is_empty() {
                    return Err(
                        "name the master that the Sentinels watch: redis+sentinel://host/NAME".to_owned()
                    );
                }
                (EngineKind::Sentinel(service.to_owned()), database)
            }
            kind => (kind.clone(), path),
        };
        if kind == EngineKind::Single && hosts.len() > 1 {
            return Err("several hosts are for redis+sentinel and redis+cluster".to_owned());
        }
        let database = if database.is_empty() { "0" } else { database };
        let database = database.parse().ok();
        let database = database.ok_or_else(|| "the database is a number, as in redis://host/1".to_owned())?;
        if kind == EngineKind::Cluster && database != 0 {
            return Err("a cluster has the database 0 only".to_owned());
        }
        let (user, password) = (decoded(user)?, decoded(password)?);
        Ok(Self { kind, tls: *tls, hosts, user, password, database, text: text.to_owned() })
    }
}

/// Returns the error for a text without a scheme, without repeating text that may contain a password.
fn without_scheme(text: &str) -> String {
    let text = text.strip_prefix("redis:").unwrap_or(text);
    let is_address = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    let host = if is_address && !text.is_empty() { text } else { "127.0.0.1:6379" };
    format!("write the scheme too, such as 'redis://{host}'")
}

fn unknown(scheme: &str) -> String {
    match scheme {
        "valkey" => "unknown scheme 'valkey'; a Valkey is written as redis://, too".to_owned(),
        "valkeys" => "unknown scheme 'valkeys'; a Valkey over TLS is written as rediss://, too".to_owned(),
        _ => format!("unknown scheme '{}'", scheme.escape_debug()),
    }
}

/// Displays the URL without the password.
impl fmt::Display for EngineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.text.split("://").next().unwrap_or_default();
        let hosts = self.hosts.iter().map(|(host, port)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        });
        write!(f, "{scheme}://{}", hosts.collect::<Vec<_>>().join(","))?;
        if let EngineKind::Sentinel(service) = &self.kind {
            write!(f, "/{service}")?;
        }
        if self.database > 0 { write!(f, "/{}", self.database) } else { Ok(()) }
    }
}

debug_as!(EngineAddress, |address| "EngineAddress({address})");

fn address(text: &str, port: u16) -> Result<(String, u16), String> {
    let wrong = || format!("'{}' is not a host with a port", text.escape_debug());
    let url = Url::parse(&format!("redis://{text}")).map_err(|_| wrong())?;
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
    Ok((host.trim_matches(['[', ']']).to_owned(), url.port().unwrap_or(port)))
}

fn decoded(text: &str) -> Result<Option<String>, String> {
    let text =
        percent_decode_str(text).decode_utf8().map_err(|_| "user and password are UTF-8".to_owned())?;
    Ok(Some(text.into_owned()).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_shown_without_its_password() {
        for (text, shown) in [
            ("redis://a", "redis://a:6379"),
            ("rediss://u:p%40%2F@a:1/2", "rediss://a:1/2"),
            ("redis://:p@[::1]:7", "redis://[::1]:7"),
            ("redis+sentinel://a,b:2/main/3", "redis+sentinel://a:26379,b:2/main/3"),
            ("rediss+cluster://a,b,c:7", "rediss+cluster://a:6379,b:6379,c:7"),
        ] {
            let place = text.parse::<EngineAddress>().expect(text);
            assert_eq!((place.to_string().as_str(), place.secret()), (shown, text));
        }
        let login = "redis://u:p%40%2F@a".parse::<EngineAddress>().unwrap();
        assert_eq!((login.user.as_deref(), login.password.as_deref()), (Some("u"), Some("p@/")));
    }

    #[test]
    fn an_invalid_engine_address_is_refused_with_its_problem() {
        for (text, problem) in [
            ("a:6379", "write the scheme too, such as 'redis://a:6379'"),
            ("http://a", "unknown scheme 'http'"),
            ("redis://", "'' is not a host with a port"),
            ("redis://a:x", "'a:x' is not a host with a port"),
            ("redis://a,b", "several hosts are for redis+sentinel and redis+cluster"),
            ("redis://a/x", "the database is a number, as in redis://host/1"),
            ("redis+sentinel://a", "name the master that the Sentinels watch: redis+sentinel://host/NAME"),
            ("redis+cluster://a/1", "a cluster has the database 0 only"),
            ("redis://a?x=1", "it has no query and no fragment"),
        ] {
            assert_eq!(text.parse::<EngineAddress>().unwrap_err(), problem, "{text}");
        }
    }
}
