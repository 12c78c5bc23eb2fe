//! Running a command and knowing what it cost.
//!
//! Peak memory is `ru_maxrss` of `wait4`, which for a process that waited for its own children is the largest of the
//! whole tree: so the pruner is charged with the linker that it starts. Two effects to know: Linux carries the
//! high-water mark over `exec`, so nothing can be below the size of this process (a few MB), and the processes of
//! a tree are not added up, although the pruner still holds its memory while its linker runs.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

/// The cost and end of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finished {
    /// Exit status; 128 + signal if it was killed, as shells say it.
    pub(crate) status: i32,
    pub(crate) wall: Duration,
    /// The time of all processors, in the program and in the kernel for it.
    pub(crate) cpu: Duration,
    /// Largest resident set of the process and the children it waited for, in KiB.
    pub(crate) peak_kib: u64,
}

/// Run `command` to its end, its standard output and error to files.
pub(crate) fn run(command: &mut Command, stdout: &Path, stderr: &Path) -> Result<Finished> {
    command.stdin(Stdio::null()).stdout(File::create(stdout)?).stderr(File::create(stderr)?);
    let start = Instant::now();
    #[allow(
        clippy::zombie_processes,
        reason = "wait4 below reaps it, which std's wait would do without the usage"
    )]
    let child = command.spawn().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    let pid = child.id() as libc::pid_t;
    let mut status = 0;
    // SAFETY: rusage is a plain C struct of integers, for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: pid is our child and was not waited for; both pointers are to live locals of the right type.
        let got = unsafe { libc::wait4(pid, &mut status, 0, &mut usage) };
        if got == pid {
            break;
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error.into());
        }
    }
    let wall = start.elapsed();
    let status =
        if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) };
    let time = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec.unsigned_abs()) + Duration::from_micros(t.tv_usec.unsigned_abs())
    };
    let cpu = time(usage.ru_utime) + time(usage.ru_stime);
    Ok(Finished { status, wall, cpu, peak_kib: usage.ru_maxrss.unsigned_abs() })
}

/// Run `command`; if it fails, the error is its standard error.
pub(crate) fn run_ok(command: &mut Command, scratch: &Path) -> Result<Finished> {
    let (out, err) = (scratch.join("stdout"), scratch.join("stderr"));
    let done = run(command, &out, &err)?;
    if done.status != 0 {
        let text = String::from_utf8_lossy(&std::fs::read(&err)?).into_owned();
        return Err(
            format!("{:?}: status {}\n{}", command.get_program(), done.status, text.trim_end()).into()
        );
    }
    Ok(done)
}

/// What `--prune-time` said of each pass, in their order: its name, and milliseconds. `text` is standard error, with whatever else is there.
pub(crate) fn passes(text: &str) -> Vec<(&str, f64)> {
    let pass = |line| {
        let mut words = str::split_whitespace(line);
        let milliseconds = words.next()?.parse().ok()?;
        Some((words.next_back()?, milliseconds)).filter(|_| words.next() == Some("ms"))
    };
    text.lines().filter_map(pass).collect()
}

/// The milliseconds of one pass.
///
/// # Errors
/// If nothing is said of it.
pub(crate) fn pass(text: &str, name: &str) -> Result<f64> {
    let found = passes(text).into_iter().find(|pass| pass.0 == name);
    Ok(found.ok_or_else(|| format!("--prune-time has no {name}"))?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_told_from_messages() {
        let text = "lto-prune: warning: 2 of 3\n     0.312 ms  load\n 4.000 ms  emit\n";
        assert_eq!(passes(text), [("load", 0.312), ("emit", 4.0)]);
        assert!(pass(text, "emit").is_ok_and(|time| time == 4.0) && pass(text, "link").is_err());
    }
}
