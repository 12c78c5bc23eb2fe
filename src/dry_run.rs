//! The dry run (`--prune-level=off` with a report): the linker links the originals, and another process computes what would be
//! removed.
//!
//! The analysis must not change the link. So the linker gets its own line, standard streams and output, and the analysis runs in a
//! process of its own. A panic, a lack of memory or a changing input ends that process alone. Its messages follow those of the
//! linker; the exit status is the linker's. A failed analysis is a warning, also with `--prune-strict`.
//!
//! The other process is this program with the same words, and an environment variable with the process id of its parent. The report
//! describes the linked file, so it waits for the end of the linker: this process sends one byte if the link succeeded, and closes
//! the stream. Pruned objects are made and verified in memory only.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, Output, Stdio};

use crate::Outcome;
use crate::args::linker::LINKER_VARIABLE;
use crate::config::Config;
use crate::link::{self, child};
use crate::messages;
use crate::report::{LinkAnswer, LinkerEnd};

/// Set for the process that analyses: the process id of the one that links.
const PARENT_VARIABLE: &str = "LTO_PRUNE_DRY_RUN_OF";

/// Link the originals, and write what was asked for.
pub fn link(config: &Config) -> ExitCode {
    if is_analysis(config) {
        return analyse(config);
    }
    let prune = &config.prune;
    let is_wanted = prune.wants_report() || prune.repro.is_some() || prune.time;
    if !is_wanted || child::pass_signals_on().is_err() {
        return link::exec_plain(config);
    }
    let mut analysis = start_analysis(config);
    let linker = match child::PlainLinker::start(config) {
        Ok(linker) => linker,
        Err(error) => {
            if let Ok(analysis) = &mut analysis {
                let _ = analysis.kill();
                let _ = analysis.wait();
            }
            messages::error(config, error);
            return ExitCode::FAILURE;
        }
    };
    let status = linker.wait();
    if let (Ok(analysis), Ok(status)) = (&mut analysis, &status) {
        // The analysis may have ended already.
        if let (Some(mut stream), true) = (analysis.stdin.take(), status.success()) {
            let _ = stream.write_all(&[1]);
        }
    }
    finish(config, analysis);
    match status {
        Ok(status) => child::exit_as(status),
        Err(error) => {
            messages::error(config, error);
            ExitCode::FAILURE
        }
    }
}

/// Whether this process is the one that analyses.
pub fn is_analysis(config: &Config) -> bool {
    let parent = std::env::var(PARENT_VARIABLE).ok().and_then(|v| v.parse::<u32>().ok());
    config.prune.off && parent == Some(std::os::unix::process::parent_id())
}

/// The analysis, its messages held back.
fn start_analysis(config: &Config) -> std::io::Result<Child> {
    let mut words = std::env::args_os();
    let mut command = Command::new(std::env::current_exe()?);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words).env(PARENT_VARIABLE, std::process::id().to_string());
    // The linker may have been found by the parent process, which differs.
    command.env(LINKER_VARIABLE, &config.linker.path);
    child::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()))
}

fn is_linked() -> bool {
    let mut said = Vec::new();
    std::io::stdin().read_to_end(&mut said).is_ok() && !said.is_empty()
}

/// Wait for the analysis and let out what it printed.
fn finish(config: &Config, analysis: std::io::Result<Child>) {
    let ended = analysis.and_then(|child| {
        let id = child.id();
        let output = child.wait_with_output();
        child::ended(id);
        output
    });
    let Output { status, stdout, stderr } = match ended {
        Ok(output) => output,
        Err(error) => return warn(config, &format!("cannot run the analysis: {error}")),
    };
    // A closed pipe is the reader's business.
    let _ = std::io::stdout().write_all(&stdout);
    let _ = std::io::stderr().write_all(&stderr);
    if let Some(signal) = status.signal() {
        warn(config, &format!("the analysis was ended by signal {signal}"));
    }
}

fn warn(config: &Config, message: &str) {
    messages::warning(config, format_args!("{message}; there is no report, and the link is not affected"));
}

/// The other process: the passes without the link.
fn analyse(config: &Config) -> ExitCode {
    link::bound::end_with_parent();
    let mut answer = match crate::run_caught(config) {
        Ok(Outcome::Originals(answer)) => *answer,
        Ok(_) => return ExitCode::SUCCESS,
        Err(error) => {
            LinkAnswer { warning: Some(error.clone()), ..LinkAnswer::without_analysis(config, &error) }
        }
    };
    // Until here the answer is without the linked file.
    answer.give(config, if is_linked() { LinkerEnd::Succeeded } else { LinkerEnd::Failed });
    answer.warning.iter().for_each(|warning| messages::warning(config, warning));
    ExitCode::SUCCESS
}
