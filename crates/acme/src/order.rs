//! One order: the authority verifies that a name leads to this process, and issues a certificate (RFC 8555 section
//! 7.4).

use std::time::Duration;

use instant_acme::{
    AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier, NewOrder, Order,
    OrderStatus, RetryPolicy,
};

use crate::{Account, Boxed, Problem};

/// The polling of an order's status, and its timeout.
const POLLS: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(120));

/// The parameters of an order.
pub struct OrderTerms<'w> {
    /// The host name.
    pub name: &'w str,
    /// The challenge that is answered, and its name in ACME.
    pub challenge: (ChallengeType, &'static str),
    /// The certificate that the new one is to replace (RFC 9773 section 5).
    pub replaces: Option<CertificateIdentifier<'static>>,
}

/// The answer to a challenge, which is served until this is dropped.
pub type Guard = Box<dyn Send>;

/// Answers challenges.
pub trait Responder: Sync {
    /// Serves the answer to the challenge with `token`. The error is the reason why it cannot be served.
    fn serve<'a>(&'a self, token: &'a str, key_authorization: &'a str) -> Boxed<'a, Result<Guard, String>>;
}

impl Account {
    /// Obtains a certificate. Returns it with its chain and its key, in PEM.
    #[inline(never)]
    pub fn obtain<'a>(
        &'a self,
        terms: OrderTerms<'a>,
        responder: &'a dyn Responder,
    ) -> Boxed<'a, Result<String, Problem>> {
        Box::pin(async move { obtain(&self.0, terms, responder).await.map_err(Problem::from) })
    }
}

async fn obtain(
    account: &instant_acme::Account,
    mut terms: OrderTerms<'_>,
    responder: &dyn Responder,
) -> Result<String, Error> {
    let identifiers = [Identifier::Dns(terms.name.to_owned())];
    let mut new = NewOrder::new(&identifiers);
    if let Some(replaced) = terms.replaces.take() {
        new = new.replaces(replaced);
    }
    let mut order = account.new_order(&new).await?;
    // The challenge responses are served until this function returns.
    let _guards = verify(&mut order, &terms, responder).await?;
    if order.poll_ready(&POLLS).await? == OrderStatus::Invalid {
        return Err(refusal(&mut order).await);
    }
    let key = order.finalize().await?;
    let chain = order.poll_certificate(&POLLS).await?;
    Ok(format!("{}\n{}", chain.trim_end(), key))
}

/// Serves the challenge responses of an order, and asks the authority to verify them.
async fn verify(
    order: &mut Order,
    OrderTerms { name, challenge: (kind, kind_name), .. }: &OrderTerms<'_>,
    responder: &dyn Responder,
) -> Result<Vec<Guard>, Error> {
    let mut guards = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            status => return Err(other(format!("the authorization for {name} is {status:?}"))),
        }
        let missing = || other(format!("the authority does not offer the challenge {kind_name} for {name}"));
        let mut challenge = authorization.challenge(kind.clone()).ok_or_else(missing)?;
        let (token, answer) = (challenge.token.clone(), challenge.key_authorization());
        guards.push(responder.serve(&token, answer.as_str()).await.map_err(other)?);
        challenge.set_ready().await?;
    }
    Ok(guards)
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
