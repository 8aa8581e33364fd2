//! Why an authority has not done what it was asked for.

use instant_acme::Error;

/// The prefix of ACME's error types (RFC 8555 section 6.7).
const ERRORS: &str = "urn:ietf:params:acme:error:";

/// The reason why an authority has not done what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether the authority refused, and may have counted the try. Otherwise it did not answer, or failed itself.
    pub is_refusal: bool,
    /// The reason, in one line.
    pub why: String,
}

impl Problem {
    /// Returns a refusal.
    pub(crate) fn refusal(why: impl Into<String>) -> Self {
        Self { is_refusal: true, why: why.into() }
    }

    /// Returns a failure of the authority, or of the way to it.
    pub(crate) fn of_authority(why: impl Into<String>) -> Self {
        Self { is_refusal: false, why: why.into() }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match &error {
            Error::Api(problem) => judge(problem),
            Error::Timeout(_) => Self::refusal("the authority has not decided within two minutes"),
            // An internal error, or a failed verification without an explanation, which the authority may have counted.
            Error::Str(why) => Self::refusal(*why),
            error => Self::of_authority(error.to_string()),
        }
    }
}

fn judge(problem: &instant_acme::Problem) -> Problem {
    let kind = kind_of(problem);
    let said = problem.detail.as_deref().unwrap_or("it gives no reason");
    let details = problem.subproblems.iter().filter_map(|part| part.detail.as_deref());
    let whole: Vec<_> = std::iter::once(said).chain(details).collect();
    let hint = if kind == "userActionRequired"
        || said.contains("terms of service")
        || said.contains("Terms of Service")
    {
        "; accept_terms = true in acme accepts its terms"
    } else {
        ""
    };
    let why = format!("{} ({kind}){hint}", whole.join("; "));
    match problem.status.is_some_and(|status| status >= 500) || matches!(kind, "badNonce" | "serverInternal")
    {
        true => Problem::of_authority(why),
        false => Problem::refusal(why),
    }
}

/// Whether the error says that the authority does not know the account.
pub(crate) fn is_unknown_account(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if kind_of(problem) == "accountDoesNotExist")
}

fn kind_of(problem: &instant_acme::Problem) -> &str {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    kind.strip_prefix(ERRORS).unwrap_or(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_problem_an_authority_reports_decides_whether_it_is_a_refusal() {
        let table = [
            (
                r#"{"type":"urn:ietf:params:acme:error:connection","detail":"no route","status":400}"#,
                true,
                "no route (connection)",
            ),
            (
                r#"{"type":"urn:ietf:params:acme:error:serverInternal","detail":"oops","status":500}"#,
                false,
                "oops (serverInternal)",
            ),
            (
                r#"{"type":"urn:ietf:params:acme:error:badNonce","detail":"stale","status":400}"#,
                false,
                "stale (badNonce)",
            ),
            (
                r#"{"type":"urn:ietf:params:acme:error:userActionRequired","detail":"agree first","status":403}"#,
                true,
                "agree first (userActionRequired); accept_terms = true in acme accepts its terms",
            ),
            (
                r#"{"type":"urn:ietf:params:acme:error:malformed","detail":"many","status":400,"subproblems":[{"detail":"one"},{"detail":"two"}]}"#,
                true,
                "many; one; two (malformed)",
            ),
            ("{}", true, "it gives no reason ()"),
        ];
        for (text, is_refusal, why) in table {
            let problem = serde_json::from_str(text).expect("a problem");
            let expected = Problem { is_refusal, why: why.to_owned() };
            assert_eq!(Problem::from(Error::Api(problem)), expected);
        }
        assert!(!Problem::from(Error::Other("refused".into())).is_refusal);
        assert!(Problem::from(Error::Timeout(None)).is_refusal);
    }
}
