//! Removes versions that are too young from an index document.

use http::{HeaderMap, HeaderValue, StatusCode, header};
use larder_packages::age::{Dates, MinAge, http_date};
use larder_packages::{Document, Protocol, Resource, Version};
use larder_semantics::fields::Fields;
use larder_semantics::status::Why;

use super::dates::{self, Registry};
use super::{beside, decoded};
use crate::base::clock;
use crate::exchange::plan::Plan;
use crate::exchange::request::Request;
use crate::exchange::ruling::Ruling;
use crate::flow::worker::Worker;
use crate::http::response::{Head, Lines};
use crate::net::byte_budget::Share;
use crate::origin::{Chunk, Download, OriginError};

/// An index document whose young versions are removed.
pub(super) struct FilteredIndex<'r> {
    policy: &'r MinAge,
    protocol: Protocol,
    document: Document,
    package: String,
}

impl<'r> FilteredIndex<'r> {
    /// Returns the document that `request` names, if its versions have to be of some age.
    pub(super) fn of(request: &Request, ruling: &'r Ruling) -> Option<Self> {
        let policy = ruling.min_age.as_deref()?;
        let resource = request.package(ruling)?;
        let document = resource.document()?;
        let Resource { protocol, version, .. } = resource;
        let is_filtered = document.lists_versions() && policy.of(protocol).is_some();
        let package = version.map(|version| version.name.into_owned()).unwrap_or_default();
        is_filtered.then_some(Self { policy, protocol, document, package })
    }

    /// Changes the fields of the request to the origin: the document in force here differs from the origin's, so that no
    /// validator and no range applies.
    pub(super) fn asked(&self, mut fields: HeaderMap) -> HeaderMap {
        for name in [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE, header::IF_RANGE, header::RANGE] {
            fields.remove(name);
        }
        fields.remove(header::ACCEPT_ENCODING);
        let accepted = fields.get(header::ACCEPT).and_then(|types| types.to_str().ok()).unwrap_or_default();
        if let Some(dated) = self.document.dated_type(accepted) {
            fields.insert(header::ACCEPT, HeaderValue::from_static(dated));
        }
        fields
    }

    /// Returns the content without young versions, and changes the fields that describe it.
    pub(super) async fn filter(
        self,
        (registry, plan, request): (&Registry, &Plan, &Request),
        head: &mut Head,
        mut download: Box<Download>,
        mut share: Share,
    ) -> Result<Box<Download>, OriginError> {
        let media_type = head.fields.first("content-type").and_then(|value| str::from_utf8(value).ok());
        if !self.document.is_of_type(media_type.unwrap_or_default()) {
            return Ok(download);
        }
        let mut content = Vec::new();
        while let Some(chunk) = download.next().await.map_err(|error| self.failed(&error))? {
            let Chunk::Data(data) = chunk else { continue };
            if content.len() + data.len() > Document::LONGEST || !share.grow(data.len()) {
                return Err(self.failed("it is too long, or there are too many at once"));
            }
            content.extend_from_slice(data);
        }
        let whole = decoded(&content, head.fields.first("content-encoding"));
        let whole = whole.ok_or_else(|| self.failed("it cannot be decoded"))?;
        let left = match self.document {
            Document::MavenVersionsDigest => {
                let path = request.path.split('?').next().and_then(|path| path.strip_suffix(".sha1"));
                let asked = path.and_then(|path| self.asked_for(request, &registry.worker, path));
                registry.digest(asked).await
            }
            _ => Some(self.without_young((registry, plan, request), &*head.fields, &whole).await),
        };
        let left = left.ok_or_else(|| self.failed("there is no answer for the index itself"))?;
        if self.document == Document::GoLatest && left.is_empty() {
            let detail = format!("the newest version of {} is too young", self.package);
            return Err(OriginError::new(StatusCode::FORBIDDEN, Why::PackageYoung, detail));
        }
        describe(&mut head.fields, &left);
        Ok(download.replaced(left))
    }

    /// Returns the document without young versions.
    async fn without_young(
        &self,
        (registry, plan, request): (&Registry, &Plan, &Request),
        fields: &impl Fields,
        whole: &[u8],
    ) -> Vec<u8> {
        let (now, policy) = (clock::now(), self.policy);
        let changed = fields.first("last-modified").and_then(|date| http_date(str::from_utf8(date).ok()?));
        // What has not changed for that long lists nothing that is younger.
        let changed = changed.filter(|date| {
            policy
                .of(self.protocol)
                .is_some_and(|least| now.checked_sub(*date).is_some_and(|age| age >= least))
        });
        let path = request.path.split('?').next().unwrap_or_default();
        let undated = match changed.is_some() || policy.dates == Dates::FirstSeen {
            true => Vec::new(),
            false => self.document.undated(path, whole),
        };
        let asked = |file: &str| self.asked_for(request, &registry.worker, file);
        let found = dates::of_files(registry, undated, &asked).await;
        let is_young = |number: &str, date: Option<u32>| {
            let version = Version { name: self.package.as_str().into(), number: number.into() };
            let seen = match policy.dates {
                Dates::Registry => None,
                _ => Some(plan.packages.seen(self.protocol, &version)),
            };
            let date = date.or_else(|| found.get(number).copied()).or(changed);
            policy.is_young(self.protocol, &version, policy.dates.choose(date, seen), now)
        };
        self.document.without_young(whole, &is_young).unwrap_or_else(|| whole.to_vec())
    }

    /// Returns a request for what this reference in the document names; `None` if that is at another origin.
    fn asked_for(&self, request: &Request, worker: &Worker, reference: &str) -> Option<Request> {
        beside(worker, request, reference, |fields| self.asked(fields))
    }

    fn failed(&self, why: &str) -> OriginError {
        let detail = format!("young versions cannot be removed from the index of {}: {why}", self.package);
        OriginError::new(StatusCode::BAD_GATEWAY, Why::PackageYoung, detail)
    }
}

/// Replaces the fields that describe the content as the origin has sent it.
fn describe(fields: &mut Lines, content: &[u8]) {
    const OF_CONTENT: [&[u8]; 9] = [
        b"content-encoding",
        b"content-length",
        b"content-md5",
        b"content-digest",
        b"repr-digest",
        b"digest",
        b"etag",
        b"last-modified",
        b"accept-ranges",
    ];
    let digest = larder_packages::Digest::of(larder_packages::digest::Algorithm::Sha256, content);
    let tag = format!("\"{}\"", &digest.to_string()[7..39]);
    let length = content.len().to_string();
    let own = [("etag", tag.as_bytes()), ("content-length", length.as_bytes())];
    fields.rebuild(|name, _| !OF_CONTENT.iter().any(|of| name.eq_ignore_ascii_case(of)), own.into_iter());
}
