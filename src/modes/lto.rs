//! The linker that link-time optimisation needs, where no option and no shim's name says which one.
//!
//! An lld reads bitcode of its own version of LLVM and of earlier ones. The code of gcc's link-time optimisation is compiled by gcc's
//! plugin, which lld does not load: GNU ld does.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::elf::FileHeader;
use object::read::{ReadCache, ReadRef};
use summaries::bitcode;

use crate::args::{self, Environment, linker};
use crate::config::{Config, Flavor, InputArg};
use crate::error::Result;
use crate::inputs::FileKind;
use crate::inputs::archive;
use crate::inputs::mapped::MappedFile;
use crate::inputs::recognise::recognise;
use crate::messages;

/// The files of a line whose code a linker may be unable to compile.
#[derive(Debug, Default)]
struct LtoFiles {
    /// The bitcode of the latest LLVM: its major version, its producer, its file.
    bitcode: Option<(u32, String, PathBuf)>,
    gcc: Option<PathBuf>,
}

/// The config with a linker that compiles all that is on the line; a warning says if none is found.
pub(super) fn suited(mut config: Config, words: &[OsString], env: &Environment<'_>) -> Result<Config> {
    if !config.linker.is_our_choice || config.linker.flavor != Flavor::Lld {
        return Ok(config);
    }
    let files = LtoFiles::of_line(&config);
    if let Some(file) = files.gcc {
        if has_gcc_plugin(&config.linker_args) {
            return args::parse(words, Some(OsStr::new("ld")), env);
        }
        messages::warning(
            &config,
            format_args!(
                "{} has code of gcc's link-time optimisation, which lld does not compile; link it by gcc",
                file.display()
            ),
        );
    }
    let Some((major, producer, file)) = files.bitcode else { return Ok(config) };
    match linker::lld_for_bitcode(major, env) {
        Ok(path) => config.linker.path = path,
        Err((newest, path)) => messages::warning(
            &config,
            format_args!(
                "{} was compiled by {producer}, and the newest lld found is {newest} ({}); install lld {major}, or name one by --prune-linker",
                file.display(),
                path.display()
            ),
        ),
    }
    Ok(config)
}

impl LtoFiles {
    fn of_line(config: &Config) -> LtoFiles {
        let mut files = LtoFiles::default();
        for input in &config.inputs {
            if let InputArg::File { path, .. } = input {
                // A file that can't be read is the linker's to report.
                let _ = files.add_file(Path::new(path));
            }
        }
        files
    }

    /// Only as much of an object is read as its section names need.
    fn add_file(&mut self, path: &Path) -> std::io::Result<()> {
        // The linker can't read again from a pipe.
        if !path.metadata()?.is_file() {
            return Ok(());
        }
        let mut file = File::open(path)?;
        let mut head = [0; 64];
        let length = file.read(&mut head)?;
        match recognise(head.get(..length).unwrap_or_default()) {
            FileKind::Object => self.add_object(path, &ReadCache::new(file)),
            FileKind::Bitcode => self.add_bitcode(path, &MappedFile::open(path)?),
            FileKind::Archive => self.add_archive(path, &MappedFile::open(path)?),
            _ => {}
        }
        Ok(())
    }

    fn add_archive(&mut self, path: &Path, bytes: &[u8]) {
        let members = archive::parse(bytes).map(|archive| archive.members).unwrap_or_default();
        let members = || members.iter().filter_map(|member| bytes.get(member.data.clone()));
        // The members of an archive come from one compiler. rustc puts its metadata before them, in an object.
        let first = |kind| members().find(|bytes| recognise(bytes) == kind);
        if let Some(bytes) = first(FileKind::Bitcode) {
            self.add_bitcode(path, bytes);
        }
        if let Some(bytes) = first(FileKind::Object) {
            self.add_object(path, bytes);
        }
    }

    fn add_object<'a>(&mut self, path: &Path, object: impl ReadRef<'a>) {
        if self.gcc.is_none() && has_gcc_lto(object) {
            self.gcc = Some(path.to_owned());
        }
    }

    fn add_bitcode(&mut self, path: &Path, bytes: &[u8]) {
        let Ok(file) = bitcode::read(bytes) else { return };
        let Some(major) = file.producer_major() else { return };
        if self.bitcode.as_ref().is_none_or(|(newest, ..)| major > *newest) {
            let producer = String::from_utf8_lossy(&file.producer).into_owned();
            self.bitcode = Some((major, producer, path.to_owned()));
        }
    }
}

fn has_gcc_lto<'a>(object: impl ReadRef<'a>) -> bool {
    let Ok(header) = FileHeader64::<LittleEndian>::parse(object) else { return false };
    let Ok(sections) = header.sections(LittleEndian, object) else { return false };
    let is_lto = |name: &[u8]| name.starts_with(b".gnu.lto_");
    sections.iter().any(|s| sections.section_name(LittleEndian, s).is_ok_and(is_lto))
}

/// Whether the line names the plugin of gcc's link-time optimisation, which gcc's driver does.
fn has_gcc_plugin(args: &[OsString]) -> bool {
    args.iter().any(|word| Path::new(word).file_name() == Some(OsStr::new("liblto_plugin.so")))
}
