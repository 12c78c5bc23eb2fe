//! What the output of the plain link has, as far as resolution says it: the model that the pruned output is held against.
//!
//! What is here is certain, or it is not here (`None`, an empty list, a range): a false alarm would be a warning in a link that is right.
//! Left out: what depends on addresses, what a `-T` script with SECTIONS decides, versions that patterns give.

use std::ffi::OsStr;

use rustc_hash::FxHashMap;
use summaries::{AtomKind, Definition, ModuleKind, ModuleSummary, SymbolKind, Visibility, atom_flags};

use super::plain_link::PlainLink;
use crate::config::{Config, Dialect, OutputKind};
use crate::ids::{AtomId, ModuleId};
use crate::index::{Index, LinkInputs, RootReason};
use crate::inputs::SequenceItem;
use crate::plan::{Action, Plan};
use crate::resolve::{GlobalSymbol, Prevailing, Resolution};

/// What the plain link's output has that the pruned one's must have too; [`PlainOutput::difference`] compares.
#[derive(Debug, Default)]
pub struct PlainOutput<'a> {
    /// `DT_NEEDED` in order, by the libraries' sonames; `None` for one without. `None` where it isn't known.
    pub needed: Option<Vec<Option<&'a str>>>,
    /// Libraries that are recorded only if code made of bitcode refers to them. The output must record them, since the plain one may.
    pub asked: Vec<&'a str>,
    /// Names that `.dynsym` defines, if there is one.
    pub exported: Vec<&'a [u8]>,
    /// Names that a module defines, so that `.dynsym` has none of them as undefined, in no order.
    pub defined: Vec<&'a [u8]>,
    /// Bytes of the init and fini arrays: at least, and at most.
    pub init_array: (u64, u64),
    pub fini_array: (u64, u64),
    /// Whether the stack is executable, where that is known.
    pub execstack: Option<bool>,
    /// (name, version, whether it is the default one) of definitions that `.dynsym` has if there is one.
    pub versions: Vec<(&'a [u8], &'a [u8], bool)>,
    /// `DT_SONAME`, or that there is none, where that is known.
    pub soname: Option<Option<&'a OsStr>>,
    /// `PT_INTERP`, or that there is none, where that is known.
    pub interpreter: Option<Option<&'a OsStr>>,
    /// Whether there is `DT_INIT`, `DT_FINI`, where that is known.
    pub init: Option<bool>,
    pub fini: Option<bool>,
    /// There is thread-local data: certainly, possibly.
    pub tls: (bool, bool),
    /// Functions that need unwind entries, sorted, where others lose theirs.
    pub unwound: Vec<&'a [u8]>,
}

