//! Credentials for buckets, from the sources that Amazon's own programs read: variables, a file, the Security Token
//! Service, and the endpoints of containers and machines.

use std::env;
use std::io;
use std::path::Path;
use std::time::Duration;

use http::{Method, StatusCode};

use super::credentials::Credentials;
use super::{element, sigv4};
use crate::base::networks::host_of;
use crate::base::settings::{CredentialSource, S3Bucket};
use crate::base::whole_file;
use crate::http::body::Upload;
use crate::http::fields::FieldWriter;
use crate::origin::{Client, OriginRequest, OutgoingHead, Waits};

/// The longest answer of an endpoint, in bytes.
const LONGEST: usize = 64 << 10;
/// The longest wait for an endpoint. Where there is none, an address does not answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The result of a source: `None` if it is not set up here.
type SourceResult = Result<Option<Credentials>, String>;

/// Finds credentials for `bucket`. Errors: what each source said, in one line.
pub(super) async fn find(client: &Client, bucket: &S3Bucket) -> Result<Credentials, String> {
    if let Some(account) = &bucket.account {
        let key = variable("AZURE_STORAGE_KEY").ok_or("AZURE_STORAGE_KEY is not set")?;
        return Ok(Credentials::of(account, key.trim()));
    }
    let mut told = Vec::new();
    for source in CredentialSource::ORDER {
        if bucket.credentials.is_some_and(|only| only != source) {
            continue;
        }
        let found = match source {
            CredentialSource::None => Ok(None),
            CredentialSource::Environment => Ok(of_environment()),
            CredentialSource::WebIdentity => of_web_identity(client, bucket).await,
            CredentialSource::File => of_file(bucket.profile.as_deref()),
            CredentialSource::Container => of_container(client).await,
            CredentialSource::Metadata => of_metadata(client).await,
        };
        match found {
            Ok(Some(credentials)) => return Ok(credentials),
            Ok(None) => told.push(format!("{}: not set up", source.name())),
            // Later sources would have credentials for something else.
            Err(why) => return Err(format!("{}: {why}", source.name())),
        }
    }
    Err(told.join(", "))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn of_environment() -> Option<Credentials> {
    let credentials = Credentials::of(&variable("AWS_ACCESS_KEY_ID")?, &variable("AWS_SECRET_ACCESS_KEY")?);
    Some(credentials.with_token(variable("AWS_SESSION_TOKEN").as_deref()))
}

fn of_file(profile: Option<&str>) -> SourceResult {
    let named = variable("AWS_SHARED_CREDENTIALS_FILE");
    let usual = || variable("HOME").map(|home| format!("{home}/.aws/credentials"));
    let is_named = named.is_some() || profile.is_some();
    let Some(path) = named.or_else(usual) else { return Ok(None) };
    let profile = profile
        .map(str::to_owned)
        .or_else(|| variable("AWS_PROFILE"))
        .unwrap_or_else(|| "default".to_owned());
    match read(&path) {
        Ok(text) => match of_profile(&text, &profile) {
            None if is_named => Err(format!("{path} has no keys in [{profile}]")),
            found => Ok(found),
        },
        Err(error) if is_named => Err(format!("cannot read {path}: {error}")),
        Err(_) => Ok(None),
    }
}

fn read(path: &str) -> io::Result<String> {
    whole_file::text(Path::new(path), whole_file::LARGEST)
}

/// Returns the credentials of a profile in the text of the file.
fn of_profile(text: &str, profile: &str) -> Option<Credentials> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    let is_title = |line: &str| line.starts_with('[') && line.ends_with(']');
    let mut lines = lines.skip_while(|line| !is_title(line) || line[1..line.len() - 1].trim() != profile);
    lines.next()?;
    let pairs = lines.take_while(|line| !is_title(line)).filter_map(|line| line.split_once('='));
    let pairs: Vec<_> = pairs.map(|(name, value)| (name.trim(), value.trim())).collect();
    let value = |wanted: &str| pairs.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
    let credentials = Credentials::of(value("aws_access_key_id")?, value("aws_secret_access_key")?);
    Some(credentials.with_token(value("aws_session_token")))
}

