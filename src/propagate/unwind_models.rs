//! Models of library functions for unwinding: which start one, read the unwind tables, or may do either.
//!
//! A listed name counts for every definition of it, which only keeps more. Only the C library, the runtimes of gcc and LLVM, and
//! libraries without such imports are trusted to do none of it.

use std::path::Path;

use rustc_hash::FxHashSet;
use summaries::{Definition, ModuleSummary};

use crate::config::Config;
use crate::error::lossy;
use crate::ids::{DsoId, ModuleId};
use crate::index::{Index, LinkInputs, RootReason};
use crate::inputs::dso::{CXX_LIBRARIES, is_known};
use crate::inputs::{DsoSymbol, Inputs};
use crate::resolve::{GlobalSymbol, Prevailing, Resolution, symbols_of};

/// A set of kinds of unwinding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Kinds(pub(super) u8);

impl Kinds {
    /// A search for a handler, then cleanups up to it.
    pub(super) const THROW: Kinds = Kinds(1);
    /// Cleanups up to the end of a thread: `pthread_exit`, cancellation.
    pub(super) const FORCED: Kinds = Kinds(2);
    /// A walk over the frames that runs nothing.
    pub(super) const TRACE: Kinds = Kinds(4);
}

/// The effect of a reference to a symbol on unwinding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnwindRole {
    /// A call of it may start an unwinding of these kinds.
    Start(Kinds),
    /// A function of a C++ library, which may throw. In data: a class inherits from one of the library, which may call it.
    Cxx,
    /// A variable of a C++ library: a vtable or a type.
    CxxData,
    /// It reads the tables, or brings code into the process that is not in the link.
    Unknown(&'static str),
}

const READER: &str = "which finds the unwind tables";
const SPLITTER: &str = "which calls back its caller on another stack";
const INITIALISER: &str = "which calls initialisers where it may have a handler";
const PATCHED: &str = "which lists functions whose first instructions may be exchanged as the program runs";
const LOADER: &str = "which brings in code that may throw through any function";

/// Names by the kinds of unwinding that they start.
type Starts = [(Kinds, &'static [&'static str])];

/// Functions of the unwinder; all other starts call one of these.
#[rustfmt::skip]
const PRIMITIVES: &Starts = &[
    (Kinds::THROW, &["_Unwind_RaiseException", "_Unwind_Resume_or_Rethrow"]),
    (Kinds::FORCED, &["_Unwind_ForcedUnwind"]),
    (Kinds::TRACE, &["_Unwind_Backtrace", "unw_step", "_Ux86_64_step", "_ULx86_64_step"]),
];

/// Functions of libraries that call one of [`PRIMITIVES`].
#[rustfmt::skip]
const STARTS: &Starts = &[
    (Kinds::THROW, &[
        "__cxa_throw", "__cxa_rethrow", "__cxa_bad_cast", "__cxa_bad_typeid", "__cxa_throw_bad_array_new_length",
        "__rust_start_panic",
    ]),
    (Kinds::FORCED, &[
        "pthread_exit", "thrd_exit", "pthread_testcancel", "__pthread_unwind", "__pthread_unwind_next", "pthread_cancel",
    ]),
    (Kinds::TRACE, &["backtrace", "__backtrace", "unw_backtrace"]),
];

/// Functions of the C++ runtime that do not throw, among them those that only end the program.
#[rustfmt::skip]
const QUIET_CXX: &[&str] = &[
    "__cxa_allocate_exception", "__cxa_begin_catch", "__cxa_call_terminate", "__cxa_deleted_virtual", "__cxa_end_catch",
    "__cxa_free_exception", "__cxa_get_exception_ptr", "__cxa_guard_abort", "__cxa_guard_release", "__cxa_pure_virtual",
    "__gxx_personality_v0", "_ZSt9terminatev",
];

