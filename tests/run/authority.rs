//! The authority: its files, its certificates as OpenSSL and NSS see them, and the stores of a machine that trust it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use larder_testkit::{not_tested, output, programs, stdout};

use crate::served::Team;
use crate::{Registry, origin};

#[test]
fn openssl_and_nss_accept_the_certificates_of_the_authority() {
    let registry = Registry::before(origin());
    let team = Team::new(&registry, "");
    let file = |name: &str| team.state.path().join(name).display().to_string();
    for name in ["ca.key", "ca.pem"] {
        let mode = fs::metadata(file(name)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let openssl = |words: &[&str]| output(Command::new("openssl").args(words));
    let authority = openssl(&["x509", "-noout", "-text", "-in", &file("ca.pem")]);
    for expected in ["prime256v1", "CA:TRUE, pathlen:0", "Certificate Sign, CRL Sign"] {
        assert!(authority.contains(expected), "{expected}: {authority}");
    }
    let (proxy, port) = (team.proxy.forward.to_string(), registry.port());
    let mut connect = Command::new("openssl");
    connect.args(["s_client", "-proxy", &proxy, "-connect", &format!("localhost:{port}")]);
    let shown = stdout(&connect.stdin(Stdio::null()).output().expect("openssl"));
    let begin = shown.find("-----BEGIN").unwrap_or_else(|| panic!("no certificate: {shown}"));
    fs::write(file("leaf.pem"), &shown[begin..]).expect("written");
    let own = "subjectAltName,extendedKeyUsage,keyUsage,basicConstraints";
    let leaf = openssl(&["x509", "-noout", "-subject", "-ext", own, "-in", &file("leaf.pem")]);
    let lines: Vec<_> = leaf.lines().map(str::trim).collect();
    assert_eq!(lines[0], "subject=", "{leaf}");
    for expected in ["DNS:localhost", "TLS Web Server Authentication", "Digital Signature"] {
        assert!(lines.contains(&expected), "{expected}: {leaf}");
    }
    let ends_in_90_days = format!("{}", 90 * 86_400);
    let mut end = Command::new("openssl");
    end.args(["x509", "-noout", "-checkend", &ends_in_90_days, "-in", &file("leaf.pem")]);
    assert_eq!(end.output().expect("openssl").status.code(), Some(1));
    let strict =
        ["verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", "localhost", "-CAfile"];
    openssl(&[&strict[..], &[&file("ca.pem"), &file("leaf.pem")]].concat());
    let store = format!("sql:{}", team.state.path().display());
    for words in [
        &["-N", "--empty-password"][..],
        &["-A", "-t", "C,,", "-n", "authority", "-i", &file("ca.pem")],
        &["-A", "-t", ",,", "-n", "leaf", "-i", &file("leaf.pem")],
        &["-V", "-u", "V", "-n", "leaf"],
    ] {
        output(Command::new("certutil").args(["-d", &store]).args(words));
    }
}

/// The directories that the stores are in, with a store of Java as on Debian; and a hook that fills it, as there.
const STORES: &str = r#"
set -e
java=/etc/ssl/certs/java/cacerts
cp "$(readlink -f "$1")" cacerts
mkdir -p jdk/lib/security jdk/bin empty home/.pki/nssdb
cp cacerts jdk/lib/security/cacerts
ln -s "$2" jdk/bin/keytool
for folder in /etc/ssl/certs /usr/local/share/ca-certificates /usr/share/ca-certificates /etc/ca-certificates/update.d; do
  mount -t tmpfs tmpfs $folder
done
mkdir /etc/ssl/certs/java
cp cacerts $java
cat > /etc/ca-certificates/update.d/jks-keystore <<'END'
#!/bin/sh
sed -n 's/^+//p' | while read file; do
  keytool -importcert -noprompt -keystore /etc/ssl/certs/java/cacerts -storepass changeit -alias "debian:larder-ca.pem" -file "$file"
done
END
chmod +x /etc/ca-certificates/update.d/jks-keystore
export HOME=$PWD/home JAVA_HOME=$PWD/jdk STATE_DIRECTORY=$PWD/state
certutil -N -d sql:home/.pki/nssdb --empty-password
count() {
  echo "$(ls /etc/ssl/certs | grep -c larder-ca)" "$(certutil -L -d sql:home/.pki/nssdb | grep -c larder-ca)"     "$(keytool -list -keystore $java -storepass changeit | grep -c larder-ca)"     "$(keytool -list -keystore jdk/lib/security/cacerts -storepass changeit | grep -c larder-ca)" >&3
}
"#;

#[test]
fn the_stores_of_a_machine_trust_the_authority_until_it_is_removed() {
    let trial = Command::new("unshare").args(["--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
    if !trial.is_ok_and(|trial| trial.status.success()) {
        return not_tested("a file system to mount (`unshare --mount`, tmpfs)");
    }
    let folder = tempfile::tempdir().expect("a directory");
    let larder = programs::larder().display().to_string();
    let keytool = programs::find("keytool").expect("keytool");
    let java = Path::new("/etc/ssl/certs/java/cacerts");
    let steps = format!(
        "exec 3>&1 >said 2>&1; {STORES}
        '{larder}' ca init; '{larder}' ca trust; count; '{larder}' ca untrust; count; '{larder}' ca untrust >&3"
    );
    let mut machine = Command::new("unshare");
    machine.args(["--mount", "sh", "-c", &steps, "sh"]).arg(java).arg(keytool).current_dir(folder.path());
    let machine = machine.output().expect("it runs");
    let said = fs::read_to_string(folder.path().join("said")).unwrap_or_default();
    let counts = "1 1 1 1\n0 0 0 0\nno store of this machine has the certificate of an authority\n";
    assert_eq!(stdout(&machine), counts, "{said}");
}
