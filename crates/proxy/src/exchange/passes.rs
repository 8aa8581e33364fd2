//! The proxies that a request has passed, as `Via` lists them (RFC 9110 section 7.6.3), and the detection of loops.
//!
//! A name alone proves little: many proxies are called `Larder`, and a request may pass through one of them twice on
//! purpose, for two sites. Therefore the name in `Via` has a comment with a number that only this process gives to this
//! URL.

use std::hash::BuildHasher;

use http::{HeaderMap, StatusCode};
use larder_semantics::fields::{Fields, members};
use larder_semantics::status::Why;

use super::plan::Plan;
use super::request::Request;
use crate::counts::versions;
use crate::http::fields::FieldWriter;
use crate::origin::OriginError;

/// The number of passes through proxies of this name that is treated as a loop.
const MOST: usize = 8;
/// The digits of the number in the comment.
const DIGITS: usize = 16;

/// Appends the `Via` of a request that is forwarded with `fields`.
pub(crate) fn write_via(out: &mut impl FieldWriter, plan: &Plan, request: &Request, fields: &HeaderMap) {
    out.field_with(b"Via", |out| {
        for value in fields.lines("via") {
            out.extend_from_slice(value);
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(versions::name_in_via(request.version).as_bytes());
        out.push(b' ');
        out.extend_from_slice(plan.settings.name.as_bytes());
        out.extend_from_slice(b" (");
        out.extend_from_slice(&digits(plan, request));
        out.push(b')');
    });
}

/// Returns the `Via` of a request for a tunnel, as a field line: parent proxies may lead back here, too.
pub(crate) fn via_line(plan: &Plan, request: &Request) -> Vec<u8> {
    let mut line = Vec::new();
    write_via(&mut line, plan, request, &request.fields);
    line
}

/// Refuses `request` if it is in a loop. Errors: the error for a request that this process has forwarded for this URL
/// before, or that proxies of this name have forwarded too often.
pub(crate) fn refuse_loop(plan: &Plan, request: &Request) -> Result<(), OriginError> {
    if !request.fields.contains("via") {
        return Ok(());
    }
    let (name, own) = (plan.settings.name.as_bytes(), digits(plan, request));
    let mut count = 0;
    for pass in members(&request.fields, "via") {
        let mut words = pass.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).skip(1);
        count += usize::from(words.next() == Some(name));
        let comment = words.next().and_then(|word| word.strip_prefix(b"(")?.strip_suffix(b")"));
        if count >= MOST || comment == Some(&own) {
            let detail = "forwarding loop: Via names this proxy, so the origin leads back here";
            return Err(OriginError::unsent(StatusCode::LOOP_DETECTED, Why::Loop, detail));
        }
    }
    Ok(())
}

/// Returns the number of a request's URL.
fn digits(plan: &Plan, request: &Request) -> [u8; DIGITS] {
    let number = plan.passes.hash_one(request.hash);
    std::array::from_fn(|at| b"0123456789abcdef"[(number >> (4 * at)) as usize & 15])
}
