//! The certificates of the listeners: read from files, chosen by the name that a client requests, and read again while
//! the program runs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{SHA256, digest};
use parking_lot::Mutex;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, SignatureAlgorithm, SignatureScheme};
use webpki::EndEntityCert;
use x509_cert::der::asn1::{ObjectIdentifier, UintRef};
use x509_cert::der::{Decode, Reader, SliceReader};

use super::challenges::{self, Challenges};
use super::{pem, provider};
use crate::base::clock;
use crate::base::file_version::FileVersion;
use crate::base::settings::{CertificateFault, CertificateFiles};

/// The object identifier of RSA keys (RFC 8017, appendix C).
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
/// Minimum of milliseconds between two log lines about clients that get no certificate.
const BETWEEN: u64 = 60_000;
/// Bits of the shortest RSA key that can sign.
const LEAST_RSA: usize = 2_048;

/// A certificate with its key, read from two files.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The files that it was read from.
    pub files: CertificateFiles,
    /// The certificate's DNS names, in lower case; a wildcard begins with `*.`.
    pub names: Vec<String>,
    /// The beginning of its validity, in UNIX seconds.
    pub not_before: u64,
    /// The end of its validity, in UNIX seconds.
    pub not_after: u64,
    key: Arc<CertifiedKey>,
    /// The versions of the two files at the time of reading.
    versions: [Option<FileVersion>; 2],
}

impl Certificate {
    /// Reads a chain and its key. Both files are PEM; the chain begins with the leaf certificate.
    ///
    /// # Errors
    /// The file with the problem, and its description.
    pub fn read(files: &CertificateFiles) -> Result<Self, CertificateFault> {
        let CertificateFiles { cert, key, .. } = files;
        // Taken before the content is read, so that the next check detects a change in between.
        let versions = [FileVersion::of(cert), FileVersion::of(key)];
        let chain = read_chain(cert).map_err(CertificateFault::of_cert)?;
        let private = pem::read(key).and_then(|pem| pem::private_key(key, &pem));
        let private = private.map_err(CertificateFault::of_key)?;
        Self::of(files, versions, chain, private)
    }

    /// The same as [`read`](Self::read), from `pem`, the content of a file with both chain and key. The file itself may
    /// have changed since.
    pub fn from_pem(files: &CertificateFiles, pem: &[u8]) -> Result<Self, CertificateFault> {
        let chain = pem::certificates(&files.cert, pem).map_err(CertificateFault::of_cert)?;
        let private = pem::private_key(&files.key, pem).map_err(CertificateFault::of_key)?;
        Self::of(files, [None, None], chain, private)
    }

    fn of(
        files: &CertificateFiles,
        versions: [Option<FileVersion>; 2],
        chain: Vec<CertificateDer<'static>>,
        private: PrivateKeyDer<'static>,
    ) -> Result<Self, CertificateFault> {
        let CertificateFiles { cert, key, .. } = files;
        let fault = |why: String| CertificateFault::of_cert(format!("{}: {why}", cert.display()));
        let leaf = chain.first().ok_or_else(|| fault("no certificate in it".to_owned()))?;
        let malformed = |why: &dyn fmt::Display| fault(format!("not a certificate of version 3: {why}"));
        let names = EndEntityCert::try_from(leaf).map_err(|error| malformed(&error))?;
        let names = names.valid_dns_names().map(str::to_ascii_lowercase).collect();
        let parsed = x509_cert::Certificate::from_der(leaf).map_err(|error| malformed(&error))?;
        if let Some(bits) = rsa_bits(&parsed).filter(|bits| *bits < LEAST_RSA) {
            return Err(fault(format!("an RSA key of {bits} bits; TLS needs at least {LEAST_RSA}")));
        }
        let validity = parsed.tbs_certificate.validity;
        let seconds = |time: x509_cert::time::Time| time.to_unix_duration().as_secs();
        let (not_before, not_after) = (seconds(validity.not_before), seconds(validity.not_after));
        let certified = CertifiedKey::from_der(chain, private, &provider()).map_err(|error| {
            CertificateFault::of_key(match error {
                rustls::Error::InconsistentKeys(_) => {
                    format!("{} is not the key of the certificate in {}", key.display(), cert.display())
                }
                error => format!("{}: {error}", key.display()),
            })
        })?;
        Ok(Self { files: files.clone(), names, not_before, not_after, key: Arc::new(certified), versions })
    }

    /// Whether the certificate is valid for `name`, which is in lower case.
    pub fn is_for(&self, name: &str) -> bool {
        let wildcard = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
        self.names.iter().any(|known| known == name || Some(known) == wildcard.as_ref())
    }

    /// Returns a sentence about the certificate, with the place of its configuration.
    pub fn tell(&self, what: &str) -> String {
        format!("{}: the certificate for {} {what}", self.files.place, self.names.join(", "))
    }

    /// Returns the SHA-256 fingerprint of the leaf certificate, as browsers show it.
    pub fn fingerprint(&self) -> String {
        let leaf = self.key.end_entity_cert().map(|leaf| digest(&SHA256, leaf));
        let bytes = leaf.as_ref().map_or(&[][..], |digest| digest.as_ref());
        bytes.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
    }

