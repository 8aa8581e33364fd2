//! The service of `larder.thrift`: its methods, their arguments and their results.

use std::ops::Range;

use bytes::BytesMut;

use super::protocol::{Kind, Protocol, Reader, Type, Writer};
use crate::cursor::Stop;
use crate::statistics::{Slot, Statistics};
use crate::{Call, Failure, Malformed, one_line, shown, url};

/// The codes of `TApplicationException`, by which Thrift itself reports errors.
pub(super) const UNKNOWN_METHOD: i32 = 1;
pub(super) const INVALID_MESSAGE_TYPE: i32 = 2;
pub(super) const INTERNAL_ERROR: i32 = 6;
pub(super) const PROTOCOL_ERROR: i32 = 7;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    GetData,
    PrintStatistics,
    ResetStatistics,
}

const METHODS: [(&str, Method); 3] = [
    ("get_data", Method::GetData),
    ("print_statistics", Method::PrintStatistics),
    ("reset_statistics", Method::ResetStatistics),
];

impl Method {
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        METHODS.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, method)| *method)
    }

    pub(super) fn name(self) -> &'static str {
        METHODS[self as usize].0
    }

    /// Returns the method for `call`.
    pub(super) fn of(call: &Call) -> Result<Self, Malformed> {
        match call {
            Call::Fetch { .. } => Ok(Self::GetData),
            Call::Statistics => Ok(Self::PrintStatistics),
            Call::Reset => Ok(Self::ResetStatistics),
            Call::Ping => Err(Malformed("the thrift service has no null method".to_owned())),
        }
    }
}

/// The reason why a call is refused although its message could be read to its end.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The code of `TApplicationException`; `None` for the exception that the method declares: there is no page.
    pub(super) code: Option<i32>,
    pub(super) why: Malformed,
}

/// Reads the arguments of the method called `name`, to their end.
pub(super) fn read_arguments(reader: &mut Reader<'_>, name: &[u8]) -> Result<Result<Call, Refusal>, Stop> {
    let method = Method::named(name);
    let mut place = None;
    reader.fields(|reader, id, of| {
        let taken = (method, id, of) == (Some(Method::GetData), 1, Type::Binary);
        if taken {
            place = Some(reader.binary()?);
        }
        Ok(taken)
    })?;
    let refused = |code, why| Refusal { code, why };
    Ok(match (method, place) {
        (Some(Method::GetData), Some(place)) => {
            url(reader.bytes(&place)).map(|url| Call::Fetch { url }).map_err(|why| refused(None, why))
        }
        (Some(Method::GetData), None) => {
            let why = "get_data has no argument 1, the url as a string";
            Err(refused(Some(PROTOCOL_ERROR), Malformed(why.to_owned())))
        }
        (Some(Method::PrintStatistics), _) => Ok(Call::Statistics),
        (Some(Method::ResetStatistics), _) => Ok(Call::Reset),
        (None, _) => {
            let names = METHODS.map(|(name, _)| name).join(", ");
            let why = format!("unknown method {:?}; known: {names}", shown(name));
            Err(refused(Some(UNKNOWN_METHOD), Malformed(why)))
        }
    })
}

pub(super) fn write_call(protocol: Protocol, method: Method, call: &Call, sequence: i32) -> BytesMut {
    let mut writer = Writer::message(protocol, Kind::Call, method.name().as_bytes(), sequence);
    if let Call::Fetch { url } = call {
        writer.binary_field(1, url.as_bytes());
    }
    writer.stop();
    writer.into_bytes()
}

/// Writes the exception declared with `throws`.
pub(super) fn write_failure(writer: &mut Writer, failure: &Failure) {
    writer.struct_field(1, |writer| {
        writer.binary_field(1, failure.what.as_bytes());
        writer.binary_field(2, failure.why.as_bytes());
        writer.i32_field(3, failure.status.into());
    });
}

pub(super) fn write_statistics(writer: &mut Writer, statistics: &Statistics) {
    let mut statistics = statistics.clone();
    writer.struct_field(0, |writer| {
        for (id, (_, slot)) in (1..).zip(statistics.slots()) {
            match slot {
                Slot::Count(count) => writer.i64_field(id, i64::try_from(*count).unwrap_or(i64::MAX)),
                Slot::Real(real) => writer.double_field(id, *real),
                Slot::Word(word) => writer.binary_field(id, word.as_bytes()),
            }
        }
    });
}

/// Returns the complete message of a `TApplicationException`.
pub(super) fn write_exception(
    protocol: Protocol,
    name: &[u8],
    sequence: i32,
    code: i32,
    why: &str,
) -> BytesMut {
    let mut writer = Writer::message(protocol, Kind::Exception, name, sequence);
    writer.binary_field(1, why.as_bytes());
    writer.i32_field(2, code);
    writer.stop();
    writer.into_bytes()
}

/// Reads the message of a `TApplicationException`.
pub(super) fn read_exception(reader: &mut Reader<'_>) -> Result<String, Stop> {
    let mut why = String::new();
    reader.fields(|reader, id, of| {
        let taken = (id, of) == (1, Type::Binary);
        if taken {
            why = one_line(&reader.text()?);
        }
        Ok(taken)
    })?;
    Ok(if why.is_empty() { "the server refused the call without a reason".to_owned() } else { why })
}

/// The content of a result.
pub(super) enum Outcome {
    /// The range of the page.
    Page(Range<usize>),
    Statistics(Box<Statistics>),
    Nothing,
    Failure(Failure),
}

/// Reads the result of `method`.
pub(super) fn read_result(reader: &mut Reader<'_>, method: Method) -> Result<Outcome, Stop> {
    let mut outcome = None;
    reader.fields(|reader, id, of| {
        outcome = Some(match (method, id, of) {
            (Method::GetData, 0, Type::Binary) => Outcome::Page(reader.binary()?),
            (Method::GetData, 1, Type::Struct) => Outcome::Failure(read_failure(reader)?),
            (Method::PrintStatistics, 0, Type::Struct) => {
                Outcome::Statistics(Box::new(read_statistics(reader)?))
            }
            _ => return Ok(false),
        });
        Ok(true)
    })?;
    match outcome {
        Some(outcome) => Ok(outcome),
        None if method == Method::ResetStatistics => Ok(Outcome::Nothing),
        None => Stop::malformed(format!("the reply to {} has no result", method.name())),
    }
}

fn read_failure(reader: &mut Reader<'_>) -> Result<Failure, Stop> {
    let mut failure = Failure::default();
    reader.fields(|reader, id, of| {
        match (id, of) {
            (1, Type::Binary) => failure.what = one_line(&reader.text()?),
            (2, Type::Binary) => failure.why = one_line(&reader.text()?),
            (3, Type::I32) => failure.status = u16::try_from(reader.integer(of)?).unwrap_or(0),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(failure)
}

fn read_statistics(reader: &mut Reader<'_>) -> Result<Statistics, Stop> {
    let mut statistics = Statistics::default();
    reader.fields(|reader, id, of| {
        let mut slots = statistics.slots();
        let index = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
        match (index.and_then(|index| slots.get_mut(index)), of) {
            (Some((_, Slot::Count(count))), Type::I64) => {
                **count = u64::try_from(reader.integer(of)?).unwrap_or(0)
            }
            (Some((_, Slot::Real(real))), Type::Double) => **real = reader.double()?,
            (Some((_, Slot::Word(word))), Type::Binary) => **word = one_line(&reader.text()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(statistics)
}
