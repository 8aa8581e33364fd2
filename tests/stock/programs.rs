//! The clients, compiled as the compilers' manuals describe, once for each test program.

use std::fs;
use std::path::Path;
use std::process::Command;

use larder_testkit::{output, program};
use tempfile::TempDir;

/// The definitions that ship.
const THRIFT: &str = include_str!("../../crates/rpc/larder.thrift");
const ONC: &str = include_str!("../../crates/rpc/webpage.x");

/// A client that takes a port and a command.
pub(crate) struct Stock {
    folder: TempDir,
    words: Vec<String>,
}

impl Stock {
    /// Builds the Python client: binary protocol, buffered transport.
    pub(crate) fn python() -> Self {
        let folder = folder(&[("larder.thrift", THRIFT), ("client.py", include_str!("client.py"))]);
        run(
            program("thrift", "thrift-compiler").args(["--gen", "py", "-out", ".", "larder.thrift"]),
            &folder,
        );
        // The path of Debian's package, in case another Python is first in the path.
        Self { folder, words: ["/usr/bin/python3", "client.py"].map(str::to_owned).to_vec() }
    }

    /// Builds the C++ client: compact protocol, framed transport.
    pub(crate) fn cpp() -> Self {
        let folder = folder(&[("larder.thrift", THRIFT), ("client.cpp", include_str!("client.cpp"))]);
        run(
            program("thrift", "thrift-compiler").args(["--gen", "cpp", "-out", ".", "larder.thrift"]),
            &folder,
        );
        let sources = ["client.cpp", "Larder.cpp", "larder_types.cpp"];
        let mut compile = program("g++", "g++");
        run(compile.args(["-o", "client"]).args(sources).args(["-lthrift", "-lssl", "-pthread"]), &folder);
        Self { folder, words: vec!["./client".to_owned()] }
    }

    /// Builds the C client by `rpcgen`.
    pub(crate) fn c() -> Self {
        let folder = folder(&[("webpage.x", ONC), ("client.c", include_str!("client.c"))]);
        run(program("rpcgen", "rpcsvc-proto").args(["-N", "webpage.x"]), &folder);
        let mut flags = program("pkg-config", "pkg-config");
        let flags = output(flags.args(["--cflags", "--libs", "libtirpc"]));
        let sources = ["client.c", "webpage_clnt.c", "webpage_xdr.c"];
        run(
            program("gcc", "gcc").args(["-o", "client"]).args(sources).args(flags.split_whitespace()),
            &folder,
        );
        Self { folder, words: vec!["./client".to_owned()] }
    }

    /// Runs the client and returns its output.
    pub(crate) fn says(&self, words: &[&str]) -> String {
        let mut command = Command::new(&self.words[0]);
        command.current_dir(&self.folder).args(&self.words[1..]).args(words);
        output(&mut command).trim_end().to_owned()
    }

    /// Returns the page that the client saved.
    pub(crate) fn saved(&self) -> Vec<u8> {
        fs::read(self.folder.path().join("page")).expect("a page")
    }
}

fn run(command: &mut Command, folder: &TempDir) {
    output(command.current_dir(folder));
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write =
        |(name, text): &(&str, &str)| fs::write(Path::join(folder.path(), name), text).expect("written");
    files.iter().for_each(write);
    folder
}