    /// Returns the chain and the key for handshakes with clients.
    pub(super) fn for_server(self) -> Arc<CertifiedKey> {
        self.key
    }

    /// Returns the certificates of the file, the leaf first.
    pub(super) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.key.cert
    }

    /// Returns the certificate of the name itself, the first of its chain.
    pub fn leaf(&self) -> Option<&CertificateDer<'_>> {
        self.key.end_entity_cert().ok()
    }

    /// Returns a resolver that presents the certificate to servers that request a client's certificate.
    pub fn for_client(self) -> Arc<dyn ResolvesClientCert> {
        let key = CertifiedKey::clone(&self.key);
        Arc::new(SingleCertAndKey::from(key))
    }

    fn is_current(&self) -> bool {
        self.versions == [FileVersion::of(&self.files.cert), FileVersion::of(&self.files.key)]
    }

    /// Returns the order of preference: clients that support both kinds get the shorter signature.
    fn rank(&self) -> u8 {
        u8::from(self.key.key.algorithm() == SignatureAlgorithm::RSA)
    }
}

/// Returns the length of an RSA key in bits; `None` for other keys.
fn rsa_bits(certificate: &x509_cert::Certificate) -> Option<usize> {
    let about = &certificate.tbs_certificate.subject_public_key_info;
    if about.algorithm.oid != RSA {
        return None;
    }
    let mut reader = SliceReader::new(about.subject_public_key.raw_bytes()).ok()?;
    let modulus = reader.sequence(|inner| {
        let modulus = UintRef::decode(inner)?;
        UintRef::decode(inner)?;
        Ok(modulus)
    });
    let bytes = modulus.ok()?.as_bytes();
    Some(bytes.len() * 8 - bytes.first()?.leading_zeros() as usize)
}

/// Reads the certificates in a PEM file; at least one.
///
/// # Errors
/// The file with the problem, and its description.
pub fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    pem::certificates(path, &pem::read(path)?)
}

/// Reads the certificates of authorities in a PEM file; at least one.
///
/// # Errors
/// A description of the problem with the file.
pub fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for authority in read_chain(path)? {
        let why = |error| format!("{}: not the certificate of an authority: {error}", path.display());
        roots.add(authority).map_err(why)?;
    }
    Ok(roots)
}

/// The certificates in use, by their names.
#[derive(Debug, Default)]
struct Table {
    /// Certificates from files, in the order of the config.
    all: Vec<Certificate>,
    /// Certificates that an authority has issued to this process.
    issued: CertificateIssuer,
    /// Certificates by name, the preferred one first. The names of wildcards keep their `*.` prefix.
    names: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// For clients that request no name, or an unknown one.
    default: Vec<Arc<CertifiedKey>>,
}

/// Certificates that an authority issues to this process.
#[derive(Clone, Debug, Default)]
pub struct CertificateIssuer {
    /// The issued certificates.
    pub certificates: Vec<Certificate>,
    /// The names without a certificate so far.
    pub awaited: BTreeSet<String>,
}

impl Table {
    fn new(all: Vec<Certificate>, issued: CertificateIssuer) -> Self {
        let mut names: HashMap<String, Vec<Arc<CertifiedKey>>> = HashMap::new();
        let mut by_rank: Vec<_> = all.iter().chain(&issued.certificates).collect();
        let first = by_rank.first().copied();
        by_rank.sort_by_key(|certificate| certificate.rank());
        for certificate in &by_rank {
            for name in &certificate.names {
                names.entry(name.clone()).or_default().push(Arc::clone(&certificate.key));
            }
        }
        // All certificates with the same names as the first one of the config.
        let is_like_first = |other: &&&Certificate| first.is_some_and(|first| first.names == other.names);
        let default =
            by_rank.iter().filter(is_like_first).map(|certificate| Arc::clone(&certificate.key)).collect();
        Self { names, default, all, issued }
    }

    /// Returns the certificates for `name`, the preferred one first; `None` if the name is unknown.
    fn find(&self, name: &str) -> Option<&[Arc<CertifiedKey>]> {
        let name = name.to_ascii_lowercase();
        let wildcard = || self.names.get(&format!("*.{}", name.split_once('.')?.1));
        match self.names.get(&name).or_else(wildcard) {
            Some(found) => Some(found),
            // A certificate for another name would be no better than none.
            None if self.issued.awaited.contains(&name) => Some(&[]),
            None => None,
        }
    }
}

/// The certificates of the listeners, which can be replaced while they are in use.
#[derive(Debug, Default)]
pub struct Certificates {
    table: ArcSwap<Table>,
    /// Held while the table is replaced.
    changing: Mutex<()>,
    /// The certificates for authorities that verify names (RFC 8737), by name.
    pub challenges: Challenges,
    /// The time of the last log line about a name without a certificate, in [`clock::millis`].
    said: AtomicU64,
}

