//! The directive language of `fixtures/`: what a case is, as its main source file says.
//!
//! `fixtures/README.md` documents every key. An unknown key, word or filter is an error, because a misspelt
//! expectation would hold for ever.

use std::path::{Path, PathBuf};

use crate::tools::Linker;

/// One way to compile and link a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) compiler: String,
    pub(crate) opt: String,
    pub(crate) mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Pie,
    NoPie,
    Static,
    StaticPie,
    Shared,
}

impl Mode {
    const ALL: [Mode; 5] = [Mode::Pie, Mode::NoPie, Mode::Static, Mode::StaticPie, Mode::Shared];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Pie => "pie",
            Mode::NoPie => "no-pie",
            Mode::Static => "static",
            Mode::StaticPie => "static-pie",
            Mode::Shared => "shared",
        }
    }

    pub(crate) fn compile_flag(self) -> &'static str {
        match self {
            Mode::Pie | Mode::StaticPie => "-fPIE",
            Mode::NoPie | Mode::Static => "-fno-pie",
            Mode::Shared => "-fPIC",
        }
    }

    pub(crate) fn link_flags(self) -> &'static [&'static str] {
        match self {
            Mode::Pie => &["-pie"],
            Mode::NoPie => &["-no-pie"],
            Mode::Static => &["-static", "-no-pie"],
            Mode::StaticPie => &["-static-pie"],
            Mode::Shared => &["-shared"],
        }
    }
}

/// A list that only holds where every word of its filter does (`Gone[lld,static]: x`).
#[derive(Debug, Clone)]
pub(crate) struct Filtered {
    filter: Vec<String>,
    pub(crate) value: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Library {
    pub(crate) name: String,
    pub(crate) kind: LibraryKind,
    pub(crate) sources: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LibraryKind {
    Archive,
    ThinArchive,
    Shared,
}

#[derive(Debug, Clone)]
pub(crate) struct FixtureCase {
    pub(crate) dir: PathBuf,
    pub(crate) main: String,
    pub(crate) sources: Vec<String>,
    pub(crate) libraries: Vec<Library>,
    pub(crate) configs: Vec<Config>,
    linkers: Vec<Linker>,
    /// The first linker links every configuration, and the others link in turn.
    takes_turns: bool,
    pub(crate) host: Option<String>,
    pub(crate) no_run: bool,
    pub(crate) same_bytes: bool,
    /// Everything else, by key in order of appearance.
    entries: Vec<(String, Filtered)>,
}

/// The keys of these that say what comes of a link.
const EXPECTATIONS: &[&str] = &["Gone", "Kept", "Prints", "Exit", "Limit", "Warns", "Fails", "Present"];

/// Keys whose values are fetched with [`FixtureCase::values`].
const FILTERED_KEYS: &[&str] = &[
    "Compile",
    "Flags",
    "SharedLink",
    "Link",
    "Inputs",
    "Prune",
    "Gone",
    "Kept",
    "Prints",
    "Exit",
    "Args",
    "Limit",
    "Warns",
    "Fails",
    "Env",
    "Present",
];

impl FixtureCase {
    /// Read the case in `dir`. The main source is the one file in it that has directives.
    pub(crate) fn read(dir: &Path) -> Result<FixtureCase, String> {
        let mut mains = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))? {
            let path = entry.map_err(|e| e.to_string())?.path();
            if let Ok(text) = std::fs::read_to_string(&path)
                && text.lines().any(|l| l.starts_with("//# "))
            {
                mains.push((path.file_name().unwrap().to_string_lossy().into_owned(), text));
            }
        }
        let [(main, text)] = &mains[..] else {
            return Err(format!("{}: {} files with directives instead of one", dir.display(), mains.len()));
        };
        FixtureCase::parse(dir, main, text)
    }

    fn parse(dir: &Path, main: &str, text: &str) -> Result<FixtureCase, String> {
        let mut case = FixtureCase {
            dir: dir.to_owned(),
            main: main.to_owned(),
            sources: Vec::new(),
            libraries: Vec::new(),
            configs: Vec::new(),
            linkers: Linker::ALL.to_vec(),
            takes_turns: true,
            host: None,
            no_run: false,
            same_bytes: false,
            entries: Vec::new(),
        };
        for (number, line) in text.lines().enumerate() {
            if let Some(directive) = line.strip_prefix("//# ") {
                case.directive(directive).map_err(|e| format!("{main}:{}: {e}", number + 1))?;
            }
        }
        if case.configs.is_empty() {
            for text in ["gcc O0,O2 pie", "clang-19 O1 no-pie", "clang-19 O3 pie", "gcc O3 static"] {
                case.configs.extend(configs(text)?);
            }
        }
        Ok(case)
    }

