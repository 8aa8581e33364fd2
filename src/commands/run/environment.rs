//! The environment of a command: variables by which its clients use the proxy and trust its authority.
//!
//! Most variables for certificates replace a client's own list, so they name a file with the roots that were trusted
//! before and the authority. Some add to that list, so they name the authority alone. The files are in a directory that
//! every user may read, since apt downloads as another user. It stays for as long as processes use it that the command has left.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{self, Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use larder_proxy::net::tls::authority::CertificateAuthority;
use larder_store::private;
use rustix::process::geteuid;
use rustls::pki_types::CertificateDer;
use rustls_native_certs::load_native_certs;

use super::left::LeftProcesses;
use super::process::OWN;
use super::{registries, truststore};

/// Variables with the URL of the proxy.
pub(crate) const PROXY: &[&str] = &[
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "npm_config_proxy",
    "npm_config_https_proxy",
    "YARN_HTTP_PROXY",
    "YARN_HTTPS_PROXY",
];
/// Variables with a file of certificates that replaces a client's own.
pub(crate) const REPLACING: &[&str] = &[
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "NIX_SSL_CERT_FILE",
    "AWS_CA_BUNDLE",
    "YARN_HTTPS_CA_FILE_PATH",
    "BUNDLE_SSL_CA_CERT",
    "COMPOSER_CAFILE",
    "HEX_CACERTS_PATH",
    "SYSTEM_CERTIFICATE_PATH",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "HTTPLIB2_CA_CERTS",
    "PERL_LWP_SSL_CA_FILE",
];
/// Variables with a file of certificates that a client adds to those that it trusts.
pub(crate) const ADDING: &[&str] = &["NODE_EXTRA_CA_CERTS", "DENO_CERT"];
/// Variables that make a client use the others.
pub(crate) const SWITCHES: &[(&str, &str)] = &[("NODE_USE_ENV_PROXY", "1")];
/// npm's own list, which replaces all others once it is set.
const NPM: &str = "npm_config_cafile";
const JAVA: &str = "JAVA_TOOL_OPTIONS";
const NODE: &str = "NODE_OPTIONS";
const WGET: &str = "WGETRC";
const HOMEBREW: &str = "HOMEBREW_CURLRC";
const APT: &str = "APT_CONFIG";

/// Modes of the files that every user may read, and of those that only this one may.
const PUBLIC: u32 = 0o644;
const PRIVATE: u32 = 0o600;

/// The variables of a command, and the directory of their files.
pub(super) struct Environment {
    folder: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

impl Environment {
    /// Writes the files for a proxy at this address. `outside` has the variables of this process. A later run with the
    /// same port has the same files. Errors: the error of a file.
    pub(super) fn new(
        proxy: SocketAddr,
        authority: &CertificateAuthority,
        outside: impl Fn(&str) -> Option<OsString>,
    ) -> io::Result<Self> {
        let mut made = Self { folder: make_folder(proxy.port())?, variables: Vec::new() };
        let url = OsString::from(format!("http://{proxy}"));
        made.variables.extend(PROXY.iter().map(|name| (*name, url.clone())));
        made.variables.extend(SWITCHES.iter().map(|(name, value)| (*name, OsString::from(value))));
        let ca = authority.pem();
        let bundle = made.write("bundle.pem", &bundle(ca))?;
        let alone = made.write("ca.pem", ca)?;
        for (names, usual) in [(REPLACING, Some(&bundle)), (ADDING, Some(&alone)), (&[NPM], None)] {
            for name in names {
                let value = match file_before(name, &outside).map(fs::read_to_string) {
                    Some(Ok(before)) => Some(made.write(&format!("{name}.pem"), &format!("{before}\n{ca}"))?),
                    _ => usual.cloned(),
                };
                made.variables.extend(value.map(|value| (*name, value.into())));
            }
        }
        made.of_java(proxy, authority, &outside)?;
        let script = made.write("node-proxy.cjs", include_str!("node-proxy.cjs"))?;
        made.append(NODE, &format!("--require \"{}\"", script.display()), &outside);
        made.of_files(&bundle, &outside)?;
        Ok(made)
    }

    pub(super) fn variables(&self) -> impl Iterator<Item = (&'static str, &OsStr)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_os_str()))
    }

    /// Sets the proxy and the trusted certificates of Java.
    fn of_java(
        &mut self,
        proxy: SocketAddr,
        authority: &CertificateAuthority,
        outside: &impl Fn(&str) -> Option<OsString>,
    ) -> io::Result<()> {
        let (roots, ca) = (load_native_certs().certs, authority.der());
        let store = truststore::jks(roots.iter().map(AsRef::as_ref).chain([ca]));
        let path = self.replace("truststore.jks", &store, PUBLIC)?;
        let direct = outside("NO_PROXY").or_else(|| outside("no_proxy")).unwrap_or_default();
        let (ip, port, store) = (proxy.ip(), proxy.port(), path.display());
        let own = format!(
            "-Dhttp.proxyHost={ip} -Dhttp.proxyPort={port} -Dhttps.proxyHost={ip} -Dhttps.proxyPort={port} \
             -Dhttp.nonProxyHosts={} \"-Djavax.net.ssl.trustStore={store}\" -Djavax.net.ssl.trustStorePassword={}",
            java_hosts(&direct.to_string_lossy()),
            truststore::PASSWORD,
        );
        self.append(JAVA, &own, outside);
        Ok(())
    }

