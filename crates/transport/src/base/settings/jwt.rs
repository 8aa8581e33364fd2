//! JSON Web Tokens (RFC 7519) that requests have to show, and the keys that verify them (RFC 7517).
//!
//! A key verifies only the algorithms of its own type, all of them asymmetric: a token cannot choose a weaker one (RFC 8725
//! section 3.1). `none` and HMAC do not exist here.

use aws_lc_rs::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use larder_rules::{ClaimTexts, Pattern};
use larder_semantics::readings;
use larder_words::named;
use serde_json::{Map, Value};

use super::Origin;

/// The tokens that requests have to show.
#[derive(Clone, Debug, PartialEq)]
pub struct Jwt {
    /// Where the keys are.
    pub keys: KeySource,
    /// The issuer that tokens name in `iss`.
    pub issuer: String,
    /// The audiences, one of which tokens name in `aud`.
    pub audience: Vec<String>,
    /// The cookie with the token; `None`: it is in `Authorization: Bearer`.
    pub cookie: Option<Pattern>,
    /// Claims that tokens must have, each with the patterns of its values.
    pub claims: Vec<(String, Vec<Pattern>)>,
    /// Fields of the request to the origin, each with the claim that it gets.
    pub send: Vec<(HeaderName, String)>,
    /// How far clocks may differ, in seconds.
    pub skew: u32,
}

/// The place of the keys.
#[derive(Clone, Debug, PartialEq)]
pub enum KeySource {
    /// A URL, whose keys are fetched again when a token names an unknown one.
    Url(Origin),
    /// A file, with its keys.
    File(Box<str>, JwkSet),
}

/// Keys that verify signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwkSet(Vec<Jwk>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Jwk {
    id: Option<String>,
    /// The only algorithm that the key is for, if it names one.
    algorithm: Option<String>,
    key: PublicKey,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PublicKey {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

named! {
    /// The reason why a token is not accepted.
    pub enum TokenFault, text {
        /// There is none.
        Missing = "a rule of this proxy requires a token",
        /// It is no signed token, or its algorithm is not accepted.
        Malformed = "this is no signed token, or its algorithm is not accepted",
        /// No key has the identifier that it names.
        UnknownKey = "the key of this token is unknown",
        /// No key has signed it.
        Forged = "the signature of this token is wrong",
        /// Its time is over.
        Expired = "this token has expired",
        /// Its time has not begun.
        Early = "this token is not valid yet",
        /// It is from another issuer.
        Issuer = "this token is from another issuer",
        /// It is for another audience.
        Audience = "this token is for another audience",
        /// It lacks a claim that the rule requires.
        Claim = "this token lacks a claim that a rule of this proxy requires",
    }
}

/// The claims of a valid token.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims(Map<String, Value>);

/// The longest token, in bytes.
const LONGEST: usize = 16 << 10;
/// The most keys of a set: a token without an identifier is compared with all of them.
const MOST_KEYS: usize = 32;

impl JwkSet {
    /// Parses a set of keys. Keys of other types, and those for encryption, are left out.
    ///
    /// # Errors
    /// What is wrong with the text, in one line.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let set: Value = serde_json::from_slice(text).map_err(|error| format!("it is no JSON: {error}"))?;
        let keys = set["keys"].as_array().ok_or("it has no list 'keys', as a JSON Web Key Set has")?;
        let keys: Vec<_> = keys.iter().filter_map(Jwk::parse).take(MOST_KEYS).collect();
        match keys.is_empty() {
            true => Err("it has no key of RSA, EC (P-256, P-384) or Ed25519 for signatures".to_owned()),
            false => Ok(Self(keys)),
        }
    }
}

impl Jwk {
    fn parse(key: &Value) -> Option<Self> {
        let text = |name: &str| key[name].as_str();
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok().filter(|bytes| !bytes.is_empty());
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let point = |length: usize| {
            let coordinates = [bytes("x")?, bytes("y")?];
            let fit = coordinates.iter().all(|own| own.len() == length);
            fit.then(|| [&[4][..], &coordinates[0], &coordinates[1]].concat())
        };
        let key = match (text("kty")?, text("crv")) {
            ("RSA", _) => {
                let modulus = bytes("n")?.into_iter().skip_while(|byte| *byte == 0).collect();
                PublicKey::Rsa { modulus, exponent: bytes("e")? }
            }
            ("EC", Some("P-256")) => PublicKey::P256(point(32)?),
            ("EC", Some("P-384")) => PublicKey::P384(point(48)?),
            ("OKP", Some("Ed25519")) => PublicKey::Ed25519(bytes("x")?),
            _ => return None,
        };
        Some(Self { id: text("kid").map(str::to_owned), algorithm: text("alg").map(str::to_owned), key })
    }

