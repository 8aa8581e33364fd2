//! The keys of a site's `acme`: a table within the table.

use http::Uri;
use larder_proxy::settings::{AcmeChallenge, LETS_ENCRYPT, LETS_ENCRYPT_STAGING};
use toml::de::DeValue;

use super::key::{Key, keys};
use super::values::DIRECTORY;
use crate::cli::words::{hint, nearest};
use crate::config::draft::acme::Draft;
use crate::config::kinds::{Choice, Flag, Kind, List, OrWord, Text, Words, table};

const CONTACT: Text<String> = Text("mailto: URL", contact, String::clone);
const AUTHORITY: Text<String> = Text("https:// URL of an ACME directory", directory, show_directory);
const CHALLENGE: Choice<AcmeChallenge> = Choice(&[
    (AcmeChallenge::Http01.name(), AcmeChallenge::Http01),
    (AcmeChallenge::TlsAlpn01.name(), AcmeChallenge::TlsAlpn01),
]);

/// The directories that have a short name.
const DIRECTORIES: &[(&str, &str)] =
    &[("letsencrypt", LETS_ENCRYPT), ("letsencrypt-staging", LETS_ENCRYPT_STAGING)];

/// The keys of `acme`.
pub(crate) const ACME: &[Key<Draft>] = keys! {
    "contact" in contact: List(CONTACT),
        "address at which the authority can reach you, such as \"mailto:admin@docs.example\"";
    "directory" in directory: AUTHORITY,
        "the authority: \"letsencrypt\", \"letsencrypt-staging\" for tests, or the URL of its directory";
    "accept_terms" in accept_terms: Flag,
        "true: you accept the terms of the authority; Let's Encrypt and most others issue no certificates without that";
    "challenge" in challenge: OrWord("auto", CHALLENGE),
        "how the authority verifies that a host leads here: by a file at port 80, or by TLS at port 443; auto: as the listeners \
         permit, and the other way after a failure";
    "ca" in ca: OrWord("system", DIRECTORY),
        "PEM file with the authorities that are trusted for the certificate of the directory";
};

/// A table with these keys: `{ contact = "mailto:admin@docs.example", accept_terms = true }`.
pub(super) struct Acme;

impl Words for Acme {
    fn words(&self) -> String {
        "table such as `{ contact = \"mailto:admin@docs.example\", accept_terms = true }`".to_owned()
    }
}

impl Kind<Draft> for Acme {
    fn read(&self, value: &DeValue<'_>) -> Result<Draft, String> {
        let table = table(self, value)?;
        let mut draft = Draft::default();
        for (name, value) in table.iter() {
            let name: &str = name.get_ref();
            let Some(key) = ACME.iter().find(|key| key.name == name) else {
                let hint = hint(name, ACME.iter().map(|key| key.name));
                return Err(format!("unknown key '{}'{hint}", name.escape_debug()));
            };
            (key.set)(&mut draft, value.get_ref()).map_err(|why| format!("{name}: {why}"))?;
        }
        Ok(draft)
    }

    fn show(&self, value: &Draft) -> String {
        let keys: Vec<_> = ACME.iter().map(|key| format!("{} = {}", key.name, (key.show)(value))).collect();
        format!("{{ {} }}", keys.join(", "))
    }
}

fn contact(text: &str) -> Result<String, String> {
    let is_address = |address: &str| {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?,;<>\"".contains(&byte);
        let (name, host) = address.split_once('@').unwrap_or_default();
        !name.is_empty() && !host.is_empty() && !host.contains('@') && address.bytes().all(is_plain)
    };
    match text.strip_prefix("mailto:") {
        Some(address) if is_address(address) => Ok(text.to_owned()),
        None if is_address(text) => Err(format!("'{text}': write it as a URL: 'mailto:{text}'")),
        _ => Err(format!("'{}' is not a URL such as 'mailto:admin@docs.example'", text.escape_debug())),
    }
}

fn directory(text: &str) -> Result<String, String> {
    if let Some((_, url)) = DIRECTORIES.iter().find(|(word, _)| *word == text) {
        return Ok((*url).to_owned());
    }
    if let Some(near) = nearest(text, DIRECTORIES.iter().map(|(word, _)| *word)) {
        return Err(format!("unknown word '{}'; did you mean '{near}'?", text.escape_debug()));
    }
    let is_url = |uri: &Uri| {
        let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
        uri.scheme_str() == Some("https") && !authority.is_empty() && !authority.contains('@')
    };
    match text.parse::<Uri>() {
        Ok(uri) if is_url(&uri) => Ok(text.to_owned()),
        // RFC 8555 section 6.1.
        Ok(uri) if uri.scheme_str() == Some("http") => Err(format!("'{text}': ACME needs https://")),
        _ => Err(format!(
            "'{}' is neither the URL of a directory, such as '{LETS_ENCRYPT_STAGING}', nor a word; known: {}",
            text.escape_debug(),
            DIRECTORIES.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" ")
        )),
    }
}

fn show_directory(url: &String) -> String {
    let word = DIRECTORIES.iter().find(|(_, known)| known == url).map(|(word, _)| *word);
    word.unwrap_or(url).to_owned()
}
