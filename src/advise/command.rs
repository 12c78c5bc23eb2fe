//! The lexer of a link command: words of a compiler driver and of the linker, without those that name files to write.
//!
//! Response files are replaced by their words. `-Wl,A,B` and `-Xlinker A` are the linker's words A and B, so that one list of options serves a driver's link
//! and a linker's.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::edits::Edit;
use crate::args::{table, words};
use crate::error::{Error, Result, Stage};
use crate::modes::is_linker_name;

/// A word of the command, by the program that reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinkWord {
    pub(super) is_linker: bool,
    pub(super) text: OsString,
}

impl LinkWord {
    fn linker(text: OsString) -> LinkWord {
        LinkWord { is_linker: true, text }
    }

    fn driver(text: OsString) -> LinkWord {
        LinkWord { is_linker: false, text }
    }
}

/// A link that can be made again, to another output.
#[derive(Debug, Clone)]
pub(super) struct LinkCommand {
    /// The driver or linker, perhaps behind programs that run it, such as ccache.
    pub(super) program: Vec<OsString>,
    /// The variables that the command begins with, as in a shell.
    pub(super) variables: Vec<(OsString, OsString)>,
    /// The words without the output and without other files that would be written.
    pub(super) words: Vec<LinkWord>,
    pub(super) is_driver: bool,
    pub(super) output: PathBuf,
    /// The files and folders that dropped words would write, as far as they are named.
    pub(super) written: Vec<PathBuf>,
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
#[rustfmt::skip]
const DRIVER_WRITES: &[&str] = &[
    "--serialize-diagnostics", "-MF", "-MJ", "-MQ", "-MT", "-aux-info", "-dumpbase", "-dumpbase-ext",
    "-dumpdir", "-serialize-diagnostics",
];
/// Prefixes of driver options that write files, in one word.
#[rustfmt::skip]
const DRIVER_WRITE_PREFIXES: &[&str] = &[
    "-MD", "-MF", "-MG", "-MJ", "-MMD", "-MP", "-MQ", "-MT", "-Wp, -M", "-fcallgraph-info",
    "-fcrash-diagnostics-dir", "-fdiagnostics-add-output=", "-fdiagnostics-format=json-file",
    "-fdiagnostics-format=sarif-file", "-fdiagnostics-set-output=", "-fdump-", "-flto-incremental=",
    "-foptimization-record-file=", "-fopt-info", "-fproc-stat-report", "-fprofile-note=",
    "-fsave-optimization-record", "-fstack-usage", "-ftime-trace", "-save-stats", "-save-temps",
    "--save-stats", "--save-temps", "-time=",
];
/// Linker options that name a file to write, by `=` or the next word.
#[rustfmt::skip]
const LINKER_WRITES: &[&str] = &[
    "Map", "dependency-file", "error-handling-script", "lto-obj-path", "opt-remarks-filename", "out-implib",
    "print-symbol-counts", "print-symbol-order", "reproduce", "write-gc-stats",
];
/// Linker options that write files, in one word.
#[rustfmt::skip]
const LINKER_WRITE_FLAGS: &[&str] = &[
    "print-archive-stats", "prune-emit", "prune-limit-log", "prune-log", "prune-plan", "prune-remarks",
    "prune-report", "prune-repro", "repro", "save-temps", "separate-debug-file", "thinlto-cache-dir",
    "thinlto-emit-imports-files", "thinlto-index-only", "time-trace", "why-extract",
];
/// Linker options that write a file only if they have a value.
const LINKER_WRITE_VALUES: &[&str] = &["print-gc-sections", "print-icf-sections"];
/// Prefixes of the options of an LTO plugin that write files.
#[rustfmt::skip]
const PLUGIN_WRITES: &[&str] = &[
    "cache-dir=", "dwo_dir=", "obj-path=", "opt-remarks-filename=", "save-temps", "stats-file=",
    "thinlto-emit-imports-files", "thinlto-index-only", "time-trace",
];

/// The path behind the last `=` of an option.
fn value(word: &[u8]) -> Option<PathBuf> {
    let at = word.iter().rposition(|b| *b == b'=')?;
    word.get(at + 1..).map(|path| PathBuf::from(OsStr::from_bytes(path)))
}

/// The name and the value of a word `NAME=VALUE`, where NAME may be the name of a shell's variable.
fn assignment(word: &OsString) -> Option<(OsString, OsString)> {
    let mut parts = word.as_bytes().splitn(2, |b| *b == b'=');
    let (name, value) = (parts.next()?, parts.next()?);
    let is_name =
        !name.first()?.is_ascii_digit() && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
    is_name.then(|| (OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned()))
}

impl LinkCommand {
    /// Read the words of a link command.
    pub(super) fn parse(command: &[OsString]) -> Result<LinkCommand> {
        let wrong = |message: String| Err(Error::new(Stage::Arguments, format!("advise: {message}")));
        // `env` without options does what a shell does with leading variables.
        let has_command = |i: usize| command.get(i + 1).is_some_and(|w| !w.as_bytes().starts_with(b"-"));
        let is_before = |(i, word): &(usize, &OsString)| {
            assignment(word).is_some() || base_name(word) == "env" && has_command(*i)
        };
        let before = command.iter().enumerate().take_while(is_before).count();
        let (before, command) = command.split_at(before);
        let variables = before.iter().filter_map(assignment).collect();
        let is_run = |word: &&OsString| RUNNERS.contains(&&*base_name(word)) || assignment(word).is_some();
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
            variables,
            words: Vec::new(),
            is_driver,
            output: "a.out".into(),
            written: Vec::new(),
            folder: None,
            is_long: all.len() != rest.len(),
        };
        let lexed =
            if is_driver { driver_words(&all) } else { all.iter().cloned().map(LinkWord::linker).collect() };
        let is_compiler = |w: &&LinkWord| !w.is_linker && NO_LINK.iter().any(|no| w.text == *no);
        if let Some(no) = lexed.iter().find(is_compiler) {
            let no = no.text.display();
            return wrong(format!("the command has {no}: it compiles and does not link"));
        }
        let mut of_linker = lexed.iter().filter(|word| word.is_linker).map(|word| &word.text);
        let abbreviation = of_linker.find_map(|word| Some((word, abbreviated(word.as_bytes())?)));
        if let Some((word, full)) = abbreviation {
            let word = word.display();
            return wrong(format!(
                "{word} may abbreviate --{full}, which writes a file; write the option out"
            ));
        }
        link.take(lexed);
        Ok(link)
    }

