//! The account with an authority: created once, and stored for all names, processes and nodes.

use std::collections::HashMap;
use std::sync::Arc;

use larder_acme::{Account, AccountTerms, Credentials};

use super::client::DirectoryClient;
use super::failure_streak::Failure;
use super::files::{Files, name_of};
use super::shared::SharedState;
use crate::base::settings::{Acme as Settings, Timeouts};

/// The accounts in use, by the URL of the directory.
pub(super) struct Accounts {
    open: tokio::sync::Mutex<HashMap<String, OpenAccount>>,
}

/// An account, with the client for its authority.
#[derive(Clone)]
pub(super) struct OpenAccount {
    pub(super) account: Account,
    pub(super) client: Arc<DirectoryClient>,
}

/// The storage of accounts.
pub(super) struct AccountFiles<'k> {
    pub(super) files: &'k Files,
    pub(super) shared: Option<&'k SharedState>,
    pub(super) timeouts: &'k Timeouts,
}

impl Accounts {
    pub(super) fn new() -> Self {
        Self { open: tokio::sync::Mutex::default() }
    }

    /// Returns the account for `settings`, and creates it if there is none. The error is the reason why there is no
    /// account.
    pub(super) async fn open(
        &self,
        settings: &Settings,
        keeping: &AccountFiles<'_>,
    ) -> Result<OpenAccount, Failure> {
        let mut open = self.open.lock().await;
        if let Some(opened) = open.get(&settings.directory) {
            return Ok(opened.clone());
        }
        let client = Arc::new(DirectoryClient::new(&settings.tls, keeping.timeouts));
        let found = found(settings, &client, keeping).await?;
        let account = match found {
            Some(account) => account,
            None => made(settings, &client, keeping).await?,
        };
        let opened = OpenAccount { account, client };
        open.insert(settings.directory.clone(), opened.clone());
        Ok(opened)
    }

    /// Drops the account from memory, so that the next use reads the directory and the trusted authorities again.
    pub(super) async fn close(&self, directory: &str) {
        self.open.lock().await.remove(directory);
    }
}

/// Returns the stored account, if the authority still knows it.
async fn found(
    settings: &Settings,
    client: &Arc<DirectoryClient>,
    keeping: &AccountFiles<'_>,
) -> Result<Option<Account>, Failure> {
    let AccountFiles { files, shared, .. } = keeping;
    let here = files.account().map_err(Failure::unanswered)?;
    let there = match shared {
        Some(shared) => shared.get(&field(settings)).await.map_err(unreachable)?,
        None => None,
    };
    let Some(bytes) = there.clone().or(here.clone()) else { return Ok(None) };
    let credentials = Credentials::read(&bytes).map_err(|error| {
        Failure::unanswered(format!("the account that other nodes share is malformed: {error}"))
    })?;
    let opened = Account::open(client.clone(), credentials, &settings.contact).await;
    let Some(account) = opened.map_err(|problem| client.failure(problem))? else {
        tracing::warn!("{} no longer has this process's account; a new one is created", settings.directory);
        return Ok(None);
    };
    if here.as_ref() != Some(&bytes) {
        files.write_account(&bytes).map_err(Failure::unanswered)?;
    }
    if let Some(shared) = shared.filter(|_| there.is_none()) {
        shared.put(&field(settings), &bytes).await.map_err(unreachable)?;
    }
    Ok(Some(account))
}

async fn made(
    settings: &Settings,
    client: &Arc<DirectoryClient>,
    keeping: &AccountFiles<'_>,
) -> Result<Account, Failure> {
    let AccountFiles { files, shared, .. } = keeping;
    let _lease = match shared {
        Some(shared) => {
            let lease = shared.lease(&field(settings)).await.map_err(unreachable)?;
            Some(lease.ok_or_else(|| Failure::unanswered("another node makes the account"))?)
        }
        None => None,
    };
    let Settings { directory, contact, accept_terms, .. } = settings;
    let terms = AccountTerms { directory, contact, accept_terms: *accept_terms };
    let created = Account::create(client.clone(), terms).await;
    let (account, credentials) = created.map_err(|problem| client.failure(problem))?;
    files.write_account(&credentials).map_err(Failure::unanswered)?;
    if let Some(shared) = shared {
        shared.put(&field(settings), &credentials).await.map_err(unreachable)?;
    }
    tracing::info!("made an account with {directory}");
    Ok(account)
}

/// Returns the field of the account on the engine.
fn field(settings: &Settings) -> String {
    format!("account {}", name_of(&settings.directory))
}

fn unreachable(error: crate::cluster::EngineError) -> Failure {
    Failure::unanswered(format!("the cluster's engine: {error}"))
}
