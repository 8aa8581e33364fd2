//! Packages of registries on their way from an origin: content is requested in the form that has a digest and is verified
//! while it arrives, and index documents are read.

mod dates;
mod filter;

use std::borrow::Cow;
use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode, header};
use larder_packages::{Document, Verifier};
use larder_semantics::coding::Coding;
use larder_semantics::fields::Fields;
use larder_semantics::key;
use larder_semantics::purge::Scope;
use larder_semantics::status::Why;

use self::dates::Registry;
pub(super) use self::dates::{Ask, Beside};
use crate::base::clock;
use crate::exchange::packages::{StaleFile, document};
use crate::exchange::plan::Plan;
use crate::exchange::request::Request;
use crate::exchange::ruling::Ruling;
use crate::flow::worker::Worker;
use crate::http::response::Head;
use crate::origin::{ContentReader, Download, Inspection, OriginError};

/// The largest window of zstd in index documents, as a power of two: the most of the format's own tools, 128 MiB.
const WINDOW: u32 = 27;
/// The most memory that decoding xz may take, in KiB: enough for the dictionary of its highest level, 64 MiB.
const XZ_MEMORY: u32 = 72 << 10;

/// Whether the content that `request` names has a known digest. It is fetched whole then: a part cannot be verified.
pub(super) fn is_verified(plan: &Plan, request: &Request) -> bool {
    let resource = request.package(&request.ruling);
    resource.is_some_and(|resource| !plan.packages.digests(&request.key, &resource).is_empty())
}

/// Returns the request for the digest beside the file that `request` names, if none is known: the file can be verified then. Most
/// clients ask for that digest next.
pub(super) fn digest_beside(worker: &Worker, plan: &Plan, request: &Request) -> Option<Request> {
    let resource = request.package(&request.ruling).filter(|_| request.method == Method::GET)?;
    let path = resource.digest_beside(request.path.split('?').next()?)?;
    let is_known = !plan.packages.digests(&request.key, &resource).is_empty();
    beside(worker, request, &path, |fields| fields).filter(|_| !is_known)
}

/// Returns a request for what `reference` names beside what `request` does, with its fields as `change` returns them; `None` if that
/// is at another origin.
fn beside(
    worker: &Worker,
    request: &Request,
    reference: &str,
    change: impl FnOnce(HeaderMap) -> HeaderMap,
) -> Option<Request> {
    let mut target = Vec::new();
    key::resolve(request.target(), reference.as_bytes(), &mut target)?;
    if !key::same_origin(request.target(), &target) {
        return None;
    }
    let (own, memory) = (request.key_of(&target), &worker.cache.store.memory);
    let mut asked = request.in_background_for(&own, memory.hash(&own));
    asked.fields = change(asked.fields);
    asked.settle_key(memory);
    Some(asked)
}

/// Returns the fields of the request to the origin; `None` if they are `fields`. Digests are those of content without a
/// coding; an index from which young versions are removed is requested whole, in the form that has dates.
pub(super) fn asked(plan: &Plan, request: &Request, fields: &HeaderMap) -> Option<Box<HeaderMap>> {
    if let Some(index) = filter::FilteredIndex::of(request, &request.ruling) {
        return Some(Box::new(index.asked(fields.clone())));
    }
    if !is_verified(plan, request) || !fields.contains_key(header::ACCEPT_ENCODING) {
        return None;
    }
    let mut fields = Box::new(fields.clone());
    fields.remove(header::ACCEPT_ENCODING);
    Some(fields)
}

/// Returns the answer to `request` as its client may see it: an index without young versions, any other answer
/// unchanged. Errors: the index cannot be read, or has no dates: all of its versions may be too young.
pub(super) async fn filtered(
    (worker, ask): (&Arc<Worker>, Ask),
    plan: &Plan,
    (request, ruling): (&Request, &Ruling),
    (head, download): (&mut Head, Box<Download>),
) -> Result<Box<Download>, OriginError> {
    let is_index = head.status == StatusCode::OK && request.method == Method::GET;
    match filter::FilteredIndex::of(request, ruling).filter(|_| is_index) {
        Some(index) => {
            let share = plan.packages.documents.share(request.client.ip());
            let registry = Registry { worker: Arc::clone(worker), ask };
            Box::pin(index.filter((&registry, plan, request), head, download, share)).await
        }
        None => Ok(download),
    }
}

/// Returns the download of the answer to `request`, which is examined as its protocol requires. Errors: the answer has
/// no content, and should have some.
pub(super) fn examined(
    worker: &Arc<Worker>,
    plan: &Plan,
    (request, ruling): (&Request, &Ruling),
    (status, fields): (StatusCode, &impl Fields),
    download: Box<Download>,
) -> Result<Box<Download>, OriginError> {
    if status != StatusCode::OK || request.method != Method::GET {
        return Ok(download);
    }
    let Some(resource) = request.package(ruling) else { return Ok(download) };
    let mut verifier = Verifier::new(plan.packages.fetch(&request.key, &resource));
    // A head that announces no content is a whole response.
    if let Some(nothing) = verifier.take_if(|_| download.length() == Some(0))
        && let Err(mismatch) = nothing.finish()
    {
        plan.packages.count_refused();
        return Err(OriginError::new(StatusCode::BAD_GATEWAY, Why::DigestMismatch, mismatch.to_string()));
    }
    let reader = document(&resource, fields).map(|document| reader(worker, plan, request, document, fields));
    let refused = {
        let (worker, packages, hash) = (Arc::clone(worker), Arc::clone(&plan.packages), request.hash);
        let url = request.logged_url();
        move |mismatch: &_| {
            packages.count_refused();
            let verdicts = &worker.shared.observers.verdicts;
            verdicts.note(hash, Why::DigestMismatch, None::<(_, &HeaderMap)>, &[]);
            tracing::warn!("{url} is refused: {mismatch}");
        }
    };
    let share = plan.packages.documents.share(request.client.ip());
    let inspection = Inspection::default().verify(verifier, refused);
    Ok(download.inspected(inspection.read(reader, share, Document::LONGEST)))
}

