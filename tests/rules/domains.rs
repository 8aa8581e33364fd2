//! Files with lists of domains.

use std::fs;

use larder_testkit::{Client, Larder, Origin, file_with, site};

#[test]
fn a_list_of_domains_closes_the_way_to_them_until_it_changes() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let (_folder, list) = file_with("blocked.txt", "# advertisements\nads.test\n0.0.0.0 tracker.test\n");
    let rule =
        format!("[[site.rule]]\nmatch = {{ domains = '{}' }}\nrespond = 403\n", list.to_string_lossy());
    let larder = Larder::start(&site(&[&origin], &rule));
    let status = |host: &str| larder.ask(&format!("GET /\nHost: {host}")).status;
    assert_eq!(["ads.test", "A.Ads.test.:80", "tracker.test"].map(status), [403; 3]);
    assert_eq!(["badads.test", "other.test"].map(status), [200; 2]);
    fs::write(&list, "other.test\n").expect("written");
    larder.wait_for_log("config reloaded");
    assert_eq!((status("ads.test"), status("other.test")), (200, 403));
    fs::write(&list, "other.test\nno domain\n").expect("written");
    larder.wait_for_log("blocked.txt:2: 'no domain' is neither a domain nor a line of a hosts file");
    assert_eq!((status("ads.test"), status("other.test")), (200, 403));
}

#[test]
fn networks_come_from_files_that_are_read_again() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let folder = tempfile::tempdir().expect("a folder");
    let list = folder.path().join("office.txt");
    fs::write(&list, "# the office\n10.1.0.0/16 ; the cellar\n").expect("written");
    let list_shown = list.to_string_lossy();
    let rules = format!(
        "[[site.rule]]\nmatch = {{ path = '/a' }}\nallow = ['10.0.0.0/16', '@{list_shown}']\n\
         [[site.rule]]\nmatch = {{ client = '@{list_shown}' }}\nrespond = 404\n"
    );
    let larder = Larder::start(&site(&[&origin], &rules));
    let statuses = || ["/a", "/b"].map(|path| larder.get(path).status);
    assert_eq!(statuses(), [403, 200]);
    fs::write(&list, "127.0.0.1\n").expect("written");
    larder.wait_for_log("config reloaded");
    assert_eq!(statuses(), [404, 404]);
    fs::write(&list, "127.0.0.1\n10.0.0.1/8\n").expect("written");
    larder.wait_for_log("office.txt:2: '10.0.0.1/8': a network of 8 bits is '10.0.0.0/8'");
    assert_eq!(statuses(), [404, 404]);
}

#[test]
fn tunnels_to_listed_domains_are_refused() {
    let (_folder, list) = file_with("blocked.txt", "ads.test\n");
    let rule =
        format!("[[forward.rule]]\nmatch = {{ domains = '{}' }}\nrespond = 403\n", list.to_string_lossy());
    let larder = Larder::start(&rule);
    for request in ["CONNECT www.ads.test:443", "GET http://ads.test/"] {
        let host = request.split(' ').nth(1).expect("a target").trim_start_matches("http://");
        let answer =
            Client::to(larder.forward).ask(&format!("{request}\nHost: {}", host.trim_end_matches('/')));
        assert_eq!(answer.status, 403, "{request}");
    }
}
