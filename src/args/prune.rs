//! Our own options, `--prune-*`: from the command line, before it from `LTO_PRUNE_FLAGS`, and before that from the file `lto-prune.toml`.
//!
//! A misspelt option is an error that names the nearest one. The linker would report an unknown option, or read it as another one. A
//! value follows an equals sign, so that a word is an option of ours or not without its neighbours.

pub(crate) mod file;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::args::environment::Environment;
use crate::args::help::{self, OptionValue, nearest};
use crate::config::{DebugOption, DropLimit, Level, LinkId, PruneOptions, Stats, UnwindPruning};
use crate::error::{Error, Result, Stage};

/// The environment variable with options that precede those of the command line.
pub const FLAGS_VARIABLE: &str = "LTO_PRUNE_FLAGS";

/// Whether a word is an option of ours, well-formed or not.
pub fn is_ours(word: &OsStr) -> bool {
    body(word).is_some()
}

fn body(word: &OsStr) -> Option<&[u8]> {
    let bytes = word.as_bytes();
    bytes.strip_prefix(b"--prune-").or_else(|| bytes.strip_prefix(b"-prune-"))
}

fn error(message: impl Into<String>) -> Error {
    Error::new(Stage::Arguments, message)
}

/// Parse our words: first those of the file `lto-prune.toml` if the `output` is known, then those of the environment, then those of the line,
/// the later overriding.
pub fn parse(words: &[OsString], output: Option<&Path>, env: &Environment<'_>) -> Result<PruneOptions> {
    let mut options = PruneOptions { cache: default_cache(env), ..PruneOptions::default() };
    let of_file = output.map(|output| file::words(env, output)).transpose()?.flatten();
    if let Some((path, words)) = &of_file {
        for word in words {
            let body = body(word).unwrap_or_default();
            apply(&mut options, body).map_err(|e| e.in_file(path.display().to_string()))?;
        }
    }
    options.keep_of_file = options.keep.len();
    let flags = super::words::split(env.get(FLAGS_VARIABLE).unwrap_or_default().as_bytes());
    if let Some(word) = flags.iter().find(|w| !is_ours(w)) {
        let word = word.to_string_lossy();
        return Err(error(format!("{FLAGS_VARIABLE}: `{word}` is not one of the --prune-* options")));
    }
    for word in flags.iter().chain(words) {
        if let Some(body) = body(word) {
            apply(&mut options, body)?;
        }
    }
    Ok(options)
}

/// `lto-prune` in the user's folder of caches (XDG Base Directory Specification). `None` without a home, or if another user owns it,
/// as with `sudo`.
fn default_cache(env: &Environment<'_>) -> Option<PathBuf> {
    let folder = |name: &str| env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || {
        let home = folder("HOME")?;
        let [owner, ours] = [home.as_path(), Path::new("/proc/self")].map(|p| std::fs::metadata(p).ok());
        (owner?.uid() == ours?.uid()).then(|| home.join(".cache"))
    };
    Some(folder("XDG_CACHE_HOME").or_else(home)?.join("lto-prune"))
}

