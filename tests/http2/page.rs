//! A page with many images in a browser.

use super::browser::Browser;
use larder_testkit::{Answer, Authority, Larder, Origin, site};

/// The number of images on the page. It exceeds 250, the number of requests of which a browser records the timing by
/// default.
const IMAGES: usize = 300;

/// A GIF of one pixel.
const GIF: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\xff\xff\xff\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";

fn origin() -> Origin {
    let images: String = (0..IMAGES).map(|number| format!("<img src=/{number}.gif>")).collect();
    let script = "<script>performance.setResourceTimingBufferSize(1000)</script>";
    let page = format!("<!doctype html>{script}{images}");
    Origin::answering(move |seen| {
        let (kind, content) = match seen.target.as_str() {
            "/" => ("text/html", page.as_bytes()),
            _ => ("image/gif", GIF),
        };
        Answer::with_body(&format!("200 OK\nCache-Control: max-age=60\nContent-Type: {kind}"), content)
    })
}

#[test]
fn a_browser_gets_a_page_of_300_images() {
    let (authority, origin) = (Authority::new(), origin());
    let pair = authority.pair("site", &["localhost"]);
    let listen = "[reverse]\nlisten = '127.0.0.1:0'\nlisten_tls = '127.0.0.1:0'\n";
    let larder = Larder::start(&format!("{listen}{}{}", pair.table(), site(&[&origin], "")));
    // Each browser has a separate cache: the proxy answers the first browser with misses, and the second with hits.
    for _ in 0..2 {
        let url = format!("https://localhost:{}/", larder.door("reverse, TLS").port());
        let mut browser = Browser::trusting(&authority.file(), &url);
        browser.until("location.protocol === 'https:' && document.readyState === 'complete'");
        let shown = "[...document.images].filter(image => image.naturalWidth === 1).length";
        assert_eq!(browser.eval(shown), IMAGES);
        // The browser also requests an icon, at an unpredictable time.
        let by_h2 =
            |entries: &str| format!("{entries}.filter(entry => entry.nextHopProtocol === 'h2').length");
        assert_eq!(browser.eval(&by_h2("performance.getEntriesByType('navigation')")), 1);
        let images =
            "performance.getEntriesByType('resource').filter(entry => entry.initiatorType === 'img')";
        assert_eq!(browser.eval(&by_h2(images)), IMAGES);
        larder.settle();
    }
    assert!(["/", "/0.gif", "/299.gif"].iter().all(|target| origin.count_of(target) == 1));
    assert_eq!(larder.stats()["http_versions"]["1.1"], 0);
}
