//! The parser of the linker's command line: every word is classified, and the options that matter to pruning get their meaning.
//!
//! Later options override earlier ones as linkers do; input state (`--as-needed`, `-Bstatic`...) is folded into each input. The
//! flavor decides how an option is read that linkers read differently.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::table::{self, Arity};
use crate::config::{
    Config, Defsym, Flavor, Icf, InputArg, InputState, LineArg, Linker, OptRemarks, OutputKind, PruneOptions,
};

/// Facts that are known only at the end of the line.
#[derive(Debug, Default)]
struct Modes {
    shared: bool,
    pie: bool,
    relocatable: bool,
    static_: bool,
    no_dynamic_linker: bool,
    default_script: Option<PathBuf>,
    undefined_is_reported: Option<bool>,
}

struct LineParser {
    config: Config,
    modes: Modes,
    state: InputState,
    saved: Vec<InputState>,
    /// The place is between `--start-lib` and `--end-lib`.
    lib: bool,
    /// The place is between `--start-group` and `--end-group`.
    group: bool,
    /// Without a file if there is no `--opt-remarks-filename`.
    opt_remarks: OptRemarks,
}

struct Opt {
    /// Canonical long name without dashes, or the letter of a short option without one.
    name: String,
    value: Option<OsString>,
    words: Vec<OsString>,
    /// GNU ld may complete the name to another one.
    is_prefix: bool,
}

impl Opt {
    fn text(&self) -> String {
        self.value.as_deref().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(self.value.clone().unwrap_or_default())
    }

    /// The words as the user wrote them, for a message.
    fn spelling(&self) -> String {
        self.words.iter().map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}

/// The meaning of `words`, which hold no options of ours.
pub(super) fn interpret(words: Vec<OsString>, linker: Linker, prune: PruneOptions) -> Config {
    let mut parser = LineParser {
        config: empty(linker, prune),
        modes: Modes::default(),
        state: InputState::default(),
        saved: Vec::new(),
        lib: false,
        group: false,
        opt_remarks: OptRemarks::default(),
    };
    let mut rest = words.iter();
    let mut only_inputs = false;
    while let Some(word) = rest.next() {
        let bytes = word.as_bytes();
        if only_inputs || !bytes.starts_with(b"-") || bytes == b"-" {
            let (state, lib) = parser.input_state();
            parser.input(InputArg::File { path: word.clone(), state, lib });
        } else if bytes == b"--" {
            only_inputs = matches!(parser.config.linker.flavor, Flavor::Bfd | Flavor::Gold);
            parser.config.line.push(LineArg::Other(vec![word.clone()]));
        } else {
            let opt = parser.option(word, &mut rest);
            parser.apply(opt);
        }
    }
    parser.config.linker_args = words;
    parser.config.opt_remarks =
        Some(std::mem::take(&mut parser.opt_remarks)).filter(|remarks| !remarks.file.as_os_str().is_empty());
    parser.finish()
}

fn empty(linker: Linker, prune: PruneOptions) -> Config {
    Config {
        output: PathBuf::from("a.out"),
        prune,
        gc_sections: linker.flavor == Flavor::Wild,
        linker,
        init: "_init".to_owned(),
        fini: "_fini".to_owned(),
        undefined_is_reported: true,
        ..Config::default()
    }
}

impl LineParser {
    fn flavor(&self) -> Flavor {
        self.config.linker.flavor
    }

    fn input(&mut self, input: InputArg) {
        self.config.line.push(LineArg::Input(self.config.inputs.len()));
        self.config.inputs.push(input);
    }

    /// The state of the next input, and whether it is in a library of `--start-lib`. For wild `--start-lib` is a part of the state:
    /// it implies `--as-needed`, and `--whole-archive` ends it.
    fn input_state(&self) -> (InputState, bool) {
        let mut state = self.state;
        let wild = self.flavor() == Flavor::Wild;
        let lib = self.lib && !(wild && state.whole_archive);
        state.as_needed |= wild && lib;
        (state, lib)
    }

