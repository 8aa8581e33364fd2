//! The URLs of a bucket, `s3://BUCKET/PREFIX?region=..&endpoint=..`, and of a container of Azure's Blob Storage.

use std::env;

use http::Uri;
use larder_proxy::settings::{CredentialSource, Origin, PathPrefix, S3Bucket, SiteRule};
use larder_semantics::storable::Rules;

use super::draft::SiteDraft;
use super::names::{prefix, quoted};
use crate::cli::words::hint;

/// The schemes of buckets.
const S3: &str = "s3://";
const AZURE: &str = "azure://";
const KEYS: [&str; 7] = ["region", "endpoint", "style", "index", "list", "credentials", "profile"];
const AZURE_KEYS: [&str; 3] = ["endpoint", "index", "credentials"];

/// Parses the URL of a bucket; `None` if it is none.
pub(super) fn any(text: &str) -> Option<Result<Origin, String>> {
    match (text.starts_with(S3), text.starts_with(AZURE)) {
        (true, _) => Some(bucket(text)),
        (_, true) => Some(container(text)),
        _ => None,
    }
}

/// Parses the URL of a container of Azure's Blob Storage.
fn container(text: &str) -> Result<Origin, String> {
    let wrong = |why: &str| format!("{}: {why}", quoted(text));
    let rest = text.strip_prefix(AZURE).unwrap_or(text);
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut names = place.splitn(3, '/');
    let (account, name) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    let below = names.next().unwrap_or_default();
    let is_name = |name: &str| {
        let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"$-".contains(&byte);
        !name.is_empty() && name.bytes().all(is_known)
    };
    if !is_name(account) || !is_name(name) {
        return Err(wrong("expected azure://ACCOUNT/CONTAINER/PREFIX"));
    }
    let options = Options::parse(query, &AZURE_KEYS).map_err(|why| wrong(&why))?;
    let credentials = match options.value("credentials") {
        None | Some("env") => None,
        Some("none") => Some(CredentialSource::None),
        Some(_) => return Err(wrong("credentials is one of: env none")),
    };
    // Other storages than Azure's own have the account in the path.
    let (https, authority, root) = match options.value("endpoint") {
        None => (true, format!("{account}.blob.core.windows.net"), format!("/{name}/")),
        Some(url) => {
            let (https, authority) = endpoint(url).ok_or_else(|| wrong(NO_ENDPOINT))?;
            (https, authority, format!("/{account}/{name}/"))
        }
    };
    let path: PathPrefix = prefix(&format!("{root}{below}"))?;
    let bucket = S3Bucket {
        url: text.to_owned(),
        account: Some(account.to_owned()),
        region: String::new(),
        root,
        index: options.value("index").map(str::to_owned),
        lists: false,
        credentials,
        profile: None,
    };
    Ok(Origin { path: Some(path), bucket: Some(Box::new(bucket)), ..Origin::new(https, authority) })
}

const NO_ENDPOINT: &str = "endpoint is no http://HOST[:PORT] or https://HOST[:PORT]";

fn bucket(text: &str) -> Result<Origin, String> {
    let wrong = |why: &str| format!("{}: {why}", quoted(text));
    let rest = text.strip_prefix(S3).unwrap_or(text);
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (name, below) = place.split_once('/').unwrap_or((place, ""));
    let is_named = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_named) || matches!(name, "." | "..") {
        return Err(wrong("expected s3://BUCKET/PREFIX?region=REGION"));
    }
    let options = Options::parse(query, &KEYS).map_err(|why| wrong(&why))?;
    let value = |key: &str| options.value(key);
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let region = value("region").map(str::to_owned);
    let region = region.or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"));
    let region = region.unwrap_or_else(|| "us-east-1".to_owned());
    if region.is_empty() || !region.bytes().all(is_named) {
        return Err(wrong(&format!("{} is no region", quoted(&region))));
    }
    let (https, endpoint) = match value("endpoint") {
        None => (true, amazon(&region)),
        Some(url) => endpoint(url).ok_or_else(|| wrong(NO_ENDPOINT))?,
    };
    // A certificate for all buckets of an endpoint has one label in place of the bucket.
    let is_virtual = match value("style") {
        None => value("endpoint").is_none() && !name.contains('.'),
        Some("virtual") => true,
        Some("path") => false,
        Some(_) => return Err(wrong("style is 'path' or 'virtual'")),
    };
    let lists = match value("list") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(wrong("list is 'true' or 'false'")),
    };
    let source = |name: &str| {
        let names = CredentialSource::ORDER.map(CredentialSource::name);
        CredentialSource::of_name(name)
            .ok_or_else(|| wrong(&format!("credentials is one of: {} none", names.join(" "))))
    };
    let credentials = value("credentials").map(source).transpose()?;
    let (authority, root) = match is_virtual {
        true => (format!("{name}.{endpoint}"), "/".to_owned()),
        false => (endpoint, format!("/{name}/")),
    };
    let path: PathPrefix = prefix(&format!("{root}{below}"))?;
    let owned = |key: &str| value(key).map(str::to_owned);
    let bucket = S3Bucket {
        url: text.to_owned(),
        account: None,
        region,
        root,
        index: owned("index"),
        lists,
        credentials,
        profile: owned("profile"),
    };
    Ok(Origin { path: Some(path), bucket: Some(Box::new(bucket)), ..Origin::new(https, authority) })
}

