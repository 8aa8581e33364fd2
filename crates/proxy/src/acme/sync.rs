//! Synchronises a node with the other nodes of its cluster: certificates, failures, and challenge responses.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::answers::Answer;
use super::files::name_of;
use super::name::{Name, NameCertificate};
use super::shared::SharedState;
use super::{Acme, now};
use crate::cluster::EngineError;

/// The prefix of fields with challenge responses.
const CHALLENGE: &str = "challenge ";

impl Acme {
    /// Applies the changes of other nodes since the last call.
    pub(super) async fn look(&self) {
        let Some(shared) = self.shared.as_ref().filter(|_| !self.names.lock().is_empty()) else { return };
        if let Err(error) = self.synchronise(shared).await {
            tracing::debug!("cannot read the certificates of other nodes: {error}");
        }
    }

    /// Applies the changes of other nodes since the last call. The error is the reason why the changes cannot be read.
    pub(super) async fn synchronise(&self, shared: &Arc<SharedState>) -> Result<(), EngineError> {
        let Some((number, fields)) = shared.news().await? else { return Ok(()) };
        self.give(shared, &fields);
        let untold = self.learn(&fields);
        shared.note(number).await?;
        for (field, pem) in untold {
            if let Err(error) = shared.put(&field, &pem).await {
                shared.compare_again();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Serves exactly the challenge responses of other nodes that are in `fields`.
    fn give(&self, shared: &Arc<SharedState>, fields: &BTreeMap<String, Vec<u8>>) {
        let mut elsewhere = self.elsewhere.lock();
        let read = |(field, value): (&String, &Vec<u8>)| {
            let answer: Answer = serde_json::from_slice(value).ok()?;
            field.starts_with(CHALLENGE).then(|| (field.clone(), answer))
        };
        let (answers, over): (BTreeMap<_, _>, BTreeMap<_, _>) =
            fields.iter().filter_map(read).partition(|(_, answer)| answer.until > now());
        over.keys().for_each(|field| shared.remove_later(field));
        let old = std::mem::replace(&mut *elsewhere, answers);
        for (_, answer) in old.iter().filter(|(field, answer)| elsewhere.get(*field) != Some(*answer)) {
            self.answers.withdraw(answer);
        }
        for (field, answer) in elsewhere.iter().filter(|(field, answer)| old.get(*field) != Some(*answer)) {
            if let Err(why) = self.answers.give(answer) {
                tracing::warn!("the challenge '{}' cannot be answered: {why}", field.escape_debug());
            }
        }
    }

    /// Takes newer certificates and failures from other nodes. Returns the certificates that the engine does not have
    /// yet.
    fn learn(&self, fields: &BTreeMap<String, Vec<u8>>) -> Vec<(String, Vec<u8>)> {
        let (mut untold, mut is_new) = (Vec::new(), false);
        for (host, name) in self.names.lock().iter_mut() {
            let field = certificate_field(name, host);
            let theirs = fields.get(&field);
            if theirs != name.held.as_ref().map(|held| &held.pem) {
                let parsed = theirs.and_then(|pem| {
                    Some(NameCertificate::new(name.files.parse(host, pem).ok()?, pem.clone(), now()))
                });
                if parsed.is_some_and(|held| name.take(held)) {
                    is_new = true;
                    keep(name, host);
                } else if let Some(held) = &name.held {
                    untold.push((field, held.pem.clone()));
                }
            }
            let failure = fields.get(&failure_field(name, host));
            name.standing = failure.and_then(|bytes| serde_json::from_slice(bytes).ok());
        }
        if is_new {
            self.publish();
        }
        untold
    }
}

/// Stores a certificate that another node has ordered, for the next process.
fn keep(name: &Name, host: &str) {
    let Some(held) = &name.held else { return };
    tracing::info!("another node has ordered a certificate for {host}");
    let kept =
        name.files.write_certificate(host, &held.pem).and_then(|()| name.files.write_standing(host, None));
    if let Err(why) = kept {
        tracing::error!("the certificate for {host} is lost with this process: {why}");
    }
    name.changed.notify_one();
}

/// Returns the field of the certificate for a name on the engine.
pub(super) fn certificate_field(name: &Name, host: &str) -> String {
    format!("certificate {} {host}", name_of(&name.settings.directory))
}

/// Returns the field of the failures for a name on the engine.
pub(super) fn failure_field(name: &Name, host: &str) -> String {
    format!("failure {} {host}", name_of(&name.settings.directory))
}
