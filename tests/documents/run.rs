//! Runs the steps of a page in one shell, so that directories, variables and background jobs persist.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::page::{How, Output, Page};

/// The beginning of the line after the output of each step, before its exit status.
const MARK: &str = "=== step ended:";
/// The limit of a page's duration, in seconds.
const LIMIT: &str = "120";
/// A shell function that waits until a command succeeds, for about 20 seconds.
const AWAIT: &str = "await() {
    for try in $(seq 400); do
        (eval \"$1\") > /dev/null 2>&1 && return
        sleep 0.05
    done
    echo \"waited in vain: $1\"
    false
}";

/// Returns the output of each step, or `None` where namespaces are not permitted.
///
/// # Panics
/// Under `CI`, where no test may be left out.
pub(crate) fn run(page: &Page) -> Option<Vec<Output>> {
    let apart = |options: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(options).args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command
    };
    let may =
        |options: &&[&str]| apart(options).arg("true").output().is_ok_and(|output| output.status.success());
    let Some(options) = [&[][..], &["--map-root-user"]].into_iter().find(may) else {
        assert!(
            std::env::var_os("CI").is_none(),
            "cannot run the pages: `unshare --net --pid` is not permitted"
        );
        eprintln!("not tested: `unshare --net --pid` is not permitted here");
        return None;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::copy(repository.join("LICENSE"), folder.path().join("LICENSE")).expect("copied");
    for name in ["crates", "traces"] {
        symlink(repository.join(name), folder.path().join(name)).expect("linked");
    }
    let larder = Path::new(env!("CARGO_BIN_EXE_larder"));
    if page.steps.iter().any(|step| step.is_run() && step.commands.contains("larder-lab")) {
        larder_testkit::programs::lab();
    }
    // `cargo x test` builds programs there that are in no package.
    let tools = concat!(env!("CARGO_MANIFEST_DIR"), "/target/tools");
    let path = format!("{}:{tools}:{}", larder.parent().expect("a folder").display(), env!("PATH"));
    let mut shell = apart(options);
    shell.args(["timeout", LIMIT, "bash", "-c", &script(page)]).current_dir(folder.path());
    shell.env("PATH", path).env("HOME", folder.path());
    shell.env("XDG_STATE_HOME", folder.path()).env_remove("STATE_DIRECTORY").env_remove("LARDER_TOKEN");
    let output = shell.output().expect("unshare starts");
    Some(outputs(&String::from_utf8_lossy(&output.stdout), page))
}

fn script(page: &Page) -> String {
    let mut script = format!("exec 2>&1\n{AWAIT}\nip link set lo up\n{}\n", page.files);
    for (number, step) in page.steps.iter().filter(|step| step.is_run()).enumerate() {
        let commands = &step.commands;
        let _ = match &step.how {
            How::Background(port) => {
                let port = format!("(: < /dev/tcp/127.0.0.1/{port})");
                let said = step.expected.first();
                let said = said.map(|line| format!(" && grep -qF \"{line}\" background{number}.log"));
                write!(
                    script,
                    "{{\n{commands}\n}} < /dev/null > background{number}.log 2>&1 &\n\
                     await '{port}{said}'\nanswers=$?; cat background{number}.log; (exit $answers)\n",
                    said = said.unwrap_or_default(),
                )
            }
            How::After(command) => write!(script, "await '{command}'\n{{\n{commands}\n}} < /dev/null\n",),
            _ => write!(script, "{{\n{commands}\n}} < /dev/null\n"),
        };
        let _ = writeln!(script, "printf '\\n{MARK} %s\\n' $?");
    }
    script
}

/// Splits the output of the shell at the marks; a step that was not reached has failed.
fn outputs(text: &str, page: &Page) -> Vec<Output> {
    let mut rest = text;
    let mut next = || match rest.split_once(MARK) {
        Some((text, more)) => {
            let (status, more) = more.split_once('\n').unwrap_or((more, ""));
            rest = more;
            Output { text: text.to_owned(), succeeded: status.trim() == "0" }
        }
        None => Output {
            text: format!("{}\n(the page took too long, or the shell ended)", std::mem::take(&mut rest)),
            succeeded: false,
        },
    };
    page.steps.iter().filter(|step| step.is_run()).map(|_| next()).collect()
}