/// Parts of names: classes of the C++ library whose only virtual functions are destructors. The library destroys no object of the program.
#[rustfmt::skip]
const WITHOUT_FUNCTIONS: &[&str] = &[
    "8ios_base", "9basic_ios", "13basic_fstream", "13basic_istream", "13basic_ostream", "14basic_ifstream",
    "14basic_iostream", "14basic_ofstream", "18basic_stringstream", "19basic_istringstream", "19basic_ostringstream",
];

/// Functions of [`QUIET_CXX`] that call nothing of the program. The others may run a terminate handler or a destructor.
#[rustfmt::skip]
const CALL_NOTHING_CXX: &[&str] = &[
    "__cxa_begin_catch", "__cxa_free_exception", "__cxa_get_exception_ptr", "__cxa_guard_abort", "__cxa_guard_release",
];

/// Functions of the C library with names of the C++ ABI.
const QUIET_C_OF_CXX: &[&str] =
    &["__cxa_atexit", "__cxa_finalize", "__cxa_at_quick_exit", "__cxa_thread_atexit_impl"];

/// Parts of names: functions of the C++ library that take a callback, which they call while they have a handler.
#[rustfmt::skip]
const CXX_CALLBACKS: &[&str] = &[
    "__cxa_vec_", "new_handler", "register_callback", "set_terminate", "set_unexpected", "terminate_handler",
    "unexpected_handler",
];

/// Names of functions that make code of the program run whenever other code is interrupted or allocates memory (glibc before 2.34).
#[rustfmt::skip]
pub(super) const INTERRUPTING: &[&str] = &[
    "__free_hook", "__malloc_hook", "__memalign_hook", "__realloc_hook", "__bsd_signal", "__libc_sigaction",
    "__pthread_cancel", "__sigaction", "__sysv_signal", "bsd_signal", "pthread_cancel", "sigaction", "signal", "sigset",
    "sigvec", "ssignal", "sysv_signal", "syscall",
];

/// Functions that cancel a thread or end the calling thread. Only these make the C library force an unwinding: a cancellation point acts
/// only if `pthread_cancel` marked the thread.
pub(super) const THREAD_ENDS: &[&str] =
    &["__pthread_cancel", "__pthread_exit", "pthread_cancel", "pthread_exit", "thrd_exit"];

/// Functions of the C library that call nothing of the program, not even its allocator; sorted.
#[rustfmt::skip]
const QUIET_C: &[&str] = &[
    "__ctype_b_loc", "__ctype_tolower_loc", "__ctype_toupper_loc", "__errno_location", "__stack_chk_fail", "_exit",
    "abort", "abs", "bcmp", "bzero", "calloc", "clock_gettime", "free", "getpid", "gettimeofday", "labs", "malloc",
    "memchr", "memcmp", "memcpy", "memmove", "mempcpy", "memrchr", "memset", "rawmemchr", "realloc", "stpcpy",
    "strcasecmp", "strcat", "strchr", "strchrnul", "strcmp", "strcpy", "strcspn", "strlen", "strncasecmp", "strncat",
    "strncmp", "strncpy", "strnlen", "strpbrk", "strrchr", "strspn", "strstr", "time", "tolower", "toupper",
];

/// Names of functions and sections that locate the unwind tables.
#[rustfmt::skip]
const READERS: &[&str] = &[
    "dl_iterate_phdr", "_dl_find_object", "_Unwind_FindEnclosingFunction", "_Unwind_Find_FDE", "__GNU_EH_FRAME_HDR",
    "__EH_FRAME_BEGIN__", "__ehdr_start", "__executable_start", "unw_get_proc_info", "_Ux86_64_get_proc_info",
    "_ULx86_64_get_proc_info",
];
const READER_PREFIXES: &[&str] =
    &["__register_frame", "__deregister_frame", "__unw_add_dynamic", "__eh_frame"];

/// Personality routines that do nothing for a function without an LSDA.
const PERSONALITIES: &[&str] = &["__gxx_personality_v0", "__gcc_personality_v0", "rust_eh_personality"];
/// The one whose LSDAs have cleanups and no handlers.
const C_PERSONALITY: &str = "__gcc_personality_v0";

