//! The executable: by its own name, by `ld.lto-prune`, or by a name of `install-shims`.
//!
//! It decides nothing; it turns the result of [`lto_prune::main_with_args`] into an exit status.

use std::process::ExitCode;

fn main() -> ExitCode {
    lto_prune::main_with_args(std::env::args_os().collect())
}