impl PlainLink {
    /// What the output of the plain link has, by the rules of the linker behind us.
    pub fn output<'a>(&self, link: LinkInputs<'a>, index: &Index, plan: &Plan) -> PlainOutput<'a> {
        let LinkInputs { config, inputs, resolution, summaries, .. } = link;
        let mut output = PlainOutput::default();
        // What of code that is made of bitcode refers to a library, and which constructors it has, is the linker's to see.
        if !resolution.has_bitcode && config.output_kind != OutputKind::Relocatable {
            output.needed = Some(self.libraries(link));
        }
        let versioned = |name: &[u8]| name.contains(&b'@');
        for symbol in resolution.symbols.iter().filter(|s| !versioned(s.name)) {
            if matches!(symbol.prevailing, Prevailing::Module { .. }) && !symbol.by_bitcode {
                output.defined.push(symbol.name);
            }
        }
        let exported = index.roots.iter().filter(|r| r.reason == RootReason::Exported);
        let certain = config.output_kind == OutputKind::Shared && config.exclude_libs.is_empty();
        // lld leaves out a symbol if all definitions allow it. Which definitions count depends on the version of lld.
        let symbols = exported.filter(|_| certain).filter_map(|r| Some(&resolution.symbols[r.symbol?]));
        let names = symbols.filter(|symbol| !symbol.omittable).map(|symbol| symbol.name);
        let scripts = &inputs.scripts;
        let by_script =
            |name: &&[u8]| scripts.version_global.is_none() || scripts.versions.contains_key(*name);
        output.exported = names.filter(|name| !versioned(name)).filter(by_script).collect();
        if config.exclude_libs.is_empty() && scripts.version_global.is_none() {
            output.exported.extend(plan.demanded.iter().map(|symbol| resolution.symbols[*symbol].name));
        }
        if certain {
            output.versions = versions(link, index);
        }
        if config.output_kind == OutputKind::Shared {
            output.soname = Some(config.soname.as_deref().filter(|name| !name.is_empty()));
        }
        if !inputs.scripts.has_sections {
            output.interpreter = interpreter(config, output.needed.as_deref());
            // wild writes neither for a name: it looks for sections.
            if config.linker.dialect != Dialect::Wild {
                output.init = defines(resolution, &config.init);
                output.fini = defines(resolution, &config.fini);
            }
        }
        output.tls = thread_local(link, index, plan);
        output.unwound = unwound(link, index, plan);
        output.init_array = arrays(summaries, index, b".init_array");
        output.fini_array = arrays(summaries, index, b".fini_array");
        if inputs.scripts.has_sections || resolution.has_bitcode {
            (output.init_array, output.fini_array) = ((0, u64::MAX), (0, u64::MAX));
        }
        output.execstack = match config.linker.dialect {
            Dialect::Lld => Some(config.execstack == Some(true)),
            Dialect::Bfd | Dialect::Gold | Dialect::Mold | Dialect::Wild => config.execstack,
        };
        output
    }

    /// The libraries that the plain link records, in the order in which it reads them.
    fn libraries<'a>(&self, link: LinkInputs<'a>) -> Vec<Option<&'a str>> {
        let LinkInputs { inputs, resolution, .. } = link;
        let mut seen: Vec<&str> = Vec::new();
        let mut names = Vec::new();
        for mention in resolution.dso_mentions.iter().filter(|m| m.taken) {
            let Some(SequenceItem::Dso { dso, as_needed, .. }) = inputs.sequence.get(mention.item) else {
                continue;
            };
            // A later mention without `--as-needed` takes back an earlier one with it.
            let outright = |item: &SequenceItem| matches!(item, SequenceItem::Dso { dso: other, as_needed: false, implicit: false, .. } if other == dso);
            let recorded = !as_needed || self.needs(*dso) || inputs.sequence.iter().any(outright);
            if recorded && !seen.contains(&inputs.dso_name(*dso)) {
                seen.push(inputs.dso_name(*dso));
                names.push(inputs.dsos[*dso].soname.as_deref());
            }
        }
        names
    }
}

/// Exports with their versions: what `.symver` says, and names of version scripts.
fn versions<'a>(link: LinkInputs<'a>, index: &Index) -> Vec<(&'a [u8], &'a [u8], bool)> {
    let LinkInputs { config, inputs, resolution, summaries, .. } = link;
    let mut versions = Vec::new();
    // wild exports them by its own rules, and GNU ld not those whose undecorated name a version script makes local.
    let exports_versioned = match config.linker.dialect {
        Dialect::Wild => false,
        Dialect::Bfd => inputs.scripts.version_global.is_none(),
        Dialect::Lld | Dialect::Gold | Dialect::Mold => true,
    };
    for root in &index.roots {
        let Some(symbol) = root.symbol.map(|id| &resolution.symbols[id]) else { continue };
        let Prevailing::Module { module, symbol: entry } = symbol.prevailing else { continue };
        let is_hidden = matches!(symbol.visibility, Visibility::Hidden | Visibility::Internal);
        if is_hidden || symbol.by_bitcode {
            continue;
        }
        match root.reason {
            RootReason::Versioned if exports_versioned => {
                let position = index.modules.iter().position(|m| m.module == module);
                let Some(summary) = position.and_then(|p| summaries.get(p)) else { continue };
                let name = summary.symbol_name(entry);
                let Some(at) = name.iter().position(|b| *b == b'@') else { continue };
                let version = name[at + 1..].strip_prefix(b"@");
                let (version, by_default) = version.map_or((&name[at + 1..], false), |v| (v, true));
                // lld makes local what is of another version than the default one and matches a local pattern of that version.
                let dialect = config.linker.dialect;
                if dialect == Dialect::Lld && !by_default && !inputs.scripts.version_local.is_empty() {
                    continue;
                }
                versions.push((&name[..at], version, by_default));
            }
            RootReason::Exported if !symbol.versioned => {
                let version = inputs.scripts.versions.get(symbol.name).and_then(Option::as_ref);
                if let Some(version) = version.filter(|v| !v.is_empty()) {
                    versions.push((symbol.name, version.as_bytes(), true));
                }
            }
            _ => {}
        }
    }
    versions
}

