//! Call and reply messages (RFC 5531, section 9) of any program.

use bytes::{BufMut, Bytes, BytesMut};

use super::xdr::opaque;
use crate::cursor::{Cursor, Stop, whole};
use crate::{Malformed, shown};

const CALL: u32 = 0;
const REPLY: u32 = 1;
/// The version of the RPC protocol itself.
const RPC_VERSION: u32 = 2;

const ACCEPTED: u32 = 0;
const DENIED: u32 = 1;
const RPC_MISMATCH: u32 = 0;
const AUTH_ERROR: u32 = 1;

const AUTH_NONE: u32 = 0;
const AUTH_SYS: u32 = 1;
/// The maximum length of a credential or verifier, in bytes.
const AUTH_BYTES: usize = 400;
const AUTH_BADCRED: u32 = 1;
const AUTH_REJECTEDCRED: u32 = 2;
const AUTH_BADVERF: u32 = 3;
/// Rejected for security reasons.
pub(super) const AUTH_TOOWEAK: u32 = 5;
/// The maximum of the machine name in bytes and of the user's groups in an `AUTH_SYS` credential.
const MACHINE_NAME: usize = 255;
const GROUPS: u32 = 16;

/// A procedure of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Procedure {
    pub(super) program: u32,
    pub(super) version: u32,
    pub(super) number: u32,
}

/// The ways in which a server refuses a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The call has another version of RPC.
    RpcMismatch,
    /// A credential or verifier is invalid, with the reason (`auth_stat`).
    Auth(u32),
    ProgramUnavailable,
    /// The program has these versions, from the lowest to the highest.
    ProgramMismatch(u32, u32),
    ProcedureUnavailable,
    GarbageArguments,
    SystemError,
}

/// A message that needs an answer: a call to carry out, or one to refuse.
pub(super) enum CallMessage {
    Call(Procedure),
    Refused(Refusal, Malformed),
}

/// Reads a call up to its arguments: its number, and the procedure. An error is a message that cannot be answered.
pub(super) fn read_call(cursor: &mut Cursor<'_>) -> Result<(u32, CallMessage), Stop> {
    let xid = cursor.u32()?;
    let kind = cursor.u32()?;
    if kind != CALL {
        return Stop::malformed(format!("a message of type {kind}, not a call"));
    }
    let version = cursor.u32()?;
    if version != RPC_VERSION {
        let why = Malformed(format!("version {version} of rpc, not {RPC_VERSION}"));
        return Ok((xid, CallMessage::Refused(Refusal::RpcMismatch, why)));
    }
    let procedure = Procedure { program: cursor.u32()?, version: cursor.u32()?, number: cursor.u32()? };
    let heard = match authentication(cursor)? {
        Some((status, why)) => CallMessage::Refused(Refusal::Auth(status), why),
        None => CallMessage::Call(procedure),
    };
    Ok((xid, heard))
}

/// Reads the credential and the verifier, whose contents have no effect in either supported flavour. Returns the error
/// if one is invalid.
fn authentication(cursor: &mut Cursor<'_>) -> Result<Option<(u32, Malformed)>, Stop> {
    let flavour = cursor.u32()?;
    let credential = match opaque(cursor, AUTH_BYTES) {
        Ok(place) => cursor.bytes(&place),
        Err(Stop::Short) => return Err(Stop::Short),
        Err(stop) => return Ok(Some((AUTH_BADCRED, whole(stop)))),
    };
    match flavour {
        AUTH_NONE => {}
        AUTH_SYS => {
            if let Err(why) = system_credential(credential) {
                return Ok(Some((AUTH_BADCRED, why)));
            }
        }
        other => {
            let why = Malformed(format!("a credential of flavour {other}, not {AUTH_NONE} or {AUTH_SYS}"));
            return Ok(Some((AUTH_REJECTEDCRED, why)));
        }
    }
    cursor.u32()?;
    match opaque(cursor, AUTH_BYTES) {
        Err(Stop::Malformed(why)) => Ok(Some((AUTH_BADVERF, why))),
        other => other.map(|_| None),
    }
}