    fn directive(&mut self, text: &str) -> Result<(), String> {
        let (key, value) = text.split_once(':').ok_or("no colon")?;
        let value = value.trim();
        let words = || value.split_whitespace().map(str::to_owned);
        let (key, filter) = match key.split_once('[') {
            Some((key, rest)) => {
                let rest = rest.strip_suffix(']').ok_or("no ]")?;
                (key, rest.split(',').map(str::to_owned).collect())
            }
            None => (key, Vec::new()),
        };
        for word in &filter {
            if !known_filter(word) {
                return Err(format!("unknown filter {word}"));
            }
        }
        if FILTERED_KEYS.contains(&key) {
            // Configurations whose words are not the same are not alike to any linker.
            let is_expectation = EXPECTATIONS.contains(&key);
            self.takes_turns &= is_expectation || filter.iter().all(|word| is_linker(word));
            self.entries.push((key.to_owned(), Filtered { filter, value: value.to_owned() }));
            return Ok(());
        }
        if !filter.is_empty() {
            return Err(format!("{key} takes no filter"));
        }
        match key {
            "Sources" => self.sources.extend(words()),
            "Archive" => self.libraries.push(library(value, LibraryKind::Archive)?),
            "ThinArchive" => self.libraries.push(library(value, LibraryKind::ThinArchive)?),
            "Shared" => self.libraries.push(library(value, LibraryKind::Shared)?),
            "Configs" => self.configs.extend(configs(value)?),
            "Linkers" => {
                let linker = |name: String| Linker::from_name(&name).ok_or(format!("no linker {name}"));
                self.linkers = words().map(linker).collect::<Result<_, _>>()?;
                self.takes_turns = false;
            }
            "Host" => self.host = Some(value.to_owned()),
            "Run" if value == "no" => self.no_run = true,
            "SameBytes" if value == "yes" => self.same_bytes = true,
            _ => return Err(format!("unknown directive {key}: {value}")),
        }
        Ok(())
    }

    /// The linkers of the configuration at this place. Where they take turns each links at least one, and which
    /// ones is another choice in each fixture.
    pub(crate) fn linkers_of(&self, config: usize) -> Vec<Linker> {
        let first = usize::from(self.takes_turns);
        let others = self.linkers.len().saturating_sub(first).max(1);
        let turn = match self.configs.len() < others {
            true => config,
            false => config + config / others + self.dir.file_name().map_or(0, |name| name.len()),
        };
        let turns = others.min(self.configs.len());
        let has_turn = |at: usize| !self.takes_turns || at < first || (at - first) % turns == turn % turns;
        self.linkers.iter().enumerate().filter(|(at, _)| has_turn(*at)).map(|(_, linker)| *linker).collect()
    }

    /// The values of `key` that hold for this configuration and linker.
    pub(crate) fn values(&self, key: &str, config: &Config, linker: Option<Linker>) -> Vec<&str> {
        assert!(FILTERED_KEYS.contains(&key), "{key} is no such key");
        let holds = |word: &String| {
            let (word, wanted) = word.strip_prefix('!').map_or((word.as_str(), true), |w| (w, false));
            let is = word == config.compiler
                || word == config.opt
                || word == config.mode.name()
                || linker.is_some_and(|l| l.name() == word);
            is == wanted
        };
        let entries = self.entries.iter().filter(|(k, f)| k == key && f.filter.iter().all(holds));
        entries.map(|(_, f)| f.value.as_str()).collect()
    }

    /// The words of all values of `key`.
    pub(crate) fn words(&self, key: &str, config: &Config, linker: Option<Linker>) -> Vec<String> {
        let values = self.values(key, config, linker);
        values.iter().flat_map(|v| v.split_whitespace()).map(str::to_owned).collect()
    }

