//! The account with an authority (RFC 8555 section 7.3).

use std::sync::Arc;

use instant_acme::{AccountCredentials, NewAccount};

use crate::http::Client;
use crate::problem::is_unknown_account;
use crate::{Boxed, Http, Problem};

/// An account with an authority.
#[derive(Clone)]
pub struct Account(pub(crate) instant_acme::Account);

/// The URL and the key of an account, as JSON.
pub struct Credentials(AccountCredentials);

/// The parameters of a new account.
#[derive(Clone, Copy, Debug)]
pub struct AccountTerms<'t> {
    /// The URL of the authority's directory.
    pub directory: &'t str,
    /// The URLs of the contacts.
    pub contact: &'t [String],
    /// Whether the user agrees to the authority's terms of service.
    pub accept_terms: bool,
}

impl Credentials {
    /// Reads credentials.
    ///
    /// # Errors
    /// What is wrong with the JSON.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map(Self).map_err(|error| error.to_string())
    }
}

impl Account {
    /// Opens an account, and sets its contacts. Returns `None` if the authority does not know the account.
    #[inline(never)]
    pub fn open<'a>(
        http: Arc<dyn Http>,
        credentials: Credentials,
        contact: &'a [String],
    ) -> Boxed<'a, Result<Option<Self>, Problem>> {
        Box::pin(async move {
            let builder = instant_acme::Account::builder_with_http(Box::new(Client(http)));
            let account = builder.from_credentials(credentials.0).await?;
            // This request also tells whether the authority knows the account.
            match account.update_contacts(&texts(contact)).await {
                Ok(()) => Ok(Some(Self(account))),
                Err(error) if is_unknown_account(&error) => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
    }

    /// Creates an account. Returns its credentials, too.
    #[inline(never)]
    pub fn create(
        http: Arc<dyn Http>,
        terms: AccountTerms<'_>,
    ) -> Boxed<'_, Result<(Self, Vec<u8>), Problem>> {
        Box::pin(async move {
            let new = NewAccount {
                contact: &texts(terms.contact),
                terms_of_service_agreed: terms.accept_terms,
                only_return_existing: false,
            };
            let builder = instant_acme::Account::builder_with_http(Box::new(Client(http)));
            let (account, credentials) = builder.create(&new, terms.directory.to_owned(), None).await?;
            let json = serde_json::to_vec(&credentials);
            let json = json.map_err(|error| Problem::of_authority(error.to_string()))?;
            Ok((Self(account), json))
        })
    }
}

fn texts(contact: &[String]) -> Vec<&str> {
    contact.iter().map(String::as_str).collect()
}
