//! The options of lld, GNU ld, gold, mold and wild: which take their value from the next word, which exist.
//!
//! Taken from the help texts of the first four and then asked of each: `LINKER --trace --NAME file.o` names the file
//! as an input, or doesn't; wild's are those of libwild/src/args/elf.rs, and what it doesn't know is an error there. The value-taking ones decide where a line's inputs are, so an error here would make an
//! input of a value. The flags matter because a single dash is also the beginning of a short option with its value
//! joined to it: `-export-dynamic` is no `-e xport-dynamic`, while for lld `-export-dynamic-symbol` is one.

use crate::config::Flavor;

type Linkers = u8;

const LLD: Linkers = 1;
const BFD: Linkers = 2;
const GOLD: Linkers = 4;
const MOLD: Linkers = 8;
const WILD: Linkers = 16;
const ALL: Linkers = 31;

fn bit(flavor: Flavor) -> Linkers {
    match flavor {
        Flavor::Lld => LLD,
        Flavor::Bfd => BFD,
        Flavor::Gold => GOLD,
        Flavor::Mold => MOLD,
        Flavor::Wild => WILD,
    }
}

/// What a long option is to a linker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arity {
    /// One word, with or without `=value`.
    Flag,
    /// `--name=value`, or `--name` and the next word.
    Value,
}

/// The arity of long option `name`; `None` if the linker has no such option with that many dashes.
pub(super) fn long(flavor: Flavor, name: &str, single_dash: bool) -> Option<Arity> {
    if single_dash && two_dashes(name) & bit(flavor) != 0 {
        return None;
    }
    if let Ok(i) = VALUES.binary_search_by_key(&name, |(n, _)| n) {
        let (_, linkers) = VALUES.get(i)?;
        return Some(if linkers & bit(flavor) != 0 { Arity::Value } else { Arity::Flag });
    }
    FLAGS.binary_search(&name).ok().map(|_| Arity::Flag)
}

/// Whether GNU ld may complete `name` to a longer option, as `getopt_long_only` does.
pub(super) fn is_prefix(flavor: Flavor, name: &str, single_dash: bool) -> bool {
    let mut names = VALUES.iter().map(|(n, _)| *n).chain(FLAGS.iter().copied());
    let is_completed = |n: &str| n.starts_with(name) && !(single_dash && two_dashes(n) & BFD != 0);
    flavor == Flavor::Bfd
        && name.len() > 1
        && long(flavor, name, single_dash).is_none()
        && names.any(is_completed)
}

/// Whether `name` is no option, and may abbreviate the option `full`: GNU ld and gold complete unique prefixes.
pub(crate) fn may_abbreviate(name: &str, full: &str) -> bool {
    let is_known =
        VALUES.binary_search_by_key(&name, |(n, _)| n).is_ok() || FLAGS.binary_search(&name).is_ok();
    full.starts_with(name) && !is_known
}

/// Whether short option `letter` takes a value, joined or from the next word.
pub(super) fn short_takes_value(flavor: Flavor, letter: u8) -> bool {
    let letters: &[u8] = match flavor {
        Flavor::Lld => b"FILORTbefhlmouyz",
        Flavor::Bfd => b"AFGILOPRTYabcefhlmouyz",
        Flavor::Gold => b"FILORTYbefhlmouyz",
        Flavor::Mold => b"CFILORTefhlmouyz",
        Flavor::Wild => b"LORTefhlmotuz",
    };
    letters.contains(&letter)
}

/// The linkers for which `name` needs both dashes, because one would be a short option with a joined value.
fn two_dashes(name: &str) -> Linkers {
    if name.starts_with("lto") {
        return LLD;
    }
    let i = TWO_DASHES.binary_search_by_key(&name, |(n, _)| n);
    i.ok().and_then(|i| TWO_DASHES.get(i)).map_or(0, |(_, linkers)| *linkers)
}

