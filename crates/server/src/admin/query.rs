//! The query of a request to the admin listener: parameters by name, all of them known.

use std::borrow::Cow;
use std::fmt::Display;

use url::form_urlencoded;

/// Parameters, in their order.
pub(super) struct Query<'q>(Vec<(Cow<'q, str>, Cow<'q, str>)>);

impl<'q> Query<'q> {
    /// Parses `text`.
    pub(super) fn new(text: &'q str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).collect())
    }

    /// Checks that each parameter is among `known`. Errors: a parameter is not; in one line.
    pub(super) fn check(&self, known: &[&str]) -> Result<(), String> {
        match self.0.iter().find(|(name, _)| !known.contains(&&**name)) {
            None => Ok(()),
            Some(_) if known.is_empty() => Err("this takes no parameters".to_owned()),
            Some((name, _)) => {
                let (name, known) = (name.escape_debug(), known.join(", "));
                Err(format!("unknown parameter '{name}'; known: {known}"))
            }
        }
    }

    /// Returns the last value of a parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).last()
    }

    /// Returns every value of a parameter.
    pub(super) fn all(&self, name: &str) -> impl DoubleEndedIterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns the one of `known` that a parameter names, if there is one. Errors: the value is no known name.
    pub(super) fn choose<T: Copy + Display>(&self, name: &str, known: &[T]) -> Result<Option<T>, String> {
        let names: Vec<_> = known.iter().map(T::to_string).collect();
        let named =
            |word: &str| names.iter().zip(known).find(|(name, _)| *name == word).map(|(_, value)| *value);
        self.parse(name, &names.join(", "), named)
    }

    /// Parses the value of a parameter with `read`, if there is one. Errors: the value is invalid; the message says
    /// that `expected` would be valid.
    pub(super) fn parse<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => Err(format!("{name} '{}': expected {expected}", value.escape_debug())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_known_and_understood_or_refused() {
        let query = Query::new("a=1&b=%2F+x&a=2");
        assert_eq!(query.check(&["a", "b"]), Ok(()));
        assert_eq!((query.get("a"), query.get("b"), query.get("c")), (Some("2"), Some("/ x"), None));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(query.parse("a", "a number", |text| text.parse().ok()), Ok(Some(2)));
        let wrong = query.parse("b", "a number", |text| text.parse::<u8>().ok());
        assert_eq!(wrong, Err("b '/ x': expected a number".to_owned()));
        let unknown = |known: &[&str]| Query::new("c%0A=1").check(known).unwrap_err();
        assert_eq!(unknown(&["a", "b"]), "unknown parameter 'c\\n'; known: a, b");
        assert_eq!(unknown(&[]), "this takes no parameters");
    }
}