impl Certificates {
    /// Reads the certificates in `files`. Errors: a description of the first unusable pair, and the place of its
    /// configuration.
    pub fn read(files: &[CertificateFiles]) -> Result<Self, String> {
        let read = |files: &CertificateFiles| Certificate::read(files).map_err(|why| files.blame(&why));
        let all = files.iter().map(read).collect::<Result<_, _>>()?;
        let table = ArcSwap::from_pointee(Table::new(all, CertificateIssuer::default()));
        Ok(Self { table, ..Self::default() })
    }

    /// Replaces all certificates issued by an authority with `issued`.
    pub fn issue(&self, issued: CertificateIssuer) {
        let _changing = self.changing.lock();
        let all = self.table.load().all.clone();
        self.table.store(Arc::new(Table::new(all, issued)));
    }

    /// Reads the certificate in `files`. Errors: a description of the problem with it.
    pub(super) fn one(files: &CertificateFiles) -> Result<Self, CertificateFault> {
        let certificate = Certificate::read(files)?;
        let table = ArcSwap::from_pointee(Table::new(vec![certificate], CertificateIssuer::default()));
        Ok(Self { table, ..Self::default() })
    }

    /// Reads the certificates in `files` again if they have changed, or in any case if `all` is set. If a changed pair
    /// is unusable, its previous certificate stays in use. Returns descriptions of the problems.
    pub fn refresh(&self, files: &[CertificateFiles], all: bool) -> Vec<String> {
        let _changing = self.changing.lock();
        let old = self.table.load_full();
        let is_known = old.all.iter().map(|certificate| &certificate.files).eq(files);
        if is_known && !all && old.all.iter().all(Certificate::is_current) {
            return Vec::new();
        }
        let (mut problems, mut new) = (Vec::new(), Vec::new());
        for files in files {
            let known = old.all.iter().find(|known| known.files.is_same(files));
            if let Some(known) = known.filter(|known| !all && known.is_current()) {
                new.push(known.clone());
                continue;
            }
            // Taken before the files are read, so that the next check detects a change in between.
            let versions = [FileVersion::of(&files.cert), FileVersion::of(&files.key)];
            match (Certificate::read(files), known) {
                (Ok(certificate), _) => new.push(certificate),
                (Err(why), Some(known)) => {
                    problems.push(format!(
                        "{}; the certificate that was read before stays in use",
                        files.blame(&why)
                    ));
                    // The files are not read again before their next change.
                    new.push(Certificate { versions, files: files.clone(), ..known.clone() });
                }
                (Err(why), None) => problems.push(files.blame(&why)),
            }
        }
        if !new.is_empty() || files.is_empty() && !old.issued.certificates.is_empty() {
            self.table.store(Arc::new(Table::new(new, old.issued.clone())));
        }
        problems
    }

    /// Returns the certificate for the name that `client` requests; `None` if no certificate has that name.
    pub(super) fn by_name(&self, client: &ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        best(self.table.load().find(client.server_name()?)?, client)
    }

    /// Logs that there is no certificate for `name` yet, at most once in [`BETWEEN`] milliseconds.
    fn tell_of(&self, name: &str) {
        let (now, said) = (clock::millis(), self.said.load(Ordering::Relaxed));
        if said == 0 || now.saturating_sub(said) >= BETWEEN {
            self.said.store(now, Ordering::Relaxed);
            tracing::warn!("a client requested {name}, for which no authority has issued a certificate yet");
        }
    }

    /// Returns the certificates by their first name; of several, the one that expires first.
    pub(crate) fn by_first_name(&self) -> BTreeMap<String, Certificate> {
        let table = self.table.load();
        let mut first = BTreeMap::<String, Certificate>::new();
        for certificate in table.all.iter().chain(&table.issued.certificates) {
            let name = certificate.names.first().cloned().unwrap_or_default();
            let known = first.entry(name).or_insert_with(|| certificate.clone());
            if certificate.not_after < known.not_after {
                *known = certificate.clone();
            }
        }
        first
    }

    /// Returns the certificates from files that clients refuse at `now`, in UNIX seconds, or will soon: a description
    /// of each, with the place of its configuration.
    pub fn troubles(&self, now: u64) -> Vec<String> {
        let tell = |certificate: &Certificate| Some(certificate.tell(&certificate.trouble(now)?));
        self.table.load().all.iter().filter_map(tell).collect()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if challenges::is_asked(&client) {
            return self.challenges.answer(client.server_name()?);
        }
        let table = self.table.load();
        let found = client.server_name().and_then(|name| table.find(name)).unwrap_or(&table.default);
        if found.is_empty() {
            self.tell_of(client.server_name().unwrap_or_default());
        }
        best(found, &client)
    }
}

impl ResolvesClientCert for Certificates {
    fn resolve(&self, _authorities: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let fits = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(schemes).is_some();
        self.table.load().default.iter().find(fits).cloned()
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Returns the first certificate in `found` whose signature `client` can verify, or else the first one.
fn best(found: &[Arc<CertifiedKey>], client: &ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
    let fits = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(client.signature_schemes()).is_some();
    found.iter().find(fits).or(found.first()).cloned()
}