    /// Keep the words that write nothing, and the name of the output.
    fn take(&mut self, lexed: Vec<LinkWord>) {
        let mut rest = lexed.into_iter();
        while let Some(word) = rest.next() {
            let LinkWord { is_linker, text } = &word;
            let bytes = text.as_bytes();
            let is_joined = |prefix: &[u8]| bytes.len() > prefix.len() && bytes.starts_with(prefix);
            let mut written_to = |path: &[u8]| self.output = PathBuf::from(OsStr::from_bytes(path));
            if bytes == b"-o" || bytes == b"--output" {
                if let Some(path) = rest.next() {
                    written_to(path.text.as_bytes());
                }
            } else if is_joined(b"--output=") {
                written_to(bytes.get(9..).unwrap_or_default());
            } else if is_joined(b"-o")
                && !(*is_linker && (bytes == b"-omagic" || bytes.starts_with(b"-oformat")))
            {
                written_to(bytes.get(2..).unwrap_or_default());
            } else {
                let named = match if *is_linker { linker_writes(bytes) } else { driver_writes(bytes) } {
                    // `-plugin-opt` takes its value from the next word, too.
                    Writes::Nothing
                        if *is_linker && (bytes == b"-plugin-opt" || bytes == b"--plugin-opt") =>
                    {
                        let option = rest.next();
                        if option.as_ref().is_none_or(|o| !is_of_plugin(o.text.as_bytes())) {
                            self.words.extend([Some(word), option].into_iter().flatten());
                            continue;
                        }
                        option.and_then(|o| value(o.text.as_bytes()))
                    }
                    Writes::Nothing => {
                        self.words.push(word);
                        continue;
                    }
                    Writes::InOneWord => value(bytes),
                    Writes::NextWord => rest.next().map(|path| path.text.into()),
                };
                self.written.extend(named);
            }
        }
    }

    /// The value of a variable that the command begins with.
    pub(super) fn variable(&self, name: &str) -> Option<OsString> {
        let found = self.variables.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    }

    /// The last component of the output's path.
    pub(super) fn output_name(&self) -> &OsStr {
        self.output.file_name().unwrap_or(OsStr::new("a.out"))
    }

    /// The words of the driver alone.
    pub(super) fn driver_words(&self) -> impl Iterator<Item = &OsString> {
        self.words.iter().filter(|word| !word.is_linker).map(|word| &word.text)
    }

