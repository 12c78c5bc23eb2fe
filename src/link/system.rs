//! The `ld` that a compiler driver would have run without us, behind a linker that is our own choice.
//!
//! What would have linked without us links with us: what our choice refuses is linked by the driver's own linker on the
//! line as it was given, whose messages and exit status are then the only ones. It is chosen at once where gcc's
//! link-time optimisation is in the link: GNU ld and gold load the plugin that makes code of such objects, and lld would
//! link a shared library without it. Left out: links whose linker the user named.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use super::{bound, waiting};
use crate::config::Config;

/// Become the driver's own linker, with the line as it was given. Returns only if that is impossible.
pub fn exec(config: &Config, system: &Path) -> ExitCode {
    waiting::end();
    let error = Command::new(system).args(&config.linker_args).exec();
    eprintln!("lto-prune: link: {}: cannot run the linker: {error}", system.display());
    ExitCode::FAILURE
}

/// Link the originals with our choice, its messages held back, and if it refuses them with the driver's own linker. A
/// `warning` of ours is said where our choice succeeds.
pub fn link(config: &Config, system: &Path, warning: Option<&str>) -> ExitCode {
    let now = || {
        let mut command = bound::command(&config.linker.path);
        command.args(&config.linker_args).stdout(Stdio::piped()).stderr(Stdio::piped());
        bound::output(&mut command)
    };
    match waiting::link(&config.linker_args).unwrap_or_else(now) {
        Ok(output) if output.status.success() => {
            // A closed pipe is the reader's business, as it is when the linker writes itself.
            let _ = std::io::stdout().write_all(&output.stdout);
            let _ = std::io::stderr().write_all(&output.stderr);
            super::after_originals(config, warning)
        }
        _ => exec(config, system),
    }
}
