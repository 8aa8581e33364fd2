//! JSON Web Tokens.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use larder_testkit::{Authority, Larder, Origin, Response, eventually, site};
use serde_json::{Value, json};

use super::with_rules;

/// An issuer of tokens, and the server of its keys.
struct Issuer {
    origin: Origin,
    keys: Arc<Mutex<Vec<(String, EcdsaKeyPair)>>>,
}

impl Issuer {
    fn new() -> Self {
        let keys = Arc::new(Mutex::new(vec![("one".to_owned(), pair())]));
        let shown = Arc::clone(&keys);
        let origin = Origin::by(move |_| format!("200 OK\n\n{}", set(&shown)));
        Self { origin, keys }
    }

    /// Returns the set of its keys.
    fn shown(&self) -> String {
        set(&self.keys)
    }

    /// Returns a token for `user` with this role, signed by the latest key.
    fn token(&self, user: &str, role: &str, lifetime: i64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
        let keys = self.keys.lock().expect("keys");
        let (id, pair) = keys.last().expect("a key");
        let head = json!({ "alg": "ES256", "kid": id });
        let end = i64::try_from(now).expect("a time") + lifetime;
        let claims =
            json!({ "iss": "https://id.test", "aud": "shop", "sub": user, "role": role, "exp": end });
        let [head, claims] = [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{head}.{claims}");
        let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).expect("a signature");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn rule(&self, keys: &str) -> String {
        Self::rule_of(&format!("http://{}", self.origin.address), keys)
    }

    fn rule_of(server: &str, keys: &str) -> String {
        format!(
            "[[site.rule]]\njwt = {{ jwks = '{server}/jwks.json', issuer = 'https://id.test', audience = 'shop'{keys} }}\nrequest.remove = 'Authorization'\n"
        )
    }
}

fn pair() -> EcdsaKeyPair {
    let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let document = EcdsaKeyPair::generate_pkcs8(kind, &SystemRandom::new()).expect("a key");
    EcdsaKeyPair::from_pkcs8(kind, document.as_ref()).expect("a key")
}

fn set(keys: &Mutex<Vec<(String, EcdsaKeyPair)>>) -> String {
    let all: Vec<_> = keys.lock().expect("keys").iter().map(|(id, pair)| jwk(id, pair)).collect();
    json!({ "keys": all }).to_string()
}

fn jwk(id: &str, pair: &EcdsaKeyPair) -> Value {
    let point = pair.public_key().as_ref();
    let [x, y] = [&point[1..33], &point[33..]].map(|part| URL_SAFE_NO_PAD.encode(part));
    json!({ "kty": "EC", "crv": "P-256", "kid": id, "x": x, "y": y })
}

fn ask(larder: &Larder, token: &str) -> Response {
    larder.ask(&format!("GET /page\nAuthorization: Bearer {token}"))
}

#[test]
fn a_valid_token_opens_hits_and_others_are_refused() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\npage");
    let issuer = Issuer::new();
    let larder = with_rules(&origin, &issuer.rule(", claims = { role = 'admin' }"));
    assert!(!ask(&larder, &issuer.token("ann", "admin", 60)).is_hit());
    assert!(ask(&larder, &issuer.token("bob", "admin", 60)).is_hit());
    for (token, status, challenge) in [
        (issuer.token("eve", "admin", -100), 401, "invalid_token"),
        (issuer.token("eve", "user", 60), 403, "insufficient_scope"),
        (Issuer::new().token("eve", "admin", 60), 401, "invalid_token"),
        ("x".to_owned(), 401, "invalid_token"),
    ] {
        let answer = ask(&larder, &token);
        assert_eq!(answer.status, status, "{token}");
        assert!(answer.field("www-authenticate").is_some_and(|text| text.contains(challenge)), "{answer:?}");
    }
    let none = larder.get("/page");
    assert_eq!((none.status, none.field("www-authenticate")), (401, Some("Bearer realm=\"larder\"")));
    assert_eq!((origin.count(), issuer.origin.count()), (1, 1), "keys are fetched once");
}

#[test]
fn keys_rotate_within_a_running_process() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\npage");
    let issuer = Issuer::new();
    let larder = with_rules(&origin, &issuer.rule(""));
    let old = issuer.token("ann", "user", 60);
    assert_eq!(ask(&larder, &old).status, 200);
    let rotate = |id: &str| *issuer.keys.lock().expect("keys") = vec![(id.to_owned(), pair())];
    rotate("two");
    assert!(ask(&larder, &old).is_hit(), "nothing has asked for other keys");
    let new = issuer.token("ann", "user", 60);
    eventually("the new key", || (ask(&larder, &new).status == 200).then_some(()));
    assert_eq!([&old, &new].map(|token| ask(&larder, token).status), [401, 200], "the old key has left");
    rotate("three");
    let third = issuer.token("ann", "user", 60);
    assert_eq!([&third, &new].map(|token| ask(&larder, token).status), [401, 200]);
    assert_eq!(issuer.origin.count(), 2, "unknown keys are asked for at most once a minute");
}

