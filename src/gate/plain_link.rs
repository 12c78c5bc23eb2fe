//! A model of the plain link: the undefined symbol that it reports, the libraries that it records, and its output.
//!
//! With `--gc-sections` the linker decides liveness by sections of the input ([`Index::plain_live`]), not by atoms.

use std::ffi::OsStr;

use rustc_hash::FxHashMap;
use summaries::{AtomKind, Definition, ModuleKind, ModuleSummary, SymbolKind, Visibility, atom_flags};

use crate::config::{Config, OutputKind};
use crate::error::Result;
use crate::ids::{AtomId, DsoId, Id, ModuleId, SymbolId};
use crate::index::{Index, LinkInputs, RootReason};
use crate::inputs::SequenceItem;
use crate::plan::{Action, Plan};
use crate::propagate::Liveness;
use crate::resolve::{DsoState, GlobalSymbol, Prevailing, Resolution};
use crate::verify::OutputFacts;

/// The facts of the plain link that pruning must not change.
#[derive(Debug, Default)]
pub struct PlainLink {
    /// An undefined symbol that the plain linker reports.
    pub undefined: Option<SymbolId>,
    /// By DSO: the plain link refers to it, so that `--as-needed` keeps it.
    pub needed: Vec<bool>,
}

impl PlainLink {
    /// Model the plain link: it refers to everything, or with `--gc-sections` to the sections that are live by its rules.
    pub fn new(link: LinkInputs<'_>, index: &Index, ours: &Liveness) -> Self {
        let LinkInputs { config, resolution, summaries, .. } = link;
        let mut plain = PlainLink {
            undefined: None,
            needed: resolution.dsos.iter().map(|d| needed_anyway(config, d)).collect(),
        };
        for &(from, symbol) in &index.external {
            // Only references of dropped atoms depend on the linker's own rules.
            let is_seen =
                || ours.is_live(from) || !config.gc_sections || index.plain_live(summaries)[from.index()];
            let GlobalSymbol { name, prevailing, visibility, .. } = resolution.symbols[symbol];
            // The linker relaxes calls of it away if it links no loader, and then does not report it.
            if name == b"__tls_get_addr" {
                if is_seen() {
                    plain.needed_by(prevailing);
                }
                continue;
            }
            // A hidden symbol can't be defined at run time; it is an error in a shared library too.
            let is_reported = config.undefined_is_reported || visibility != Visibility::Default;
            let is_undefined = match prevailing {
                Prevailing::Undefined { weak } => !weak,
                Prevailing::Linker => !has_section(link, index, symbol),
                Prevailing::Dso(_) | Prevailing::Module { .. } => false,
            };
            if is_seen() {
                plain.needed_by(prevailing);
                if is_undefined && is_reported {
                    plain.undefined.get_or_insert(symbol);
                }
            }
        }
        plain
    }

    fn needed_by(&mut self, prevailing: Prevailing) {
        if let Prevailing::Dso(dso) = prevailing {
            self.needed[dso.index()] = true;
        }
    }

    /// Whether the plain link records this DSO although it is `--as-needed`.
    pub fn needs(&self, dso: DsoId) -> bool {
        self.needed[dso.index()]
    }
}

/// Whether the plain link has a section for this `__start_X` or `__stop_X`.
fn has_section(link: LinkInputs<'_>, index: &Index, symbol: SymbolId) -> bool {
    let LinkInputs { config, summaries, .. } = link;
    let start = index.start_stop.partition_point(|(id, _)| *id < symbol);
    let mut sections = index.start_stop.iter().skip(start).take_while(|(id, _)| *id == symbol);
    sections.any(|(_, atom)| !config.gc_sections || index.plain_live(summaries)[atom.index()])
}

/// Whether the plain link records the DSO independently of liveness. lld with `--gc-sections` decides by the references of live sections.
fn needed_anyway(config: &Config, dso: &DsoState) -> bool {
    if config.rules().records_when_read { dso.taken } else { dso.referenced && !config.lld_collects() }
}

