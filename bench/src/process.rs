//! Running commands: their output, their cost, and several at a time.
//!
//! Peak memory is `ru_maxrss` of `wait4`, the largest resident set of a process and of the children that it waited for. Processes are not
//! added up. Linux keeps the high-water mark over `exec`, so that no value is below the size of this process (a few MB).

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::Result;

/// The cost and end of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finished {
    /// Exit status; 128 + signal if it was killed, as in shells.
    pub(crate) status: i32,
    pub(crate) wall: Duration,
    /// Processor time in the program and in the kernel.
    pub(crate) cpu: Duration,
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

/// Run `command`, with its output in `scratch`; if it fails, the error is its standard error.
pub(crate) fn run_ok(command: &mut Command, scratch: &Path) -> Result<Finished> {
    let (out, err) = (scratch.join("stdout"), scratch.join("stderr"));
    let done = run(command, &out, &err)?;
    if done.status != 0 {
        let text = String::from_utf8_lossy(&std::fs::read(&err)?).into_owned();
        let program = command.get_program();
        return Err(format!("{program:?}: status {}\n{}", done.status, text.trim_end()).into());
    }
    Ok(done)
}

/// The standard output of a command and its standard error, for any exit status.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Median time and largest peak of several runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) ms: f64,
    pub(crate) mib: f64,
}

/// Run all commands in turn, round after round, and return the cost of each. The first round is not counted: it warms the page cache.
/// `before` prepares a round.
pub(crate) fn in_turn<const N: usize>(
    commands: &mut [Command; N],
    runs: usize,
    scratch: &Path,
    mut before: impl FnMut(usize) -> Result<()>,
) -> Result<[Cost; N]> {
    let mut all: [Vec<Finished>; N] = std::array::from_fn(|_| Vec::new());
    for round in 0..=runs {
        before(round)?;
        for (command, results) in commands.iter_mut().zip(&mut all) {
            let done = run_ok(command, scratch)?;
            results.extend((round > 0).then_some(done));
        }
    }
    Ok(all.map(|mut runs| {
        runs.sort_by_key(|run| run.wall);
        let median = runs.get(runs.len() / 2).map_or(0.0, |run| run.wall.as_secs_f64());
        let peak = runs.iter().map(|run| run.peak_kib).max().unwrap_or(0);
        Cost { ms: median * 1e3, mib: peak as f64 / 1024.0 }
    }))
}

/// Call `work` with each number below `count`, on `jobs` threads. The results are in the order of the numbers.
pub(crate) fn parallel<T: Send>(jobs: usize, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let result = work(number);
                    results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((number, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}
