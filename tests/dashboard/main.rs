//! The dashboard in a real browser, with a running proxy: its content, its controls, and the absence of requests to
//! other addresses.

mod browser;
mod cluster;
mod pictures;
mod report;
mod traffic;
mod troubles;

use std::net::SocketAddr;

use browser::Browser;
use larder_testkit::{Answer, Larder, Origin, Seen};
use serde_json::Value;
use traffic::Traffic;

const WIDE: u32 = 1440;

/// Returns a response that may be stored for `/a..`, and one that may not for other paths.
fn mixed(seen: &Seen) -> String {
    match seen.target.as_bytes()[1] {
        b'a' => "200 OK\nCache-Control: max-age=600\n\nstored".to_owned(),
        _ => "200 OK\nCache-Control: no-store\n\nnot stored".to_owned(),
    }
}

/// Whether the text of a tile is the ratio of `part` to `whole`, rounded.
fn is_share(text: &str, part: &Value, whole: &Value) -> bool {
    let shown: f64 = text.split('%').next().and_then(|number| number.parse().ok()).expect(text);
    let [part, whole] = [part, whole].map(|number| number.as_f64().expect("a number"));
    (shown - 100.0 * part / whole).abs() < 0.051
}

#[test]
fn figures_are_those_of_stats() {
    let origin = Origin::by(mixed);
    let larder = Larder::before(&origin);
    let mut browser = Browser::at(larder.admin, WIDE);
    browser.until("!document.querySelector('#empty').hidden");
    // The kernel has chosen the port.
    assert!(browser.text("#try").contains(&format!("curl -i http://{}/", larder.address())));
    let traffic = Traffic::start(&larder, |number| match number % 4 {
        0 => format!("/b/{}", number % 100),
        _ => format!("/a/{}", number % 200),
    });
    browser.until("document.querySelector('#empty').hidden");
    browser.until("parseFloat(document.querySelector('[data-tile=rate] .figure').innerText) > 0");
    browser.until("document.querySelectorAll('#top tbody tr').length === 10");
    let number = "Number(document.querySelector('[data-tile=rate] .quiet').innerText.replace(/[^0-9]/g, ''))";
    browser.until(&format!("{number} > 1000"));
    traffic.stop();
    larder.settle();
    let stats = larder.stats();
    let requests = stats["requests"].as_u64().unwrap();
    let (hits, misses) = (stats["hits"].as_u64().unwrap(), stats["misses"].as_u64().unwrap());
    assert!(requests > 1000 && hits > 100 && misses > 100, "{stats}");
    browser.until(&format!("{number} === {requests}"));
    let cacheable = Value::from(hits + stats["validated"].as_u64().unwrap() + misses);
    let (hits, bytes) =
        (browser.text("[data-tile=hit-ratio] .quiet"), browser.text("[data-tile=byte-hit-ratio] .quiet"));
    assert!(is_share(&hits, &stats["hits"], &cacheable), "{hits}: {stats}");
    assert!(is_share(&bytes, &stats["bytes_from_cache"], &stats["bytes_cacheable"]), "{bytes}: {stats}");
    assert!(browser.text("[data-tile=miss-time] .figure").ends_with('s'));
    let reasons = browser.text("#reasons");
    for (reason, _) in stats["reasons"].as_object().expect("reasons") {
        assert!(reasons.contains(&reason.replace('-', " ")), "{reason} in {reasons}");
    }
    let sites = browser.text("#sites");
    assert!(sites.contains("up ") && sites.contains(&origin.address.to_string()), "{sites}");
    browser.is_content(larder.admin);
}

