//! Buckets as origins: signed requests, objects and lists, credentials and their renewal, refusals.

use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, thread, time};

use larder_testkit::{Larder, Origin, Process, file_with, not_tested, output, program};

/// Credentials in variables, and no others.
const KEYS: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("HOME", "/nonexistent")];

/// Starts a proxy for a bucket, with these variables in its environment.
fn before(storage: &str, query: &str, variables: &[(&str, &str)]) -> Larder {
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, Path::new(*value))).collect();
    let url = format!("s3://bucket/site?region=eu-west-1&endpoint={storage}{query}");
    Larder::start_in(&format!("[[site]]\norigin = '{url}'\nretries = 0\nslice = '64KiB'\n"), &variables)
}

/// A storage that answers with the target and the id of the key in the signature.
fn storage() -> Origin {
    Origin::by(|seen| {
        let signature = seen.field("authorization").unwrap_or("none");
        let id = signature.split(['=', '/']).nth(1).unwrap_or("none");
        format!("200 OK\nCache-Control: max-age=100\nx-amz-request-id: 1\n\n{} {id}", seen.target)
    })
}

#[test]
fn objects_are_requested_with_a_signature_and_without_fields_of_clients() {
    let storage = storage();
    let larder = before(&storage.url(), "&index=index.html", &KEYS);
    let ask = "GET /a+b%20c?acl\nAuthorization: Basic eDp5\nX-Amz-Acl: public\nCookie: a=b\nRange: bytes=0-1";
    let answer = larder.ask(ask);
    assert_eq!((answer.status, answer.text()), (206, "/b"));
    assert_eq!(answer.field("x-amz-request-id"), None, "it is between Larder and the storage");
    let seen = storage.last();
    assert_eq!(seen.target, "/bucket/site/a%2Bb%20c");
    let signed = "SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=";
    assert!(seen.field("authorization").is_some_and(|value| value.contains(signed)));
    assert_eq!(
        ["x-amz-acl", "cookie", "range"].map(|name| seen.field(name)),
        [None, None, Some("bytes=0-1")]
    );
    assert_eq!(seen.field("host"), Some(storage.address.to_string().as_str()));
    assert_eq!(larder.get("/x/").text(), "/bucket/site/x/index.html id");
    assert!(larder.get("/x/").is_hit(), "the time in the signature is no part of the key");
    let list = before(&storage.url(), "&list=true", &KEYS);
    assert_eq!(list.get("/x/").text(), "/bucket/?delimiter=%2F&list-type=2&prefix=site%2Fx%2F id");
}

#[test]
fn clients_with_cookies_or_credentials_share_the_objects_of_a_bucket() {
    let storage = Origin::always("200 OK\nLast-Modified: Thu, 01 Jan 2015 00:00:00 GMT\n\nobject");
    let larder = before(&storage.url(), "", &KEYS);
    for (path, own) in [("/a", "Cookie: user=1"), ("/b", "Authorization: Bearer e30.e30.e30")] {
        assert_eq!(larder.ask(&format!("GET {path}\n{own}")).text(), "object");
        for others in [own, "Cookie: user=2", "Authorization: Basic eDp5", "Accept: */*"] {
            assert!(larder.ask(&format!("GET {path}\n{others}")).is_hit(), "{own}, then {others}");
        }
    }
    assert_eq!(storage.count(), 2);
}

#[test]
fn a_bucket_is_only_read_and_not_left_by_its_paths() {
    let storage = storage();
    let larder = before(&storage.url(), "", &KEYS);
    let put = larder.ask("PUT /a\n\nnew");
    assert_eq!((put.status, put.field("allow")), (405, Some("GET, HEAD")));
    for path in ["/../other", "/%2e%2e/other", "/x%2F..%2F..%2Fother"] {
        assert!((400..404).contains(&larder.get(path).status), "{path}");
    }
    assert_eq!(storage.count(), 0);
}

