//! A headless browser that is controlled through a pipe (the Chrome DevTools Protocol). It records all errors and all
//! requests of a page.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use larder_testkit::{PATIENCE, Process, eventually, output, program};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The pipe is the browser's third and fourth file; a shell puts it there.
const START: &str = "exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
     --disable-background-networking --no-first-run --hide-scrollbars --user-data-dir=\"$0\" \
     --remote-debugging-pipe \"$@\" about:blank 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";

/// An expression that is true if the state at the top of the page does not cover the program's name.
pub(crate) const HAS_ROOM_FOR_STATE: &str = "document.querySelector('h1').getBoundingClientRect().left \
     + document.querySelector('h1').scrollWidth <= document.querySelector('#state').getBoundingClientRect().left";

/// A browser with one page.
pub(crate) struct Browser {
    _child: Process,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    calls: u64,
    /// The events of the page, as the browser reported them.
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    pub(crate) fn open() -> Self {
        Self::open_with(&[], tempfile::tempdir().expect("a folder"))
    }

    /// Starts a browser with these flags, and with `profile` as home directory.
    fn open_with(flags: &[&str], profile: TempDir) -> Self {
        let mut command = Command::new("sh");
        command
            .args(["-c", START])
            .arg(profile.path())
            .args(flags)
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = Process::start(&mut command).expect("a shell");
        let (input, output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let messages = receive(output);
        let mut browser = Self {
            _child: child,
            input,
            messages,
            session: None,
            calls: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let page = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].take();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": page, "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Opens the page of an admin listener, in a window of this width.
    pub(crate) fn at(admin: SocketAddr, width: u32) -> Self {
        let mut browser = Self::open();
        browser.resize(width, 900, false);
        browser.call("Page.navigate", json!({"url": format!("http://{admin}/")}));
        browser
    }

    /// Opens the page of an admin listener over TLS, and trusts the certificate in `file`.
    pub(crate) fn at_secured(admin: SocketAddr, file: &Path, width: u32) -> Self {
        let digest = "openssl x509 -noout -pubkey -in \"$0\" | openssl pkey -pubin -outform der \
                      | openssl dgst -sha256 -binary | base64";
        let output = Command::new("sh").args(["-c", digest]).arg(file).output().expect("openssl");
        let digest = String::from_utf8(output.stdout).expect("text");
        let trust = format!("--ignore-certificate-errors-spki-list={}", digest.trim());
        let mut browser = Self::open_with(&[&trust], tempfile::tempdir().expect("a folder"));
        browser.resize(width, 900, false);
        browser.call("Page.navigate", json!({"url": format!("https://{admin}/")}));
        browser
    }

    /// Opens a page in a browser that trusts the authority in `file`, beside those of the system.
    #[allow(dead_code, reason = "the tests of HTTP/2 use it")]
    pub(crate) fn trusting(file: &str, url: &str) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let store = home.path().join(".pki/nssdb");
        std::fs::create_dir_all(&store).expect("a folder");
        let store = format!("sql:{}", store.display());
        let add = ["-A", "-t", "C,,", "-n", "authority", "-i", file];
        for words in [&["-N", "--empty-password"][..], &add] {
            output(program("certutil", "libnss3-tools").args(["-d", &store]).args(words));
        }
        let mut browser = Self::open_with(&[], home);
        browser.call("Page.navigate", json!({"url": url}));
        browser
    }

    /// Opens a file, in a window of this width.
    pub(crate) fn of(file: &Path, width: u32) -> Self {
        let mut browser = Self::open();
        browser.resize(width, 900, false);
        browser.call("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        browser.until("document.readyState === 'complete'");
        browser
    }

    /// Calls a method, and returns its result.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.try_call(method, parameters).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Calls a method; an error is the browser's, for example if the page is being replaced.
    fn try_call(&mut self, method: &str, parameters: Value) -> Result<Value, Value> {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.input.write_all(format!("{message}\0").as_bytes()).expect("the browser listens");
        loop {
            let mut message = self.messages.recv_timeout(PATIENCE).expect("the browser answers");
            match message["id"].as_u64() {
                Some(id) if id == self.calls => {
                    return match message["error"].take() {
                        Value::Null => Ok(message["result"].take()),
                        error => Err(error),
                    };
                }
                _ => self.events.push(message),
            }
        }
    }

    /// Returns the value of a JavaScript expression.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        self.try_eval(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    fn try_eval(&mut self, expression: &str) -> Result<Value, Value> {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut result = self.try_call("Runtime.evaluate", parameters)?;
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        Ok(result["result"]["value"].take())
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, expression: &str) {
        // Elements may not exist yet, and the page may be about to be replaced.
        let guarded = format!("(() => {{ try {{ return !!({expression}) }} catch {{ return false }} }})()");
        eventually(expression, || (self.try_eval(&guarded) == Ok(json!(true))).then_some(()));
    }

    /// Returns the visible text of the element that the selector matches.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let text = self.eval(&format!("document.querySelector({})?.innerText ?? ''", json!(selector)));
        text.as_str().expect("text").to_owned()
    }