fn apply(options: &mut PruneOptions, body: &[u8]) -> Result<()> {
    let (name, value) = match body.iter().position(|b| *b == b'=') {
        Some(at) => (body.get(..at).unwrap_or_default(), body.get(at + 1..)),
        None => (body, None),
    };
    let name = String::from_utf8_lossy(name).into_owned();
    let known = help::prune_options().into_iter().find(|option| option.name == name);
    let Some(kind) = known.map(|option| option.value) else { return Err(unknown(&name)) };
    match (kind != OptionValue::None, value) {
        (true, None) if matches!(kind, OptionValue::Optional(_)) => {}
        (true, None | Some([])) => {
            return Err(error(format!("--prune-{name} needs a value: --prune-{name}=...")));
        }
        (false, Some(_)) => return Err(error(format!("--prune-{name} takes no value"))),
        _ => {}
    }
    let value = OsStr::from_bytes(value.unwrap_or_default());
    let path = || Some(PathBuf::from(value));
    let text = || {
        let utf8 = value.to_str().map(str::to_owned);
        utf8.ok_or_else(|| error(format!("--prune-{name}: the value is not UTF-8")))
    };
    let number = || {
        let parsed = text()?.parse::<usize>().ok();
        parsed.ok_or_else(|| error(format!("--prune-{name}={}: not a number", value.to_string_lossy())))
    };
    let bytes = || {
        let wrong = || {
            error(format!("--prune-{name}={}: not a size such as 4096, 4K or 1MiB", value.to_string_lossy()))
        };
        super::size::parse(&text()?).ok_or_else(wrong)
    };
    match name.as_str() {
        "level" => {
            let text = text()?;
            let (off, level) = match text.strip_prefix("off:") {
                Some(level) => (true, level),
                None => (text == "off", text.as_str()),
            };
            options.off = off;
            options.level_explicit = text != "off";
            options.level = Level::default();
            if options.level_explicit {
                let wrong = |_| {
                    let levels = "the levels are off, sections, functions and pointers; off:LEVEL reports the effect of a level";
                    error(format!("--prune-level={text}: {levels}"))
                };
                options.level = help::one_of("prune-level", level, Level::ALL).map_err(wrong)?;
            }
        }
        "report" => options.report = path(),
        "remarks" => options.remarks = path(),
        "why" => options.why.push(text()?),
        "keep" => options.keep.push(text()?),
        "emit" => options.emit_dir = path(),
        "plan" => options.plan_dir = path(),
        "interfaces" => options.interface_dir = path(),
        "emitted" => options.emitted_dir = path(),
        "linker" => options.linker = path(),
        "cache" => options.cache = path(),
        "no-cache" => options.cache = None,
        "gate" => {
            let percent = u8::try_from(number()?).ok().filter(|percent| *percent <= 100);
            let wrong = || error("--prune-gate: more than 100 per cent");
            options.threshold = Some(percent.ok_or_else(wrong)?);
        }
        "worth" => options.worth = Some(bytes()?),
        "budget" => options.budget = Some(bytes()?),
        "jobs" => {
            options.jobs = Some(match number()? {
                0 => return Err(error("--prune-jobs=0: at least one thread is needed")),
                n => n,
            });
        }
        "strict" => options.strict = true,
        "limit" => {
            let text = text()?;
            options.limit = Some(drop_limit(&text).ok_or_else(|| {
                error(format!("--prune-limit={text}: neither a number nor N@LINK (see --prune-limit-log)"))
            })?);
        }
        "log" => options.log = path(),
        "limit-log" => options.limit_log = path(),
        "repro" => options.repro = path(),
        "time" => options.time = true,
        "stats" => options.stats = Some(help::one_of("prune-stats", &text()?, Stats::ALL)?),
        "debug" => options.debug = help::one_of("prune-debug", &text()?, DebugOption::ALL)?,
        "unwind" => options.unwind = help::one_of("prune-unwind", &text()?, UnwindPruning::ALL)?,
        "stub-symbol" => options.stub_symbols.push(text()?),
        _ => return Err(unknown(&name)),
    }
    Ok(())
}

/// `N`, or `N@LINK` with commas in between; N may be `all`.
fn drop_limit(text: &str) -> Option<DropLimit> {
    let count = |text: &str| if text == "all" { Some(usize::MAX) } else { text.parse().ok() };
    if !text.contains('@') {
        return count(text).map(DropLimit::First);
    }
    let one = |word: &str| {
        let (number, link) = word.split_once('@')?;
        Some((LinkId(u64::from_str_radix(link, 16).ok()?), count(number)?))
    };
    text.split(',').map(one).collect::<Option<_>>().map(DropLimit::ByLink)
}

