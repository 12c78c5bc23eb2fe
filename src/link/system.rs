//! The `ld` that a compiler driver would have run without us, behind a linker that is our own choice.
//!
//! What would have linked without us links with us: what our choice refuses is linked by the driver's own linker on the
//! line as it was given, whose messages and exit status are then the only ones. It is chosen at once where gcc's
//! link-time optimisation is in the link: GNU ld and gold load the plugin that makes code of such objects, and lld would
//! link a shared library without it. Left out: links whose linker the user named.

use std::io::Write;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use super::{bound, child, waiting};
use crate::config::Config;
use crate::error::{Error, Result, Stage};

/// Link the originals with our choice, its messages held back, and if it refuses them, or `at_once`, with the driver's own linker.
pub fn link(config: &Config, system: &Path, at_once: bool) -> Result<ExitStatus> {
    let now = || {
        let mut command = bound::command(&config.linker.path);
        command.args(&config.linker_args).stdout(Stdio::piped()).stderr(Stdio::piped());
        bound::output(&mut command)
    };
    if !at_once
        && let Ok(output) = waiting::link(&config.linker_args).unwrap_or_else(now)
        && output.status.success()
    {
        // A closed pipe is the reader's business, as it is when the linker writes itself.
        let _ = std::io::stdout().write_all(&output.stdout);
        let _ = std::io::stderr().write_all(&output.stderr);
        return Ok(output.status);
    }
    waiting::end();
    let failed = |e| Error::io(Stage::Link, system, "run the linker", e);
    let mut process = child::start(bound::command(system).args(&config.linker_args)).map_err(failed)?;
    let status = process.wait();
    child::ended(process.id());
    status.map_err(failed)
}
