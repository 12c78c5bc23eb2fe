//! The lexer of a link command: words of a compiler driver and of the linker, without those that name files to write.
//!
//! Response files are replaced by their words. `-Wl,A,B` and `-Xlinker A` are the linker's words A and B, so that one list of options serves a driver's link
//! and a linker's.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::edits::Edit;
use crate::args::words;
use crate::error::{Error, Result, Stage};
use crate::modes::is_linker_name;

/// A word of the command, by the program that reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LinkWord {
    Driver(OsString),
    Linker(OsString),
}

/// A link that can be made again, to another output.
#[derive(Debug, Clone)]
pub(super) struct LinkCommand {
    /// The driver or linker, perhaps behind programs that run it, such as ccache.
    pub(super) program: Vec<OsString>,
    /// The words without the output and without other files that would be written.
    pub(super) words: Vec<LinkWord>,
    pub(super) is_driver: bool,
    pub(super) output: PathBuf,
    /// The folder to link in; `None`: the present one.
    pub(super) folder: Option<PathBuf>,
    /// Whether words came from a response file: there may be too many for a command line.
    pub(super) is_long: bool,
}

/// Programs that run the command behind them.
const RUNNERS: &[&str] = &["ccache", "distcc", "env", "icecc", "nice", "sccache"];
/// Programs that make links among other things.
const BUILDERS: &[&str] =
    &["bazel", "cargo", "cmake", "go", "libtool", "make", "meson", "ninja", "rustc", "sh", "bash", "xcrun"];
/// Options that make a driver stop before the link.
const NO_LINK: &[&str] = &["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"];
/// Driver options that name a file to write, or its parts, by the next word.
const DRIVER_WRITES: [&str; 8] =
    ["-MF", "-MJ", "-MQ", "-MT", "-aux-info", "-dumpbase", "-dumpbase-ext", "-dumpdir"];
/// Prefixes of driver options that write files, in one word.
const DRIVER_WRITE_PREFIXES: &[&str] = &[
    "-MD",
    "-MF",
    "-MG",
    "-MMD",
    "-MP",
    "-MQ",
    "-MT",
    "-Wp,-M",
    "-fdump-",
    "-foptimization-record-file=",
    "-fopt-info",
    "-fsave-optimization-record",
    "-ftime-trace",
    "-save-temps",
    "--save-temps",
    "-time=",
];
/// Linker options that name a file to write, by `=` or the next word.
const LINKER_WRITES: &[&str] = &[
    "Map",
    "dependency-file",
    "error-handling-script",
    "lto-obj-path",
    "opt-remarks-filename",
    "out-implib",
    "print-symbol-counts",
    "print-symbol-order",
    "reproduce",
    "write-gc-stats",
];
/// Linker options that write files, in one word.
const LINKER_WRITE_FLAGS: &[&str] = &[
    "print-archive-stats",
    "prune-emit",
    "prune-limit-log",
    "prune-log",
    "prune-plan",
    "prune-remarks",
    "prune-report",
    "prune-repro",
    "repro",
    "save-temps",
    "separate-debug-file",
    "thinlto-emit-imports-files",
    "thinlto-index-only",
    "time-trace",
    "why-extract",
];
/// Linker options that write a file only if they have a value.
const LINKER_WRITE_VALUES: &[&str] = &["print-gc-sections", "print-icf-sections"];