/// The facts of the plain link's output that the pruned one must share; [`PlainOutput::difference`] compares.
///
/// Only certain facts are here; unknown ones are `None`, an empty list or a range. Addresses, the contents of a `-T` script with
/// SECTIONS, and versions by patterns are unknown.
#[derive(Debug, Default)]
pub struct PlainOutput<'a> {
    /// `DT_NEEDED` in order, by the libraries' sonames; `None` for one without. `None` where it isn't known.
    pub needed: Option<Vec<Option<&'a str>>>,
    /// Libraries that are recorded only if code made of bitcode refers to them. The output must record them, since the plain one may.
    pub asked: Vec<&'a str>,
    /// Names that `.dynsym` defines, if there is one.
    pub exported: Vec<&'a [u8]>,
    /// Names that a module defines, in no order. `.dynsym` must not have them as undefined.
    pub defined: Vec<&'a [u8]>,
    /// Bytes of the init and fini arrays: at least, and at most.
    pub init_array: (u64, u64),
    pub fini_array: (u64, u64),
    /// Whether the stack is executable; `None` if that is unknown.
    pub execstack: Option<bool>,
    /// (name, version, whether it is the default one) of definitions in `.dynsym`, if there is a `.dynsym`.
    pub versions: Vec<(&'a [u8], &'a [u8], bool)>,
    /// The `DT_SONAME`, or its absence; `None` if that is unknown.
    pub soname: Option<Option<&'a OsStr>>,
    /// The `PT_INTERP`, or its absence; `None` if that is unknown.
    pub interpreter: Option<Option<&'a OsStr>>,
    /// Whether the output has `DT_INIT` and `DT_FINI`; `None` if that is unknown.
    pub init: Option<bool>,
    pub fini: Option<bool>,
    /// There is thread-local data: certainly, possibly.
    pub tls: (bool, bool),
    /// Functions that need unwind entries, sorted, if others lose theirs.
    pub unwound: Vec<&'a [u8]>,
}

impl PlainLink {
    /// The facts of the plain link's output, by the rules of the linker.
    pub fn output<'a>(&self, link: LinkInputs<'a>, index: &Index, plan: &Plan) -> PlainOutput<'a> {
        let LinkInputs { config, inputs, resolution, summaries, .. } = link;
        let mut output = PlainOutput::default();
        // Only the linker knows which libraries and constructors code made of bitcode needs.
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
        let version_of = scripted_versions(link);
        let by_script = |name: &&[u8]| scripts.version_global.is_none() || version_of(name).is_some();
        output.exported = names.filter(|name| !versioned(name)).filter(by_script).collect();
        if config.exclude_libs.is_empty() && scripts.version_global.is_none() {
            output.exported.extend(plan.demanded.iter().map(|symbol| resolution.symbols[*symbol].name));
        }
        if certain {
            output.versions = versions(link, index, &version_of);
        }
        if config.output_kind == OutputKind::Shared {
            output.soname = Some(config.soname.as_deref().filter(|name| !name.is_empty()));
        }
        if !inputs.scripts.has_sections {
            output.interpreter = interpreter(config, output.needed.as_deref());
            if config.rules().init_by_symbol {
                output.init = defines(resolution, &config.init);
                output.fini = defines(resolution, &config.fini);
            }
        }
        output.tls = thread_local(link, index, plan);
        output.unwound = unwound(link, index, plan);
        output.init_array = arrays(summaries, index, b".init_array");
        output.fini_array = arrays(summaries, index, b".fini_array");
        // Without its default script GNU ld collects them like other sections.
        if inputs.scripts.has_sections || inputs.scripts.without_default || resolution.has_bitcode {
            (output.init_array, output.fini_array) = ((0, u64::MAX), (0, u64::MAX));
        }
        let by_option = config.rules().goes_by_options.then_some(config.execstack == Some(true));
        output.execstack = by_option.or(config.execstack);
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
            // A later use of the library without `--as-needed` overrides an earlier one with it.
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

