//! Where this machine looks names of hosts up: in `/etc/hosts`, by name servers, or elsewhere (`nsswitch.conf(5)`).

use std::fs;

/// Whether this machine asks name servers for the addresses of `host`, and nothing else before.
pub(super) fn are_name_servers(host: &str) -> bool {
    let text = |file| String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned();
    come_first(&text("/etc/nsswitch.conf")) && !is_listed(host, &text("/etc/hosts"))
}

/// Whether the sources in a file in the form of `nsswitch.conf` are name servers, or come after them; but for the file of
/// hosts.
fn come_first(switch: &str) -> bool {
    let sources = switch.lines().find_map(|line| line.trim_start().strip_prefix("hosts:"));
    // The system's own order has no other sources.
    let mut sources = sources.unwrap_or("files dns").split('#').next().unwrap_or_default().split_whitespace();
    sources.find(|source| *source != "files") == Some("dns")
}

/// Whether a file in the form of `hosts(5)` has `host`. The system knows the addresses of `localhost` and the names below
/// it (RFC 6761 section 6.3).
fn is_listed(host: &str, hosts: &str) -> bool {
    let host = host.trim_end_matches('.');
    let is_local = host.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case("localhost"));
    let lines = hosts.lines().filter_map(|line| line.split('#').next());
    let mut names = lines.flat_map(|line| line.split_whitespace().skip(1));
    is_local || names.any(|name| name.trim_end_matches('.').eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_are_asked_where_nothing_else_comes_first() {
        for (switch, expected) in [
            ("", true),
            ("hosts:\tdns [!UNAVAIL=return] files myhostname # dns", true),
            ("hosts: files mdns4_minimal [NOTFOUND=return] dns", false),
            ("#hosts: db\nhosts: files # dns", false),
        ] {
            assert_eq!(come_first(switch), expected, "{switch}");
        }
    }

    #[test]
    fn names_in_the_file_of_hosts_are_not_asked_for() {
        let hosts = "127.0.0.1 localhost\n192.0.2.1\tWeb.test web # old.test\n#192.0.2.2 gone.test\n";
        for (host, expected) in [
            ("web.test", true),
            ("WEB.", true),
            ("a.LocalHost", true),
            ("old.test", false),
            ("notlocalhost", false),
        ] {
            assert_eq!(is_listed(host, hosts), expected, "{host}");
        }
    }
}