/// Options whose value may be the next word, with the linkers for which that is so.
const VALUES: &[(&str, Linkers)] = &[
    ("Map", ALL),
    ("Tbss", ALL),
    ("Tdata", ALL),
    ("Tldata-segment", ALL),
    ("Trodata-segment", ALL),
    ("Ttext", ALL),
    ("Ttext-segment", ALL),
    ("android-memtag-mode", ALL),
    ("architecture", ALL),
    ("assert", ALL),
    ("audit", ALL),
    ("auxiliary", ALL),
    ("build-id-chunk-size-for-treehash", ALL),
    ("build-id-min-file-size-for-treehash", ALL),
    ("call-graph-ordering-file", ALL),
    ("chroot", ALL),
    ("compress-debug-sections", ALL),
    ("compress-sections", ALL),
    ("ctf-share-types", ALL),
    ("dT", ALL),
    ("debug", ALL),
    ("debug-fuel", WILD),
    ("default-script", ALL),
    ("defsym", ALL),
    ("depaudit", ALL),
    ("dependency-file", ALL),
    ("directory", ALL),
    ("dynamic-linker", ALL),
    ("dynamic-list", ALL),
    ("entry", ALL),
    ("error-handling-script", ALL),
    ("error-limit", ALL),
    ("exclude-libs", ALL),
    ("export-dynamic-symbol", ALL),
    ("export-dynamic-symbol-list", ALL),
    ("filter", ALL),
    ("fini", ALL),
    ("flto-partition", ALL),
    ("format", ALL),
    ("fuse-ld", ALL),
    ("gc-stats-ignore", WILD),
    ("gpsize", ALL),
    ("hash-bucket-empty-fraction", ALL),
    ("hash-size", ALL),
    ("hash-style", ALL),
    ("icf", ALL),
    ("icf-iterations", ALL),
    ("ignore-unresolved-symbol", ALL),
    ("image-base", ALL),
    ("in-implib", ALL),
    ("incremental-base", ALL),
    ("incremental-patch", ALL),
    ("init", ALL),
    ("just-symbols", ALL),
    ("keep-unique", ALL),
    ("library", ALL),
    ("library-path", ALL),
    ("load-pass-plugin", ALL),
    ("lto-cs-profile-file", ALL),
    ("lto-known-safe-vtables", ALL),
    ("lto-obj-path", ALL),
    ("lto-partitions", ALL),
    ("lto-sample-profile", ALL),
    ("max-cache-size", ALL),
    ("mllvm", ALL),
    ("mri-script", ALL),
    ("oformat", ALL),
    ("opt-remarks-filename", ALL),
    ("opt-remarks-format", ALL),
    ("opt-remarks-hotness-threshold", ALL),
    ("opt-remarks-passes", ALL),
    ("optimize", ALL),
    ("orphan-handling", ALL),
    ("out-implib", ALL),
    ("output", ALL),
    ("pack-dyn-relocs", ALL),
    ("package-metadata", MOLD),
    ("physical-image-base", ALL),
    ("plugin", ALL),
    ("plugin-opt", ALL),
    ("print-symbol-counts", ALL),
    ("print-symbol-order", ALL),
    ("remap-inputs", ALL),
    ("reproduce", ALL),
    ("require-defined", ALL),
    ("retain-symbols-file", ALL),
    ("rosegment-gap", ALL),
    ("rpath", ALL),
    ("rpath-link", ALL),
    ("rsp-quoting", ALL),
    ("script", ALL),
    ("section-ordering-file", ALL),
    ("section-start", ALL),
    ("separate-debug-file", ALL),
    ("shuffle-sections", LLD),
    ("soname", ALL),
    ("sort-section", ALL),
    ("spare-dynamic-tags", ALL),
    ("split-stack-adjust-size", ALL),
    ("stub-group-size", ALL),
    ("sym-info", WILD),
    ("symbol-ordering-file", ALL),
    ("sysroot", ALL),
    ("target2", ALL),
    ("task-link", ALL),
    ("thinlto-cache-policy", ALL),
    ("thread-count", ALL),
    ("thread-count-final", ALL),
    ("thread-count-initial", ALL),
    ("thread-count-middle", ALL),
    ("threads", LLD),
    ("time-trace-granularity", ALL),
    ("trace", WILD),
    ("trace-symbol", ALL),
    ("undefined", ALL),
    ("undefined-glob", ALL),
    ("unique", MOLD),
    ("unresolved-symbols", ALL),
    ("version-exports-section", ALL),
    ("version-script", ALL),
    ("warn-backrefs-exclude", ALL),
    ("why-live", ALL),
    ("wild-experiments", WILD),
    ("wrap", ALL),
    ("write-gc-stats", WILD),
];

