//! Parent proxies and the destinations without them: as written in the config, and in the variables that other programs
//! read, too.

use std::env;

use http::uri::Authority;
use larder_proxy::settings::{NoProxy, ParentProxy, ParentSettings};

use super::draft::ParentDraft;
use super::names::{network, quoted};
use super::places::shown;

/// Parses `http://[USER:PASSWORD@]HOST[:PORT]`, or the same with `https` or `socks5`. `socks5h` is the same as `socks5`: names are always
/// resolved by the proxy.
pub(super) fn proxy(text: &str) -> Result<ParentProxy, String> {
    let wrong = |why: &str| format!("{}: {why}", shown(text));
    let expected = "expected http://HOST:PORT or http://USER:PASSWORD@HOST:PORT";
    let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong(expected))?;
    let is = |known: &str| scheme.eq_ignore_ascii_case(known);
    let (https, socks) = (is("https"), is("socks5") || is("socks5h"));
    if !https && !socks && !is("http") {
        return Err(wrong("parent proxies are reached over http, https or socks5, also for https origins"));
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (user, host) = rest.rsplit_once('@').map_or((None, rest), |(user, host)| (Some(user), host));
    if user.is_some_and(|user| !user.contains(':') || user.contains(|char: char| !char.is_ascii_graphic())) {
        return Err(wrong("expected USER:PASSWORD before the @, other characters in the form %40"));
    }
    let is_long = |part: &str| part.len().saturating_sub(2 * part.matches('%').count()) > 255;
    if socks && user.is_some_and(|user| user.splitn(2, ':').any(is_long)) {
        return Err(wrong("a user name or a password for SOCKS 5 has at most 255 bytes"));
    }
    let authority: Authority = host.parse().map_err(|_| wrong(expected))?;
    let port = authority.as_str()[authority.host().len()..].strip_prefix(':');
    match port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
        && !authority.host().is_empty()
    {
        true => {
            let usual = if socks && authority.port().is_none() { ":1080" } else { "" };
            let authority = format!("{}{usual}", host.to_ascii_lowercase());
            Ok(ParentProxy { https, socks, authority, user: user.map(str::to_owned) })
        }
        false => Err(wrong(expected)),
    }
}

/// Formats a parent proxy for [`proxy`].
pub(super) fn show_proxy(proxy: &ParentProxy) -> String {
    let user = proxy.user.as_ref().map_or_else(String::new, |user| format!("{user}@"));
    format!("{}://{user}{}", proxy.scheme(), proxy.authority)
}