#[test]
fn requests_share_the_failure_of_slow_keys() {
    let origin = Origin::always("200 OK\n\npage");
    let keys = Origin::by(|_| {
        thread::sleep(Duration::from_millis(1_200));
        "500 Failed\n\n".to_owned()
    });
    let issuer = Issuer { origin: keys, ..Issuer::new() };
    let larder = with_rules(&origin, &issuer.rule(""));
    let token = issuer.token("ann", "user", 60);
    thread::scope(|scope| {
        for asked in [(); 4].map(|()| scope.spawn(|| ask(&larder, &token).status)) {
            assert_eq!(asked.join().expect("an answer"), 503);
        }
    });
    assert_eq!(issuer.origin.count(), 1, "none waits for the fetches of all before it");
}

#[test]
fn a_site_uses_no_keys_of_a_server_that_another_site_trusts() {
    let (origin, issuer, authority) = (Origin::always("200 OK\n\npage"), Issuer::new(), Authority::new());
    let pair = authority.pair("keys", &["127.0.0.1"]);
    let listen = "[reverse]\nlisten_tls = '127.0.0.1:0'\n";
    let front = Larder::start(&format!("{listen}{}{}", pair.table(), site(&[&issuer.origin], "")));
    let server = format!("https://{}", front.door("reverse, TLS"));
    let rule = Issuer::rule_of(&server, "");
    let (a, b) = ("hosts = 'a.test'\n", format!("hosts = 'b.test'\n{rule}"));
    let trusting = format!("[[site]]\norigin = '{server}'\nca = '{}'\n{a}{rule}", authority.file());
    let larder = Larder::start(&[trusting, site(&[&origin], &b)].concat());
    let token = issuer.token("ann", "user", 60);
    let ask = |host| larder.ask(&format!("GET /page\nHost: {host}\nAuthorization: Bearer {token}")).status;
    assert_eq!(["a.test", "b.test", "a.test"].map(ask), [200, 503, 200]);
}

#[test]
fn a_changed_file_of_keys_is_read_by_the_running_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys.json");
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let write = |issuer: &Issuer| std::fs::write(&file, issuer.shown()).expect("written");
    write(&issuer);
    let origin = Origin::always("200 OK\n\npage");
    let jwt = format!("jwks = '@{}', issuer = 'https://id.test', audience = 'shop'", file.display());
    let larder = with_rules(&origin, &format!("[[site.rule]]\njwt = {{ {jwt} }}\n"));
    let tokens = [&issuer, &other].map(|issuer| issuer.token("ann", "user", 60));
    let statuses = || tokens.each_ref().map(|token| ask(&larder, token).status);
    assert_eq!(statuses(), [200, 401]);
    write(&other);
    eventually("the new keys", || (statuses() == [401, 200]).then_some(()));
}

#[test]
fn the_origin_gets_claims_and_each_user_has_own_responses() {
    let origin = Origin::by(|seen| {
        format!("200 OK\nCache-Control: max-age=100\n\n{}", seen.field("x-user").unwrap_or("-"))
    });
    let issuer = Issuer::new();
    let larder = with_rules(&origin, &issuer.rule(", from = 'cookie:token', send = { X-User = 'sub' }"));
    let ask = |user: &str| {
        larder.ask(&format!("GET /page\nX-User: eve\nCookie: a=1; token={}", issuer.token(user, "user", 60)))
    };
    for (user, is_hit) in [("ann", false), ("bob", false), ("ann", true)] {
        let answer = ask(user);
        assert_eq!((answer.text(), answer.is_hit()), (user, is_hit));
    }
}

#[test]
fn rules_hold_for_the_claims_of_verified_tokens() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\npage");
    let issuer = Issuer::new();
    let rules = [
        &issuer.rule(""),
        "[[site.rule]]\nmatch = { claim = { role = 'admin' } }\ncache = false\nreply.set = { X-Role = 'admin' }\n",
        "[[site.rule]]\nmatch = { path = '/staff/*', not = { claim = { role = ['admin', 'staff'] } } }\nrespond = 403\n",
        "[[site.rule]]\nmatch = { claim = { role = 'free' } }\nlimit = { requests = '1/h', burst = 1 }\n",
    ];
    let larder = with_rules(&origin, &rules.concat());
    let ask = |path: &str, role: &str| {
        let token = issuer.token("ann", role, 60);
        larder.ask(&format!("GET {path}\nAuthorization: Bearer {token}"))
    };
    assert!(!ask("/page", "user").is_hit() && ask("/page", "user").is_hit());
    let admin = ask("/page", "admin");
    assert_eq!((admin.is_hit(), admin.field("x-role")), (false, Some("admin")));
    assert_eq!(["user", "staff", "admin"].map(|role| ask("/staff/a", role).status), [403, 200, 200]);
    assert_eq!([ask("/page", "free").status, ask("/page", "free").status], [200, 429]);
    let forged = Issuer::new().token("eve", "admin", 60);
    assert_eq!(larder.ask(&format!("GET /staff/a\nAuthorization: Bearer {forged}")).status, 401);
}