#[test]
fn failing_requests_have_a_tile_causes_and_a_list_of_urls() {
    let origin = Origin::answering(|seen| match seen.target.as_bytes()[1] {
        b'a' => Answer::with_body("200 OK\nCache-Control: max-age=600", b"stored"),
        b'b' => Answer::with_body("500 Broken", b"no"),
        _ => Answer::default().then_close(),
    });
    let larder = Larder::with_site(&[&origin], "retries = 0");
    let mut browser = Browser::at(larder.admin, WIDE);
    browser.until("document.querySelector('#state').innerText === 'live'");
    assert_eq!(browser.eval("document.querySelector('#failures').hidden"), true);
    let traffic = Traffic::start(&larder, |number| match number % 8 {
        0 => format!("/b/photos/{}.jpg?{}", number % 5, "x".repeat(90)),
        1 => "/c".to_owned(),
        _ => "/a".to_owned(),
    });
    browser.until("/^2[3-7]\\.\\d%$/.test(document.querySelector('[data-tile=errors] .figure').innerText)");
    browser.until("document.querySelector('#failing .open').innerText.endsWith('/c')");
    browser.until("[...document.querySelectorAll('#failing .open')].some((row) => row.innerText.includes('/photos/3.jpg'))");
    traffic.stop();
    let causes = browser.text("#causes");
    assert!(causes.contains("origin closed") && causes.contains("status 500 of the origin"), "{causes}");
    larder.settle();
    let stats = larder.stats();
    let number = |name: &str| stats["statuses"][name].as_u64().unwrap_or_default();
    assert_eq!(stats["requests"], number("2xx") + number("5xx"), "{stats}");
    let metric = format!("larder_responses_total{{site=\"site1\",code=\"5xx\"}} {}", number("5xx"));
    assert!(larder.ask_admin("GET /metrics").text().contains(&metric), "{metric}");
    browser.is_content(larder.admin);
}

#[test]
fn a_purge_from_the_page_makes_the_next_request_a_miss() {
    let origin = Origin::by(mixed);
    let larder = Larder::before(&origin);
    larder.get("/a/page");
    assert!(larder.get("/a/page").is_hit());
    let mut browser = Browser::at(larder.admin, WIDE);
    browser.until("document.querySelector('#objects tbody th').innerText.endsWith('/a/page')");
    browser.click("#objects .act button");
    browser.until("document.querySelector('#purge').open");
    assert_eq!(browser.text("#purge-what"), "http://site.test/a/page");
    browser.click("#purge-no");
    browser.until("!document.querySelector('#purge').open");
    assert!(larder.get("/a/page").is_hit());
    browser.click("#objects .act button");
    browser.until("document.querySelector('#purge').open");
    browser.click("[name=effect][value=hard]");
    browser.click("#purge-yes");
    browser.until("document.querySelector('#said').innerText.startsWith('Purged 1 response')");
    assert_eq!(larder.get("/a/page").cache(), "fwd=uri-miss; fwd-status=200; stored");
    browser.is_content(larder.admin);
}

#[test]
fn all_that_has_a_tag_is_purged_at_once() {
    let origin = Origin::by(|seen| {
        let tag = if seen.target.ends_with('7') { "seven" } else { "other" };
        format!("200 OK\nCache-Control: max-age=600\nETag: \"1\"\nCache-Tag: {tag}\n\nbody")
    });
    let larder = Larder::before(&origin);
    (0..20).for_each(|number| drop(larder.get(&format!("/{number}"))));
    let mut browser = Browser::at(larder.admin, WIDE);
    browser.until("document.querySelectorAll('#objects tbody button').length === 15");
    browser.eval("document.querySelector('#purge-value').value = 'seven'");
    assert_eq!(browser.eval("document.querySelector('#purge-host').hidden"), true);
    browser.click("#purge-form button");
    browser.until("document.querySelector('#purge').open");
    assert_eq!(browser.text("#purge-what"), "tag seven");
    browser.click("#purge-yes");
    browser.until("document.querySelector('#said').innerText.startsWith('Marked stale: 2 responses')");
    assert!(larder.get("/1").is_hit() && !larder.get("/7").is_hit() && !larder.get("/17").is_hit());
    browser.is_content(larder.admin);
}

#[test]
fn the_token_shows_the_figures() {
    larder_testkit::with_outer_address("the_figures_appear_with_the_token");
}

