//! The functions of a program, by address.

use anyhow::{Context, Result, ensure};
use rustix::process::Pid;
use std::path::Path;
use std::process::Command;

/// Functions in the order of their addresses.
pub(super) struct Symbols {
    functions: Vec<(u64, String)>,
    /// The address at which the program is loaded.
    base: u64,
}

impl Symbols {
    /// Returns the functions of `program`, which runs as this process. Fails if nm is missing, or the process has not
    /// loaded the program.
    pub(super) fn of(program: &Path, process: Pid) -> Result<Self> {
        let mut nm = Command::new("nm");
        nm.args(["--demangle", "--defined-only", "--numeric-sort"]).arg(program);
        let output = nm.output().context("cannot start nm")?;
        ensure!(output.status.success(), "nm: {}", String::from_utf8_lossy(&output.stderr));
        let process = process.as_raw_nonzero();
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))?;
        let name = program.canonicalize()?.display().to_string();
        let base = maps.lines().find(|line| line.ends_with(&name)).and_then(|line| line.split('-').next());
        let base = base.and_then(|base| u64::from_str_radix(base, 16).ok());
        let base = base.with_context(|| format!("process {process} has not loaded {name}"))?;
        Ok(Self::read(&String::from_utf8_lossy(&output.stdout), base))
    }

    fn read(text: &str, base: u64) -> Self {
        let function = |line: &str| {
            let (address, rest) = line.split_once(' ')?;
            let (kind, name) = rest.split_once(' ')?;
            let address = u64::from_str_radix(address, 16).ok()?;
            matches!(kind, "t" | "T" | "w" | "W").then(|| (address, plain(name)))
        };
        Self { functions: text.lines().filter_map(function).collect(), base }
    }

    /// Returns the number of the function with the instruction at `address`, if it is one of this program's own crates.
    pub(super) fn own(&self, address: u64) -> Option<usize> {
        let at = address.checked_sub(self.base)?;
        let number = self.functions.partition_point(|(start, _)| *start <= at).checked_sub(1)?;
        let name = &self.functions[number].1;
        name.trim_start_matches('<').starts_with("larder").then_some(number)
    }

    pub(super) fn name(&self, number: usize) -> &str {
        &self.functions[number].1
    }
}

/// Returns the name without its hash and its generic parameters.
fn plain(name: &str) -> String {
    let name = match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => path,
        _ => name,
    };
    let (mut plain, mut depth) = (String::new(), 0);
    let is_impl = name.starts_with('<');
    for (at, letter) in name.char_indices() {
        match letter {
            '<' if at > 0 || !is_impl => depth += 1,
            '>' if depth > 0 => depth -= 1,
            _ if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    plain.replace("::::", "::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_function_that_begins_before_it() {
        let text = "\
0000000000001000 t larder_store::memory::Memory::find::h0123456789abcdef
0000000000001080 D larder_store::DATA
0000000000001100 T lock_api::mutex::Mutex<R,T>::lock::hfedcba9876543210
0000000000001200 t <larder_proxy::A as core::ops::Drop>::drop::h0123456789abcdef";
        let symbols = Symbols::read(text, 0x10_0000);
        let name = |at: u64| symbols.own(0x10_0000 + at).map(|number| symbols.name(number).to_owned());
        assert_eq!(name(0xfff), None);
        assert_eq!(name(0x1000).as_deref(), Some("larder_store::memory::Memory::find"));
        assert_eq!(name(0x10ff).as_deref(), Some("larder_store::memory::Memory::find"));
        assert_eq!(name(0x1100), None);
        assert_eq!(name(0x1234).as_deref(), Some("<larder_proxy::A as core::ops::Drop>::drop"));
        assert_eq!(plain("lock_api::mutex::Mutex<R,T>::lock"), "lock_api::mutex::Mutex::lock");
    }
}