impl LinkCommand {
    /// Read a command.
    ///
    /// # Errors
    /// It is no link.
    pub(super) fn parse(command: &[OsString]) -> Result<LinkCommand> {
        let wrong = |message: String| Err(Error::new(Stage::Arguments, format!("advise: {message}")));
        let is_run = |word: &&OsString| {
            RUNNERS.contains(&&*base_name(word))
                || (word.as_bytes().contains(&b'=') && !word.as_bytes().starts_with(b"-"))
        };
        let runners = command.iter().take_while(is_run).count();
        let (program, rest) = command.split_at(command.len().min(runners + 1));
        let Some(name) = program.get(runners).map(base_name) else {
            return wrong("no link command: lto-prune advise [OPTIONS] -- LINK COMMAND".to_owned());
        };
        if BUILDERS.contains(&&*name) {
            return wrong(format!("{name} is no linker and no compiler driver; name the link that it makes"));
        }
        let all = words::expand(rest);
        let is_driver = !is_linker_name(OsStr::new(&name));
        let mut link = LinkCommand {
            program: program.to_vec(),
            words: Vec::new(),
            is_driver,
            output: "a.out".into(),
            folder: None,
            is_long: all.len() != rest.len(),
        };
        let lexed =
            if is_driver { driver_words(&all) } else { all.iter().cloned().map(LinkWord::Linker).collect() };
        if let Some(LinkWord::Driver(no)) =
            lexed.iter().find(|w| matches!(w, LinkWord::Driver(w) if NO_LINK.iter().any(|no| w == no)))
        {
            return wrong(format!("the command has {}: it compiles and does not link", no.display()));
        }
        link.take(lexed);
        Ok(link)
    }

    /// Keep the words that write nothing, and the name of the output.
    fn take(&mut self, lexed: Vec<LinkWord>) {
        let mut rest = lexed.into_iter();
        while let Some(word) = rest.next() {
            let (is_linker, text) = match &word {
                LinkWord::Driver(text) => (false, text),
                LinkWord::Linker(text) => (true, text),
            };
            let bytes = text.as_bytes();
            let is_joined = |prefix: &[u8]| bytes.len() > prefix.len() && bytes.starts_with(prefix);
            let mut written_to = |path: &[u8]| self.output = PathBuf::from(OsStr::from_bytes(path));
            if bytes == b"-o" || bytes == b"--output" {
                if let Some(LinkWord::Driver(path) | LinkWord::Linker(path)) = rest.next() {
                    written_to(path.as_bytes());
                }
            } else if is_joined(b"--output=") {
                written_to(bytes.get(9..).unwrap_or_default());
            } else if is_joined(b"-o")
                && !(is_linker && (bytes == b"-omagic" || bytes.starts_with(b"-oformat")))
            {
                written_to(bytes.get(2..).unwrap_or_default());
            } else {
                match if is_linker { linker_writes(bytes) } else { driver_writes(bytes) } {
                    Writes::Nothing => self.words.push(word),
                    Writes::InOneWord => {}
                    Writes::NextWord => drop(rest.next()),
                }
            }
        }
    }

    /// The last component of the output's path.
    pub(super) fn output_name(&self) -> &OsStr {
        self.output.file_name().unwrap_or(OsStr::new("a.out"))
    }

    /// The words of the driver alone.
    pub(super) fn driver_words(&self) -> impl Iterator<Item = &OsString> {
        self.words.iter().filter_map(|word| match word {
            LinkWord::Driver(word) => Some(word),
            LinkWord::Linker(_) => None,
        })
    }

    /// Whether the linker's words are on the line, one behind the other.
    pub(super) fn has(&self, words: &[&str]) -> bool {
        let is = |word: &LinkWord, wanted: &&str| matches!(word, LinkWord::Linker(w) | LinkWord::Driver(w) if w == wanted);
        self.words
            .windows(words.len())
            .any(|window| window.iter().zip(words).all(|(w, wanted)| is(w, wanted)))
    }

    /// The linker that clang was told by `--ld-path`.
    pub(super) fn ld_path(&self) -> Option<&OsStr> {
        let paths = self.driver_words().filter_map(|w| w.as_bytes().strip_prefix(b"--ld-path="));
        paths.last().map(OsStr::from_bytes)
    }

    /// The program that links, without those that run it.
    pub(super) fn linker_or_driver(&self) -> OsString {
        self.program.last().cloned().unwrap_or_default()
    }