#[test]
#[ignore = "run by another, in a network of its own"]
fn the_figures_appear_with_the_token() {
    let (origin, right) = (Origin::by(mixed), "0123456789abcdef");
    let config = format!("admin_token = '{right}'\n{}", larder_testkit::site(&[&origin], ""));
    let larder = Larder::start_at(&config, "0.0.0.0:0");
    let mut browser = Browser::at(SocketAddr::new(larder_testkit::OUTER, larder.admin.port()), WIDE);
    for token in ["fedcba9876543210", right] {
        // Sending a token loads a new page, in which `window.tried` is not set.
        browser.until("!window.tried && !document.querySelector('#login').hidden");
        let refused = browser.text("#refused");
        assert_eq!(refused, if token == right { "Not accepted: this is not the admin token." } else { "" });
        // There are no figures to show yet, so the charts' frames are hidden.
        assert_eq!(browser.eval("document.querySelector('#charts').offsetHeight"), 0);
        browser.eval(&format!("window.tried = true; document.querySelector('#token').value = '{token}'"));
        browser.click("#login button");
    }
    browser.until("!window.tried && document.querySelector('#state').innerText === 'live'");
    assert_eq!(browser.eval("document.querySelector('#login').hidden"), true);
}

#[test]
fn over_tls_the_page_shows_figures_and_purges() {
    let (origin, state) = (Origin::by(mixed), tempfile::tempdir().expect("a directory"));
    let larder = Larder::start_with_admin_over_tls(&larder_testkit::site(&[&origin], ""), state.path());
    larder.get_only("/a/page");
    let mut browser = Browser::at_secured(larder.admin, &state.path().join("admin.pem"), WIDE);
    browser.until("document.querySelector('#state').innerText === 'live'");
    browser.until("document.querySelector('#objects tbody th').innerText.endsWith('/a/page')");
    browser.click("#objects .act button");
    browser.until("document.querySelector('#purge').open");
    browser.click("#purge-yes");
    browser.until("document.querySelector('#said').innerText.startsWith('Marked stale: 1 response')");
    browser.is_content_with(&format!("https://{}/", larder.admin));
}

#[test]
fn a_row_opens_to_say_why_it_missed() {
    let origin = Origin::by(mixed);
    let larder = Larder::before(&origin);
    let mut browser = Browser::at(larder.admin, WIDE);
    browser.until("document.querySelector('#state').innerText === 'live'");
    let traffic = Traffic::start(&larder, |_| "/b/private".to_owned());
    browser.until("document.querySelector('#misses .open').innerText.endsWith('/b/private')");
    traffic.stop();
    browser.click("#misses .open");
    browser.until("document.querySelector('#misses .below').innerText.includes('no-store')");
    // The response may not be stored, so the page does not recommend a larger cache.
    assert_eq!(browser.eval("document.querySelectorAll('#misses .below .help').length"), 1);
    assert_eq!(browser.eval("document.querySelector('#misses .open').ariaExpanded"), "true");
    browser.is_content(larder.admin);
}

#[test]
fn stale_hits_are_shown_once_there_are_findings() {
    let origin = Origin::by(|seen| {
        let text = if seen.number == 0 { "old" } else { "new" };
        format!("200 OK\nCache-Control: max-age=600\n\n{text}")
    });
    let larder = Larder::with(&origin, "[validate]\nsample = 1.0");
    let mut browser = Browser::at(larder.admin, WIDE);
    browser.until("document.querySelector('#state').innerText === 'live'");
    assert_eq!(browser.eval("document.querySelector('#findings').hidden"), true);
    larder.get("/a/page");
    assert!(larder.get("/a/page").is_hit());
    larder_testkit::eventually("a stale hit", || {
        let found: Value = serde_json::from_slice(&larder.ask_admin("GET /validator").body).ok()?;
        (found["stale"] == 1).then_some(())
    });
    let mut browser = Browser::at(larder.admin, WIDE);
    let row = "document.querySelector('#stale tbody tr').innerText.replace(/\\s+/g, ' ')";
    browser.until(&format!("{row}.startsWith('site1/a 1 100.0%')"));
    assert!(browser.text("#validated").starts_with("1 hit checked at the origin, a sample of 100.0%"));
    browser.is_content(larder.admin);
}