/// lld makes the segment where the option is on the line; the others make it for an executable that needs a library.
fn interpreter<'a>(config: &'a Config, needed: Option<&[Option<&str>]>) -> Option<Option<&'a OsStr>> {
    let path = config.dynamic_linker.as_deref();
    let executable = matches!(config.output_kind, OutputKind::Executable | OutputKind::Pie);
    let lld = config.linker.dialect == Dialect::Lld;
    let is_dynamic = !config.static_link && needed.is_some_and(|needed| !needed.is_empty());
    match config.output_kind {
        OutputKind::Shared | OutputKind::Relocatable => None,
        _ if lld => Some(path),
        _ if executable && is_dynamic && path.is_some() => Some(path),
        _ => None,
    }
}

/// Whether a module defines a symbol; `None` where the linker may, or code that is made of bitcode.
fn defines(resolution: &Resolution<'_>, name: &str) -> Option<bool> {
    match resolution.symbols.iter().find(|s| s.name == name.as_bytes()) {
        Some(GlobalSymbol { by_bitcode: true, .. } | GlobalSymbol { prevailing: Prevailing::Linker, .. }) => {
            None
        }
        Some(symbol) => Some(matches!(symbol.prevailing, Prevailing::Module { .. })),
        None => (!resolution.has_bitcode).then_some(false),
    }
}

/// What stays of thread-local data, if the linker doesn't collect it; and whether there was any.
fn thread_local(link: LinkInputs<'_>, index: &Index, plan: &Plan) -> (bool, bool) {
    let LinkInputs { config, inputs, resolution, summaries, .. } = link;
    let is_tls = |kind| matches!(kind, AtomKind::TlsData | AtomKind::TlsBss);
    let (mut certain, mut possible) = (false, resolution.has_bitcode || inputs.scripts.has_sections);
    for ((module, summary), plan) in index.modules.iter().zip(summaries).zip(&plan.modules) {
        for (i, atom) in summary.atoms.iter().enumerate().filter(|(_, a)| is_tls(a.kind)) {
            possible = true;
            let stays = plan.is_untouched() || plan.atoms.get(i) == Some(&Action::Keep);
            let is_discarded = index.discarded[module.first_atom as usize + i];
            // Of bitcode optimisation may leave nothing.
            let is_native = summary.kind != ModuleKind::Bitcode;
            certain |= is_native && stays && !is_discarded && atom.kind.is_alloc() && atom.size > 0;
        }
    }
    (certain && !config.gc_sections && !inputs.scripts.has_sections, possible)
}

/// Bytes of all sections of these names: of those that are in no group, which every linker keeps, and of all. Other arrays
/// of constructors may be joined to them.
fn arrays(summaries: &[&ModuleSummary], index: &Index, family: &[u8]) -> (u64, u64) {
    let (mut least, mut most) = (0u64, 0u64);
    for (module, summary) in index.modules.iter().zip(summaries) {
        for (i, atom) in summary.atoms.iter().enumerate() {
            let name = summary.name(atom.name);
            let kept = !index.discarded[module.first_atom as usize + i] && atom.kind == AtomKind::InitFini;
            if kept && name.starts_with(family) {
                let grouped = atom.has(atom_flags::GROUPED);
                (least, most) = (least + if grouped { 0 } else { atom.size }, most + atom.size);
            } else if kept && (name.starts_with(b".ctors") || name.starts_with(b".dtors")) {
                most += atom.size;
            }
        }
    }
    (least, most)
}

/// Global functions that keep their unwind entries because the program needs them, where it does not need all.
fn unwound<'a>(link: LinkInputs<'a>, index: &Index, plan: &Plan) -> Vec<&'a [u8]> {
    let LinkInputs { resolution, summaries, .. } = link;
    let needed = &index.removed_unwind.needed;
    if needed.is_empty() {
        return Vec::new();
    }
    let position_of: FxHashMap<ModuleId, usize> =
        index.modules.iter().enumerate().map(|(position, this)| (this.module, position)).collect();
    let mut names = Vec::new();
    for symbol in resolution.symbols.iter() {
        let Prevailing::Module { module, symbol: local } = symbol.prevailing else { continue };
        let Some(&position) = position_of.get(&module) else { continue };
        let defined = &summaries[position].symbols[local.index()];
        let Definition::Atom(atom) = defined.definition else { continue };
        // In the output it may be the place of a stub that jumps to what its resolver chooses.
        if defined.kind == SymbolKind::Ifunc {
            continue;
        }
        let id = AtomId(index.modules[position].first_atom + atom.0);
        let is_kept = plan.modules[position].atoms.get(atom.index()) == Some(&Action::Keep);
        if is_kept && needed.binary_search(&(id, defined.value)).is_ok() {
            names.push(symbol.name);
        }
    }
    names.sort_unstable();
    names
}