    /// The words of the link with these edits, the program first, but for the output.
    pub(super) fn line(&self, edits: &[Edit], shims: &OsStr) -> Vec<OsString> {
        let change = super::edits::change(self, edits, shims);
        let mut line = self.program.clone();
        if let (Some(program), Some(last)) = (change.program, line.last_mut()) {
            *last = program;
        }
        let kept = self.words.iter().filter(|word| !change.removed.contains(word));
        line.extend(kept.flat_map(|word| match word {
            LinkWord::Driver(word) => vec![word.clone()],
            LinkWord::Linker(word) if self.is_driver => for_driver(word),
            LinkWord::Linker(word) => vec![word.clone()],
        }));
        line.extend(change.added);
        line
    }
}

/// A word of the linker as a driver passes it on. It takes a comma for the end of a word.
fn for_driver(word: &OsStr) -> Vec<OsString> {
    match word.as_bytes().contains(&b',') || word.is_empty() {
        true => vec!["-Xlinker".into(), word.to_owned()],
        false => vec![OsString::from_vec([b"-Wl,", word.as_bytes()].concat())],
    }
}

pub(super) fn base_name(word: &OsString) -> String {
    Path::new(word).file_name().unwrap_or(word).to_string_lossy().into_owned()
}

/// A driver's words, with the linker's words behind `-Wl,` and `-Xlinker` apart.
fn driver_words(words: &[OsString]) -> Vec<LinkWord> {
    let mut out = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let bytes = word.as_bytes();
        if let Some(list) = bytes.strip_prefix(b"-Wl,") {
            let list: Vec<OsString> =
                list.split(|b| *b == b',').map(|w| OsStr::from_bytes(w).to_owned()).collect();
            out.extend(words::expand(&list).into_iter().map(LinkWord::Linker));
        } else if bytes == b"-Xlinker" {
            out.extend(
                rest.next()
                    .into_iter()
                    .flat_map(|w| words::expand(std::slice::from_ref(w)))
                    .map(LinkWord::Linker),
            );
        } else if bytes == b"-z" {
            // The driver passes both on.
            out.push(LinkWord::Linker(word.clone()));
            out.extend(rest.next().cloned().map(LinkWord::Linker));
        } else {
            out.push(LinkWord::Driver(word.clone()));
        }
    }
    out
}

/// Whether a word writes a file.
enum Writes {
    Nothing,
    InOneWord,
    /// It is named by the word behind it.
    NextWord,
}

fn driver_writes(word: &[u8]) -> Writes {
    if DRIVER_WRITES.iter().any(|w| word == w.as_bytes()) {
        return Writes::NextWord;
    }
    match DRIVER_WRITE_PREFIXES.iter().any(|prefix| word.starts_with(prefix.as_bytes())) {
        true => Writes::InOneWord,
        false => Writes::Nothing,
    }
}

fn linker_writes(word: &[u8]) -> Writes {
    let Some(name) = word.strip_prefix(b"-") else { return Writes::Nothing };
    let name = name.strip_prefix(b"-").unwrap_or(name);
    let mut parts = name.splitn(2, |b| *b == b'=');
    let (name, value) = (parts.next().unwrap_or_default(), parts.next());
    let is_in = |list: &[&str]| list.iter().any(|known| known.as_bytes() == name);
    let is_of_plugin = |value: &[u8]| value.starts_with(b"save-temps") || value.starts_with(b"obj-path=");
    match value {
        None if is_in(LINKER_WRITES) => Writes::NextWord,
        Some(_) if is_in(LINKER_WRITES) || is_in(LINKER_WRITE_VALUES) => Writes::InOneWord,
        Some(value) if name == b"plugin-opt" && is_of_plugin(value) => Writes::InOneWord,
        _ if is_in(LINKER_WRITE_FLAGS) => Writes::InOneWord,
        _ => Writes::Nothing,
    }
}

/// The options of the build that write nothing: those of the file `lto-prune.toml`, and of `LTO_PRUNE_FLAGS`.
pub(super) fn flags_without_files(of_file: Vec<OsString>, flags: &OsStr) -> OsString {
    let all = of_file.into_iter().chain(words::split(flags.as_bytes()));
    let kept: Vec<_> = all.filter(|w| matches!(linker_writes(w.as_bytes()), Writes::Nothing)).collect();
    words::joined(OsStr::new(""), &kept)
}