    /// Whether the linker's words are on the line, one behind the other.
    pub(super) fn has(&self, words: &[&str]) -> bool {
        self.words
            .windows(words.len())
            .any(|window| window.iter().zip(words).all(|(word, wanted)| word.text == *wanted))
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
        line.extend(kept.flat_map(|word| match word.is_linker && self.is_driver {
            true => for_driver(&word.text),
            false => vec![word.text.clone()],
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
            out.extend(words::expand(&list).into_iter().map(LinkWord::linker));
        } else if let Some(word) = bytes.strip_prefix(b"--for-linker=") {
            out.extend(
                words::expand(&[OsStr::from_bytes(word).to_owned()]).into_iter().map(LinkWord::linker),
            );
        } else if let Some(list) = bytes.strip_prefix(b"-Wa,") {
            out.extend(without_listings(list).map(LinkWord::driver));
        } else if is_for_assembler(word) {
            let mut list: Vec<&[u8]> = rest.next().into_iter().map(|word| word.as_bytes()).collect();
            while let [mark, word, ..] = rest.as_slice()
                && is_for_assembler(mark)
            {
                list.push(word.as_bytes());
                rest.nth(1);
            }
            out.extend(without_listings(&list.join(&b',')).map(LinkWord::driver));
        } else if bytes == b"-Xlinker" || bytes == b"--for-linker" {
            out.extend(
                rest.next()
                    .into_iter()
                    .flat_map(|w| words::expand(std::slice::from_ref(w)))
                    .map(LinkWord::linker),
            );
        } else if bytes == b"-z" {
            // The driver passes both on.
            out.push(LinkWord::linker(word.clone()));
            out.extend(rest.next().cloned().map(LinkWord::linker));
        } else {
            out.push(LinkWord::driver(word.clone()));
        }
    }
    out
}

fn is_for_assembler(word: &OsString) -> bool {
    word == "-Xassembler" || word == "--for-assembler"
}

/// `-Wa,` and these words of the assembler, without those that write listings or dependency files.
fn without_listings(list: &[u8]) -> Option<OsString> {
    let mut rest = list.split(|b| *b == b',');
    let mut out = b"-Wa".to_vec();
    while let Some(word) = rest.next() {
        let is_listing = word.starts_with(b"-a") && word.contains(&b'=');
        if [&b"--MD"[..], b"-MD", b"-o"].contains(&word) {
            rest.next();
        } else if !is_listing && !word.starts_with(b"--MD=") && !word.starts_with(b"-MD=") {
            out.extend([b",", word].concat());
        }
    }
    (out.len() > 3).then(|| OsString::from_vec(out))
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
    let Some((name, value)) = option(word) else { return Writes::Nothing };
    let is_in = |list: &[&str]| list.iter().any(|known| known.as_bytes() == name);
    match value {
        None if is_in(LINKER_WRITES) => Writes::NextWord,
        Some(_) if is_in(LINKER_WRITES) || is_in(LINKER_WRITE_VALUES) => Writes::InOneWord,
        Some(value) if name == b"plugin-opt" && is_of_plugin(value) => Writes::InOneWord,
        _ if is_in(LINKER_WRITE_FLAGS) => Writes::InOneWord,
        _ => Writes::Nothing,
    }
}

/// The name of a linker's option, and its value behind `=`.
fn option(word: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let name = word.strip_prefix(b"-")?;
    let mut parts = name.strip_prefix(b"-").unwrap_or(name).splitn(2, |b| *b == b'=');
    Some((parts.next()?, parts.next()))
}

fn is_of_plugin(value: &[u8]) -> bool {
    PLUGIN_WRITES.iter().any(|prefix| value.starts_with(prefix.as_bytes()))
}

/// The writing option that a linker's word may abbreviate.
fn abbreviated(word: &[u8]) -> Option<&'static str> {
    let (name, value) = option(word)?;
    let is_single = !word.starts_with(b"--");
    // `-M` is a short option, `-lt` a library, and `-outp` an output.
    let is_short =
        is_single && (name.len() == 1 && value.is_none() || name.starts_with(b"l") || name.starts_with(b"o"));
    let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty() && !is_short)?;
    let writes = ["output"].iter().chain(LINKER_WRITES).chain(LINKER_WRITE_FLAGS);
    let is_whole = !matches!(linker_writes(word), Writes::Nothing);
    writes.copied().find(|full| !is_whole && table::may_abbreviate(name, full))
}

/// The options of the build that write nothing: those of the file `lto-prune.toml`, and of `LTO_PRUNE_FLAGS`.
pub(super) fn flags_without_files(of_file: Vec<OsString>, flags: &OsStr) -> OsString {
    let all = of_file.into_iter().chain(words::split(flags.as_bytes()));
    let kept: Vec<_> = all.filter(|w| matches!(linker_writes(w.as_bytes()), Writes::Nothing)).collect();
    words::joined(OsStr::new(""), &kept)
}
