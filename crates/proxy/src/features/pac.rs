//! The proxy auto-configuration file that a forward listener has for its clients: a script that tells for which URLs
//! they use this proxy.

use std::fmt::Write;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use larder_semantics::status::Why;

use crate::base::networks::near;
use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::{Forward, NoProxy};
use crate::exchange::reply::{Reply, Source};
use crate::http::head::{Framing, RequestHead, Target};

/// The paths of the file: the usual one, and that of the Web Proxy Auto-Discovery Protocol.
const PATHS: [&str; 2] = ["/proxy.pac", "/wpad.dat"];

/// Returns the file if the request with this `head` is for it, on a forward listener, which uses TLS or not. It names
/// this proxy by the host and port that the client has used.
pub(super) fn answer(forward: &Forward, head: &RequestHead<'_>, tls: bool) -> Option<Reply> {
    let Target::Origin { host, path } = head.target else { return None };
    let path = path.split('?').next().unwrap_or_default();
    let is_asked = forward.pac.is_on
        && PATHS.contains(&path)
        && matches!(head.method, Method::GET | Method::HEAD)
        && head.framing == Framing::Length(0);
    // It becomes a part of the script.
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if !is_asked || host.is_empty() || !host.bytes().all(is_host) {
        return None;
    }
    let script = script(forward, &format!("{} {host}", if tls { "HTTPS" } else { "PROXY" }));
    let mut fields = HeaderMap::new();
    let kind = HeaderValue::from_static("application/x-ns-proxy-autoconfig");
    fields.insert(header::CONTENT_TYPE, kind);
    let outcome = Outcome::forwarded(Kind::Pass, Why::Bypass);
    let reply = Reply::new(StatusCode::OK, Source::Fields(fields.into()), outcome);
    Some(reply.with_bytes(&head.method, script.into()))
}

/// Returns the script for clients that reach this proxy as `proxy`. It is in the oldest form of the language, since some
/// systems know no other.
fn script(forward: &Forward, proxy: &str) -> String {
    let mut direct = vec!["isPlainHostName(host)".to_owned()];
    if !forward.allow_private {
        // This proxy would refuse them.
        direct.extend(near().into_iter().map(|network| condition(&NoProxy::Network(network))));
    }
    direct.extend(forward.pac.direct.iter().map(condition));
    let mut script = "function FindProxyForURL(url, host) {\n  host = host.toLowerCase();\n".to_owned();
    for condition in direct {
        // Writing to a string does not fail.
        let _ = writeln!(script, "  if ({condition}) return \"DIRECT\";");
    }
    let fallback = if forward.pac.falls_back { "; DIRECT" } else { "" };
    let _ = write!(script, "  return \"{proxy}{fallback}\";\n}}\n");
    script
}

/// Returns the condition that a URL has this destination. Names are not resolved.
fn condition(destination: &NoProxy) -> String {
    match destination {
        NoProxy::All => "true".to_owned(),
        NoProxy::Network(ipnet::IpNet::V4(network)) => {
            let (address, mask) = (network.network(), network.netmask());
            format!("/^[0-9.]+$/.test(host) && isInNet(host, \"{address}\", \"{mask}\")")
        }
        NoProxy::Network(ipnet::IpNet::V6(network)) => {
            format!(
                "host.indexOf(\":\") >= 0 && typeof isInNetEx == \"function\" && isInNetEx(host, \"{network}\")"
            )
        }
        NoProxy::Domain { name, port } => {
            let names = match name.strip_prefix('.') {
                Some(_) => format!("dnsDomainIs(host, \"{name}\")"),
                None => format!("(host == \"{name}\" || dnsDomainIs(host, \".{name}\"))"),
            };
            let port = port.map(|port| format!(" && /:{port}$/.test(url.split(\"/\")[2])"));
            names + &port.unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::settings::Pac;

    #[test]
    fn a_script_names_the_proxy_and_what_is_reached_without_it() {
        let domain = |name: &str, port| NoProxy::Domain { name: name.to_owned(), port };
        let direct = vec![
            domain("a.test", None),
            domain(".b.test", Some(8080)),
            NoProxy::Network("192.0.2.0/24".parse().unwrap()),
        ];
        let pac = Pac { direct, falls_back: true, ..Pac::default() };
        let expected = r#"function FindProxyForURL(url, host) {
  host = host.toLowerCase();
  if (isPlainHostName(host)) return "DIRECT";
  if ((host == "a.test" || dnsDomainIs(host, ".a.test"))) return "DIRECT";
  if (dnsDomainIs(host, ".b.test") && /:8080$/.test(url.split("/")[2])) return "DIRECT";
  if (/^[0-9.]+$/.test(host) && isInNet(host, "192.0.2.0", "255.255.255.0")) return "DIRECT";
  return "PROXY larder:3128; DIRECT";
}
"#;
        let open = Forward { pac, allow_private: true, ..Forward::default() };
        assert_eq!(script(&open, "PROXY larder:3128"), expected);
        let closed = script(&Forward::default(), "HTTPS larder:3129");
        assert!(
            closed.contains("isInNet(host, \"10.0.0.0\", \"255.0.0.0\")) return \"DIRECT\";"),
            "{closed}"
        );
        assert!(closed.ends_with("  return \"HTTPS larder:3129\";\n}\n"));
    }
}