/// By name: the version that version scripts certainly give to its definition. The inner option is `None` if it is global with an unknown
/// version.
fn scripted_versions<'a>(link: LinkInputs<'a>) -> impl Fn(&[u8]) -> Option<&'a Option<String>> {
    let LinkInputs { config, inputs, .. } = link;
    let names = inputs.scripts.name_matcher(config.linker.flavor, config.undefined_version);
    move |name| inputs.scripts.versions.get(name).filter(|_| !names.pattern_may_decide(name))
}

/// Exports with their versions, by `.symver` and by names of version scripts.
fn versions<'a>(
    link: LinkInputs<'a>,
    index: &Index,
    version_of: &dyn Fn(&[u8]) -> Option<&'a Option<String>>,
) -> Vec<(&'a [u8], &'a [u8], bool)> {
    let LinkInputs { config, inputs, resolution, summaries, .. } = link;
    let mut versions = Vec::new();
    let rules = config.rules();
    let exports_versioned =
        rules.exports_symver && !(rules.hides_symver_by_stem && inputs.scripts.version_global.is_some());
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
                if rules.hides_other_versions && !by_default && !inputs.scripts.version_local.is_empty() {
                    continue;
                }
                versions.push((&name[..at], version, by_default));
            }
            RootReason::Exported if !symbol.versioned => {
                let version = version_of(symbol.name).and_then(Option::as_ref);
                if let Some(version) = version.filter(|v| !v.is_empty()) {
                    versions.push((symbol.name, version.as_bytes(), true));
                }
            }
            _ => {}
        }
    }
    versions
}

/// The interpreter of the output: lld writes it by option, the others for an executable that needs a library.
fn interpreter<'a>(config: &'a Config, needed: Option<&[Option<&str>]>) -> Option<Option<&'a OsStr>> {
    let path = config.dynamic_linker.as_deref();
    let executable = matches!(config.output_kind, OutputKind::Executable | OutputKind::Pie);
    let is_dynamic = !config.static_link && needed.is_some_and(|needed| !needed.is_empty());
    match config.output_kind {
        OutputKind::Shared | OutputKind::Relocatable => None,
        _ if config.rules().goes_by_options => Some(path),
        _ if executable && is_dynamic && path.is_some() => Some(path),
        _ => None,
    }
}

/// Whether a module defines a symbol; `None` if the linker or code made of bitcode may.
fn defines(resolution: &Resolution<'_>, name: &str) -> Option<bool> {
    match resolution.symbols.iter().find(|s| s.name == name.as_bytes()) {
        Some(GlobalSymbol { by_bitcode: true, .. } | GlobalSymbol { prevailing: Prevailing::Linker, .. }) => {
            None
        }
        Some(symbol) => Some(matches!(symbol.prevailing, Prevailing::Module { .. })),
        None => (!resolution.has_bitcode).then_some(false),
    }
}

/// Whether the output certainly has thread-local data, because the linker does not collect it, and whether it may have some.
fn thread_local(link: LinkInputs<'_>, index: &Index, plan: &Plan) -> (bool, bool) {
    let LinkInputs { config, inputs, resolution, summaries, .. } = link;
    let is_tls = |kind| matches!(kind, AtomKind::TlsData | AtomKind::TlsBss);
    let (mut certain, mut possible) = (false, resolution.has_bitcode || inputs.scripts.has_sections);
    for ((module, summary), plan) in index.modules.iter().zip(summaries).zip(&plan.modules) {
        for (i, atom) in summary.atoms.iter().enumerate().filter(|(_, a)| is_tls(a.kind)) {
            possible = true;
            let stays = plan.passed_through || plan.atoms.get(i) == Some(&Action::Keep);
            let is_discarded = index.discarded[module.first_atom as usize + i];
            // Optimisation may remove all of a bitcode module.
            let is_native = summary.kind != ModuleKind::Bitcode;
            certain |= is_native && stays && !is_discarded && atom.kind.is_alloc() && atom.size > 0;
        }
    }
    (certain && !config.gc_sections && !inputs.scripts.has_sections, possible)
}

/// The bytes of all sections with these names: of those without a group, which every linker keeps, and of all. `.ctors` and `.dtors`
/// may be joined to them.
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