    /// Whether any translation unit is C++, so that the C++ driver has to link.
    pub(crate) fn is_cxx(&self) -> bool {
        let libraries = self.libraries.iter().flat_map(|l| &l.sources);
        std::iter::once(&self.main).chain(&self.sources).chain(libraries).any(|s| s.ends_with(".cpp"))
    }
}

fn is_linker(word: &str) -> bool {
    Linker::from_name(word.strip_prefix('!').unwrap_or(word)).is_some()
}

fn known_filter(word: &str) -> bool {
    let word = word.strip_prefix('!').unwrap_or(word);
    ["gcc", "clang-19", "O0", "O1", "O2", "O3", "Os"].contains(&word)
        || Mode::ALL.iter().any(|m| m.name() == word)
        || is_linker(word)
}

/// The text is such as `liby.so = y.c z.c`.
fn library(text: &str, kind: LibraryKind) -> Result<Library, String> {
    let (name, sources) = text.split_once('=').ok_or("no = in library")?;
    let sources: Vec<String> = sources.split_whitespace().map(str::to_owned).collect();
    Ok(Library { name: name.trim().to_owned(), kind, sources })
}

/// `gcc,clang-19 O0,O2 pie,static`: the product of the three lists.
fn configs(text: &str) -> Result<Vec<Config>, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [compilers, opts, modes] = words[..] else {
        return Err(format!("{text}: not three lists"));
    };
    let mut result = Vec::new();
    for compiler in compilers.split(',') {
        for opt in opts.split(',') {
            for mode in modes.split(',') {
                let found = Mode::ALL.into_iter().find(|m| m.name() == mode);
                let mode = found.ok_or(format!("no mode {mode}"))?;
                if !known_filter(compiler) || !known_filter(opt) {
                    return Err(format!("no configuration {compiler} {opt}"));
                }
                result.push(Config { compiler: compiler.to_owned(), opt: opt.to_owned(), mode });
            }
        }
    }
    Ok(result)
}

#[test]
fn misspelt_directives_are_errors() {
    let parse = |text| FixtureCase::parse(Path::new("d"), "main.c", text);
    assert!(parse("//# Gone: a\n//# Gone[lld,O2]: b\n").is_ok());
    assert!(parse("//# Gnoe: a\n").is_err());
    assert!(parse("//# Gone[ldd]: a\n").is_err());
    assert!(parse("//# Linkers: lld glod\n").is_err());
    assert!(parse("//# Configs: gcc O2\n").is_err());
    assert!(parse("//# Run: maybe\n").is_err());
    let case =
        parse("//# Configs: gcc,clang-19 O0,O2 pie,static\n//# Gone[!lld]: a b\n//# Gone: c\n").unwrap();
    assert_eq!(case.configs.len(), 8);
    assert_eq!(case.words("Gone", &case.configs[0], Some(Linker::Lld)), ["c"]);
    assert_eq!(case.words("Gone", &case.configs[0], Some(Linker::Bfd)), ["a", "b", "c"]);
}

#[test]
fn every_linker_has_its_turn() {
    let parse = |text: &str| FixtureCase::parse(Path::new("fixtures/d"), "main.c", text).unwrap();
    for configs in [
        "gcc O1 pie",
        "gcc O1,O2 pie",
        "gcc O0,O1,O2 pie",
        "gcc,clang-19 O0,O2 pie",
        "gcc,clang-19 O0,O1,O2 pie,no-pie",
    ] {
        let case = parse(&format!("//# Configs: {configs}\n"));
        let all: Vec<Vec<Linker>> = (0..case.configs.len()).map(|config| case.linkers_of(config)).collect();
        assert!(all.iter().all(|linkers| linkers.first() == Some(&Linker::Lld)), "{all:?}");
        assert!(Linker::ALL.iter().all(|linker| all.iter().any(|a| a.contains(linker))), "{all:?}");
        assert!(
            all.iter().map(Vec::len).sum::<usize>() <= case.configs.len() + 4.max(case.configs.len()),
            "{all:?}"
        );
    }
    for text in ["Linkers: lld mold bfd", "Link[O2]: -x", "Compile[!pie]: -x"] {
        let case = parse(&format!("//# Configs: gcc O1,O2 pie,no-pie\n//# {text}\n"));
        assert!((0..4).all(|config| case.linkers_of(config) == case.linkers), "{text}");
    }
}
