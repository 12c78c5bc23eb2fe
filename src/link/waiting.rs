//! lld, started before its line is known: it reads the line from a pipe, as a response file.
//!
//! Most of the time of a small link is lld's start (10 ms of 13: the dynamic linker, before `main`), which here overlaps with
//! the analysis. lld does nothing before it has read the whole pipe; without a line it is killed. It also links the originals, unless it
//! would print to a terminal. Other linkers read response files only from regular files (GNU ld, gold, mold), and start in a
//! millisecond. A script in the linker's place is excluded, because it may inspect its words.

use std::ffi::OsString;
use std::io::{IsTerminal, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, ExitStatus, Output};
use std::sync::{Mutex, PoisonError};

use rustix::io::{FdFlags, fcntl_setfd};

use super::bound::{self, response_file};
use super::child;
use crate::config::{Config, LineArg, OutputKind};

/// The linker that waits for its line; a process links once.
static WAITING: Mutex<Option<WaitingLinker>> = Mutex::new(None);

#[derive(Debug)]
struct WaitingLinker {
    process: Child,
    line: PipeWriter,
}

/// Start the linker if a pruned link is likely. The thread must live until the linker ends (see [`bound::command`]).
pub fn start(config: &Config) {
    if is_likely(config, prints_to_terminal()) && is_possible(config) {
        // If it can't be started, the linker is started later, which reports the error.
        *WAITING.lock().unwrap_or_else(PoisonError::into_inner) = started(config).ok();
    }
}

/// Give it the line and wait for its end; `None` if no waiting linker can take this line.
pub(super) fn link(line: &[OsString]) -> Option<std::io::Result<Output>> {
    let WaitingLinker { process, line: mut pipe } = take()?;
    if !is_writable(line) {
        kill(process);
        return None;
    }
    // If the linker has ended without reading, its status says why.
    let give = || drop(pipe.write_all(&response_file(line)).map(|()| drop(pipe)));
    Some(bound::outcome(process, give))
}

/// Link the originals: pass the line and signals on, wait for the end, and print the messages. `None` if no waiting linker can take
/// the line. At a terminal the linker has to print itself, because it colours its messages there. If a message can't be written, the
/// result is `None` too, and the next linker fails as it does without us.
pub(super) fn link_originals(config: &Config) -> Option<std::io::Result<ExitStatus>> {
    let line = &config.linker_args;
    if prints_to_terminal() || !is_writable(line) {
        return None;
    }
    let WaitingLinker { process, line: mut pipe } = take()?;
    let id = process.id();
    let _ = child::pass_signals_on();
    child::add(id);
    // If the linker has ended without reading, its status says why.
    drop(pipe.write_all(&response_file(line)).map(|()| drop(pipe)));
    let output = process.wait_with_output();
    child::ended(id);
    match output {
        Ok(output) if super::print(&output).is_err() => {
            // A linker that can't print its map leaves no output.
            if output.status.success() {
                super::remove_output(config);
            }
            None
        }
        Ok(output) => Some(Ok(output.status)),
        Err(error) => Some(Err(error)),
    }
}

/// End the waiting linker, because another one does this link.
pub fn end() {
    if let Some(waiting) = take() {
        kill(waiting.process);
    }
}

fn take() -> Option<WaitingLinker> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn kill(mut process: Child) {
    // It may have ended already. Waiting for its end would take milliseconds.
    let _ = process.kill();
}

fn prints_to_terminal() -> bool {
    std::io::stdout().is_terminal() || std::io::stderr().is_terminal()
}

/// Whether the linker will most likely get a line. At a terminal it can't link the originals.
fn is_likely(config: &Config, at_terminal: bool) -> bool {
    let refused =
        [&config.explaining, &config.malformed, &config.unmodelled].iter().any(|all| !all.is_empty());
    // lld would record the words of its line there.
    let is_reproduced = config.linker_args.iter().any(|word| word.to_string_lossy().contains("-reproduce"));
    // If lld itself removes all that can be removed, the originals are linked.
    let links_originals = config.gc_sections && at_terminal;
    !links_originals
        && !refused
        && !is_reproduced
        && config.output_kind != OutputKind::Relocatable
        && !config.emit_relocs
}

/// Whether lld reads a line from a pipe just as it reads its words.
fn is_possible(config: &Config) -> bool {
    config.rules().waits_for_lines
        && config.line.iter().any(is_emulation)
        && is_writable(&config.linker_args)
        && Path::new(bound::OURSELVES).exists()
        && is_elf(&config.linker.path)
}

/// lld reads response files twice, but not for the emulation if that comes before them. Only if the line has one,
/// repeating it changes nothing.
const EMULATION: [&str; 2] = ["-m", "elf_x86_64"];

fn is_emulation(word: &LineArg) -> bool {
    matches!(word, LineArg::Other(words) if words == &EMULATION)
}

/// Whether a response file can hold these words: lld skips an empty one there.
fn is_writable(line: &[OsString]) -> bool {
    !line.iter().any(|word| word.is_empty())
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

fn started(config: &Config) -> std::io::Result<WaitingLinker> {
    let (theirs, line) = std::io::pipe()?;
    // Only the child that is started next keeps this end.
    fcntl_setfd(&theirs, FdFlags::empty())?;
    let mut command = bound::command(&config.linker.path);
    command.args(EMULATION).arg(format!("@/proc/self/fd/{}", theirs.as_raw_fd()));
    Ok(WaitingLinker { process: bound::spawn(command)?, line })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::args::tests::lld;

    #[test]
    fn only_where_the_line_may_come_from_a_pipe() {
        let possible = |line: &str, linker: &Path| {
            let mut config = lld(line);
            config.linker.path = linker.to_owned();
            is_possible(&config)
        };
        let program = std::env::current_exe().unwrap();
        assert!(possible("-m elf_x86_64 a.o -o a", &program));
        // lld would read the pipe twice; and an empty word would be passed over.
        assert!(!possible("a.o -o a", &program));
        assert!(!possible("-m elf_x86_64 a.o \"\" -o a", &program));
        let script = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        assert!(!possible("-m elf_x86_64 a.o -o a", script.path()));
    }

    #[test]
    fn not_ahead_of_time_where_the_originals_are_linked() {
        assert!(is_likely(&lld("a.o -o a"), true) && is_likely(&lld("a.o -o a --gc-sections"), false));
        for more in ["--gc-sections", "-r", "--emit-relocs", "--reproduce=a.tar"] {
            assert!(!is_likely(&lld(&format!("a.o -o a {more}")), true), "{more}");
        }
    }
}
