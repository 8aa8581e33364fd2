//! The second tier's response for a request that was not sent ([`crate::features::why`]): found and judged as for a
//! request to be answered, except that the existence of the content is checked and the content is not read. No
//! counter and no breaker changes.

use larder_cluster::breaker;
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::reuse::{Reuse, reuse};
use larder_semantics::vary;
use tokio::time::{Instant, timeout_at};

use super::lookup::{TierLookup, TierMiss};
use crate::base::clock;
use crate::base::explanation::{EngineCopy, SecondTier};
use crate::cluster::Cluster;
use crate::cluster::engine::EngineError;
use crate::exchange::request::Request;
use crate::http::names::CLIENT_CERT;

/// Returns the state of the second tier for `request`, as far as the engine answers before `until`; `None`: there is
/// no second tier. `passed_by` is the reason why the request does not use this tier, if there is one.
pub(crate) async fn look(
    cluster: &Cluster,
    request: &Request,
    passed_by: Option<&str>,
    until: Instant,
) -> Option<SecondTier> {
    let tier = cluster.tier.as_ref()?;
    let mut kept = None;
    let (result, answers, explanation) = if tier.reads.standing() == breaker::BreakerState::Open {
        ("skipped", false, "it has failed, and is not used for a while".to_owned())
    } else {
        let signature = |varies: &[u8]| vary::again(varies, &request.fields);
        let reading = TierLookup { cluster, tier, key: &request.key, signature: &signature };
        let late = |_| Err(TierMiss::Failed(EngineError::Unreachable("no answer in time".into())));
        match timeout_at(until, reading.peek(&mut kept)).await.unwrap_or_else(late) {
            Err(unfit) => (unfit.result(), false, unfit.to_string()),
            Ok(freshness) => {
                let why_not = passed_by.map(str::to_owned).or_else(|| cluster.why_not(request, &freshness));
                let text = why_not.as_ref().map_or_else(String::new, |why| format!(", but {why}"));
                ("hit", why_not.is_none(), format!("not purged since its fetch began{text}"))
            }
        }
    };
    let owner = cluster.members.view().owner(&request.key).map(|owner| owner.name.clone());
    Some(SecondTier { result: result.to_owned(), explanation, answers, owner, kept })
}

impl TierLookup<'_> {
    /// Returns the freshness of the response, if it may answer. Describes the stored response in `kept`, whether it
    /// may answer or not.
    async fn peek(&self, kept: &mut Option<EngineCopy>) -> Result<Freshness, TierMiss> {
        let found = self.find().await?;
        let (response, freshness) = self.record(&found)?;
        *kept = Some(EngineCopy {
            status: response.head.status.as_u16(),
            bytes: response.content.len(),
            age: freshness.age(clock::now()),
            lifetime: freshness.lifetime,
            expires: u64::try_from(found.left).unwrap_or(0) / 1_000,
            position: response.position.to_string(),
        });
        self.judge(&response, &freshness).await?;
        match self.is_whole(&found.name, &response.content).await? {
            true => Ok(freshness),
            false => Err(TierMiss::Damaged),
        }
    }
}

impl Cluster {
    /// Returns the reason why this node does not answer `request` with a stored response of this freshness.
    fn why_not(&self, request: &Request, freshness: &Freshness) -> Option<String> {
        let view = self.members.view();
        let may_ask = !request.fields.contains(CLIENT_CERT);
        let reuse = reuse(freshness, &request.asked, clock::now());
        if !self.invalidations.lease.is_current() {
            Some("purges of other nodes do not arrive".to_owned())
        } else if self.invalidations.stream.ordered().is_none() {
            Some(TierMiss::Unpublished.to_string())
        } else if !matches!(reuse, Reuse::Fresh | Reuse::MaxStale) {
            Some("it is to be validated with each use".to_owned())
        } else if may_ask && self.tier_for(&request.key, request.by_peer).is_some() {
            None
        } else {
            let owner = view.owner(&request.key).filter(|owner| owner.id != self.id);
            Some(owner.map_or_else(
                || "this node is not a member of the cluster".to_owned(),
                |owner| format!("node '{}' owns the key, and reads from there", owner.name),
            ))
        }
    }
}