#[test]
fn refreshes_and_prefetches_ahead_of_requests_have_a_dashboard_card() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=600\n\nx");
    let larder = Larder::with_site(&[&origin], "refresh_ahead = '100%'\nclient_prefetch = 'cached-only'");
    let mut browser = Browser::at(larder.admin, WIDE);
    browser.until("document.querySelector('#state').innerText === 'live'");
    assert_eq!(browser.eval("document.querySelector('#ahead-card').hidden"), true);
    for _ in 0..3 {
        larder.get("/page");
    }
    origin.wait_for(2);
    browser.until(
        "document.querySelector('#ahead-refreshes').innerText.startsWith('1 refresh of popular responses')",
    );
    larder.ask("GET /absent\nSec-Purpose: prefetch");
    browser.until("document.querySelector('#ahead-prefetches').innerText.startsWith('1 prefetch of clients; 1 of them declined')");
    assert_eq!(browser.eval("document.querySelector('#ahead-hints').hidden"), true);
    browser.is_content(larder.admin);
}

#[test]
fn curves_of_sizes_have_an_error_band_and_a_slider() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=600\n\nx");
    let larder = Larder::with(&origin, "[memory]\nentries = 20\npolicy = 'lru'");
    for _ in 0..3 {
        (0..30).for_each(|page| drop(larder.get(&format!("/{page}"))));
    }
    let mut browser = Browser::at(larder.admin, WIDE);
    browser.until("!document.querySelector('#advice').hidden");
    assert_eq!(browser.eval("document.querySelectorAll('#curves .band').length"), 1);
    assert_eq!(browser.eval("document.querySelectorAll('#curves .curve').length"), 7);
    browser.until("document.querySelector('#curves').ariaLabel.endsWith('20 0.0%, 40 66.7%, 80 66.7%')");
    browser.eval("{ const size = document.querySelector('#what-if'); size.value = 4; size.dispatchEvent(new Event('input')); }");
    assert_eq!(browser.text("#what-if-size"), "80");
    browser.until("document.querySelector('#what-if-policies').innerText.includes('66.7% ± 0.0')");
    browser.is_content(larder.admin);
}

#[test]
fn history_comes_from_the_database() {
    let (origin, folder) = (Origin::by(mixed), tempfile::tempdir().expect("a folder"));
    let url = format!("sqlite:{}", folder.path().join("s.db").display());
    let larder = Larder::with(&origin, &format!("[stats]\nurl = '{url}'"));
    for path in ["/a/1", "/a/1", "/a/1", "/b/1"] {
        larder.get(path);
    }
    larder_testkit::eventually("rows", || (larder.stats()["statistics"]["written"] == 4).then_some(()));
    let mut browser = Browser::at(larder.admin, WIDE);
    let row = "document.querySelector('#groups tbody tr').innerText.replace(/\\s+/g, ' ')";
    browser.until(&format!("{row}.startsWith('site1/a 3 66.7%')"));
    browser.click("#range label:nth-of-type(3)");
    browser.until("document.querySelector('#past figcaption').innerText.includes('by the hour')");
    browser.is_content(larder.admin);
}

#[test]
fn a_new_server_shows_what_it_stores_and_counts_without_a_reload() {
    let (origin, folder) = (Origin::by(mixed), tempfile::tempdir().expect("a folder"));
    let url = format!("sqlite:{}", folder.path().join("s.db").display());
    let larder = Larder::with(&origin, &format!("[stats]\nurl = '{url}'"));
    let mut browser = Browser::at(larder.admin, WIDE);
    browser.until("!document.querySelector('#no-history').hidden");
    // Without requests the charts are hidden.
    browser.until("document.querySelector('#charts').offsetHeight === 0");
    larder.get("/a/1");
    browser.until("document.querySelector('#found').innerText.startsWith('1 object,')");
    browser.until("document.querySelector('#charts').offsetHeight > 0");
    larder.get("/a/2");
    browser.until("document.querySelector('#found').innerText.startsWith('2 objects,')");
    browser.until("document.querySelectorAll('#groups tbody td').length > 0");
    assert_eq!(browser.eval("document.querySelector('#no-history').hidden"), true);
    browser.eval("document.querySelector('#words').value = '/a/2'");
    browser.click("#search button");
    browser.until("document.querySelector('#found').innerText.startsWith('1 object,')");
    browser.until("document.querySelectorAll('#objects tbody button').length === 1");
    browser.is_content(larder.admin);
}