/// Answers as the endpoints for credentials and as a storage, which gets the id of their keys.
fn endpoints(end: String) -> Origin {
    Origin::by(move |seen| {
        let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
        let document = |id: &str| {
            format!(
                "200 OK\n\n{{\"AccessKeyId\":\"{id}\",\"SecretAccessKey\":\"s\",\"Token\":\"t\",\"Expiration\":\"{end}\"}}"
            )
        };
        let session = seen.field("x-aws-ec2-metadata-token") == Some("session");
        match path {
            "/latest/api/token" if seen.method == "PUT" => "200 OK\n\nsession".to_owned(),
            "/latest/meta-data/iam/security-credentials/" if session => "200 OK\n\nrole".to_owned(),
            "/latest/meta-data/iam/security-credentials/role" if session => document("machine"),
            "/container" if seen.field("authorization") == Some("secret") => document("container"),
            "/" if query.contains("WebIdentityToken=a%2Fb") => {
                let keys = "<AccessKeyId>web</AccessKeyId><SecretAccessKey>s</SecretAccessKey>";
                format!(
                    "200 OK\n\n<Credentials>{keys}<SessionToken>t</SessionToken><Expiration>{end}</Expiration></Credentials>"
                )
            }
            _ if seen.target.starts_with("/bucket/") => {
                let (id, token) =
                    (seen.field("authorization").unwrap_or("==/"), seen.field("x-amz-security-token"));
                format!("200 OK\n\n{} {token:?}", id.split(['=', '/']).nth(1).unwrap_or_default())
            }
            _ => "404 Not Found".to_owned(),
        }
    })
}

#[test]
fn credentials_come_from_files_endpoints_and_exchanged_tokens() {
    let (folder, origin) = (tempfile::tempdir().unwrap(), endpoints("2050-01-01T00:00:00Z".to_owned()));
    let (file, token) = (folder.path().join("credentials"), folder.path().join("token"));
    fs::write(&file, "[other]\naws_access_key_id = file\naws_secret_access_key = s\n").unwrap();
    fs::write(&token, "a/b\n").unwrap();
    let (file, token) = (file.display().to_string(), token.display().to_string());
    let (url, container) = (origin.url(), format!("{}/container", origin.url()));
    let home = ("HOME", "/nonexistent");
    let shared = ("AWS_SHARED_CREDENTIALS_FILE", &*file);
    let endpoint = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*container);
    let web =
        [("AWS_WEB_IDENTITY_TOKEN_FILE", &*token), ("AWS_ROLE_ARN", "role"), ("AWS_ENDPOINT_URL_STS", &*url)];
    let rows: [(&[_], &str, &str); 4] = [
        (&[shared, home], "&profile=other", "file None"),
        (&[endpoint, ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "secret"), home], "", "container Some(\"t\")"),
        (&[web[0], web[1], web[2], home], "", "web Some(\"t\")"),
        (&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &*url), home], "", "machine Some(\"t\")"),
    ];
    for (variables, query, expected) in rows {
        assert_eq!(before(&url, query, variables).get("/a").text(), expected);
    }
}

#[test]
fn credentials_are_renewed_before_they_end_and_once_for_all_requests() {
    let soon = time::SystemTime::now() + time::Duration::from_secs(2);
    let seconds = soon.duration_since(time::UNIX_EPOCH).unwrap().as_secs();
    let end = jiff::Timestamp::from_second(seconds.try_into().unwrap()).unwrap().to_string();
    let origin = endpoints(end);
    let url = origin.url();
    let larder = before(&url, "", &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url), ("HOME", "/nonexistent")]);
    let renewals = || origin.count_of("/latest/meta-data/iam/security-credentials/role");
    assert_eq!((larder.get("/a").status, renewals()), (200, 1));
    larder_testkit::eventually("a renewal", || {
        assert_eq!(larder.get("/b").status, 200);
        (renewals() > 1).then_some(())
    });
}