    /// Split `word` into option and value, taking the next word where the option needs it.
    fn option(&self, word: &OsStr, rest: &mut std::slice::Iter<'_, OsString>) -> Opt {
        let flavor = self.flavor();
        let bytes = word.as_bytes();
        let single = !bytes.starts_with(b"--");
        let body = bytes.get(if single { 1 } else { 2 }..).unwrap_or_default();
        let (name, joined) = match body.iter().position(|b| *b == b'=') {
            Some(at) => (body.get(..at).unwrap_or_default(), body.get(at + 1..).map(os)),
            None => (body, None),
        };
        let name = String::from_utf8_lossy(name).into_owned();
        let mut opt = Opt { name: name.clone(), value: None, words: vec![word.to_owned()], is_prefix: false };
        let number_follows = rest.as_slice().first().is_some_and(|w| is_number(w));
        let mut take_next = |opt: &mut Opt| {
            if let Some(next) = rest.next() {
                opt.value = Some(next.clone());
                opt.words.push(next.clone());
            }
        };
        if name.len() > 1
            && let Some(arity) = table::long(flavor, &name, single)
        {
            opt.value = joined;
            if arity == Arity::Value && opt.value.is_none() {
                take_next(&mut opt);
            }
            return opt;
        }
        if table::is_prefix(flavor, &name, single) {
            opt.is_prefix = true;
            return opt;
        }
        if let (true, [letter, value @ ..]) = (single, body)
            && table::short_takes_value(flavor, *letter)
        {
            opt.name = char::from(*letter).to_string();
            match value {
                // GNU ld: `-G` without a number is -shared.
                [] if *letter == b'G' && !number_follows => {}
                [] => take_next(&mut opt),
                _ => opt.value = Some(os(value)),
            }
            return opt;
        }
        opt.value = joined;
        opt
    }

    /// Linkers refuse most brackets that open twice or close nothing, each in its own words.
    fn bracket(&mut self, opt: &Opt, fits: bool) {
        if !fits {
            self.config.malformed.push(format!("{} where none fits", opt.spelling()));
        }
    }

    /// A word that only changes how later inputs are read.
    fn state_word(&mut self, opt: Opt, change: impl FnOnce(&mut InputState)) {
        change(&mut self.state);
        self.config.line.push(LineArg::State(opt.words));
    }

    fn unmodelled(&mut self, opt: &Opt) {
        self.config.unmodelled.push(opt.spelling());
    }

    /// An option about lld's optimisation remarks, by one of its two spellings, or another option.
    fn opt_remarks(&mut self, opt: &Opt) {
        let remarks = &mut self.opt_remarks;
        let text = opt.text();
        let (name, value) = match opt.name.as_str() {
            "plugin-opt" => text.split_once('=').unwrap_or((&text, "")),
            name => (name, text.as_str()),
        };
        match name {
            "opt-remarks-filename" => remarks.file = PathBuf::from(value),
            "opt-remarks-passes" => remarks.passes = Some(value.to_owned()),
            "opt-remarks-format" => remarks.format = Some(value.to_owned()),
            "opt-remarks-hotness-threshold" => remarks.is_by_hotness = value != "0",
            _ => {}
        }
    }