#[test]
fn everything_has_a_name_and_the_keyboard_reaches_it() {
    let origin = Origin::by(mixed);
    let larder = Larder::before(&origin);
    larder.get("/a/1");
    let mut browser = Browser::at(larder.admin, 390);
    browser.until("document.querySelectorAll('#objects tbody button').length === 1");
    browser.until("document.querySelectorAll('.canvas[role=img][aria-label]').length === 4");
    let nodes = browser.accessible();
    let roles = ["banner", "navigation", "main", "contentinfo", "table", "columnheader", "search", "image"];
    for role in roles {
        assert!(nodes.iter().any(|(known, _)| known == role), "no {role} in {nodes:?}");
    }
    let operable = ["button", "link", "textbox", "searchbox", "combobox", "radio", "image", "table"];
    let nameless = |(role, name): &&(String, String)| operable.contains(&&**role) && name.is_empty();
    assert_eq!(nodes.iter().find(nameless), None, "{nodes:?}");
    browser.press("Tab", 9);
    assert_eq!(browser.eval("document.activeElement.className"), "skip");
    let is_wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
    assert_eq!(browser.eval(is_wide), false);
    browser.is_content(larder.admin);
}

#[test]
fn a_narrow_page_cuts_nothing_but_the_middle_of_urls() {
    let origin = Origin::by(mixed);
    let (folder, long) = (tempfile::tempdir().expect("a folder"), format!("/a/{}last", "folder/".repeat(20)));
    let url = format!("sqlite:{}", folder.path().join("s.db").display());
    let larder = Larder::with(&origin, &format!("[stats]\nurl = '{url}'"));
    for path in ["/a/1", long.as_str(), long.as_str(), "/b/1"] {
        larder.get(path);
    }
    larder_testkit::eventually("rows", || (larder.stats()["statistics"]["written"] == 4).then_some(()));
    let mut browser = Browser::at(larder.admin, 360);
    // Objects that were used before the page was opened are shown at once.
    browser.until("document.querySelector('#top .open').innerText.endsWith('/last')");
    browser.until(
        "[...document.querySelectorAll('#objects tbody th')].some((row) => row.innerText.endsWith('/last'))",
    );
    browser.until("document.querySelectorAll('#groups tbody td').length > 0");
    let cut = "[...document.querySelectorAll('.scroll, th .name, td')].filter((box) => box.scrollWidth > box.clientWidth + 1)";
    let purges = "[...document.querySelectorAll('.act button')].every((button) => button.getBoundingClientRect().right <= innerWidth)";
    for width in [360, 390, 414] {
        browser.resize(width, 900, false);
        browser.until(&format!("{cut}.length === 0"));
        assert_eq!(browser.eval(purges), true, "{width}");
    }
    browser.is_content(larder.admin);
}

#[test]
fn a_lost_server_is_reported_with_the_time() {
    let larder = Larder::before(&Origin::by(mixed));
    let mut browser = Browser::at(larder.admin, WIDE);
    browser.until("document.querySelector('#state').innerText === 'live'");
    assert_eq!(browser.eval("document.querySelector('#lost').hidden"), true);
    let admin = larder.admin;
    drop(larder);
    browser.until("!document.querySelector('#lost').hidden");
    let told = browser.text("#lost");
    assert!(told.starts_with(&format!("No answer from {admin} since ")), "{told}");
    // The state also fits on a phone.
    browser.resize(390, 900, false);
    browser.until(browser::HAS_ROOM_FOR_STATE);
}

#[test]
fn other_programs_get_text_and_other_sites_may_not_frame_the_page() {
    let larder = Larder::start("");
    let ask = |request: &str| larder_testkit::Client::to(larder.admin).ask(request);
    let page = ask("GET /\nAccept: text/html");
    let policy = page.field("content-security-policy").expect("a policy");
    assert!(policy.contains("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
    assert!(ask("GET /\nAccept: */*").text().contains("/stats"));
    assert_eq!(ask("GET /page/nothing.js").status, 404);
    assert_eq!(ask("GET /page/../page.rs").status, 404);
    // Any client may get the page, but figures are only for clients that use the address as Host.
    assert_eq!(ask("GET /\nHost: evil.test\nAccept: text/html").status, 200);
    assert_eq!(ask("GET /recent\nHost: evil.test").status, 403);
}
