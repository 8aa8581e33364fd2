//! Pages of rules in place of the content of errors, of origins and of this proxy.

use http::HeaderMap;
use larder_semantics::fields::HeadLines;

use super::reply::{Content, Reply, Source};
use super::request::Request;
use crate::base::settings::{Answer, Page};
use crate::origin::Download;

/// Longer content of a replaced answer is not read: a new connection to the origin costs less.
const READ: u64 = 64 << 10;

/// The page for a reply to `request`. What a rule answers with content of its own stays.
fn page<'r>(request: &'r Request, reply: &Reply) -> Option<&'r Page> {
    let page = request.ruling.pages.as_ref()?.of(reply.status)?;
    let answer = request.ruling.answer.as_deref();
    let is_written = matches!(answer, Some(Answer::Content { is_default: false, .. }));
    let by_rule = reply.outcome.why == larder_semantics::status::Why::ByRule;
    let stays = (by_rule && is_written) || matches!(reply.content, Content::Tunnel(_));
    (!stays).then_some(page)
}

/// Puts the page for the reply's status, if there is one, in place of its content.
pub(crate) fn replace(request: &Request, reply: &mut Reply) {
    let Some(page) = page(request, reply) else { return };
    let mut fields = fields(reply);
    page.describe(&mut fields);
    reply.fields = Source::Fields(fields.into());
    reply.content_range = None;
    reply.length = Some(page.content.len() as u64);
    let is_head = request.method == http::Method::HEAD;
    let content = if is_head { Content::None } else { Content::Bytes(page.content.clone()) };
    if let Content::Origin(download) = std::mem::replace(&mut reply.content, content) {
        read(download);
    }
}

/// The fields of `reply`, as far as they are not about its framing.
fn fields(reply: &Reply) -> HeaderMap {
    let mut lines = Vec::new();
    reply.write_fields(&mut lines);
    HeadLines(&lines).to_map()
}

/// Reads short content that nobody gets, so that its connection can be used again.
fn read(mut download: Box<Download>) {
    if download.length().is_some_and(|length| length <= READ) {
        tokio::spawn(async move { while let Ok(Some(_)) = download.next().await {} });
    }
}