    /// Adds options of this proxy to those that a variable has outside.
    fn append(&mut self, name: &'static str, own: &str, outside: &impl Fn(&str) -> Option<OsString>) {
        let before = outside(name).unwrap_or_default();
        self.variables.push((name, [before.as_os_str(), OsStr::new(own)].join(OsStr::new(" "))));
    }

    /// Writes the files of clients that read certificates from no variable: wget, apt, and the curl of Homebrew, which passes no other
    /// variables on. The user's own settings in them may have secrets.
    fn of_files(&mut self, bundle: &Path, outside: &impl Fn(&str) -> Option<OsString>) -> io::Result<()> {
        let bundle = bundle.display();
        let of_home = outside("HOME").map(|home| Path::new(&home).join(".wgetrc").into_os_string());
        let before =
            outside(WGET).or(of_home).and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let wget =
            self.replace("wgetrc", format!("{before}\nca_certificate = {bundle}\n").as_bytes(), PRIVATE)?;
        let before = outside(APT).and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let apt = self.replace(
            "apt.conf",
            format!("{before}\nAcquire::https::CAInfo \"{bundle}\";\n").as_bytes(),
            PRIVATE,
        )?;
        let before = outside(HOMEBREW).and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let brew =
            self.replace("curlrc", format!("{before}\ncacert = \"{bundle}\"\n").as_bytes(), PRIVATE)?;
        self.variables.extend([(WGET, wget.into()), (APT, apt.into()), (HOMEBREW, brew.into())]);
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        self.replace(name, text.as_bytes(), PUBLIC)
    }

    /// Writes a file at once: processes of an earlier run may read it.
    fn replace(&self, name: &str, content: &[u8], mode: u32) -> io::Result<PathBuf> {
        let (path, new) = (self.folder.join(name), self.folder.join("new"));
        let mut file = private::replace(&new)?;
        file.write_all(content)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        fs::rename(&new, &path)?;
        Ok(path)
    }

    /// Removes the files, unless processes that the command has left use them. Returns those.
    pub(super) fn leave(self) -> LeftProcesses {
        let left = LeftProcesses::after_a_moment(self.folder);
        if left.is_empty() {
            left.remove_files();
        }
        left
    }
}

/// Returns the certificates that the proxy trusts if they are not those of this process: also those that single tools are told to trust,
/// since their registries may have them.
pub(super) fn trusted(outside: impl Fn(&str) -> Option<OsString>) -> Option<String> {
    let names = REPLACING.iter().chain(ADDING).chain([&NPM]);
    let mut files: Vec<_> = names.filter_map(|name| file_before(name, &outside)).collect();
    let own = outside(OWN).map(PathBuf::from);
    files.retain(|file| Some(file) != own.as_ref());
    files.sort_unstable();
    files.dedup();
    let texts: Vec<_> = files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
    (!texts.is_empty()).then(|| bundle("") + &texts.join("\n"))
}

/// Returns the file of certificates that a variable names outside, or else the settings of its tool.
fn file_before(name: &str, outside: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    outside(name).map(PathBuf::from).or_else(|| registries::certificates(name))
}

/// Returns the certificates that this machine trusts, and that of an authority, `ca`, in PEM.
pub(crate) fn bundle(ca: &str) -> String {
    let mut roots: String = load_native_certs().certs.iter().map(pem).collect();
    roots.push_str(ca);
    roots
}

/// Makes the directory for runs with this port, which no other user can change.
fn make_folder(port: u16) -> io::Result<PathBuf> {
    let (parent, user) = (path::absolute(env::temp_dir())?, geteuid().as_raw());
    let mut paths = (0..100).map(|number| parent.join(format!("larder-run-{user}-{port}-{number}")));
    let mine = paths.find_map(|path| match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let about = fs::symlink_metadata(&path).ok()?;
            (about.is_dir() && about.uid() == user && about.mode() & 0o022 == 0).then_some(Ok(path))
        }
        made => {
            Some(made.and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o755))).map(|()| path))
        }
    });
    mine.unwrap_or_else(|| Err(ErrorKind::AlreadyExists.into()))
}

/// Formats a certificate as PEM (RFC 7468).
pub(crate) fn pem(certificate: &CertificateDer<'_>) -> String {
    let text = STANDARD.encode(certificate);
    let mut lines = String::with_capacity(text.len() * 66 / 64 + 64);
    lines.push_str("-----BEGIN CERTIFICATE-----\n");
    for at in (0..text.len()).step_by(64) {
        lines.push_str(&text[at..text.len().min(at + 64)]);
        lines.push('\n');
    }
    lines + "-----END CERTIFICATE-----\n"
}

/// Converts the hosts in `NO_PROXY` to the form of Java: `.a.test` and `a.test` there mean `*.a.test` and `a.test`.
fn java_hosts(direct: &str) -> String {
    let is_plain = |host: &&str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-*:[]".contains(&byte))
    };
    let hosts = direct.split([',', ' ']).filter(is_plain).map(|host| match host.strip_prefix('.') {
        Some(domain) => format!("*.{domain}"),
        None => host.to_owned(),
    });
    hosts.collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use super::java_hosts;

    #[test]
    fn hosts_without_a_proxy_have_the_form_of_java() {
        assert_eq!(java_hosts("localhost,.a.test, b.test,10.0.0.0/8,;rm"), "localhost|*.a.test|b.test");
        assert_eq!(java_hosts(""), "");
    }
}