/// Global functions that keep their unwind entries because the program needs them, if it does not need all entries.
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
        // In the output its address may be that of a PLT entry.
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

impl PlainOutput<'_> {
    /// The first difference, in words that follow "the output".
    ///
    /// # Errors
    /// The dynamic symbols can't be read.
    pub fn difference(&self, config: &Config, facts: &OutputFacts) -> Result<Option<String>> {
        if config.output_kind == OutputKind::Executable && facts.entry == 0 {
            return Ok(Some("has no entry".to_owned()));
        }
        if let Some(needed) = self.needed.as_ref().filter(|_| !config.static_link) {
            let same = |(found, wanted): (&Vec<u8>, &Option<&str>)| {
                wanted.is_none_or(|wanted| wanted.as_bytes() == found.as_slice())
            };
            if facts.needed.len() != needed.len() || !facts.needed.iter().zip(needed).all(same) {
                let found: Vec<_> = facts.needed.iter().map(|name| String::from_utf8_lossy(name)).collect();
                let wanted: Vec<_> = needed.iter().map(|name| name.unwrap_or("?")).collect();
                return Ok(Some(format!("needs [{}], not [{}]", found.join(" "), wanted.join(" "))));
            }
        }
        if let Some(symbols) = facts.dynamic_symbols()? {
            if let Some(name) = self.exported.iter().find(|name| symbols.exports(name).is_empty()) {
                return Ok(Some(format!("does not export {}", String::from_utf8_lossy(name))));
            }
            for &(name, version, by_default) in &self.versions {
                let mut exports = symbols.exports(name).iter();
                if !exports.any(|d| d.version == version && d.by_default == by_default) {
                    let (name, version) = (String::from_utf8_lossy(name), String::from_utf8_lossy(version));
                    let at = if by_default { "@@" } else { "@" };
                    return Ok(Some(format!("does not export {name}{at}{version}")));
                }
            }
            if let Some(name) = self.defined.iter().find(|name| symbols.undefined.binary_search(name).is_ok())
            {
                return Ok(Some(format!("has {} as undefined", String::from_utf8_lossy(name))));
            }
        }
        if let Some(name) = facts.without_unwind_entry(&self.unwound)? {
            return Ok(Some(format!("has no unwind entry for {}", String::from_utf8_lossy(name))));
        }
        for (what, size, (least, most)) in
            [("init", facts.init_array, self.init_array), ("fini", facts.fini_array, self.fini_array)]
        {
            if let Some(size) = size.filter(|size| !(least..=most).contains(size)) {
                return Ok(Some(format!("has {size} bytes of {what} array, not {least} to {most}")));
            }
        }
        let names =
            [("soname", &facts.soname, self.soname), ("interpreter", &facts.interpreter, self.interpreter)];
        for (what, found, wanted) in names {
            let Some(wanted) = wanted else { continue };
            if found.as_deref() != wanted.map(OsStr::as_encoded_bytes) {
                let found = found.as_ref().map_or("".into(), |name| String::from_utf8_lossy(name));
                let wanted = wanted.map_or("".into(), OsStr::to_string_lossy);
                return Ok(Some(format!("has the {what} [{found}], not [{wanted}]")));
            }
        }
        for (what, found, wanted) in [("DT_INIT", facts.init, self.init), ("DT_FINI", facts.fini, self.fini)]
        {
            match (found, wanted) {
                (Some(found), Some(wanted)) if found != wanted => {
                    return Ok(Some(format!("has {} {what}", if found { "a" } else { "no" })));
                }
                _ => {}
            }
        }
        match (facts.tls, self.tls) {
            (false, (true, _)) => return Ok(Some("has no thread-local data".to_owned())),
            (true, (_, false)) => return Ok(Some("has thread-local data".to_owned())),
            _ => {}
        }
        match (facts.execstack, self.execstack) {
            (Some(found), Some(wanted)) if found != wanted => {
                Ok(Some(format!("has {} executable stack", if found { "an" } else { "no" })))
            }
            _ => Ok(None),
        }
    }
}