    /// Whether the key may verify a token with this head.
    fn is_for(&self, algorithm: &str, id: Option<&str>) -> bool {
        self.key.has(algorithm)
            && self.algorithm.as_deref().is_none_or(|own| own == algorithm)
            && id.is_none_or(|id| self.id.as_deref() == Some(id))
    }
}

impl PublicKey {
    /// Whether `algorithm` is one of its type.
    fn has(&self, algorithm: &str) -> bool {
        match self {
            Self::Rsa { .. } => rsa(algorithm).is_some(),
            Self::P256(_) => algorithm == "ES256",
            Self::P384(_) => algorithm == "ES384",
            Self::Ed25519(_) => matches!(algorithm, "EdDSA" | "Ed25519"),
        }
    }

    fn verifies(&self, algorithm: &str, message: &[u8], signed: &[u8]) -> bool {
        match self {
            Self::Rsa { modulus: n, exponent: e } => rsa(algorithm)
                .is_some_and(|kind| RsaPublicKeyComponents { n, e }.verify(kind, message, signed).is_ok()),
            Self::P256(point) => {
                let key = UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point);
                key.verify(message, signed).is_ok()
            }
            Self::P384(point) => {
                let key = UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point);
                key.verify(message, signed).is_ok()
            }
            Self::Ed25519(point) => {
                UnparsedPublicKey::new(&signature::ED25519, point).verify(message, signed).is_ok()
            }
        }
    }
}

/// Returns the parameters of an algorithm of RSA (RFC 7518 sections 3.3 and 3.5).
fn rsa(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
        "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
        "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

impl Jwt {
    /// Returns the token in these fields of a request; empty without one, or with several.
    pub fn token_of(&self, fields: &HeaderMap) -> String {
        let lines =
            |name: &HeaderName| fields.get_all(name).iter().map(HeaderValue::as_bytes).collect::<Vec<_>>();
        let found: Vec<&[u8]> = match &self.cookie {
            Some(name) => {
                let parts =
                    lines(&header::COOKIE).into_iter().flat_map(|line| line.split(|byte| *byte == b';'));
                let is_named = |part: &&[u8]| readings::cookies(part).any(|(own, _)| name.matches_name(own));
                let value = |part: &[u8]| part.iter().position(|byte| *byte == b'=').map(|at| at + 1);
                parts.filter(is_named).map(|part| &part[value(part).unwrap_or(0)..]).collect()
            }
            None => {
                let shown = lines(&header::AUTHORIZATION).into_iter();
                let bearer = shown.filter_map(|line| line.split_at_checked("Bearer ".len()));
                bearer
                    .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"Bearer "))
                    .map(|(_, rest)| rest)
                    .collect()
            }
        };
        let token = |bytes: &[u8]| str::from_utf8(bytes.trim_ascii()).unwrap_or("?").to_owned();
        match found[..] {
            [one] => token(one),
            _ => String::new(),
        }
    }

    /// Returns the name of the field of a client's request that has the token.
    pub fn seen_field(&self) -> &'static str {
        if self.cookie.is_some() { header::COOKIE.as_str() } else { header::AUTHORIZATION.as_str() }
    }

    /// Verifies a token with `keys`, at `now` in UNIX seconds, and returns its claims.
    ///
    /// # Errors
    /// The reason why it is not accepted.
    pub fn verify(&self, keys: &JwkSet, token: &str, now: u64) -> Result<Claims, TokenFault> {
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenFault::Malformed)?;
        let (head, payload) = signed.split_once('.').ok_or(TokenFault::Malformed)?;
        if token.len() > LONGEST {
            return Err(TokenFault::Malformed);
        }
        let head = object(head)?;
        let algorithm = head.get("alg").and_then(Value::as_str).ok_or(TokenFault::Malformed)?;
        let is_known = algorithm != "none" && !algorithm.starts_with("HS");
        // Extensions that must be understood (RFC 7515 section 4.1.11).
        if !is_known || head.contains_key("crit") {
            return Err(TokenFault::Malformed);
        }
        let id = head.get("kid").and_then(Value::as_str);
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenFault::Malformed)?;
        let mut fitting = keys.0.iter().filter(|key| key.is_for(algorithm, id)).peekable();
        if fitting.peek().is_none() {
            return Err(TokenFault::UnknownKey);
        }
        if !fitting.any(|key| key.key.verifies(algorithm, signed.as_bytes(), &signature)) {
            return Err(TokenFault::Forged);
        }
        let claims = Claims(object(payload)?);
        self.check(&claims, now)?;
        Ok(claims)
    }

    /// Checks the claims of a token with a valid signature.
    fn check(&self, claims: &Claims, now: u64) -> Result<(), TokenFault> {
        let time = |name: &str| claims.0.get(name).map(|value| value.as_f64().unwrap_or(f64::NAN));
        let now = now as f64;
        let skew = f64::from(self.skew);
        // Comparisons with what is no number are false.
        if !time("exp").is_some_and(|end| now < end + skew) {
            return Err(TokenFault::Expired);
        }
        if !time("nbf").is_none_or(|begin| now + skew >= begin) {
            return Err(TokenFault::Early);
        }
        if claims.0.get("iss").and_then(Value::as_str) != Some(&*self.issuer) {
            return Err(TokenFault::Issuer);
        }
        if !claims.texts("aud").any(|text| self.audience.contains(&text)) {
            return Err(TokenFault::Audience);
        }
        let holds = |(name, patterns): &(String, Vec<Pattern>)| {
            claims.texts(name).any(|text| patterns.iter().any(|own| own.matches(text.as_bytes())))
        };
        if self.claims.iter().all(holds) { Ok(()) } else { Err(TokenFault::Claim) }
    }
}