fn unknown(name: &str) -> Error {
    match nearest(name, help::prune_options().iter().map(|known| known.name)) {
        Some(known) => error(format!("unknown option --prune-{name}; did you mean --prune-{known}?")),
        None => error(format!("unknown option --prune-{name}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn run(flags: &str, words: &[&str]) -> Result<PruneOptions> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let flags = flags.to_owned();
        let lookup = move |name: &str| match name {
            FLAGS_VARIABLE => Some(OsString::from(&flags)),
            "HOME" => Some(OsString::from("/h/u")),
            _ => None,
        };
        parse(&words, None, &Environment::new(&lookup))
    }

    #[test]
    fn the_line_overrides_the_environment() {
        let options =
            run("--prune-level=off '--prune-why=a b' --prune-strict", &["--prune-level=sections"]).unwrap();
        assert_eq!(options.level, Level::Sections);
        let default = run("", &[]).unwrap();
        assert_eq!((default.level, default.budget()), (Level::Pointers, crate::config::DEFAULT_BUDGET));
        assert_eq!(run("", &["--prune-level=pointers"]).unwrap().budget(), u64::MAX);
        assert_eq!(run("--prune-budget=7", &["--prune-level=pointers"]).unwrap().budget(), 7);
        let off = run("", &["--prune-level=pointers", "--prune-level=off"]).unwrap();
        assert!(off.off && !off.level_explicit && off.level == Level::Pointers);
        let dry_run = run("--prune-level=off", &["--prune-level=off:pointers"]).unwrap();
        assert!(dry_run.off && dry_run.level_explicit && dry_run.level == Level::Pointers);
        assert!(!run("--prune-level=off", &["--prune-level=pointers"]).unwrap().off);
        assert!(options.level_explicit && options.strict);
        assert_eq!(options.why, ["a b"]);
        assert_eq!(options.cache, None);
        assert_eq!(run("", &["--prune-cache=c", "--prune-no-cache"]).unwrap().cache, None);
        assert_eq!(
            run("", &["--prune-no-cache", "--prune-cache=c"]).unwrap().cache,
            Some(PathBuf::from("c"))
        );
    }

    #[test]
    fn limits_are_of_all_links_or_of_some() {
        assert_eq!(run("", &["--prune-limit=7"]).unwrap().limit, Some(DropLimit::First(7)));
        let some = vec![(LinkId(0xab), 7), (LinkId(1), usize::MAX)];
        let word = "--prune-limit=7@00000000000000ab,all@1";
        assert_eq!(run("--prune-limit=3", &[word]).unwrap().limit, Some(DropLimit::ByLink(some)));
    }

    #[test]
    fn mistakes_are_named() {
        let message = |flags: &str, word: &str| run(flags, &[word]).unwrap_err().to_string();
        assert!(message("", "--prune-reporrt=x").contains("did you mean --prune-report?"));
        assert!(!message("", "--prune-zzzzzzzzzzzz").contains("did you mean"));
        assert!(message("", "--prune-level=max").contains("off, sections, functions and pointers"));
        assert!(message("", "--prune-level=off:off").contains("off:LEVEL"));
        assert!(message("", "--prune-level=offf").contains("the levels are"));
        assert!(message("", "--prune-report").contains("needs a value"));
        assert!(message("", "--prune-strict=1").contains("takes no value"));
        assert!(message("", "--prune-unwind=all").contains("keep, unused, drop"));
        assert!(message("", "--prune-gate=101").contains("100 per cent"));
        assert_eq!(run("", &["--prune-gate=0"]).unwrap().threshold(), 0);
        assert!(message("", "--prune-jobs=0").contains("at least one"));
        assert_eq!(run("", &["--prune-worth=4KB"]).unwrap().worth, Some(4000));
        assert!(message("", "--prune-worth=4Q").contains("not a size such as"));
        assert!(message("", "--prune-jobs=two").contains("not a number"));
        assert!(message("", "--prune-limit=3@xyz").contains("N@LINK"));
        assert!(message("-O2", "--prune-time").contains("LTO_PRUNE_FLAGS"));
    }
}
