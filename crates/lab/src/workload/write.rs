//! Workloads as text: lines that begin with `#` describe the workload, and every other line is a request.
//!
//! A request is `time method path size cost [body]`, separated by one space: microseconds from the start, bytes, and
//! microseconds; the body is the rest of the line. Readers also accept lines `+Name: value`, which are fields of the
//! preceding request.

use std::io::{self, Write};

use super::{Workload, WorkloadRequest};
use crate::trace::WORKLOAD_MARK;

/// Writes `workload`, and returns the number of its requests.
pub fn write(workload: Workload, out: &mut impl Write) -> io::Result<u64> {
    writeln!(out, "{WORKLOAD_MARK}")?;
    for line in &workload.header {
        writeln!(out, "# {line}")?;
    }
    writeln!(out, "# columns: time (us), method, path, size (bytes), cost (us), body")?;
    let mut count = 0;
    for step in workload.steps {
        line(&step, out)?;
        count += 1;
    }
    Ok(count)
}

fn line(step: &WorkloadRequest, out: &mut impl Write) -> io::Result<()> {
    let WorkloadRequest { time, method, path, size, cost, body } = step;
    write!(out, "{time} {} {path} {size} {cost}", method.name())?;
    match body.as_str() {
        "" => writeln!(out),
        body => writeln!(out, " {body}"),
    }
}