#[test]
fn requests_share_the_failure_of_slow_credentials() {
    // Together, the three steps take longer than the pause before the next attempt.
    let origin = Origin::by(|seen| {
        thread::sleep(time::Duration::from_millis(1_800));
        let answers = [("token", "200 OK\n\nsession"), ("security-credentials/", "200 OK\n\nrole")];
        let answer = answers.iter().find(|(end, _)| seen.target.ends_with(end));
        answer.map_or("404 Not Found\n\n", |(_, answer)| answer).to_owned()
    });
    let url = origin.url();
    let larder = before(&url, "", &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url), ("HOME", "/nonexistent")]);
    let larder = &larder;
    thread::scope(|scope| {
        for asked in ["/a", "/b"].map(|path| scope.spawn(move || larder.get(path).status)) {
            assert_eq!(asked.join().expect("an answer"), 502);
        }
    });
    assert_eq!(origin.count_of("/latest/api/token"), 1);
}

#[test]
fn refusals_of_the_storage_are_statuses_without_its_text() {
    let storage = Origin::by(|seen| {
        let error =
            |code: &str| format!("<Error><Code>{code}</Code><StringToSign>hidden</StringToSign></Error>");
        match seen.target.as_str() {
            "/bucket/site/denied" => format!("403 Forbidden\n\n{}", error("AccessDenied")),
            "/bucket/site/expired" => format!("400 Bad Request\n\n{}", error("ExpiredToken")),
            "/bucket/site/moved" => "301 Moved Permanently\nx-amz-bucket-region: us-east-1".to_owned(),
            "/bucket/site/missing" => format!(
                "404 Not Found\nContent-Type: application/xml\nx-minio-error-desc: bucket\n\n{}",
                error("NoSuchKey")
            ),
            "/bucket/site/part" => format!(
                "416 Range Not Satisfiable\nContent-Range: bytes */7\nContent-Type: application/xml\n\n{}",
                error("InvalidRange")
            ),
            "/bucket/site/busy" => format!("503 Slow Down\nRetry-After: 7\n\n{}", error("SlowDown")),
            _ => format!("403 Forbidden\n\n{}", error("SignatureDoesNotMatch")),
        }
    });
    let larder = before(&storage.url(), "", &KEYS);
    for (path, status) in [("/denied", 403), ("/expired", 502), ("/moved", 502), ("/wrong", 502)] {
        let answer = larder.get(path);
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.cache().contains("bucket-refused") && !answer.text().contains("hidden"), "{answer:?}");
    }
    for (path, status) in [("/missing", 404), ("/part", 416), ("/busy", 503)] {
        let asked = [("GET", ""), ("GET", "\nRange: bytes=9-"), ("HEAD", "")];
        for answer in asked.map(|(method, range)| larder.ask(&format!("{method} {path}{range}"))) {
            let reason = answer.text().get(..3).unwrap_or_default().to_owned();
            assert!(reason.is_empty() || reason == status.to_string(), "{answer:?}");
            assert_eq!((answer.status, answer.field("x-minio-error-desc")), (status, None));
            assert_eq!(answer.field("content-type"), Some("text/plain; charset=utf-8"), "{path}");
            let length = answer.field("content-length").and_then(|length| length.parse().ok());
            assert!(length == Some(answer.body.len()) || reason.is_empty() && length > Some(0), "{answer:?}");
        }
    }
    assert_eq!(larder.get("/busy").field("retry-after"), Some("7"));
    assert_eq!(larder.get("/part").field("content-range"), Some("bytes */7"));
    larder.wait_for_log("answers 403: SignatureDoesNotMatch");
    larder.wait_for_log("is in the region us-east-1");
}

#[test]
fn a_stale_object_that_the_storage_denies_is_not_served() {
    let storage = Origin::in_order([
        "200 OK\nCache-Control: max-age=9\nAge: 19\n\nobject",
        "403 Forbidden\n\n<Error><Code>AccessDenied</Code></Error>",
        "403 Forbidden",
        "400 Bad Request\n\n<Error><Code>ExpiredToken</Code></Error>",
    ]);
    let larder = before(&storage.url(), "", &KEYS);
    let asked = ["GET /a", "GET /a", "HEAD /a", "GET /a"].map(|request| larder.ask(request).status);
    assert_eq!(asked, [200, 403, 403, 200], "expired credentials say nothing about the object");
}

