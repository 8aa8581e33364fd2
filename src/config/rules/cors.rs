//! `cors` and `security_headers`: keys for changes of fields, and for the answers to preflight requests.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, REFERRER_POLICY,
    VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue, StatusCode, Uri};
use larder_proxy::settings::{Answer, Conditions, Effects, NamedPatterns, Pattern};
use toml::de::DeValue;

use super::files;
use super::values::{each, entries, field_value, unknown};
use crate::config::draft::rule::Cors;
use crate::config::kinds::{Flag, Kind, Seconds};
use crate::config::names;

const KEYS: [&str; 6] = ["origins", "methods", "fields", "expose", "credentials", "max_age"];

/// The fields that `security_headers` adds if a response does not have them.
pub(super) const SECURITY: [(HeaderName, &str); 3] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "SAMEORIGIN"),
    (REFERRER_POLICY, "strict-origin-when-cross-origin"),
];

/// Parses `"*"`, a list of origins, or a table.
pub(super) fn cors(value: &DeValue<'_>) -> Result<Cors, String> {
    let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let mut cors = Cors {
        origins: Vec::new(),
        methods: text(&["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]),
        fields: text(&["Authorization", "Content-Type"]),
        expose: Vec::new(),
        credentials: false,
        max_age: 600,
    };
    let Some(table) = value.as_table() else {
        cors.origins = each(value, origin)?;
        return checked(cors);
    };
    for (key, value) in entries(table) {
        match key {
            "origins" => cors.origins = each(value, origin)?,
            "methods" => cors.methods = each(value, names::token)?,
            "fields" => cors.fields = each(value, names::token)?,
            "expose" => cors.expose = each(value, names::token)?,
            "credentials" => cors.credentials = Flag.read(value)?,
            "max_age" => cors.max_age = Seconds.read(value)?,
            _ => return Err(unknown(key, &KEYS)),
        }
    }
    checked(cors)
}

fn checked(cors: Cors) -> Result<Cors, String> {
    let is_any = cors.origins.iter().any(|origin| origin == "*");
    match cors.origins.len() {
        0 => Err("it has no origins, such as \"https://app.example\" or \"*\"".to_owned()),
        2.. if is_any => Err("\"*\" stands for all origins: write it alone".to_owned()),
        _ if is_any && cors.credentials => {
            Err("browsers accept no credentials where origins is \"*\": name the origins".to_owned())
        }
        _ => Ok(cors),
    }
}

/// Parses an origin as browsers write it (RFC 6454): scheme, host, and port if it is not the scheme's default.
fn origin(text: &str) -> Result<String, String> {
    let wrong =
        || format!("'{}' is not an origin such as \"https://app.example\" or \"*\"", text.escape_debug());
    if text == "*" {
        return Ok(text.to_owned());
    }
    if let Some((scheme, domain)) = text.split_once(SUBDOMAINS).filter(|(_, domain)| !domain.contains('*')) {
        let domain = origin(&format!("{scheme}://{domain}"))?;
        return Ok(domain.replacen("://", SUBDOMAINS, 1));
    }
    if text.contains('*') {
        let text = text.escape_debug();
        return Err(format!(
            "'{text}': \"*\" stands alone, for all origins, or for all subdomains, as in \"https://*.example.com\""
        ));
    }
    let (scheme, authority) = text.split_once("://").ok_or_else(wrong)?;
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    let is_whole = uri.authority().is_some_and(|own| own.as_str() == authority && !authority.contains('@'));
    let own_port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return Err(wrong()),
    };
    if is_whole { Ok(text.strip_suffix(own_port).unwrap_or(text).to_ascii_lowercase()) } else { Err(wrong()) }
}

/// Begins the domain of an origin that stands for all subdomains of it.
const SUBDOMAINS: &str = "://*.";

/// Returns the pattern of the origins that `origin` stands for.
fn pattern(origin: &str) -> Result<Pattern, String> {
    match origin.split_once(SUBDOMAINS) {
        Some((scheme, domain)) => {
            let domain = domain.replace('.', "[.]");
            Pattern::parse(&format!("~^{scheme}://([a-z0-9_-]+[.])+{domain}$"))
        }
        None => Pattern::parse(origin),
    }
}

/// Returns the rules that follow from a rule with `cors` and these conditions. Errors: the conditions cannot be
/// combined with those on `Origin`.
pub(super) fn rules(cors: &Cors, conditions: &Conditions) -> Result<Vec<(Conditions, Effects)>, String> {
    if conditions.need_response() {
        return Err("cors takes effect before there is a response: match only the request".to_owned());
    }
    if !conditions.field.all && conditions.field.each.len() > 1 {
        return Err("cors with a list in match.field: write one rule for each field".to_owned());
    }
    let mut all = Effects::default();
    all.reply.remove = vec![ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_ALLOW_CREDENTIALS];
    if !cors.expose.is_empty() {
        all.reply.set.push((ACCESS_CONTROL_EXPOSE_HEADERS, field_value(&cors.expose.join(", "))?));
    }
    let mut rules = Vec::new();
    if cors.origins == ["*"] {
        all.reply.set.push((ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*")));
        rules.push((conditions.clone(), all));
    } else {
        all.reply.add.push((VARY, HeaderValue::from_static("Origin")));
        rules.push((conditions.clone(), all));
        for origin in &cors.origins {
            let mut one = Effects::default();
            let allowed = if origin.contains(SUBDOMAINS) { "{field:origin}" } else { origin };
            one.reply.set.push((ACCESS_CONTROL_ALLOW_ORIGIN, field_value(allowed)?));
            one.reply.has_placeholders = origin.contains(SUBDOMAINS);
            if cors.credentials {
                one.reply.set.push((ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true")));
            }
            rules.push((with(conditions, "origin", vec![pattern(origin)?]), one));
        }
    }
    let mut preflight = with(conditions, "origin", Vec::new());
    preflight = with(&preflight, "access-control-request-method", Vec::new());
    preflight.method = vec!["OPTIONS".into()];
    rules.push((preflight, answer(cors)?));
    Ok(rules)
}

/// Returns the answer to preflight requests, which have no credentials.
fn answer(cors: &Cors) -> Result<Effects, String> {
    let answer = Answer::Content {
        is_filled: false,
        status: StatusCode::NO_CONTENT,
        content_type: files::plain(),
        content: Bytes::new(),
        is_default: false,
    };
    let mut effects = Effects {
        answer: Some(Arc::new(answer)),
        users: Some(None),
        tokens: Some(None),
        auth_request: Some(None),
        jwt: Some(None),
        ..Effects::default()
    };
    effects.reply.set = vec![
        (ACCESS_CONTROL_ALLOW_METHODS, field_value(&cors.methods.join(", "))?),
        (ACCESS_CONTROL_ALLOW_HEADERS, field_value(&cors.fields.join(", "))?),
        (ACCESS_CONTROL_MAX_AGE, HeaderValue::from(cors.max_age)),
    ];
    Ok(effects)
}

/// Returns `conditions` with the further one that a field has one of these values; any value if `values` is empty.
fn with(conditions: &Conditions, name: &str, values: Vec<Pattern>) -> Conditions {
    let mut conditions = conditions.clone();
    conditions.field.each.push(NamedPatterns { name: name.into(), values });
    conditions.field.all = true;
    conditions
}
