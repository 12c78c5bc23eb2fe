//! Compilers, linkers and binutils, run in a temporary folder.

use std::path::PathBuf;
use std::process::{Command, Output};

/// A linker by the driver option that names it.
pub(super) const LINKERS: &[&str] = &["bfd", "gold", "lld", "mold"];

/// A temporary folder in which sources are compiled.
#[derive(Debug)]
pub(super) struct Workshop {
    dir: tempfile::TempDir,
}

/// Run a command line; panics with its output if it fails.
pub(super) fn run(command: &mut Command) -> String {
    let output = try_run(command);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(super) fn try_run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

impl Workshop {
    pub(super) fn new() -> Self {
        Workshop { dir: tempfile::tempdir().unwrap() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// A command that runs in the folder.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path());
        command
    }

    /// Compile one source to the bytes of an object.
    pub(super) fn compile(&self, compiler: &str, name: &str, source: &str, flags: &[&str]) -> Vec<u8> {
        let source = self.write(name, source);
        let object = source.with_extension("o");
        run(self.command(compiler).args(flags).arg("-c").arg(name).arg("-o").arg(&object));
        std::fs::read(object).unwrap()
    }

    /// Link objects by a driver and one of [`LINKERS`], and return the executable.
    pub(super) fn link(
        &self,
        driver: &str,
        linker: &str,
        objects: &[(String, Vec<u8>)],
        flags: &[&str],
    ) -> PathBuf {
        self.try_link(driver, linker, objects, flags).unwrap_or_else(|e| panic!("{e}"))
    }

    /// As [`link`](Self::link), but with the linker's message if it fails or warns.
    pub(super) fn try_link(
        &self,
        driver: &str,
        linker: &str,
        objects: &[(String, Vec<u8>)],
        flags: &[&str],
    ) -> Result<PathBuf, String> {
        let output = self.path(&format!("{linker}.out"));
        let folder = format!("objects.{linker}");
        let mut command = self.command(driver);
        // gcc 12 runs plain `ld.lld`, which only a folder of its own can provide here.
        command.arg(format!("-fuse-ld={linker}")).arg("-B").arg(self.lld_folder());
        for (name, bytes) in objects {
            command.arg(self.write(&format!("{folder}/{name}"), bytes));
        }
        let result = try_run(command.args(flags).arg("-o").arg(&output));
        let message = String::from_utf8_lossy(&result.stderr).into_owned();
        if result.status.success() && message.is_empty() {
            Ok(output)
        } else {
            Err(format!("{command:?}: {message}"))
        }
    }

    fn lld_folder(&self) -> PathBuf {
        let folder = self.path("bin");
        let link = folder.join("ld.lld");
        if !link.exists() {
            std::fs::create_dir_all(&folder).unwrap();
            std::os::unix::fs::symlink("/usr/bin/ld.lld-19", &link).unwrap();
        }
        folder
    }
}