#[test]
fn a_real_storage_accepts_the_signatures() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = folder.join("target/tools/moto");
    if !library.is_dir() {
        return not_tested("moto, which cargo x test installs,");
    }
    let mut command = Command::new("/usr/bin/python3");
    command.env("PYTHONPATH", &library).arg(folder.join("tests/network/s3_server.py"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Process::start(&mut command).expect("python3 starts");
    let line = server.said_until("s3 ").pop().expect("a line of the server");
    let words: Vec<_> = line.split(' ').collect();
    let keys = [("AWS_ACCESS_KEY_ID", words[2]), ("AWS_SECRET_ACCESS_KEY", words[3])];
    let larder = before(words[1], "&index=index.html&credentials=env", &keys);
    assert_eq!(larder.get("/").text(), "a page");
    assert!(larder.get("/").is_hit());
    assert_eq!(larder.ask("HEAD /index.html").status, 200);
    let part = larder.ask("GET /a.txt\nRange: bytes=2-4");
    assert_eq!((part.status, part.text()), (206, "234"));
    // What a client has already is in the first five slices; the others are stored for the next one.
    let film: Vec<u8> = (0..4_096).flat_map(|_| 0..=255).collect();
    let (_folder, part) = file_with("part", "");
    for (client, words) in
        [("curl", &["--silent", "--continue-at", "-", "--output"][..]), ("wget", &["-q", "-c", "-O"])]
    {
        fs::write(&part, &film[..300_000]).expect("written");
        let url = format!("http://{}/film", larder.address());
        output(program(client, client).args(words).arg(&part).arg(url));
        assert!(fs::read(&part).expect("a file") == film, "{client}");
    }
    let host = larder.address();
    let part = larder.ask(&format!("GET /film\nHost: {host}\nRange: bytes=400000-899999"));
    assert!(part.status == 206 && part.is_hit() && part.body == film[400_000..900_000], "{part:?}");
    assert_eq!(part.field("x-amzn-requestid"), None, "as with those of Amazon's own gateways");
    let wrong = [keys[0], ("AWS_SECRET_ACCESS_KEY", "wrong")];
    assert_eq!(before(words[1], "&credentials=env", &wrong).get("/index.html").status, 502);
}

#[test]
fn a_container_of_azure_is_read_with_a_signature() {
    let storage =
        Origin::by(|seen| format!("200 OK\nCache-Control: max-age=100\nx-ms-version: 1\n\n{}", seen.target));
    let url = format!("azure://account/media/site?endpoint={}&index=index.html", storage.url());
    let start = |variables: &[(&str, &Path)]| {
        Larder::start_in(&format!("[[site]]\norigin = '{url}'\nretries = 0\n"), variables)
    };
    let larder = start(&[("AZURE_STORAGE_KEY", Path::new("c2VjcmV0"))]);
    let answer = larder.ask("GET /a%20b?comp=acl\nRange: bytes=0-4\nX-Ms-Copy-Source: x\nCookie: a=b");
    assert_eq!((answer.status, answer.text(), answer.field("x-ms-version")), (206, "/acco", None));
    let seen = storage.last();
    assert_eq!(seen.target, "/account/media/site/a%20b");
    assert!(seen.field("authorization").is_some_and(|value| value.starts_with("SharedKey account:")));
    assert_eq!(["x-ms-copy-source", "cookie"].map(|name| seen.field(name)), [None, None]);
    assert_eq!(larder.get("/x/").text(), "/account/media/site/x/index.html");
    assert!(larder.get("/x/").is_hit());
    assert_eq!(larder.ask("PUT /a\n\nnew").status, 405);
    let without_key = start(&[]).get("/a");
    assert_eq!(without_key.status, 502);
    assert!(without_key.cache().contains("no-credentials"), "{}", without_key.cache());
}