/// Lets all clients of a site share the responses of its origins, if these are only buckets: cookies and `Authorization`
/// do not reach them.
pub(super) fn share(site: &SiteDraft, site_rules: &[SiteRule], rules: &mut Rules) {
    let of_rules = site_rules.iter().filter_map(|rule| rule.effects.origin.as_ref()).flatten();
    if site.values.origins.iter().chain(of_rules).all(|origin| origin.bucket.is_some()) {
        rules.shares_authorized = true;
        rules.guesses_with_cookies |= !site.is_written("heuristic_cookies");
    }
}

/// Returns the authority of Amazon's storage in a region.
fn amazon(region: &str) -> String {
    let end = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("s3.{region}.{end}")
}

/// Returns whether the endpoint with this URL uses TLS, and its authority.
fn endpoint(url: &str) -> Option<(bool, String)> {
    let uri: Uri = url.parse().ok()?;
    let https = match uri.scheme_str()? {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
    let port = authority.as_str()[authority.host().len()..].strip_prefix(':');
    let is_whole = uri.path() == "/" && uri.query().is_none() && !authority.host().is_empty();
    let is_right = is_whole && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    is_right.then(|| (https, authority.as_str().to_ascii_lowercase()))
}

/// The values of the query.
struct Options(Vec<(String, String)>);

impl Options {
    fn parse(query: &str, keys: &[&'static str]) -> Result<Self, String> {
        let mut options = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !keys.contains(&key) {
                let hint = hint(key, keys.iter().copied());
                return Err(format!("unknown parameter '{}'{hint}", key.escape_debug()));
            }
            options.push((key.to_owned(), value.to_owned()));
        }
        Ok(Self(options))
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::super::places::{origin, show_origin};

    #[test]
    fn a_bucket_has_an_authority_and_a_root_by_its_style() {
        let rows = [
            ("s3://media?region=eu-west-1", "https", "media.s3.eu-west-1.amazonaws.com", "/", "/"),
            (
                "s3://a.b/x/y?region=eu-west-1 weight=2",
                "https",
                "s3.eu-west-1.amazonaws.com",
                "/a.b/",
                "/a.b/x/y",
            ),
            ("s3://m/?region=r&endpoint=http://127.0.0.1:9000", "http", "127.0.0.1:9000", "/m/", "/m"),
            ("s3://m/x/?region=r&endpoint=https://Minio&style=virtual", "https", "m.minio", "/", "/x"),
            ("azure://a/m/x", "https", "a.blob.core.windows.net", "/m/", "/m/x"),
            ("azure://a/$web?endpoint=http://b:1&index=i", "http", "b:1", "/a/$web/", "/a/$web"),
            ("s3://m?region=cn-north-1&style=path", "https", "s3.cn-north-1.amazonaws.com.cn", "/m/", "/m"),
        ];
        for (text, scheme, authority, root, path) in rows {
            let origin = origin(text).expect(text);
            let bucket = origin.bucket.as_ref().expect(text);
            assert_eq!(bucket.account.is_some(), text.starts_with("azure"));
            let found = (origin.scheme(), origin.authority.as_str(), bucket.root.as_str());
            assert_eq!(found, (scheme, authority, root), "{text}");
            assert_eq!(origin.path.as_ref().map(ToString::to_string).as_deref(), Some(path), "{text}");
            assert_eq!(show_origin(&origin), text);
        }
    }

    #[test]
    fn wrong_urls_of_buckets_are_explained() {
        for (text, error) in [
            ("s3://", "'s3://': expected s3://BUCKET/PREFIX?region=REGION"),
            ("azure://a", "'azure://a': expected azure://ACCOUNT/CONTAINER/PREFIX"),
            ("azure://a/b?list=true", "'azure://a/b?list=true': unknown parameter 'list'"),
            (
                "azure://a/b?credentials=imds",
                "'azure://a/b?credentials=imds': credentials is one of: env none",
            ),
            ("s3://b?regon=x", "'s3://b?regon=x': unknown parameter 'regon'; did you mean 'region'?"),
            ("s3://b?style=dns", "'s3://b?style=dns': style is 'path' or 'virtual'"),
            ("s3://b?region=a:b", "'s3://b?region=a:b': 'a:b' is no region"),
            (
                "s3://b?endpoint=minio:9000",
                "'s3://b?endpoint=minio:9000': endpoint is no http://HOST[:PORT] or https://HOST[:PORT]",
            ),
            (
                "s3://b?credentials=ec2",
                "'s3://b?credentials=ec2': credentials is one of: env web file container imds none",
            ),
        ] {
            assert_eq!(origin(text), Err(error.to_owned()));
        }
    }
}
