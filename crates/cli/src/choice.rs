//! Words on the command line that stand for values.

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Returns a parser of the words in `known`.
pub fn choice<T: Copy + Send + Sync + 'static>(
    known: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let value = move |word: String| known.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
    PossibleValuesParser::new(known.iter().map(|(name, _)| *name))
        .try_map(move |word| value(word).ok_or("unknown word"))
}