/// Archives and start files that use the unwind tables and load libraries for purposes that are known.
const RUNTIME_ARCHIVES: &[&str] = &["libc.a", "libgcc.a", "libgcc_eh.a"];
const START_FILES: &[&str] =
    &["clang_rt.crtbegin-x86_64.o", "clang_rt.crtbegin.o", "crtbegin.o", "crtbeginS.o", "crtbeginT.o"];
/// Start files whose code calls `main`, or has the C library call it.
const ENTRY_FILES: &[&str] = &["Mcrt1.o", "Scrt1.o", "crt1.o", "gcrt1.o", "grcrt1.o", "rcrt1.o"];
/// A walk in which a function of the caller looks at each frame.
pub(super) const FORCED_UNWIND: &[u8] = b"_Unwind_ForcedUnwind";
const UNWINDER_ARCHIVE: &str = "libgcc_eh.a";
const C_ARCHIVE: &str = "libc.a";

/// Sections that list places in functions at which tracers write calls (`-fpatchable-function-entry`, `-mrecord-mcount`, `-fxray-instrument`).
const PATCHED_SECTIONS: &[&[u8]] = &[b"__mcount_loc", b"__patchable_function_entries", b"xray_instr_map"];

/// The role of a reference from a section that lists places of code for tracers.
pub(super) fn role_of_section(name: &[u8]) -> Option<UnwindRole> {
    PATCHED_SECTIONS.contains(&name).then_some(UnwindRole::Unknown(PATCHED))
}

/// A name without its version (`name@VERSION`).
pub(super) fn unversioned(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == b'@').next().unwrap_or(name)
}

/// The effect of a reference to this symbol, if any.
pub(super) fn role(config: &Config, inputs: &Inputs, symbol: &GlobalSymbol<'_>) -> Option<UnwindRole> {
    let name = std::str::from_utf8(unversioned(symbol.name)).ok()?;
    if let Some(what) = unknown(name) {
        return Some(UnwindRole::Unknown(what));
    }
    if let Some(kinds) = listed(PRIMITIVES, name) {
        return Some(UnwindRole::Start(kinds));
    }
    match symbol.prevailing {
        // Its code is in the link.
        Prevailing::Module { .. } => return None,
        Prevailing::Undefined { weak: true } if config.static_link => return None,
        Prevailing::Dso(dso) if CXX_LIBRARIES.contains(&inputs.dso_name(dso)) => {
            let is_data = ["_ZTV", "_ZTI", "_ZTS", "_ZTT"].iter().any(|start| name.starts_with(start));
            let is_unwinding = !is_quiet_cxx(name) && !name.starts_with("_ZTVN10__cxxabiv1");
            return is_unwinding.then_some(if is_data { UnwindRole::CxxData } else { UnwindRole::Cxx });
        }
        _ => {}
    }
    start(name).map(UnwindRole::Start)
}

/// The size in bytes of the vtable of a C++ library's class whose functions the program may inherit.
/// The symbol is the vtable, or a constructor or destructor for a base.
pub(super) fn base_table_size(inputs: &Inputs, symbol: &GlobalSymbol<'_>) -> Option<u64> {
    let name = std::str::from_utf8(unversioned(symbol.name)).ok()?;
    let of_member = || {
        let member = name.strip_prefix("_ZN")?;
        member.strip_suffix("D2Ev").or_else(|| member.split_once("C2E").map(|(class, _)| class))
    };
    let class = name.strip_prefix("_ZTV").or_else(of_member)?;
    let own = ["NSt7__cxx11", "St7__cxx11", "St"].iter().find_map(|scope| class.strip_prefix(scope));
    if own.is_some_and(|own| WITHOUT_FUNCTIONS.iter().any(|without| own.starts_with(without))) {
        return None;
    }
    let Prevailing::Dso(dso) = symbol.prevailing else { return None };
    let tables = [format!("_ZTV{class}"), format!("_ZTVN{class}E")];
    let is_table =
        |own: &&DsoSymbol| own.defined && tables.iter().any(|table| table.as_bytes() == &*own.name);
    inputs.dsos[dso].symbols.iter().find(is_table).map(|table| table.size)
}

