//! One order: the authority verifies that a name leads to this process, and issues a certificate (RFC 8555 section
//! 7.4).

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier, NewOrder, Order,
    OrderStatus, Problem, RetryPolicy,
};

use super::Acme;
use super::answers::Offer;
use super::failure_streak::Failure;
use crate::base::settings::AcmeChallenge;

/// The polling of an order's status, and its timeout.
const POLLS: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(120));
/// The prefix of ACME's error types (RFC 8555 section 6.7).
const ERRORS: &str = "urn:ietf:params:acme:error:";

/// The parameters of an order.
pub(super) struct OrderTerms<'w> {
    pub(super) name: &'w str,
    pub(super) kind: AcmeChallenge,
    /// The certificate that the new one is to replace (RFC 9773 section 5).
    pub(super) replaces: Option<CertificateIdentifier<'static>>,
}

/// Obtains a certificate. Returns it with its chain and its key, in PEM.
pub(super) async fn obtain(acme: &Acme, account: &Account, wanted: OrderTerms<'_>) -> Result<String, Error> {
    let OrderTerms { name, kind, replaces } = wanted;
    let identifiers = [Identifier::Dns(name.to_owned())];
    let mut new = NewOrder::new(&identifiers);
    if let Some(replaced) = replaces {
        new = new.replaces(replaced);
    }
    let mut order = account.new_order(&new).await?;
    // The challenge responses are served until this function returns.
    let _offers = verify(acme, &mut order, (name, kind)).await?;
    if order.poll_ready(&POLLS).await? == OrderStatus::Invalid {
        return Err(refusal(&mut order).await);
    }
    let key = order.finalize().await?;
    let chain = order.poll_certificate(&POLLS).await?;
    Ok(format!("{}\n{}", chain.trim_end(), key))
}

/// Serves the challenge responses of an order, and asks the authority to verify them.
async fn verify(
    acme: &Acme,
    order: &mut Order,
    (name, kind): (&str, AcmeChallenge),
) -> Result<Vec<Offer>, Error> {
    let mut offers = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            status => return Err(other(format!("the authorization for {name} is {status:?}"))),
        }
        let asked = match kind {
            AcmeChallenge::Http01 => ChallengeType::Http01,
            AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        let missing =
            || other(format!("the authority does not offer the challenge {} for {name}", kind.name()));
        let mut challenge = authorization.challenge(asked).ok_or_else(missing)?;
        let (token, answer) = (challenge.token.clone(), challenge.key_authorization());
        offers.push(acme.offer(name, kind, &token, answer.as_str()).await.map_err(other)?);
        challenge.set_ready().await?;
    }
    Ok(offers)
}

/// Returns the reason why the authority has not verified a name.
async fn refusal(order: &mut Order) -> Error {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { continue };
        if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.clone()) {
            return Error::Api(problem);
        }
    }
    Error::Str("the authority gives no reason for its refusal")
}

fn other(why: String) -> Error {
    Error::Other(why.into())
}

/// Returns the failure for an error, which decides about the next try.
pub(super) fn explain(error: &Error, asked: Option<Duration>) -> Failure {
    match error {
        Error::Api(problem) => Failure { asked, ..judge(problem) },
        Error::Timeout(_) => Failure::refused("the authority has not decided within two minutes"),
        // An internal error, or a failed verification without an explanation, which the authority may have counted.
        Error::Str(why) => Failure { asked, ..Failure::refused(*why) },
        error => Failure { asked, ..Failure::unanswered(error.to_string()) },
    }
}

fn judge(problem: &Problem) -> Failure {
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
        true => Failure::unanswered(why),
        false => Failure::refused(why),
    }
}

/// Whether the error says that the authority does not know the account.
pub(super) fn is_unknown_account(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if kind_of(problem) == "accountDoesNotExist")
}

fn kind_of(problem: &Problem) -> &str {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    kind.strip_prefix(ERRORS).unwrap_or(kind)
}

#[cfg(test)]
mod tests {
    use super::super::schedule::Cause;
    use super::*;

    #[test]
    fn the_problem_an_authority_reports_decides_the_cause_of_the_failure() {
        let table = [
            (
                r#"{"type":"urn:ietf:params:acme:error:connection","detail":"no route","status":400}"#,
                Cause::Refused,
                "no route (connection)",
            ),
            (
                r#"{"type":"urn:ietf:params:acme:error:serverInternal","detail":"oops","status":500}"#,
                Cause::Unanswered,
                "oops (serverInternal)",
            ),
            (
                r#"{"type":"urn:ietf:params:acme:error:badNonce","detail":"stale","status":400}"#,
                Cause::Unanswered,
                "stale (badNonce)",
            ),
            (
                r#"{"type":"urn:ietf:params:acme:error:userActionRequired","detail":"agree first","status":403}"#,
                Cause::Refused,
                "agree first (userActionRequired); accept_terms = true in acme accepts its terms",
            ),
            (
                r#"{"type":"urn:ietf:params:acme:error:malformed","detail":"many","status":400,"subproblems":[{"detail":"one"},{"detail":"two"}]}"#,
                Cause::Refused,
                "many; one; two (malformed)",
            ),
            ("{}", Cause::Refused, "it gives no reason ()"),
        ];
        for (text, cause, why) in table {
            let problem: Problem = serde_json::from_str(text).expect("a problem");
            let asked = Some(Duration::from_secs(7));
            let failure = explain(&Error::Api(problem), asked);
            assert_eq!(failure, Failure { cause, why: why.to_owned(), asked });
        }
        assert_eq!(explain(&Error::Other("refused".into()), None).cause, Cause::Unanswered);
        assert_eq!(explain(&Error::Timeout(None), None).cause, Cause::Refused);
    }
}
