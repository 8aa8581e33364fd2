//! The authority that signs the certificates of intercepted hosts. Only clients that were told to do so trust it.
//!
//! Its two files belong to one user. The certificates that it signs exist in memory only, have one key, and live for a
//! month at most.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use larder_store::private;
use larder_words::{debug_as, hex};
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, PublicKeyData, date_time_ymd,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::ServerConfig;
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use x509_cert::der::Decode;

use super::certificates::Certificate;
use super::validity::DAY;
use super::{pem, provider, server_config};
use crate::base::settings::{CertificateFault, CertificateFiles};

/// The names of the files.
const CERTIFICATE: &str = "ca.pem";
const KEY: &str = "ca.key";
/// The life of a signed certificate in seconds, and the part of it that lies in the past, for clients whose clocks are
/// behind.
const LIFE: u64 = 30 * DAY;
const PAST: u64 = DAY;
/// Seconds after which a new certificate is signed for a host.
const RENEWAL: u64 = DAY;
/// The most hosts with a certificate in memory, of some 4 KB each.
const MOST: usize = 1_024;

/// An authority with its key.
pub struct CertificateAuthority {
    certificate: Certificate,
    /// The same in PEM.
    pem: String,
    issuer: Issuer<'static, KeyPair>,
    /// Made for the first of them: the source of random numbers takes a thirtieth of a second to begin.
    leaf_key: OnceLock<Result<LeafKey, String>>,
    hosts: Mutex<HashMap<Box<str>, HostConfig>>,
}

/// The key of all signed certificates.
struct LeafKey {
    pair: KeyPair,
    signing: Arc<dyn SigningKey>,
}

/// TLS with a certificate for one host.
struct HostConfig {
    config: Arc<ServerConfig>,
    http2: bool,
    /// The time from which on a new certificate is signed, in UNIX seconds.
    renewal: u64,
}

/// The properties of a new authority.
#[derive(Clone, Debug)]
pub struct AuthorityTerms {
    /// The days for which it is valid.
    pub days: u32,
    /// The names for which clients accept its certificates, each with all names below it; empty: all hosts.
    pub only: Vec<String>,
}

impl CertificateAuthority {
    /// Returns the files of an authority in `folder`, which `place` of the config names.
    pub fn files(folder: &Path, place: &str) -> CertificateFiles {
        CertificateFiles::at(folder.join(CERTIFICATE), folder.join(KEY), place)
    }

    /// Makes an authority at `now`, in UNIX seconds, and writes its `files`.
    ///
    /// # Errors
    /// The error of a file, or a host in `terms` that cannot be in a certificate.
    pub fn make(files: &CertificateFiles, terms: &AuthorityTerms, now: u64) -> io::Result<()> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = params(&key);
        limit(&mut params, now.saturating_sub(PAST), now + u64::from(terms.days) * DAY);
        params.name_constraints = (!terms.only.is_empty()).then(|| constraints(&terms.only));
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        private::write(&files.key, key.serialize_pem().as_bytes())?;
        private::write(&files.cert, certificate.pem().as_bytes())
    }

    /// Reads an authority that [`make`](Self::make) has written.
    ///
    /// # Errors
    /// The file with the problem, and its description.
    pub fn read(files: &CertificateFiles) -> Result<Self, CertificateFault> {
        let certificate = Certificate::read(files)?;
        let of_key =
            |why: &dyn fmt::Display| CertificateFault::of_key(format!("{}: {why}", files.key.display()));
        let pem = pem::read(&files.cert).map_err(CertificateFault::of_cert)?;
        let pem = String::from_utf8_lossy(&pem).into_owned();
        let text = pem::read(&files.key).map_err(CertificateFault::of_key)?;
        let key = KeyPair::from_pem(&String::from_utf8_lossy(&text)).map_err(|error| of_key(&error))?;
        if !certificate.leaf().is_some_and(|leaf| is_named_after(leaf, &key)) {
            let why = "not an authority that larder ca init has made";
            return Err(CertificateFault::of_cert(format!("{}: {why}", files.cert.display())));
        }
        let issuer = Issuer::new(params(&key), key);
        Ok(Self { certificate, pem, issuer, leaf_key: OnceLock::new(), hosts: Mutex::default() })
    }

    /// Makes the key of signed certificates now, on a thread of its own, so that the first client does not wait for it.
    pub fn make_leaf_key(self: &Arc<Self>) {
        let authority = Arc::clone(self);
        // Otherwise the first certificate does it.
        let _ = thread::Builder::new().name("leaf-key".to_owned()).spawn(move || _ = authority.leaf_key());
    }

    /// Returns the key of signed certificates, which is made if it is not there. The error is the reason why there is none.
    fn leaf_key(&self) -> Result<&LeafKey, &str> {
        self.leaf_key
            .get_or_init(|| LeafKey::generate().map_err(|error| error.to_string()))
            .as_ref()
            .map_err(String::as_str)
    }

    /// Returns its own certificate in PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns its own certificate in DER.
    pub fn der(&self) -> &[u8] {
        self.certificate.leaf().map_or(&[], AsRef::as_ref)
    }

    /// Returns its own certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Returns TLS with a certificate for `host`, valid at `now` in UNIX seconds. It offers HTTP/2 if `http2` is set.
    /// The error is the reason why `host` cannot have a certificate.
    pub fn config_for(&self, host: &str, http2: bool, now: u64) -> Result<Arc<ServerConfig>, String> {
        let mut hosts = self.hosts.lock();
        let is_usable = |known: &&HostConfig| known.http2 == http2 && now < known.renewal;
        if let Some(known) = hosts.get(host).filter(is_usable) {
            return Ok(Arc::clone(&known.config));
        }
        let config = Arc::new(self.sign(host, http2, now)?);
        if hosts.len() >= MOST {
            hosts.retain(|_, known| now < known.renewal);
        }
        // Signing takes a tenth of a millisecond, so that nothing is lost by forgetting all at once.
        if hosts.len() >= MOST {
            hosts.clear();
        }
        let known = HostConfig { config: Arc::clone(&config), http2, renewal: now + RENEWAL };
        hosts.insert(host.into(), known);
        Ok(config)
    }

    /// Signs a certificate without a subject, whose only name is `host`.
    fn sign(&self, host: &str, http2: bool, now: u64) -> Result<ServerConfig, String> {
        let named = |error: &dyn fmt::Display| format!("no certificate for {host}: {error}");
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let mut params = CertificateParams::new([bare.to_owned()]).map_err(|error| named(&error))?;
        params.distinguished_name = DistinguishedName::new();
        limit(&mut params, now.saturating_sub(PAST), (now + LIFE - PAST).min(self.certificate.not_after));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = self.leaf_key().map_err(|error| named(&error))?;
        let signed = params.signed_by(&key.pair, &self.issuer).map_err(|error| named(&error))?;
        let certified = CertifiedKey::new(vec![signed.der().clone()], Arc::clone(&key.signing));
        let protocols: &[&[u8]] = if http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
        let config = server_config(Arc::new(SingleCertAndKey::from(certified)), None, protocols);
        let mut config = config.map_err(|error| named(&error))?;
        config.enable_secret_extraction = true;
        Ok(config)
    }
}