impl Claims {
    /// Returns the texts of a claim: its own, or those of its list. Dots lead into objects (`realm_access.roles`), unless a
    /// claim has the whole name, as `https://example.com/roles`.
    pub fn texts(&self, name: &str) -> impl Iterator<Item = String> {
        let mut parts = name.split('.');
        let inner = parts.next().and_then(|first| self.0.get(first));
        let inner = parts.fold(inner, |own, part| own?.get(part));
        let values = match self.0.get(name).or(inner) {
            Some(Value::Array(all)) => &all[..],
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        values.iter().filter_map(|value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
            _ => None,
        })
    }
}

impl Claims {
    /// Returns the texts of all claims, by the names by which [`texts`](Self::texts) finds them.
    pub fn all(&self) -> ClaimTexts {
        let mut names = Vec::new();
        self.0.iter().for_each(|(name, value)| name_claims(name.clone(), value, &mut names));
        let own = |name: &String| {
            self.texts(name).map(|text| (name.as_str().into(), text.into())).collect::<Vec<_>>()
        };
        ClaimTexts(names.iter().flat_map(own).collect())
    }
}

/// Adds `name`, that of `value`, and the names in that object to `names`.
fn name_claims(name: String, value: &Value, names: &mut Vec<String>) {
    for (inner, value) in value.as_object().into_iter().flatten() {
        name_claims(format!("{name}.{inner}"), value, names);
    }
    if !value.is_object() && !names.contains(&name) {
        names.push(name);
    }
}

