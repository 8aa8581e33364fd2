//! The admin token.

use std::fmt;
use std::str::FromStr;

use subtle::ConstantTimeEq;

/// A secret that grants access to a listener. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Minimum of characters.
    pub const SHORTEST: usize = 16;

    /// Whether `shown` equals this token. The comparison takes constant time, so that its duration discloses nothing.
    pub fn is(&self, shown: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(shown).into()
    }

    /// Returns the secret text of the token.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_one = text.len() >= Self::SHORTEST && text.bytes().all(|byte| byte.is_ascii_graphic());
        let shortest = Self::SHORTEST;
        is_one.then(|| Self(text.to_owned())).ok_or_else(|| {
            format!("expected at least {shortest} visible ASCII characters without spaces, such as openssl rand -hex 16 prints")
        })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}
