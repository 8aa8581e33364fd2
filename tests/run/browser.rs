//! A browser behind the proxy of a run.

use std::fs;
use std::process::Command;

use larder_testkit::{Authority, Origin, not_tested, output, programs};

use crate::shelf::ANY;
use crate::{Registry, User};

/// It makes requests of its own, which would go to the network.
const BROWSER: &str = "exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
     --disable-background-networking --disable-component-update --disable-sync --dump-dom --user-data-dir=$PWD/profile";

#[test]
fn chromium_loads_a_page_the_second_time_without_its_origin() {
    for program in ["chromium", "certutil"] {
        if programs::find(program).is_none() {
            return not_tested(program);
        }
    }
    let page = "200 OK\nCache-Control: max-age=1000\nContent-Type: text/html\n\n<link rel=icon href='data:,'><p>a page";
    let registry = Registry::with(Origin::always(page), Authority::new(), &[ANY], "");
    let user = User::of(&registry);
    user.run(&[], &["true"]).succeeded();
    // As `larder ca trust` does, which also changes the system.
    let store = user.home().join(".pki/nssdb");
    fs::create_dir_all(&store).expect("made");
    let (store, ca) =
        (format!("sql:{}", store.display()), user.home().join("state/ca.pem").display().to_string());
    for words in [&["-N", "--empty-password"][..], &["-A", "-t", "C,,", "-n", "larder-ca", "-i", &ca]] {
        output(Command::new("certutil").args(["-d", &store]).args(words));
    }
    let script = format!("rm -rf profile; {BROWSER} https://{ANY}:{}/", registry.port());
    for hits in [0, 1] {
        let run = user.run(&["--host", ANY], &["sh", "-c", &script]).succeeded();
        assert!(run.said().contains("<p>a page"), "{} {}", run.said(), run.told());
        assert_eq!(
            (run.report["hosts"][ANY]["hits"].as_u64(), registry.count()),
            (Some(hits), 1),
            "{}",
            run.told()
        );
    }
}