fn object(part: &str) -> Result<Map<String, Value>, TokenFault> {
    let text = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenFault::Malformed)?;
    serde_json::from_slice(&text).map_err(|_| TokenFault::Malformed)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn pair() -> EcdsaKeyPair {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref()).unwrap()
    }

    fn keys(pair: &EcdsaKeyPair) -> JwkSet {
        let point = pair.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|part| URL_SAFE_NO_PAD.encode(part));
        let rsa = URL_SAFE_NO_PAD.encode([0xc5; 256]);
        let set = json!({"keys": [
            {"kty": "oct", "k": "AAAA", "kid": "secret"},
            {"kty": "RSA", "n": rsa, "e": "AQAB", "kid": "rsa"},
            {"kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": "one", "use": "sig"},
        ]});
        JwkSet::parse(set.to_string().as_bytes()).unwrap()
    }

    fn sign(pair: &EcdsaKeyPair, head: &Value, claims: &Value) -> String {
        let [head, claims] = [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{head}.{claims}");
        let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn jwt() -> Jwt {
        Jwt {
            keys: KeySource::Url(Origin::new(true, "id.example")),
            issuer: "https://id.example".to_owned(),
            audience: vec!["shop".to_owned()],
            cookie: None,
            claims: vec![("realm.roles".to_owned(), vec![Pattern::parse("admin*").unwrap()])],
            send: Vec::new(),
            skew: 60,
        }
    }

    fn claims() -> Value {
        json!({"iss": "https://id.example", "aud": ["blog", "shop"], "exp": 2_000, "nbf": 1_000,
            "realm": {"roles": ["user", "admin-2"]}})
    }

    #[test]
    fn a_token_is_accepted_for_its_time_issuer_audience_and_claims() {
        let pair = pair();
        let keys = keys(&pair);
        let head = json!({"alg": "ES256", "kid": "one"});
        let with = |name: &str, value: Value| {
            let mut changed = claims();
            changed[name] = value;
            changed
        };
        for (claims, now, expected) in [
            (claims(), 1_000, None),
            (claims(), 2_059, None),
            (claims(), 2_060, Some(TokenFault::Expired)),
            (claims(), 939, Some(TokenFault::Early)),
            (with("exp", Value::Null), 1_000, Some(TokenFault::Expired)),
            (with("exp", json!("9999")), 1_000, Some(TokenFault::Expired)),
            (with("iss", json!("https://other.example")), 1_000, Some(TokenFault::Issuer)),
            (with("aud", json!("blog")), 1_000, Some(TokenFault::Audience)),
            (with("aud", json!("shop")), 1_000, None),
            (with("realm", json!({"roles": "user"})), 1_000, Some(TokenFault::Claim)),
            (with("realm.roles", json!("admin")), 1_000, None),
        ] {
            let found = jwt().verify(&keys, &sign(&pair, &head, &claims), now);
            assert_eq!(found.err(), expected, "{claims} {now}");
        }
    }

    #[test]
    fn no_token_chooses_a_weaker_algorithm_or_another_key() {
        let (pair, other) = (pair(), pair());
        let keys = keys(&pair);
        for (head, expected) in [
            (json!({"alg": "none"}), TokenFault::Malformed),
            (json!({"alg": "HS256", "kid": "rsa"}), TokenFault::Malformed),
            (json!({"alg": "HS256", "kid": "secret"}), TokenFault::Malformed),
            (json!({"alg": "RS256", "kid": "one"}), TokenFault::UnknownKey),
            (json!({"alg": "ES256", "kid": "rsa"}), TokenFault::UnknownKey),
            (json!({"alg": "ES256", "kid": "two"}), TokenFault::UnknownKey),
            (json!({"alg": "ES384", "kid": "one"}), TokenFault::UnknownKey),
            (json!({"alg": "RS256"}), TokenFault::Forged),
            (json!({"alg": "ES256", "kid": "one", "crit": ["b64"]}), TokenFault::Malformed),
            (json!({"kid": "one"}), TokenFault::Malformed),
        ] {
            let found = jwt().verify(&keys, &sign(&pair, &head, &claims()), 1_500);
            assert_eq!(found.err(), Some(expected), "{head}");
        }
        let head = json!({"alg": "ES256"});
        assert!(jwt().verify(&keys, &sign(&pair, &head, &claims()), 1_500).is_ok());
        let forged = jwt().verify(&keys, &sign(&other, &head, &claims()), 1_500);
        assert_eq!(forged.err(), Some(TokenFault::Forged));
    }

    #[test]
    fn a_set_without_usable_keys_is_an_error() {
        for text in ["", "{}", "{\"keys\": []}", "{\"keys\": [{\"kty\": \"oct\", \"k\": \"AA\"}]}", "[1]"] {
            assert!(JwkSet::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_changed_token_is_accepted(at: prop::sample::Index, byte in "[A-Za-z0-9_.-]", text in ".{0,60}") {
            let pair = pair();
            let (keys, head) = (keys(&pair), json!({"alg": "ES256", "kid": "one"}));
            let token = sign(&pair, &head, &claims());
            let mut changed = token.clone();
            let at = at.index(token.len());
            changed.replace_range(at..=at, &byte);
            prop_assume!(changed != token);
            prop_assert!(jwt().verify(&keys, &changed, 1_500).is_err());
            prop_assert!(jwt().verify(&keys, &text, 1_500).is_err());
        }
    }
}