/// Exchanges a token file for credentials of a role (AssumeRoleWithWebIdentity).
async fn of_web_identity(client: &Client, bucket: &S3Bucket) -> SourceResult {
    let (Some(path), Some(role)) = (variable("AWS_WEB_IDENTITY_TOKEN_FILE"), variable("AWS_ROLE_ARN")) else {
        return Ok(None);
    };
    let token = read(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let usual = || match bucket.region.starts_with("cn-") {
        true => format!("https://sts.{}.amazonaws.com.cn", bucket.region),
        false => format!("https://sts.{}.amazonaws.com", bucket.region),
    };
    let endpoint = variable("AWS_ENDPOINT_URL_STS").unwrap_or_else(usual);
    let session = variable("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| "larder".to_owned());
    let parameters = [
        ("Action", "AssumeRoleWithWebIdentity"),
        ("RoleArn", &role),
        ("RoleSessionName", &session),
        ("Version", "2011-06-15"),
        ("WebIdentityToken", token.trim()),
    ];
    let parameters = parameters.map(|(name, value)| format!("{name}={}", sigv4::query(value.as_bytes())));
    let url = format!("{}/?{}", endpoint.trim_end_matches('/'), parameters.join("&"));
    let document = ask(client, &Method::GET, &url, &[]).await?;
    let text = String::from_utf8_lossy(&document);
    let value = |name: &str| element(&text, name);
    let pair = value("AccessKeyId").zip(value("SecretAccessKey"));
    let (id, secret) = pair.ok_or_else(|| format!("{endpoint} sends no credentials"))?;
    Ok(Some(Credentials::of(id, secret).with_token(value("SessionToken")).until(value("Expiration"))))
}

/// Asks the endpoint that a container's variables name.
async fn of_container(client: &Client) -> SourceResult {
    let relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    let url = relative.map(|path| format!("http://169.254.170.2{path}"));
    let Some(url) = url.or_else(|| variable("AWS_CONTAINER_CREDENTIALS_FULL_URI")) else { return Ok(None) };
    let token = match variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(path) => Some(read(&path).map_err(|error| format!("cannot read {path}: {error}"))?),
        None => variable("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    };
    let field = token.as_ref().map(|token| ("authorization", token.trim()));
    let document = ask(client, &Method::GET, &url, field.as_slice()).await?;
    let found = Credentials::of_document(&document);
    found.map(Some).ok_or_else(|| format!("{url} sends no credentials"))
}

/// Asks the metadata service of the machine, in version 2: with a token, which a request from outside cannot get.
async fn of_metadata(client: &Client) -> SourceResult {
    if variable("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let service = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    let service = service.unwrap_or_else(|| "http://169.254.169.254".to_owned());
    let service = service.trim_end_matches('/');
    let lifetime = [("x-aws-ec2-metadata-token-ttl-seconds", "60")];
    let token = ask(client, &Method::PUT, &format!("{service}/latest/api/token"), &lifetime).await?;
    let token = String::from_utf8(token).map_err(|_| format!("{service} sends no token"))?;
    let field = [("x-aws-ec2-metadata-token", token.trim())];
    let roles = format!("{service}/latest/meta-data/iam/security-credentials/");
    let names = ask(client, &Method::GET, &roles, &field).await?;
    let names = String::from_utf8_lossy(&names);
    let role = names.lines().next().unwrap_or_default().trim();
    let document = ask(client, &Method::GET, &format!("{roles}{role}"), &field).await?;
    let found = Credentials::of_document(&document);
    found
        .map(Some)
        .ok_or_else(|| format!("{service} sends no credentials for the role '{}'", role.escape_debug()))
}

/// Sends a request to an endpoint, and returns the content of its answer. The error is the reason why there is none,
/// without the query of the URL, which may have secrets.
async fn ask(
    client: &Client,
    method: &Method,
    url: &str,
    fields: &[(&str, &str)],
) -> Result<Vec<u8>, String> {
    let shown = url.split('?').next().unwrap_or_default();
    let failed = |why: &str| format!("{shown}: {why}");
    let (https, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return Err(failed("this is not a URL of http or https")),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let is_sound = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if host_of(authority).is_empty() || !is_sound(rest) || !fields.iter().all(|(_, value)| is_sound(value)) {
        return Err(failed("the URL or a token has characters that it may not have"));
    }
    let path = if path.is_empty() { "/" } else { path };
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
    fields.iter().for_each(|(name, value)| head.field(name.as_bytes(), value.as_bytes()));
    if *method == Method::PUT {
        head.field(b"Content-Length", b"0");
    }
    head.extend_from_slice(b"\r\n");
    let mut content = Upload::Empty;
    let mut request = OriginRequest {
        waits: Waits { connect: Some(PATIENCE), first_byte: Some(PATIENCE), between: Some(PATIENCE) },
        ..OriginRequest::new(https, authority, method, &mut content)
    };
    let answered = async {
        let (head, mut download) = client
            .send(OutgoingHead::Http1(&head), &mut request)
            .await
            .map_err(|error| failed(&error.to_string()))?;
        match head.status {
            StatusCode::OK => download.whole(LONGEST).await.map_err(|why| failed(&why)),
            status => Err(failed(&format!("status {}", status.as_u16()))),
        }
    };
    tokio::time::timeout(2 * PATIENCE, answered).await.unwrap_or_else(|_| Err(failed("no answer")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_its_own_keys() {
        let file = "# keys\n[default]\naws_access_key_id = A\naws_secret_access_key=B=\n\n[ other ]\n\
            aws_access_key_id=C\naws_session_token = T\naws_secret_access_key = D\n[empty]\n";
        let found = |profile| of_profile(file, profile).map(|found| (found.id, found.secret, found.token));
        let text = str::to_owned;
        assert_eq!(found("default"), Some((text("A"), text("B="), None)));
        assert_eq!(found("other"), Some((text("C"), text("D"), Some(text("T")))));
        assert_eq!((found("empty"), found("missing")), (None, None));
    }
}