    fn apply(&mut self, opt: Opt) {
        let bfd = self.flavor() == Flavor::Bfd;
        let gold = self.flavor() == Flavor::Gold;
        let wild = self.flavor() == Flavor::Wild;
        let mold = self.flavor() == Flavor::Mold;
        if opt.is_prefix || opt.value.is_some() && takes_no_value(&opt.name) {
            self.unmodelled(&opt);
        }
        self.opt_remarks(&opt);
        match opt.name.as_str() {
            // Inputs and their state.
            "library" if mold || wild => self.config.malformed.push(opt.spelling()),
            "l" | "library" => {
                let name = opt.value.clone().unwrap_or_default();
                let (state, lib) = self.input_state();
                return self.input(InputArg::Library { name, state, lib });
            }
            "(" | "start-group" => {
                self.bracket(&opt, !self.group && !self.lib);
                self.group = true;
                return self.input(InputArg::GroupStart);
            }
            ")" | "end-group" => {
                self.bracket(&opt, self.group);
                self.group = false;
                return self.input(InputArg::GroupEnd);
            }
            "as-needed" => return self.state_word(opt, |s| s.as_needed = true),
            "no-as-needed" => return self.state_word(opt, |s| s.as_needed = false),
            "whole-archive" => return self.state_word(opt, |s| s.whole_archive = true),
            "no-whole-archive" => return self.state_word(opt, |s| s.whole_archive = false),
            // Names that a linker refuses.
            "dn" | "dy" if wild => self.config.malformed.push(opt.spelling()),
            "non_shared" | "call_shared" if wild || mold => self.config.malformed.push(opt.spelling()),
            "call_shared" if gold => self.config.malformed.push(opt.spelling()),
            "Bstatic" | "dn" | "non_shared" => return self.state_word(opt, |s| s.static_only = true),
            "Bdynamic" | "dy" | "call_shared" => {
                // gold's -static is of the whole link.
                self.modes.static_ &= gold;
                return self.state_word(opt, |s| s.static_only = false);
            }
            "static" => {
                // More than input state: it also makes the output static. So the word stays on the line.
                self.modes.static_ = true;
                self.state.static_only = true;
            }
            // lld, GNU ld and mold search as with -static from here on (lld: ELF/Driver.cpp, createFiles).
            "n" | "nmagic" | "N" | "omagic" => {
                self.state.static_only |= !gold;
                self.config.omagic |= matches!(opt.name.as_str(), "N" | "omagic");
                // wild's is of the whole link.
                if gold || wild {
                    self.unmodelled(&opt);
                }
            }
            "audit" | "depaudit" | "P" => self.config.audits = true,
            // wild's state has --start-lib in it.
            "push-state" | "pop-state" if wild && self.lib => self.unmodelled(&opt),
            "push-state" => {
                self.saved.push(self.state);
                return self.state_word(opt, |_| {});
            }
            "pop-state" => {
                let saved = self.saved.pop();
                self.bracket(&opt, saved.is_some());
                self.state = saved.unwrap_or(self.state);
                return self.state_word(opt, |_| {});
            }
            "start-lib" | "end-lib" => {
                let starts = opt.name == "start-lib";
                // GNU ld has no such option.
                self.bracket(&opt, self.lib != starts && !self.group && !bfd);
                self.lib = starts;
                return self.state_word(opt, |_| {});
            }

            // Output.
            "o" | "output" if opt.value.is_some() => {
                self.config.output = opt.path();
                self.config.line.push(LineArg::Output(opt.words));
                return;
            }
            "shared" | "Bshareable" => self.modes.shared = true,
            "G" if !bfd || opt.value.is_none() => self.modes.shared = true,
            "pie" | "pic-executable" => self.modes.pie = true,
            "no-pie" | "no-pic-executable" => self.modes.pie = false,
            "r" | "i" | "relocatable" | "Ur" => self.modes.relocatable = true,
            "no-dynamic-linker" => {
                self.modes.no_dynamic_linker = true;
                self.config.dynamic_linker = None;
            }
            "dynamic-linker" | "I" => self.config.dynamic_linker = opt.value.clone(),
            "q" | "emit-relocs" => self.config.emit_relocs = true,
            "s" | "strip-all" => self.config.strip_all = true,
            "S" | "strip-debug" => self.config.strip_debug = true,
            "soname" | "h" => self.config.soname = Some(opt.value.clone().unwrap_or_default()),
            "dependency-file" => self.config.depfile = Some(opt.path()),
            "Map" => self.config.map = Some(opt.path()),

            // Search paths of inputs.
            "L" | "library-path" => self.config.library_paths.push(opt.path()),
            "sysroot" => self.config.sysroot = Some(opt.path()).filter(|p| !p.as_os_str().is_empty()),
            "nostdlib" => self.config.nostdlib = true,
            "rpath" => self.config.rpath.push(opt.path()),
            // GNU ld's -R names a directory or a file whose symbols are taken; the others' is -rpath.
            "R" if !bfd || opt.path().is_dir() => self.config.rpath.push(opt.path()),
            "rpath-link" => self.config.rpath_link.push(opt.path()),

            // Scripts.
            "T" | "script" => {
                let (state, lib) = self.input_state();
                self.config.line.push(LineArg::Script(self.config.inputs.len(), opt.words.clone()));
                self.config.inputs.push(InputArg::Script { path: opt.path(), state, lib });
                return self.config.scripts.push(opt.path());
            }
            "dT" | "default-script" => self.modes.default_script = Some(opt.path()),
            "version-script" => self.config.version_scripts.push(opt.path()),
            "dynamic-list" => self.config.dynamic_lists.push(opt.path()),
            "export-dynamic-symbol-list" => self.config.export_dynamic_lists.push(opt.path()),

            // Roots.
            "export-dynamic-symbol" => self.config.export_dynamic_symbols.push(opt.text()),
            "dynamic-list-data" => self.export(&["*"]),
            "dynamic-list-cpp-new" => self.export(&["_Zn[wa]*", "_Zd[la]*"]),
            "dynamic-list-cpp-typeinfo" => self.export(&["_ZT[IS]*"]),
            "E" | "export-dynamic" | "gc-keep-exported" => self.config.export_dynamic = true,
            "no-export-dynamic" => self.config.export_dynamic = false,
            "gnu-unique" => self.config.no_gnu_unique = false,
            "no-gnu-unique" => self.config.no_gnu_unique = true,
            "gc-sections" => self.config.gc_sections = true,
            "no-gc-sections" => self.config.gc_sections = false,
            "icf" => {
                self.config.icf = match opt.text().as_str() {
                    "all" => Icf::All,
                    "safe" => Icf::Safe,
                    _ => Icf::None,
                }
            }
            "e" | "entry" => self.config.entry = Some(opt.text()),
            "init" => self.config.init = opt.text(),
            "fini" => self.config.fini = opt.text(),
            "u" | "undefined" | "require-defined" => self.config.undefined.push(opt.text()),
            "wrap" => self.config.wrap.push(opt.text()),
            "defsym" => match opt.text().split_once('=') {
                Some((name, value)) => {
                    let (name, expression) = (name.to_owned(), value.to_owned());
                    let inputs_before = self.config.inputs.len();
                    self.config.defsym.push(Defsym { name, expression, inputs_before });
                    self.config.line.push(LineArg::Defsym(opt.words));
                    return;
                }
                None => self.unmodelled(&opt),
            },
            "exclude-libs" => {
                let text = opt.text();
                let names = text.split([',', ':']).filter(|n| !n.is_empty());
                self.config.exclude_libs.extend(names.map(str::to_owned));
            }
            "z" => self.z_option(&opt),
            "no-undefined" => self.modes.undefined_is_reported = Some(true),
            "unresolved-symbols" => {
                let lenient = matches!(opt.text().as_str(), "ignore-all" | "ignore-in-object-files");
                self.modes.undefined_is_reported = Some(!lenient);
            }
            "weak-unresolved-symbols" => self.modes.undefined_is_reported = Some(false),
            "undefined-version" => self.config.undefined_version = Some(true),
            "no-undefined-version" => self.config.undefined_version = Some(false),
            "warn-common" => self.config.warn_common = true,
            "no-warn-common" => self.config.warn_common = false,
            "warn-backrefs" => self.config.warn_backrefs = true,
            "no-warn-backrefs" => self.config.warn_backrefs = false,
            "why-extract" | "trace-symbol" | "y" | "print-archive-stats" => {
                self.config.explaining.push(opt.spelling());
            }
            // They write other files than the output.
            "save-temps" if self.flavor() == Flavor::Lld => self.config.explaining.push(opt.spelling()),
            "repro" if mold => self.config.explaining.push(opt.spelling()),
            // Archives that stand for others and libraries that are named again are not on the pruned line.
            "t" | "trace" => self.config.explaining.push(opt.spelling()),
            "symbol-ordering-file" => self.config.symbol_orderings.push(opt.path()),
            "call-graph-ordering-file" => self.config.call_graph_orderings.push(opt.path()),
            "keep-unique" => self.config.keep_unique.push(opt.text()),
            "allow-multiple-definition" => self.config.allow_multiple_definition = true,
            "no-allow-multiple-definition" => self.config.allow_multiple_definition = false,
            "fat-lto-objects" => self.config.fat_lto_objects = self.flavor() == Flavor::Lld,
            "no-fat-lto-objects" => self.config.fat_lto_objects = false,

            _ if changes_inputs(&opt, self.flavor()) => self.unmodelled(&opt),
            _ => {}
        }
        self.config.line.push(LineArg::Other(opt.words));
    }