/// Linkers take these options with two dashes only.
const TWO_DASHES: &[(&str, Linkers)] = &[
    ("entry", MOLD),
    ("error-handling-script", LLD),
    ("error-limit", LLD),
    ("execute-only", LLD),
    ("export-dynamic-symbol", LLD | BFD | MOLD),
    ("export-dynamic-symbol-list", LLD | BFD | GOLD | MOLD),
    ("fat-lto-objects", LLD),
    ("force-group-allocation", LLD),
    ("fortran-common", LLD),
    ("library", BFD | MOLD),
    ("library-path", BFD),
    ("oformat", LLD | BFD | GOLD | MOLD),
    ("omagic", LLD | BFD | MOLD),
    ("opt-remarks-filename", LLD | MOLD),
    ("opt-remarks-format", LLD | MOLD),
    ("opt-remarks-hotness-threshold", LLD | MOLD),
    ("opt-remarks-passes", LLD | MOLD),
    ("opt-remarks-with-hotness", LLD),
    ("optimize-bb-jumps", LLD),
    ("orphan-handling", MOLD | WILD),
    ("out-implib", LLD | MOLD),
    ("output", LLD | BFD | MOLD),
    ("undefined", MOLD),
    ("undefined-glob", LLD),
];

#[rustfmt::skip]
const FLAGS: &[&str] = &[
    "Bdynamic", "Bgroup", "Bno-symbolic", "Bshareable", "Bstatic", "Bsymbolic", "Bsymbolic-functions",
    "Bsymbolic-non-weak", "Bsymbolic-non-weak-functions", "EB", "EL", "Qy", "Ur", "accept-unknown-input-arch",
    "add-needed", "allow-multiple-definition", "allow-shlib-undefined", "android-memtag-heap",
    "android-memtag-stack", "apply-dynamic-relocs", "as-needed", "be8", "build-id", "call-graph-profile-sort",
    "call_shared", "check-sections", "cmse-implib", "color-diagnostics", "copy-dt-needed-entries", "cref",
    "ctf-variables", "ctors-in-init-array", "dc", "debug-names", "default-imported-symver", "default-symver",
    "define-common", "demangle", "dependent-libraries", "detect-odr-violations", "disable-multiple-abs-defs",
    "disable-new-dtags", "disable-verify", "discard-all", "discard-locals", "discard-none", "dll", "dn", "dp",
    "dy", "dynamic-list-cpp-new", "dynamic-list-cpp-typeinfo", "dynamic-list-data", "eh-frame-hdr",
    "embedded-relocs", "emit-relocs", "emit-stub-syms", "enable-new-dtags", "enable-non-contiguous-regions",
    "enable-non-contiguous-regions-warnings", "end-group", "end-lib", "error-unresolved-symbols",
    "execute-only", "export-dynamic", "fat-lto-objects", "fatal-warnings", "fix-arm1176",
    "fix-cortex-a53-835769", "fix-cortex-a53-843419", "fix-cortex-a8", "fix-v4bx", "fix-v4bx-interworking",
    "flto", "force-exe-suffix", "force-group-allocation", "fork", "fortran-common", "gc-keep-exported",
    "gc-sections", "gdb-index", "gnu-unique", "help", "ignore-data-address-equality",
    "ignore-function-address-equality", "incremental", "incremental-changed", "incremental-full",
    "incremental-startup-unchanged", "incremental-unchanged", "incremental-unknown", "incremental-update",
    "keep-files-mapped", "ld-generated-unwind-info", "long-plt", "lto", "lto-CGO", "lto-O", "lto-aa-pipeline",
    "lto-basic-block-address-map", "lto-basic-block-sections", "lto-cs-profile-generate",
    "lto-debug-pass-manager", "lto-emit-asm", "lto-emit-llvm", "lto-newpm-passes", "lto-pgo-warn-mismatch",
    "lto-unique-basic-block-section-names", "lto-validate-all-vtables-have-type-infos",
    "lto-whole-program-visibility", "map-whole-files", "merge-exidx-entries", "mmap-output-file", "nmagic",
    "no-accept-unknown-input-arch", "no-add-needed", "no-allow-multiple-definition",
    "no-allow-shlib-undefined", "no-apply-dynamic-relocs", "no-as-needed", "no-build-id", "no-check-sections",
    "no-color-diagnostics", "no-copy-dt-needed-entries", "no-cref", "no-ctf-variables",
    "no-ctors-in-init-array", "no-debug-names", "no-define-common", "no-demangle", "no-dependent-libraries",
    "no-detect-odr-violations", "no-dynamic-linker", "no-eh-frame-hdr", "no-emit-stub-syms",
    "no-enum-size-warning", "no-execute-only", "no-export-dynamic", "no-fat-lto-objects", "no-fatal-warnings",
    "no-fix-arm1176", "no-fix-cortex-a53-835769", "no-fix-cortex-a53-843419", "no-fix-cortex-a8", "no-fork",
    "no-fortran-common", "no-gc-sections", "no-gdb-index", "no-gnu-unique", "no-icf", "no-incremental",
    "no-keep-files-mapped", "no-keep-memory", "no-ld-generated-unwind-info", "no-long-plt",
    "no-lto-basic-block-address-map", "no-lto-pgo-warn-mismatch", "no-lto-unique-basic-block-section-names",
    "no-lto-validate-all-vtables-have-type-infos", "no-lto-whole-program-visibility", "no-map-whole-files",
    "no-merge-exidx-entries", "no-mmap-output-file", "no-nmagic", "no-omagic", "no-optimize-bb-jumps",
    "no-pcrel-optimize", "no-pic-executable", "no-pie", "no-pipeline-knowledge", "no-plt-localentry",
    "no-plt-static-chain", "no-plt-thread-safe", "no-posix-fallocate", "no-power10-stubs",
    "no-print-gc-sections", "no-print-icf-sections", "no-print-map-discarded", "no-quick-exit", "no-relax",
    "no-relax-gp", "no-rosegment", "no-strip-discarded", "no-stub-group-multi", "no-text-reorder",
    "no-threads", "no-tls-get-addr-optimize", "no-tls-optimize", "no-toc-optimize", "no-toc-sort",
    "no-undefined", "no-undefined-version", "no-use-android-relr-tags", "no-warn-backrefs", "no-warn-common",
    "no-warn-constructors", "no-warn-drop-version", "no-warn-execstack", "no-warn-ifunc-textrel",
    "no-warn-mismatch", "no-warn-rwx-segments", "no-warn-search-mismatch", "no-warn-shared-textrel",
    "no-warn-symbol-ordering", "no-warnings", "no-wchar-size-warning", "no-whole-archive", "noinhibit-exec",
    "non_shared", "nostdlib", "omagic", "opt-remarks-with-hotness", "opt-remarks-with_hotness",
    "optimize-bb-jumps", "pcrel-optimize", "perf", "pic-executable", "pic-veneer", "pie", "plt-align",
    "plt-localentry", "plt-static-chain", "plt-thread-safe", "pop-state", "posix-fallocate", "power10-stubs",
    "preread-archive-symbols", "print-archive-stats", "print-gc-sections", "print-icf-sections", "print-map",
    "print-map-discarded", "print-memory-usage", "print-output-format", "print-sysroot", "push-state",
    "qmagic", "quick-exit", "reduce-memory-overheads", "relax", "relax-gp", "relocatable",
    "remap-inputs-file", "repro", "reverse-sections", "rosegment", "save-temps", "secure-plt", "shared",
    "sort-common", "split-by-file", "split-by-reloc", "start-group", "start-lib", "start-stop-gc",
    "static", "stats", "strip-all", "strip-debug", "strip-debug-gdb",
    "strip-debug-non-line", "strip-discarded", "strip-lto-sections", "stub-group-multi", "target-help",
    "target1-abs", "target1-rel", "text-reorder", "thinlto-cache-dir", "thinlto-emit-imports-files",
    "thinlto-index-only", "thinlto-jobs", "thinlto-object-suffix-replace", "thinlto-prefix-replace",
    "thinlto-single-module", "time-trace", "tls-get-addr-optimize", "tls-optimize", "toc-optimize",
    "toc-sort", "traditional-format", "undefined-version", "use-android-relr-tags", "verbose",
    "version", "vs-diagnostics", "warn-alternate-em", "warn-backrefs", "warn-common", "warn-constructors",
    "warn-drop-version", "warn-execstack", "warn-ifunc-textrel", "warn-multiple-gp", "warn-once",
    "warn-rwx-segments", "warn-search-mismatch", "warn-section-align", "warn-shared-textrel",
    "warn-symbol-ordering", "warn-textrel", "warn-unresolved-symbols", "weak-unresolved-symbols",
    "whole-archive", "why-extract",
];