/// Whether a function of a C++ library throws nothing and calls nothing of the program.
fn is_quiet_cxx(name: &str) -> bool {
    QUIET_CXX.contains(&name) || name.starts_with("_ZdlPv") || name.starts_with("_ZdaPv")
}

fn listed(table: &Starts, name: &str) -> Option<Kinds> {
    table.iter().find(|(_, names)| names.contains(&name)).map(|(kinds, _)| *kinds)
}

/// The kinds of unwinding that a function of this name may start.
pub(super) fn start(name: &str) -> Option<Kinds> {
    let throws = || {
        let allocates = name.starts_with("_Znw") || name.starts_with("_Zna");
        allocates
            || name.starts_with("_ZSt") && (name.contains("__throw_") || name.contains("rethrow_exception"))
    };
    let starts = listed(PRIMITIVES, name).or_else(|| listed(STARTS, name));
    starts.or_else(|| throws().then_some(Kinds::THROW))
}

/// A function that starts an unwinding or makes it unknown, and that an option or a script may give another name.
pub(super) fn renamed(config: &Config, inputs: &Inputs) -> Option<String> {
    let of_line = config.defsym.iter().flat_map(|defsym| symbols_of(&defsym.expression));
    let of_scripts = inputs.scripts.referenced_symbols.iter().map(String::as_str);
    let is_relevant =
        |name: &&str| start(name).is_some() || unknown(name).is_some() || INTERRUPTING.contains(name);
    let name = of_line.chain(of_scripts).find(is_relevant)?;
    Some(format!("{name} may have another name by --defsym or a script"))
}

/// Why unwinding is unknown if anything refers to this name.
fn unknown(name: &str) -> Option<&'static str> {
    let reads = READERS.contains(&name) || READER_PREFIXES.iter().any(|start| name.starts_with(start));
    match name {
        _ if reads => Some(READER),
        _ if name.starts_with("__morestack") => Some(SPLITTER),
        "__init_array_start" | "__preinit_array_start" | "__fini_array_start" => Some(INITIALISER),
        "dlopen" | "dlmopen" | "dlsym" | "dlvsym" | "__libc_dlopen_mode" => Some(LOADER),
        _ => None,
    }
}

/// The kinds for which functions with these personality routines may have a handler.
pub(super) fn handled<'n>(personalities: impl Iterator<Item = &'n [u8]>, has_lsda: bool) -> Kinds {
    let both = Kinds(Kinds::THROW.0 | Kinds::FORCED.0);
    let mut kinds = Kinds::default();
    for name in personalities {
        let name = std::str::from_utf8(name).unwrap_or_default();
        let name = name.strip_prefix("DW.ref.").unwrap_or(name);
        kinds.0 |= match () {
            () if !PERSONALITIES.contains(&name) => both.0,
            () if !has_lsda => 0,
            () if name == C_PERSONALITY => Kinds::FORCED.0,
            () => both.0,
        };
    }
    kinds
}

/// Whether a module is of the C library or of gcc's unwinder, or a start file that registers unwind tables.
pub(super) fn is_runtime(inputs: &Inputs, module: ModuleId) -> bool {
    match archive_name(inputs, module) {
        Some(archive) => RUNTIME_ARCHIVES.contains(&archive),
        None => is_file_of(inputs, module, START_FILES),
    }
}

/// Whether a module is a start file that gives `main` to the C library.
pub(super) fn is_entry_file(inputs: &Inputs, module: ModuleId) -> bool {
    archive_name(inputs, module).is_none() && is_file_of(inputs, module, ENTRY_FILES)
}

fn is_file_of(inputs: &Inputs, module: ModuleId, names: &[&str]) -> bool {
    let path = &inputs.files[inputs.modules[module].file].path;
    name_of_system_file(path).is_some_and(|name| names.contains(&name))
}

