//! A link with untrusted bytes as one input: every pass runs on it, except the linker itself.
//!
//! The first byte selects the linker flavor, the level and the options; the rest is an input, linked with a sound object that refers to it. Objects
//! are emitted and verified as with `--prune-level=off --prune-report`, where nothing is linked.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use lto_prune::modes::{self, Mode};
use lto_prune::timing::Timer;
use lto_prune::{config::Config, inputs};

use crate::no_variables;

/// By these names each linker is known.
pub(crate) const LINKERS: [&str; 5] = ["ld.lld", "ld.mold", "ld.bfd", "ld.gold", "wild"];

const MAIN: &[u8] = include_bytes!("../corpus/object/main.o");

/// A folder of this process, in memory, with the object and something executable for each linker.
fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let base = std::env::var_os("FUZZ_FOLDER").unwrap_or_else(|| "/dev/shm".into());
        let folder = PathBuf::from(base).join(format!("lto-prune-fuzz-{}", std::process::id()));
        let made = std::fs::create_dir_all(&folder).and_then(|()| {
            for linker in LINKERS {
                std::fs::write(folder.join(linker), "#!/bin/false\n")?;
                std::fs::set_permissions(folder.join(linker), std::fs::Permissions::from_mode(0o755))?;
            }
            std::fs::write(folder.join("main.o"), MAIN)
        });
        assert!(made.is_ok(), "{}: {made:?}", folder.display());
        folder
    })
}

pub(crate) fn place(name: &str) -> PathBuf {
    folder().join(name)
}

/// Make a file of these bytes.
pub(crate) fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = place(name);
    let written = std::fs::write(&path, bytes);
    assert!(written.is_ok(), "{}: {written:?}", path.display());
    path
}

/// `--prune-linker` with the stand-in for a linker.
pub(crate) fn option_for(linker: &str) -> OsString {
    let mut option = OsString::from("--prune-linker=");
    option.push(place(linker));
    option
}

fn config(linker: &str, words: &[OsString]) -> Option<Config> {
    let mut line: Vec<OsString> = vec!["ld".into(), option_for(linker)];
    line.extend_from_slice(words);
    match modes::mode(&line, &no_variables()) {
        Ok(Mode::Link(config)) => Some(*config),
        _ => None,
    }
}

/// Bytes as a script of each kind.
pub(crate) fn scripts(bytes: &[u8]) {
    let script = write("script", bytes);
    for option in
        ["-T", "--version-script", "--dynamic-list", "--symbol-ordering-file", "--call-graph-ordering-file"]
    {
        let words = [option.into(), script.clone().into_os_string(), place("main.o").into_os_string()];
        for linker in LINKERS {
            let Some(config) = config(linker, &words) else { continue };
            let Ok(inputs) = inputs::load(&config) else { continue };
            let names = inputs.scripts.name_matcher(config.linker.flavor, config.undefined_version);
            names.version_exports(b"_ZN3foo3barEv");
            names.dynamic_list_names(b"main");
        }
    }
}

pub(crate) fn read(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let linker = LINKERS[usize::from(choice & 7) % LINKERS.len()];
    let level = ["sections", "functions", "pointers"][usize::from(choice >> 3 & 3) % 3];
    let mut report = OsString::from("--prune-report=");
    report.push(place("link.json"));
    let mut words: Vec<OsString> =
        vec![format!("--prune-level=off:{level}").into(), report, "--prune-jobs=1".into()];
    words.extend((choice & 32 != 0).then(|| "--gc-sections".into()));
    words.extend((choice & 64 != 0).then(|| "-shared".into()));
    words.extend((choice & 128 != 0).then(|| "--whole-archive".into()));
    words.extend([place("main.o").into_os_string(), write("input", bytes).into_os_string()]);
    words.extend(["-e", "main", "-o", "out"].map(OsString::from));
    if let Some(config) = config(linker, &words) {
        let _ = lto_prune::run(&config, &mut Timer::start());
    }
}