    /// Clicks the first element that the selector matches, once its middle is visible. The page itself checks and
    /// clicks in one step, because arriving data moves the elements.
    pub(crate) fn click(&mut self, selector: &str) {
        self.until(&format!(
            "((element) => {{ element.scrollIntoView({{ block: 'center', behavior: 'instant' }}); \
             const {{ x, y, width, height }} = element.getBoundingClientRect(); \
             const seen = document.elementFromPoint(x + width / 2, y + height / 2); \
             if (!element.contains(seen)) return false; \
             element.click(); \
             return true }})(document.querySelector({}))",
            json!(selector)
        ));
    }

    /// Presses a key that enters no text.
    pub(crate) fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let parameters = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", parameters);
        }
    }

    pub(crate) fn resize(&mut self, width: u32, height: u32, dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Returns the upper part of the page as a PNG.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        let picture =
            self.call("Page.captureScreenshot", json!({"format": "png", "optimizeForSpeed": false}));
        BASE64_STANDARD.decode(picture["data"].as_str().expect("a picture")).expect("its bytes")
    }

    /// Returns the whole page as a PNG.
    pub(crate) fn whole_picture(&mut self) -> Vec<u8> {
        let page = self.call("Page.getLayoutMetrics", json!({}))["cssContentSize"].take();
        let clip = json!({"x": 0, "y": 0, "width": page["width"], "height": page["height"], "scale": 1});
        let picture = self.call(
            "Page.captureScreenshot",
            json!({"format": "png", "captureBeyondViewport": true, "clip": clip}),
        );
        BASE64_STANDARD.decode(picture["data"].as_str().expect("a picture")).expect("its bytes")
    }

    /// Returns the roles and names of all elements in the accessibility tree.
    pub(crate) fn accessible(&mut self) -> Vec<(String, String)> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().expect("nodes").iter();
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        let shown = nodes.filter(|node| node["ignored"] == false);
        shown.map(|node| (text(&node["role"]), text(&node["name"]))).collect()
    }

    /// Fails if the page logged an error, violated its policy, or sent a request to another address than `admin`.
    pub(crate) fn is_content(&mut self, admin: SocketAddr) {
        self.is_content_with(&format!("http://{admin}/"));
    }

    /// Checks like [`Self::is_content`], for a page that may request URLs beginning with `ours`.
    pub(crate) fn is_content_with(&mut self, ours: &str) {
        self.eval("0");
        let is_wrong = |event: &&Value| match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded" => true,
            "Network.requestWillBeSent" => {
                !event["params"]["request"]["url"].as_str().is_some_and(|url| url.starts_with(ours))
            }
            _ => false,
        };
        let wrong: Vec<_> = self.events.iter().filter(is_wrong).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// The messages of a browser, each of which ends with a zero.
fn receive(output: impl Read + Send + 'static) -> Receiver<Value> {
    let (sender, messages) = channel();
    std::thread::spawn(move || {
        for message in BufReader::new(output).split(0).map_while(Result::ok) {
            let message = serde_json::from_slice(&message).expect("json");
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    messages
}