/// The name of a file that came with the system or the compiler, by its folder; a file of another folder may have its name.
fn name_of_system_file(path: &Path) -> Option<&str> {
    let is_of_system = ["/usr", "/lib", "/lib64", "/opt"].iter().any(|folder| path.starts_with(folder));
    let is_of_compiler =
        || path.to_str().is_some_and(|path| path.starts_with('/') && path.contains("/lib/gcc/"));
    path.file_name()?.to_str().filter(|_| is_of_system || is_of_compiler())
}

/// Whether a module is of an unwinder, which begins with its own frames.
pub(super) fn is_unwinder(inputs: &Inputs, module: ModuleId, summary: &ModuleSummary) -> bool {
    let defines = |symbol: &summaries::Symbol| {
        let name = unversioned(summary.name(symbol.name));
        matches!(symbol.definition, Definition::Atom(_))
            && std::str::from_utf8(name).is_ok_and(|name| listed(PRIMITIVES, name).is_some())
    };
    archive_name(inputs, module) == Some(UNWINDER_ARCHIVE) || summary.symbols.iter().any(defines)
}

fn archive_name(inputs: &Inputs, module: ModuleId) -> Option<&str> {
    let (archive, _) = inputs.modules[module].archive.as_ref()?;
    name_of_system_file(&inputs.files[*archive].path)
}

/// The kinds for which a library may have a handler while it calls back. `overrides`: a class of the program inherits from one of a C++ library.
pub(super) fn handled_by_libraries(inputs: &Inputs, resolution: &Resolution<'_>, overrides: bool) -> Kinds {
    let taken = || inputs.dsos.enumerated().filter(|(id, _)| resolution.dsos[*id].taken);
    let cxx = taken().any(|(id, _)| CXX_LIBRARIES.contains(&inputs.dso_name(id)));
    let forced = if taken().next().is_some() { Kinds::FORCED.0 } else { 0 };
    Kinds(forced | if cxx && overrides { Kinds::THROW.0 } else { 0 })
}

/// The names that the C++ libraries of the process import or define. They may call such a function of the program below a handler of theirs.
pub(super) fn names_of_cxx_libraries(inputs: &Inputs) -> FxHashSet<&[u8]> {
    let is_cxx = |name: &str| CXX_LIBRARIES.contains(&name);
    let of_line = inputs.dsos.enumerated().filter(|(id, _)| is_cxx(inputs.dso_name(*id)));
    let needed = inputs.needed_dsos.iter().filter(|dso| is_cxx(&dso.name));
    let of_line = of_line.flat_map(|(_, dso)| &dso.symbols);
    of_line.chain(needed.filter_map(|dso| dso.symbols.as_ref()).flatten()).map(|s| s.name.as_ref()).collect()
}

/// A library of the process that may start an unwinding, and why.
pub(super) fn unknown_library(inputs: &Inputs, resolution: &Resolution<'_>) -> Option<String> {
    // A library without references may be needed by another one.
    let is_needed = |name: &str| inputs.dsos.iter().any(|dso| dso.needed.iter().any(|needed| needed == name));
    let is_loaded = |id: DsoId| resolution.dsos[id].taken || is_needed(inputs.dso_name(id));
    let of_line = inputs.dsos.enumerated().filter(|(id, _)| is_loaded(*id));
    let of_line = of_line.map(|(id, dso)| (inputs.dso_name(id), dso.stands_in, Some(&dso.symbols)));
    let needed =
        inputs.needed_dsos.iter().map(|dso| (dso.name.as_str(), dso.stands_in, dso.symbols.as_ref()));
    of_line.chain(needed).find_map(|(name, stands_in, symbols)| {
        // A C++ library is known only if the functions that it calls by name are known.
        if is_known(name) && (symbols.is_some() || !CXX_LIBRARIES.contains(&name)) {
            return None;
        }
        let Some(symbols) = symbols else { return Some(format!("{name} is not found")) };
        if stands_in {
            return Some(format!("the code of another library may run in place of {name}"));
        }
        let import = symbols.iter().find_map(unwinding_import)?;
        Some(format!("{name} imports {import}"))
    })
}

