//! Pages that rules put in place of the content of errors, from origins and from this proxy.

use http::{HeaderMap, Method};
use larder_semantics::status::Why;

use super::reply::{Content, Reply, Source};
use super::ruling::Ruling;
use crate::base::settings::{Answer, Page};
use crate::origin::Download;

/// The longest content of a replaced answer that is read, in bytes. Beyond that, a new connection to the origin costs
/// less.
const READ: u64 = 64 << 10;

/// Returns the page of `ruling` for `reply`. An answer of a rule with its own content is not replaced.
fn page<'r>(ruling: &'r Ruling, reply: &Reply) -> Option<&'r Page> {
    let page = ruling.pages.as_ref()?.of(reply.status)?;
    let is_written = matches!(ruling.answer.as_deref(), Some(Answer::Content { is_default: false, .. }));
    let by_rule = reply.outcome.why == Why::ByRule;
    let stays = (by_rule && is_written) || matches!(reply.content, Content::Tunnel(_));
    (!stays).then_some(page)
}

/// Replaces the content of the reply to a request with this method by the page of `ruling` for its status, if there is
/// one, or its status alone.
pub(crate) fn replace(ruling: &Ruling, method: &Method, reply: &mut Reply) {
    let Some(page) = page(ruling, reply) else { return };
    reply.status = page.status.unwrap_or(reply.status);
    let Some((content_type, content)) = &page.content else { return };
    let mut fields = fields(reply);
    Page::describe(content_type, &mut fields);
    reply.fields = Source::Fields(fields.into());
    reply.content_range = None;
    reply.length = Some(content.len() as u64);
    let content = if *method == Method::HEAD { Content::None } else { Content::Bytes(content.clone()) };
    if let Content::Origin(download) = std::mem::replace(&mut reply.content, content) {
        read(download);
    }
}

/// Returns the fields of `reply`, except those about its framing.
fn fields(reply: &Reply) -> HeaderMap {
    let mut fields = HeaderMap::new();
    reply.write_fields(&mut fields);
    fields
}

/// Reads short unwanted content, so that its connection can be reused.
fn read(mut download: Box<Download>) {
    if download.length().is_some_and(|length| length <= READ) {
        tokio::spawn(async move { while let Ok(Some(_)) = download.next().await {} });
    }
}
