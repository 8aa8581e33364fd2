//! Requests for packages, before and after the flow: tags of OCI are looked up by HEAD, content with a digest is found
//! whatever URL it is stored for, and files of versions that are too young are refused.

use std::sync::Arc;

use http::{Method, StatusCode, header};
use larder_packages::age::{MinAge, http_date};
use larder_packages::{Digest, Kind, Protocol, Version};
use larder_semantics::fields::Fields;
use larder_semantics::key;
use larder_semantics::status::Why;

use super::git;
use crate::base::clock;
use crate::base::outcome::{Kind as Outcomes, Outcome};
use crate::base::settings::CountedRequests;
use crate::exchange::limits;
use crate::exchange::plan::Plan;
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
use crate::flow::serve;
use crate::flow::upstream;
use crate::flow::worker::Worker;
use crate::http::body::Upload;

/// The field with the digest of a manifest (distribution-spec, "Pulling manifests").
const DIGEST: &str = "docker-content-digest";

/// Returns the reply to a request under rules with `packages`.
pub(crate) async fn serve(worker: &Arc<Worker>, plan: &Arc<Plan>, request: &mut Request) -> Reply {
    let ruling = Arc::clone(&request.ruling);
    if let Some(reply) = git::pack(worker, plan, request).await {
        return reply;
    }
    let Some(found) = request.package(&ruling) else { return *serve::flow(worker, plan, request).await };
    if let Some(policy) = ruling.min_age.as_deref()
        && let Some(least) = policy.of(found.protocol).filter(|_| found.is_file())
        && let Some(Version { name, number }) = &found.version
    {
        let version = Version { name: name.to_string().into(), number: number.to_string().into() };
        let date = plan.packages.date(&request.key, &found, policy.dates);
        let file = DatedFile { policy, least, protocol: found.protocol, version, date };
        return file.serve(worker, plan, request).await;
    }
    match (found.kind, found.digest) {
        (Kind::Tag, _) if request.asked.only_if_cached => {
            if let Some(digest) = plan.packages.tag(&request.key, credentials(request)) {
                point(worker, request, digest);
                find_twin(worker, plan, request, digest).await;
            }
        }
        (Kind::Tag, _) if request.method == Method::GET => match tagged(worker, plan, request).await {
            Ok(Some(digest)) => {
                point(worker, request, digest);
                find_twin(worker, plan, request, digest).await;
            }
            Ok(None) => {}
            Err(reply) => return *reply,
        },
        (_, Some(digest)) => find_twin(worker, plan, request, digest).await,
        _ => {}
    }
    *serve::flow(worker, plan, request).await
}

/// A file of a version that has to be of some age.
struct DatedFile<'p> {
    policy: &'p MinAge,
    /// The least age, in seconds.
    least: u32,
    protocol: Protocol,
    version: Version<'static>,
    date: Option<u32>,
}

impl DatedFile<'_> {
    /// Returns the reply to a request for the file, if its version is old enough. The date of a file that no index has dated
    /// is that of its last change.
    async fn serve(&self, worker: &Arc<Worker>, plan: &Arc<Plan>, request: &mut Request) -> Reply {
        if self.date.is_some() && self.is_young(self.date) {
            return self.refusal();
        }
        let reply = *serve::flow(worker, plan, request).await;
        let is_content = reply.status.is_success() || reply.status == StatusCode::NOT_MODIFIED;
        if self.date.is_some() || !is_content {
            return reply;
        }
        let changed = reply.field("last-modified").and_then(|date| http_date(&date));
        let seen = plan.packages.seen(self.protocol, &self.version);
        if self.is_young(self.policy.dates.choose(changed, Some(seen))) { self.refusal() } else { reply }
    }

    fn is_young(&self, date: Option<u32>) -> bool {
        self.policy.is_young(self.protocol, &self.version, date, clock::now())
    }

    fn refusal(&self) -> Reply {
        let Version { name, number } = &self.version;
        let days = self.least.div_ceil(86_400);
        let text = format!(
            "403: {name} {number} is younger than {days} days, or has no date: a rule of this proxy requires that age \
             (min_age), and may allow this version by name\n"
        );
        Reply::text(StatusCode::FORBIDDEN, text, Outcome::forwarded(Outcomes::Refused, Why::PackageYoung))
    }
}

/// Returns the digest of the manifest that a tag names, as the registry says: a HEAD does not count against the limits
/// that registries set on pulls. If it refuses the request as one too many, or fails, the digest that it last named to
/// the same client counts. Errors: the refusal, if the request is beyond a limit of its rules.
async fn tagged(
    worker: &Arc<Worker>,
    plan: &Arc<Plan>,
    request: &Request,
) -> Result<Option<Digest>, Box<Reply>> {
    limits::enter(request, CountedRequests::Misses)?;
    let head = Request { method: Method::HEAD, ..request.in_background() };
    let answered = upstream::send(worker, plan, &head, &head.fields, &mut Upload::Empty, None).await;
    let credentials = credentials(request);
    let failed = match &answered {
        Ok(answer) => answer.status == StatusCode::TOO_MANY_REQUESTS || answer.status.is_server_error(),
        Err(_) => true,
    };
    if failed {
        return Ok(plan.packages.tag(&request.key, credentials));
    }
    let digest = answered.ok().filter(|answer| answer.status == StatusCode::OK).and_then(|answer| {
        let text = str::from_utf8(answer.fields.first(DIGEST)?).ok()?;
        Digest::oci(text)
    });
    if let Some(digest) = digest {
        plan.packages.set_tag(&request.key, credentials, digest);
    }
    Ok(digest)
}

fn credentials(request: &Request) -> Option<&[u8]> {
    request.fields.get(header::AUTHORIZATION).map(|value| value.as_bytes())
}

/// Makes a request for a tag one for the manifest with this digest.
fn point(worker: &Worker, request: &mut Request, digest: Digest) {
    let Some((start, _)) = request.path.rsplit_once('/') else { return };
    let path = format!("{start}/{digest}");
    let Some(origin) = key::origin(request.target()) else { return };
    let target = [origin, path.as_bytes()].concat();
    (request.key, request.path) = (request.key_of(&target), path);
    request.settle_key(&worker.cache.store.memory);
}

/// Lets content with this digest answer that is stored for another URL. Its client has named the digest, so that it may
/// have the content, whatever credentials the other URL needs.
async fn find_twin(worker: &Arc<Worker>, plan: &Arc<Plan>, request: &mut Request, digest: Digest) {
    let Some(twin) = plan.packages.twin(&digest).filter(|twin| **twin != *request.key) else { return };
    let (store, fills) = (&worker.cache.store, &worker.cache.fills);
    let is_stored = |key: &[u8]| store.memory.peek(key, store.memory.hash(key)).is_some();
    if is_stored(&request.key) {
        return;
    }
    if is_stored(&twin) || fills.recall(&twin, <[u8]>::to_vec, clock::now()).await.is_some() {
        request.key = twin.into();
        request.hash = store.memory.hash(&request.key);
    }
}