/// Whether a reference to a symbol that no module defines leads to no code of the program.
pub(super) fn calls_nothing(config: &Config, inputs: &Inputs, symbol: &GlobalSymbol<'_>) -> bool {
    let name = std::str::from_utf8(symbol.name).unwrap_or_default();
    match symbol.prevailing {
        Prevailing::Dso(dso) => match inputs.dso_name(dso) {
            "libc.so.6" => QUIET_C.binary_search(&name).is_ok(),
            "libm.so.6" => true,
            library => {
                CXX_LIBRARIES.contains(&library)
                    && (CALL_NOTHING_CXX.contains(&name) || name.starts_with("_ZT"))
            }
        },
        Prevailing::Undefined { weak } => weak && config.static_link,
        Prevailing::Linker => name == "_GLOBAL_OFFSET_TABLE_",
        Prevailing::Module { .. } => true,
    }
}

/// Whether a name is in such a list.
pub(super) fn is_one_of(names: &[&str], name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| names.contains(&name))
}

/// Whether one of [`THREAD_ENDS`] is a root for another reason than that an object declares it.
pub(super) fn is_thread_end_a_root(link: LinkInputs<'_>, index: &Index) -> bool {
    let roots = index.roots.iter().filter(|root| root.reason != RootReason::Declared);
    roots.map(|root| index.locate(root.atom)).any(|(position, local)| {
        let summary = link.summaries[position];
        let mut of_atom = summary.symbols.iter().filter(|s| s.definition == Definition::Atom(local));
        of_atom.any(|symbol| is_one_of(THREAD_ENDS, unversioned(summary.name(symbol.name))))
    })
}

/// Whether a module is of the C library in a static link.
pub(super) fn is_c_library(inputs: &Inputs, module: ModuleId) -> bool {
    archive_name(inputs, module) == Some(C_ARCHIVE)
}

/// Whether a library of the process imports one of [`INTERRUPTING`].
pub(super) fn library_interrupts(inputs: &Inputs, resolution: &Resolution<'_>) -> bool {
    let taken = inputs.dsos.enumerated().filter(|(id, _)| resolution.dsos[*id].taken);
    let of_line = taken.filter(|(id, _)| !is_known(inputs.dso_name(*id))).map(|(_, dso)| &dso.symbols);
    let mut symbols =
        of_line.chain(inputs.needed_dsos.iter().filter_map(|dso| dso.symbols.as_ref())).flatten();
    symbols.any(|symbol| !symbol.defined && is_one_of(INTERRUPTING, &symbol.name))
}

/// Whether the C++ library keeps the argument of this function of it, and calls it while it has a handler.
pub(super) fn takes_callback(name: &[u8]) -> bool {
    let name = lossy(name);
    CXX_CALLBACKS.iter().any(|part| name.contains(part))
}

/// The name of an import that may start an unwinding, catch one, read the tables or load libraries.
fn unwinding_import(symbol: &DsoSymbol) -> Option<&str> {
    let name = std::str::from_utf8(&symbol.name).ok().filter(|_| !symbol.defined)?;
    // Each function of a C++ library may throw or take a callback.
    let is_cxx = || name.starts_with("_Z") && !name.starts_with("_ZT") && !is_quiet_cxx(name);
    let is_of_unwinder = || name.starts_with("_Unwind_") && name != "_Unwind_Resume";
    let is_of_runtime =
        || name.starts_with("__cxa_") && !is_quiet_cxx(name) && !QUIET_C_OF_CXX.contains(&name);
    let tells = start(name).is_some() || unknown(name).is_some() || PERSONALITIES.contains(&name);
    (tells || is_cxx() || is_of_unwinder() || is_of_runtime()).then_some(name)
}

/// A script on the line that names the unwind tables and so may place or change them.
pub(super) fn script_with_tables(inputs: &Inputs) -> Option<String> {
    let names =
        |file: &&crate::ids::FileId| inputs.files[**file].bytes.windows(8).any(|bytes| bytes == b"eh_frame");
    let file = inputs.opened.iter().find(names)?;
    Some(inputs.files[*file].path.display().to_string())
}