/// Parses a host, the names below it behind a dot, an address, a network, or `*` for all.
pub(super) fn no_proxy(text: &str) -> Result<NoProxy, String> {
    if text == "*" {
        return Ok(NoProxy::All);
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(network) = network(bare) {
        return Ok(NoProxy::Network(network));
    }
    let name = text.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(text);
    let (name, port) = name.split_once(':').map_or((name, None), |(name, port)| (name, Some(port)));
    let wrong = || format!("{} is none of: a host, '.example.com', an address, a network, '*'", quoted(text));
    let port = port.map(|port| port.parse::<u16>().map_err(|_| wrong())).transpose()?;
    let is_host = |char: char| char.is_ascii_alphanumeric() || "-._".contains(char);
    match name.trim_start_matches('.').is_empty() || !name.chars().all(is_host) {
        true => Err(wrong()),
        false => Ok(NoProxy::Domain { name: name.to_ascii_lowercase(), port }),
    }
}

/// Formats a destination for [`no_proxy`].
pub(super) fn show_no_proxy(no_proxy: &NoProxy) -> String {
    match no_proxy {
        NoProxy::All => "*".to_owned(),
        NoProxy::Network(network) => super::names::show_network(network),
        NoProxy::Domain { name, port: None } => name.clone(),
        NoProxy::Domain { name, port: Some(port) } => format!("{name}:{port}"),
    }
}

/// Returns the settings of `draft`, completed by variables of the environment if it says so. Errors: the variable that
/// names no usable proxy, and why.
pub(super) fn settle(draft: &ParentDraft) -> Result<ParentSettings, String> {
    let ParentDraft { http, https, no_proxy, only, falls_back, fail_timeout, from_env } = draft.clone();
    let mut settings = ParentSettings {
        https: https.clone().unwrap_or_else(|| http.clone()),
        http,
        no_proxy,
        only,
        falls_back,
        fail_timeout,
    };
    if !from_env {
        return Ok(settings);
    }
    if settings.http.is_empty() {
        settings.http.extend(proxy_in("http_proxy")?.or(proxy_in("all_proxy")?));
    }
    if settings.https.is_empty() && https.is_none() {
        settings.https.extend(proxy_in("https_proxy")?.or(proxy_in("all_proxy")?));
    }
    // Other programs ignore what they cannot read in it.
    let listed = variable("no_proxy").map(|(_, value)| value).unwrap_or_default();
    let listed = listed.split([',', ' ']).filter(|text| !text.is_empty());
    settings.no_proxy.extend(listed.filter_map(|text| self::no_proxy(text).ok()));
    Ok(settings)
}

/// Reads the proxy in a variable; a URL without a scheme is one of http.
fn proxy_in(name: &str) -> Result<Option<ParentProxy>, String> {
    let Some((name, value)) = variable(name) else { return Ok(None) };
    let url = if value.contains("://") { value } else { format!("http://{value}") };
    proxy(&url).map(Some).map_err(|why| format!("${name} {why}"))
}

/// Returns the variable of this name in lower or upper case that is not empty, with its name.
fn variable(name: &str) -> Option<(String, String)> {
    let read =
        |name: String| env::var(&name).ok().filter(|value| !value.is_empty()).map(|value| (name, value));
    read(name.to_owned()).or_else(|| read(name.to_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_proxies_have_a_host_and_perhaps_a_password() {
        for right in
            ["http://proxy:3128", "http://me%40a:b@10.0.0.1:8080", "http://[fd00::1]:3128", "https://a:b@a"]
        {
            assert_eq!(proxy(right).map(|proxy| show_proxy(&proxy)), Ok(right.to_owned()));
        }
        assert_eq!(
            proxy("socks5h://u:p@a").map(|proxy| show_proxy(&proxy)),
            Ok("socks5://u:p@a:1080".to_owned())
        );
        assert_eq!(proxy("HTTP://Proxy:1/").map(|proxy| show_proxy(&proxy)), Ok("http://proxy:1".to_owned()));
        let expected = "expected http://HOST:PORT or http://USER:PASSWORD@HOST:PORT";
        for (wrong, why) in [
            ("proxy:3128", format!("'proxy:3128': {expected}")),
            (
                "socks4://u:p@a:1",
                "'socks4://***@a:1': parent proxies are reached over http, https or socks5, also for https origins"
                    .to_owned(),
            ),
            ("http://a:99999", format!("'http://a:99999': {expected}")),
            ("http://u:p@", format!("'http://***@': {expected}")),
            (
                "http://u@a",
                "'http://***@a': expected USER:PASSWORD before the @, other characters in the form %40"
                    .to_owned(),
            ),
        ] {
            assert_eq!(proxy(wrong), Err(why));
        }
    }

    #[test]
    fn destinations_without_a_proxy_are_hosts_and_networks() {
        for right in ["a.test", ".a.test", "a.test:8080", "10.0.0.0/8", "192.0.2.1", "fd00::/8", "*"] {
            assert_eq!(no_proxy(right).map(|one| show_no_proxy(&one)), Ok(right.to_owned()));
        }
        assert_eq!(no_proxy("*.A.test"), no_proxy(".a.test"));
        for wrong in ["", ".", "http://a", "a b", "a:b", "10.0.0.0/99"] {
            assert!(no_proxy(wrong).is_err(), "{wrong}");
        }
    }
}
