//! The tunnels whose requests the forward proxy answers itself.

use super::CertificateFiles;
use crate::base::networks::stands_for;

/// The hosts that are intercepted, and the authority that signs certificates for them.
#[derive(Clone, Debug)]
pub struct Intercept {
    /// Host names, lower-case, without port; `*.example.com` is one or more labels before `.example.com`, `*` any host.
    pub hosts: Vec<String>,
    /// Hosts to which tunnels stay as they are, in the same form, even if they are among the others.
    pub never: Vec<String>,
    /// Hosts, each with its port if that is not 443, whose origins have allowed interception not long ago: their tunnels do
    /// not wait for another handshake with them.
    pub known: Vec<String>,
    /// The certificate and the key of the authority.
    pub authority: CertificateFiles,
}

impl Intercept {
    /// Whether tunnels to `host`, which has no port, are intercepted.
    pub fn wants(&self, host: &str) -> bool {
        let is_in = |patterns: &[String]| patterns.iter().any(|pattern| stands_for(pattern, host));
        is_in(&self.hosts) && !is_in(&self.never)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_intercepted_if_it_is_wanted_and_not_excluded() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let wants = |hosts: &[&str], never: &[&str], host: &str| {
            let (hosts, never) = (words(hosts), words(never));
            Intercept { hosts, never, known: Vec::new(), authority: CertificateFiles::default() }.wants(host)
        };
        assert!(wants(&["a.test"], &[], "A.test."));
        assert!(!wants(&["a.test"], &[], "b.a.test"));
        assert!(wants(&["*.a.test"], &[], "b.a.test"));
        assert!(!wants(&["*.a.test"], &["b.a.test"], "b.a.test"));
        assert!(wants(&["*"], &["*.bank.test"], "127.0.0.1"));
        assert!(!wants(&["*"], &["*.bank.test"], "www.bank.test"));
        assert!(!wants(&[], &[], "a.test"));
    }
}
