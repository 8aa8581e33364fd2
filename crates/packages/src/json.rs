//! JSON of which only a part is read. The rest stays as it is written: as values, it would take up to eighty times its length.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A document with more members in a part of it is not that of a package.
const MOST: usize = 1 << 18;

/// The members of an object; the last one of a name counts, as it does for clients.
#[derive(Default, serde::Serialize)]
#[serde(transparent)]
pub(crate) struct Object<'d>(pub(crate) BTreeMap<String, &'d RawValue>);

/// The elements of an array.
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<'d> Object<'d> {
    /// Returns the value of this name if it has that form.
    pub(crate) fn get<T: Deserialize<'d>>(&self, name: &str) -> Option<T> {
        parsed(self.0.get(name)?)
    }
}

/// Returns a value if it has this form.
pub(crate) fn parsed<'d, T: Deserialize<'d>>(value: &'d RawValue) -> Option<T> {
    serde_json::from_str(value.get()).ok()
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Elements(PhantomData))
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Object<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((name, value)) = map.next_entry()? {
            members.insert(name, value);
            if members.len() > MOST {
                return Err(A::Error::custom("too many members"));
            }
        }
        Ok(Object(members))
    }
}

struct Elements<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
    type Value = List<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element()? {
            elements.push(element);
            if elements.len() > MOST {
                return Err(A::Error::custom("too many elements"));
            }
        }
        Ok(List(elements))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_member_of_a_name_counts_and_too_many_fail() {
        let object: Object<'_> = serde_json::from_str(r#"{"a":1,"b":{},"a":[2]}"#).unwrap();
        assert_eq!(object.get::<List<u8>>("a").unwrap().0, [2]);
        assert_eq!(object.get::<u8>("b"), None);
        let most = |number: usize| format!("[{}0]", "0,".repeat(number - 1));
        assert!(serde_json::from_str::<List<u8>>(&most(MOST)).is_ok());
        assert!(serde_json::from_str::<List<u8>>(&most(MOST + 1)).is_err());
    }
}