impl LeafKey {
    fn generate() -> io::Result<Self> {
        let pair = KeyPair::generate().map_err(io::Error::other)?;
        let bytes = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pair.serialize_der()));
        let signing = provider().key_provider.load_private_key(bytes).map_err(io::Error::other)?;
        Ok(Self { pair, signing })
    }
}

debug_as!(CertificateAuthority, |authority| "CertificateAuthority({:?})", authority.certificate);

/// Returns what follows from the key of an authority: its name, which thus need not be read from its certificate.
fn params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name_of(key));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn name_of(key: &KeyPair) -> String {
    let hash = digest(&SHA256, &key.subject_public_key_info());
    format!("Larder CA {}", hex(&hash.as_ref()[..4]))
}

fn is_named_after(certificate: &[u8], key: &KeyPair) -> bool {
    let subject = x509_cert::Certificate::from_der(certificate).map(|read| read.tbs_certificate.subject);
    subject.is_ok_and(|subject| subject.to_string() == format!("CN={}", name_of(key)))
}

/// Returns the constraints that permit these hosts and the names below them, and no addresses.
fn constraints(only: &[String]) -> NameConstraints {
    let subtree = |host: &String| GeneralSubtree::DnsName(host.trim_start_matches("*.").to_owned());
    // Constraints on names of hosts leave addresses free (RFC 5280 section 4.2.1.10).
    let any = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    let excluded = any.map(|ip| GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(ip, 0)));
    NameConstraints {
        permitted_subtrees: only.iter().map(subtree).collect(),
        excluded_subtrees: excluded.to_vec(),
    }
}

/// Makes a certificate valid from `start` until `end`, in UNIX seconds.
fn limit(params: &mut CertificateParams, start: u64, end: u64) {
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(start);
    params.not_after = epoch + Duration::from_secs(end);
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{CertificateDer, UnixTime};
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};

    use super::*;

    #[test]
    fn certificates_are_bounded_in_number_and_accepted_by_rustls() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = CertificateAuthority::files(folder.path(), "test");
        let now = UnixTime::now().as_secs();
        let terms = AuthorityTerms { days: 3, only: Vec::new() };
        CertificateAuthority::make(&files, &terms, now).expect("written");
        let authority = CertificateAuthority::read(&files).expect("an authority");
        for number in 0..MOST + 9 {
            authority.config_for(&format!("host-{number}.test"), false, now).expect("a certificate");
        }
        assert!(authority.hosts.lock().len() <= MOST);
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(authority.der().to_vec())).expect("an authority");
        let client = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let client = client.expect("versions").with_root_certificates(roots).with_no_client_auth();
        let name = "a.test".try_into().expect("a name");
        let mut client = ClientConnection::new(Arc::new(client), name).expect("a client");
        let server = authority.config_for("a.test", false, now).expect("a certificate");
        let mut server = ServerConnection::new(server).expect("a server");
        while client.is_handshaking() {
            let (mut asked, mut answered) = (Vec::new(), Vec::new());
            client.write_tls(&mut asked).expect("bytes");
            server.read_tls(&mut &*asked).expect("bytes");
            server.process_new_packets().expect("a handshake");
            server.write_tls(&mut answered).expect("bytes");
            client.read_tls(&mut &*answered).expect("bytes");
            client.process_new_packets().expect("a trusted certificate");
        }
    }
}