/// Returns the reader of an index document in the coding that `fields` name.
fn reader(
    worker: &Arc<Worker>,
    plan: &Plan,
    request: &Request,
    document: Document,
    fields: &impl Fields,
) -> ContentReader {
    let (packages, worker, index) = (Arc::clone(&plan.packages), Arc::clone(worker), request.key.clone());
    let coding = fields.first("content-encoding").map(<[u8]>::to_vec);
    let runtime = tokio::runtime::Handle::current();
    Box::new(move |content| {
        let Some(content) = decoded(&content, coding.as_deref()) else { return };
        for StaleFile { key, digests } in packages.learn(document, &index, &content) {
            // Those in partitions are not listed: all of them are fetched again.
            match digests.is_empty() || worker.cache.store.purges.has_partitions(&key) {
                true => worker.cache.purge(&[Scope::Url(key)]),
                false => _ = runtime.spawn(verify_stored(Arc::clone(&worker), key, digests)),
            }
        }
    })
}

/// Returns an index document without its content coding, and without the compression of its file; `None` if it cannot be
/// decoded, or is too long.
pub(super) fn decoded<'c>(content: &'c [u8], coding: Option<&[u8]>) -> Option<Cow<'c, [u8]>> {
    let most = Document::LONGEST as u64;
    let undone = |coding, content: &[u8]| larder_coding::decode(coding, content, WINDOW, most);
    let content = match coding.filter(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
        Some(coding) => Cow::Owned(undone(Coding::named(coding)?, content)?),
        None => Cow::Borrowed(content),
    };
    match *content {
        [0x1f, 0x8b, ..] => undone(Coding::Gzip, &content).map(Cow::Owned),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => undone(Coding::Zstd, &content).map(Cow::Owned),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            larder_coding::decode_xz(&content, XZ_MEMORY, most).map(Cow::Owned)
        }
        _ => Some(content),
    }
}

/// Removes the responses stored under `key`, unless all of them have one of these digests.
async fn verify_stored(worker: Arc<Worker>, key: Vec<u8>, digests: Vec<larder_packages::Digest>) {
    let (store, fills) = (&worker.cache.store, &worker.cache.fills);
    let mut entries = match store.memory.peek(&key, store.memory.hash(&key)) {
        Some(resident) => resident.variants().to_vec(),
        None => Vec::new(),
    };
    if entries.is_empty() {
        let found = fills.recall(&key, <[u8]>::to_vec, clock::now()).await;
        entries.extend(found.map(|(entry, _)| entry));
    }
    for entry in entries {
        let Some(mut verifier) = Verifier::new(digests.clone()) else { return };
        let (body, mut at) = (entry.body(), 0);
        while at < body.len() {
            let Ok(piece) = body.load(at, 256 << 10).await else { break };
            verifier.update(&piece);
            at += piece.len() as u64;
        }
        if entry.status() != StatusCode::OK || verifier.finish().is_err() {
            fills.purge(&key);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// "hello\n" by `xz -0`.
    #[rustfmt::skip]
    const XZ: &[u8] = &[
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21, 0x01,
        0x0c, 0x00, 0x00, 0x00, 0x8f, 0x98, 0x41, 0x9c, 0x01, 0x00, 0x05, 0x68, 0x65, 0x6c, 0x6c, 0x6f,
        0x0a, 0x00, 0x00, 0x00, 0xa5, 0x60, 0x97, 0xf1, 0x94, 0xf6, 0xfd, 0xe0, 0x00, 0x01, 0x1e, 0x06,
        0xc1, 0x2f, 0xa4, 0x1d, 0x1f, 0xb6, 0xf3, 0x7d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a,
    ];

    #[test]
    fn documents_are_read_in_each_compression_and_coding() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(b"hello\n").unwrap();
        let gzip = gzip.finish().unwrap();
        let zstd = zstd::encode_all(&b"hello\n"[..], 1).unwrap();
        let twice = zstd::encode_all(XZ, 1).unwrap();
        let cases: [(&[u8], Option<&[u8]>); 7] = [
            (b"hello\n", None),
            (b"hello\n", Some(b"identity")),
            (&gzip, None),
            (&gzip, Some(b"gzip")),
            (&zstd, None),
            (XZ, None),
            (&twice, Some(b"zstd")),
        ];
        for (content, coding) in cases {
            assert_eq!(decoded(content, coding).as_deref(), Some(&b"hello\n"[..]), "{coding:?}");
        }
        assert_eq!(decoded(&XZ[..XZ.len() - 1], None), None);
        assert_eq!(decoded(b"hello\n", Some(b"br, gzip")), None);
    }
}
