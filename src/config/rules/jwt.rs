//! `jwt`: JSON Web Tokens that requests have to show.

use std::path::Path;
use std::sync::Arc;

use http::HeaderName;
use larder_proxy::base::whole_file;
use larder_proxy::settings::{JwkSet, Jwt, KeySource, Pattern};
use toml::de::DeValue;

use super::values::{each, entries, unknown, written_field};
use crate::cli::files::unread;
use crate::config::kinds::{Kind, Seconds};
use crate::config::lists::{string, strings};
use crate::config::places;

/// The keys of the table.
const KEYS: [&str; 7] = ["jwks", "issuer", "audience", "from", "claims", "send", "skew"];

/// Parses `{ jwks = "https://id.example/jwks.json", issuer = "https://id.example", audience = "shop" }`, or `false`.
pub(super) fn jwt(value: &DeValue<'_>) -> Result<Option<Arc<Jwt>>, String> {
    if value.as_bool() == Some(false) {
        return Ok(None);
    }
    let Some(table) = value.as_table() else {
        return Err("expected { jwks = URL, issuer = text, audience = text }, or false".to_owned());
    };
    let find = |name: &str, what: &str| {
        let found = entries(table).find(|(key, _)| *key == name).map(|(_, value)| value);
        found.ok_or_else(|| format!("it has no '{name}', {what}"))
    };
    let mut jwt = Jwt {
        keys: keys(&string(find("jwks", "the URL or the @file of the keys")?)?)?,
        issuer: string(find("issuer", "which tokens name in iss")?)?,
        audience: strings(find("audience", "which tokens name in aud")?)?,
        cookie: None,
        claims: Vec::new(),
        send: Vec::new(),
        skew: 60,
    };
    for (key, value) in entries(table) {
        match key {
            "jwks" | "issuer" | "audience" => {}
            "from" => jwt.cookie = cookie(&string(value)?)?,
            "claims" => {
                let claims =
                    value.as_table().ok_or("claims: expected a table such as { role = \"admin\" }")?;
                let claim =
                    |(name, value): (&str, &DeValue<'_>)| Ok((name.to_owned(), each(value, Pattern::parse)?));
                jwt.claims = entries(claims).map(claim).collect::<Result<_, String>>()?;
            }
            "send" => {
                let fields = value.as_table().ok_or("send: expected a table such as { X-User = \"sub\" }")?;
                let field = |(name, value): (&str, &DeValue<'_>)| Ok((written_field(name)?, string(value)?));
                jwt.send =
                    entries(fields).map(field).collect::<Result<Vec<(HeaderName, String)>, String>>()?;
            }
            "skew" => jwt.skew = Seconds.read(value)?,
            _ => return Err(unknown(key, &KEYS)),
        }
    }
    Ok(Some(Arc::new(jwt)))
}

/// Reads the place of the keys: a URL, or `@` and a file.
fn keys(text: &str) -> Result<KeySource, String> {
    let Some(path) = text.strip_prefix('@') else { return places::service(text).map(KeySource::Url) };
    let content = whole_file::bytes(Path::new(path), whole_file::LARGEST)
        .map_err(|error| format!("cannot read {path}: {}", unread(&error)))?;
    let keys = JwkSet::parse(&content).map_err(|why| format!("{path}: {why}"))?;
    Ok(KeySource::File(path.into(), keys))
}

/// Parses the place of the token in requests; `None`: `Authorization`.
fn cookie(text: &str) -> Result<Option<Pattern>, String> {
    match text.split_once(':') {
        None if text == "bearer" => Ok(None),
        Some(("cookie", name)) => Pattern::parse(name).map(Some),
        _ => Err(format!("'{}' is none of: bearer cookie:NAME", text.escape_debug())),
    }
}