    fn export(&mut self, patterns: &[&str]) {
        self.config.export_dynamic_symbols.extend(patterns.iter().map(|p| (*p).to_owned()));
    }

    fn z_option(&mut self, opt: &Opt) {
        match opt.text().as_str() {
            "defs" => self.modes.undefined_is_reported = Some(true),
            // The others don't know it, or mean nothing by it.
            "undefs" if matches!(self.flavor(), Flavor::Lld | Flavor::Bfd | Flavor::Wild) => {
                self.modes.undefined_is_reported = Some(false);
            }
            "execstack" | "execstack-if-needed" => self.config.execstack = Some(true),
            // Of the two gold takes `execstack`, wherever it stands.
            "noexecstack" if self.flavor() == Flavor::Gold && self.config.execstack == Some(true) => {}
            "noexecstack" => self.config.execstack = Some(false),
            "muldefs" => self.config.allow_multiple_definition = true,
            // Whether GNU ld still defines `__start_X` depends on the sections that it collected.
            "start-stop-gc" if self.flavor() == Flavor::Bfd => self.unmodelled(opt),
            "start-stop-gc" => self.config.start_stop_gc = Some(true),
            "nostart-stop-gc" => self.config.start_stop_gc = Some(false),
            _ => {}
        }
    }

    fn finish(mut self) -> Config {
        if self.group {
            self.config.malformed.push("a group without an end".to_owned());
        }
        if self.lib && self.flavor() == Flavor::Gold {
            self.config.malformed.push("--start-lib without an end".to_owned());
        }
        let modes = self.modes;
        let mut config = self.config;
        config.static_link = modes.static_;
        if config.scripts.is_empty() {
            config.scripts.extend(modes.default_script);
        }
        config.output_kind = match modes {
            Modes { relocatable: true, .. } => OutputKind::Relocatable,
            Modes { shared: true, .. } => OutputKind::Shared,
            // gcc's -static-pie is `-static -pie --no-dynamic-linker` for the linker.
            Modes { pie: true, no_dynamic_linker: true, .. } | Modes { pie: true, static_: true, .. } => {
                OutputKind::StaticPie
            }
            Modes { pie: true, .. } => OutputKind::Pie,
            _ => OutputKind::Executable,
        };
        let complete = !matches!(config.output_kind, OutputKind::Shared | OutputKind::Relocatable);
        config.undefined_is_reported = modes.undefined_is_reported.unwrap_or(complete);
        if config.linker.flavor == Flavor::Gold && modes.static_ {
            for input in &mut config.inputs {
                if let InputArg::File { state, .. } | InputArg::Library { state, .. } = input {
                    state.static_only = true;
                }
            }
        }
        self.saved.clear();
        config
    }
}

/// Flags that we model: with a value some linkers refuse them, and some take them for others.
fn takes_no_value(name: &str) -> bool {
    let of_inputs =
        ["whole-archive", "no-whole-archive", "as-needed", "no-as-needed", "push-state", "pop-state"];
    let brackets = ["start-group", "end-group", "start-lib", "end-lib", "Bstatic", "Bdynamic", "static"];
    let of_output =
        ["shared", "pie", "no-pie", "relocatable", "gc-sections", "no-gc-sections", "export-dynamic"];
    [&of_inputs[..], &brackets, &of_output].iter().any(|names| names.contains(&name))
}

/// Options that add, remove or reinterpret inputs, and that we don't model.
fn changes_inputs(opt: &Opt, flavor: Flavor) -> bool {
    let value = opt.text();
    match opt.name.as_str() {
        "b" | "format" if flavor == Flavor::Bfd => !matches!(value.as_str(), "default" | "elf64-x86-64"),
        "b" | "format" => !matches!(value.as_str(), "default" | "elf" | "elf64-x86-64"),
        "m" => !matches!(value.as_str(), "elf_x86_64" | "elf_x86_64_fbsd" | "elf_x86_64_sol2"),
        "oformat" => value != "elf64-x86-64",
        // Here -R is GNU ld's with a file.
        "R" | "just-symbols" | "A" | "architecture" | "c" | "mri-script" | "Y" => true,
        "a" => value != "default",
        "C" | "directory" | "chroot" | "run" => true,
        "remap-inputs" | "remap-inputs-file" | "undefined-glob" | "retain-symbols-file" => true,
        "in-implib" | "cmse-implib" | "task-link" | "version-exports-section" => true,
        "thinlto-index-only" | "thinlto-emit-imports-files" | "lto-emit-llvm" | "lto-emit-asm" => true,
        // lld stops before it writes an output.
        "thinlto-single-module" => true,
        "plugin-opt" => {
            value.starts_with("thinlto-index-only") || matches!(value.as_str(), "emit-llvm" | "emit-asm")
        }
        "incremental" | "incremental-full" | "incremental-update" | "incremental-base" => true,
        "embedded-relocs" | "split-by-reloc" | "split-by-file" => true,
        "copy-dt-needed-entries" | "add-needed" => flavor == Flavor::Bfd,
        // A shared library leaves common symbols undefined.
        "no-define-common" => matches!(flavor, Flavor::Bfd | Flavor::Gold),
        // They write other files, or print names of inputs and symbols.
        "write-layout" | "write-trace" | "write-gc-stats" | "sym-info" | "trace" | "t" => {
            flavor == Flavor::Wild
        }
        _ => false,
    }
}

fn os(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_owned()
}

fn is_number(word: &OsStr) -> bool {
    word.as_bytes().first().is_some_and(u8::is_ascii_digit)
}