/// Checks that an `AUTH_SYS` credential is valid: a stamp, a machine, a user and groups.
fn system_credential(bytes: &[u8]) -> Result<(), Malformed> {
    let mut cursor = Cursor::whole(bytes);
    let read = |cursor: &mut Cursor<'_>| {
        cursor.u32()?;
        opaque(cursor, MACHINE_NAME)?;
        let [_user, _group, groups] = [cursor.u32()?, cursor.u32()?, cursor.u32()?];
        if groups > GROUPS {
            return Stop::malformed(format!("{groups} groups where {GROUPS} are the most"));
        }
        cursor.take(groups as usize * 4)
    };
    match read(&mut cursor) {
        Ok(_) if cursor.room() == 0 => Ok(()),
        Ok(_) => Err(Malformed(format!("{} bytes after the credential", cursor.room()))),
        Err(Stop::Short) => Err(Malformed("the credential ends too early".to_owned())),
        Err(stop) => Err(whole(stop)),
    }
}

/// Encodes a call up to its arguments, without a credential.
pub(super) fn write_call(xid: u32, procedure: Procedure) -> BytesMut {
    let mut out = BytesMut::with_capacity(64);
    for word in [xid, CALL, RPC_VERSION, procedure.program, procedure.version, procedure.number] {
        out.put_u32(word);
    }
    out.put_bytes(0, 16);
    out
}

/// Encodes a reply up to its results.
pub(super) fn write_success(xid: u32) -> BytesMut {
    words(&[xid, REPLY, ACCEPTED, AUTH_NONE, 0, 0])
}

pub(super) fn write_refusal(xid: u32, refusal: Refusal) -> BytesMut {
    let accepted = |status: u32| words(&[xid, REPLY, ACCEPTED, AUTH_NONE, 0, status]);
    match refusal {
        Refusal::RpcMismatch => words(&[xid, REPLY, DENIED, RPC_MISMATCH, RPC_VERSION, RPC_VERSION]),
        Refusal::Auth(status) => words(&[xid, REPLY, DENIED, AUTH_ERROR, status]),
        Refusal::ProgramUnavailable => accepted(1),
        Refusal::ProgramMismatch(low, high) => {
            let mut out = accepted(2);
            out.extend(words(&[low, high]));
            out
        }
        Refusal::ProcedureUnavailable => accepted(3),
        Refusal::GarbageArguments => accepted(4),
        Refusal::SystemError => accepted(5),
    }
}

fn words(words: &[u32]) -> BytesMut {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Reads the reply to call `xid` up to its results, or the reason why there are none. Returns `None` if it answers
/// another call.
pub(super) fn read_reply(cursor: &mut Cursor<'_>, xid: u32) -> Result<Option<Result<(), String>>, Stop> {
    let answered = cursor.u32()?;
    let kind = cursor.u32()?;
    if kind != REPLY {
        return Stop::malformed(format!("a message of type {kind}, not a reply"));
    }
    if answered != xid {
        return Ok(None);
    }
    let outcome = match cursor.u32()? {
        ACCEPTED => {
            cursor.u32()?;
            opaque(cursor, AUTH_BYTES)?;
            accepted(cursor)?
        }
        DENIED => Err(denied(cursor)?),
        other => return Stop::malformed(format!("a reply of status {other}")),
    };
    Ok(Some(outcome))
}

fn accepted(cursor: &mut Cursor<'_>) -> Result<Result<(), String>, Stop> {
    Ok(Err(match cursor.u32()? {
        0 => return Ok(Ok(())),
        1 => "the server does not have the program".to_owned(),
        2 => format!("the server has versions {} to {} of the program", cursor.u32()?, cursor.u32()?),
        3 => "the server's program does not have the procedure".to_owned(),
        4 => "the server cannot use the arguments (garbage arguments)".to_owned(),
        5 => "the server could not do it (system error)".to_owned(),
        other => return Stop::malformed(format!("a reply accepted with status {other}")),
    }))
}

fn denied(cursor: &mut Cursor<'_>) -> Result<String, Stop> {
    match cursor.u32()? {
        RPC_MISMATCH => {
            Ok(format!("the server speaks versions {} to {} of rpc", cursor.u32()?, cursor.u32()?))
        }
        AUTH_ERROR => Ok(match cursor.u32()? {
            AUTH_TOOWEAK => "not permitted (authentication too weak)".to_owned(),
            status => format!("the server rejects the caller (authentication status {status})"),
        }),
        other => Stop::malformed(format!("a reply denied with status {other}")),
    }
}

/// Reads a result that is a string.
pub(super) fn read_text(cursor: &mut Cursor<'_>, most: usize) -> Result<String, Stop> {
    let place = opaque(cursor, most)?;
    Ok(shown(cursor.bytes(&place)))
}

/// Returns a message as a record on a stream.
pub(super) fn record(message: &[u8]) -> Bytes {
    [&super::record::mark(message.len())[..], message].concat().into()
}
