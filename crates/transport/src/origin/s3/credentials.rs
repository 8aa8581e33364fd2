//! Credentials for buckets, and their end.

use jiff::Timestamp;
use larder_words::debug_as;
use serde_json::Value;

use crate::base::clock;

/// Seconds after which credentials that do not expire are read again, since a file may have changed.
const REREAD: u64 = 300;
/// Seconds before the end of credentials at which new ones are requested.
const BEFORE_END: u64 = 300;

/// Credentials. `Debug` does not print them.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    /// The id of the access key.
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
    /// When they are renewed, and when they end (UNIX seconds).
    pub(super) renewal: u64,
    pub(super) end: u64,
}

debug_as!(Credentials, |credentials| "Credentials({})", credentials.id);

impl Credentials {
    /// Returns credentials without an end.
    pub(super) fn of(id: &str, secret: &str) -> Self {
        let (id, secret) = (id.to_owned(), secret.to_owned());
        Self { id, secret, token: None, renewal: u64::from(clock::now()) + REREAD, end: u64::MAX }
    }

    pub(super) fn with_token(self, token: Option<&str>) -> Self {
        Self { token: token.filter(|token| !token.is_empty()).map(str::to_owned), ..self }
    }

    /// Returns credentials that end at the time `end` in the form of RFC 3339.
    pub(super) fn until(self, end: Option<&str>) -> Self {
        let end = end.and_then(|end| end.parse::<Timestamp>().ok());
        let Some(end) = end.and_then(|end| u64::try_from(end.as_second()).ok()) else { return self };
        // Of short ones, some time has to be left for requests.
        let left = end.saturating_sub(clock::now().into());
        Self { renewal: end.saturating_sub(BEFORE_END.min(left / 2)), end, ..self }
    }

    /// Reads the document of an endpoint.
    pub(super) fn of_document(document: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(document).ok()?;
        let text = |name: &str| document[name].as_str();
        let credentials = Self::of(text("AccessKeyId")?, text("SecretAccessKey")?);
        Some(credentials.with_token(text("Token")).until(text("Expiration")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_renewed_before_they_end() {
        let now = u64::from(clock::now());
        let end =
            |seconds: u64| Timestamp::from_second((now + seconds).try_into().unwrap()).unwrap().to_string();
        let of = |seconds| Credentials::of("a", "b").until(Some(&end(seconds)));
        assert_eq!((of(3600).renewal, of(3600).end), (now + 3300, now + 3600));
        let short = of(100);
        assert!((now + 45..=now + 55).contains(&short.renewal), "half of it is left");
        assert_eq!(Credentials::of("a", "b").until(Some("soon")).end, u64::MAX);
        assert!(!format!("{:?}", Credentials::of("a", "hidden")).contains("hidden"));
    }
}
