//! The options of lld, GNU ld, gold, mold and wild: which take their value from the next word, which exist.
//!
//! The tables are from the help texts of the first four, and checked with each: `LINKER --trace --NAME file.o` names the file as an
//! input if the option takes no value. wild's are from libwild/src/args/elf.rs; other options are errors there. A wrong table would
//! take the value of an option for an input. The flags are needed because a single dash may begin a short option with a joined
//! value: `-export-dynamic` is no `-e xport-dynamic`, but for lld `-export-dynamic-symbol` is one.

use crate::config::Flavor;

type Linkers = u8;

const LLD: Linkers = 1;
const BFD: Linkers = 2;
const GOLD: Linkers = 4;
const MOLD: Linkers = 8;
const WILD: Linkers = 16;

fn bit(flavor: Flavor) -> Linkers {
    match flavor {
        Flavor::Lld => LLD,
        Flavor::Bfd => BFD,
        Flavor::Gold => GOLD,
        Flavor::Mold => MOLD,
        Flavor::Wild => WILD,
    }
}

/// The number of words of a long option.
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
    let of_some = VALUES_OF.iter().find(|(n, _)| *n == name).map_or(0, |(_, linkers)| *linkers);
    if of_some & bit(flavor) != 0 || VALUES.binary_search(&name).is_ok() {
        return Some(Arity::Value);
    }
    names().any(|n| n == name).then_some(Arity::Flag)
}

/// The long options of all linkers.
fn names() -> impl Iterator<Item = &'static str> {
    VALUES.iter().chain(FLAGS).copied().chain(VALUES_OF.iter().map(|(name, _)| *name))
}

/// Whether GNU ld may complete `name` to a longer option, as `getopt_long_only` does.
pub(super) fn is_prefix(flavor: Flavor, name: &str, single_dash: bool) -> bool {
    let mut names = names();
    let is_completed = |n: &str| n.starts_with(name) && !(single_dash && two_dashes(n) & BFD != 0);
    flavor == Flavor::Bfd
        && name.len() > 1
        && long(flavor, name, single_dash).is_none()
        && names.any(is_completed)
}

/// Whether `name` is no option, and may abbreviate the option `full`: GNU ld and gold complete unique prefixes.
pub(crate) fn may_abbreviate(name: &str, full: &str) -> bool {
    full.starts_with(name) && !names().any(|n| n == name)
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
    TWO_DASHES.iter().find(|(n, _)| *n == name).map_or(0, |(_, linkers)| *linkers)
}

/// Options whose value may be the next word.
#[rustfmt::skip]
const VALUES: &[&str] = &[
    "Map", "Tbss", "Tdata", "Tldata-segment", "Trodata-segment", "Ttext", "Ttext-segment",
    "android-memtag-mode", "architecture", "assert", "audit", "auxiliary", "build-id-chunk-size-for-treehash",
    "build-id-min-file-size-for-treehash", "call-graph-ordering-file", "chroot", "compress-debug-sections",
    "compress-sections", "ctf-share-types", "dT", "debug", "default-script", "defsym", "depaudit",
    "dependency-file", "directory", "dynamic-linker", "dynamic-list", "entry", "error-handling-script",
    "error-limit", "exclude-libs", "export-dynamic-symbol", "export-dynamic-symbol-list", "filter", "fini",
    "flto-partition", "format", "fuse-ld", "gpsize", "hash-bucket-empty-fraction", "hash-size", "hash-style",
    "icf", "icf-iterations", "ignore-unresolved-symbol", "image-base", "in-implib", "incremental-base",
    "incremental-patch", "init", "just-symbols", "keep-unique", "library", "library-path", "load-pass-plugin",
    "lto-cs-profile-file", "lto-known-safe-vtables", "lto-obj-path", "lto-partitions", "lto-sample-profile",
    "max-cache-size", "mllvm", "mri-script", "oformat", "opt-remarks-filename", "opt-remarks-format",
    "opt-remarks-hotness-threshold", "opt-remarks-passes", "optimize", "orphan-handling", "out-implib",
    "output", "pack-dyn-relocs", "physical-image-base", "plugin", "plugin-opt", "print-symbol-counts",
    "print-symbol-order", "remap-inputs", "reproduce", "require-defined", "retain-symbols-file",
    "rosegment-gap", "rpath", "rpath-link", "rsp-quoting", "script", "section-ordering-file", "section-start",
    "separate-debug-file", "soname", "sort-section", "spare-dynamic-tags", "split-stack-adjust-size",
    "stub-group-size", "symbol-ordering-file", "sysroot", "target2", "task-link", "thinlto-cache-policy",
    "thread-count", "thread-count-final", "thread-count-initial", "thread-count-middle",
    "time-trace-granularity", "trace-symbol", "undefined", "undefined-glob", "unresolved-symbols",
    "version-exports-section", "version-script", "warn-backrefs-exclude", "why-live", "wrap",
];

/// Options whose value may be the next word for some linkers. To the others they are flags.
#[rustfmt::skip]
const VALUES_OF: &[(&str, Linkers)] = &[
    ("debug-fuel", WILD), ("dtlto-compiler", LLD), ("dtlto-distributor", LLD), ("gc-stats-ignore", WILD),
    ("package-metadata", MOLD), ("shuffle-sections", LLD),
    ("sym-info", WILD), ("threads", LLD), ("trace", WILD), ("unique", MOLD), ("wild-experiments", WILD),
    ("write-gc-stats", WILD),
];

/// Linkers take these options with two dashes only.
#[rustfmt::skip]
const TWO_DASHES: &[(&str, Linkers)] = &[
    ("entry", MOLD), ("error-handling-script", LLD), ("error-limit", LLD), ("execute-only", LLD),
    ("export-dynamic-symbol", LLD | BFD | MOLD), ("export-dynamic-symbol-list", LLD | BFD | GOLD | MOLD),
    ("fat-lto-objects", LLD), ("force-group-allocation", LLD), ("fortran-common", LLD),
    ("library", BFD | MOLD), ("library-path", BFD), ("oformat", LLD | BFD | GOLD | MOLD),
    ("omagic", LLD | BFD | MOLD), ("opt-remarks-filename", LLD | MOLD), ("opt-remarks-format", LLD | MOLD),
    ("opt-remarks-hotness-threshold", LLD | MOLD), ("opt-remarks-passes", LLD | MOLD),
    ("opt-remarks-with-hotness", LLD), ("optimize-bb-jumps", LLD), ("orphan-handling", MOLD | WILD),
    ("out-implib", LLD | MOLD), ("output", LLD | BFD | MOLD), ("undefined", MOLD), ("undefined-glob", LLD),
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
