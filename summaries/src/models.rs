//! Models of library functions: the effects on addresses of functions whose code is not in the link.
//!
//! A [`Model`] has all effects of a function; a function without a model may do anything. Models are looked up by provider (soname) and symbol,
//! never by a bare name, since another library or the link may define the same one. The built-in models are
//! `summaries/models/*.toml`, one file for each library with a line for each function.

mod words;

use std::collections::BTreeMap;

/// Functions of the C and C++ libraries that never return, and that compiled code calls last.
#[rustfmt::skip]
pub const NORETURN: [&str; 18] = [
    "abort", "exit", "_exit", "longjmp", "__longjmp_chk", "__stack_chk_fail", "__assert_fail", "__chk_fail",
    "__fortify_fail", "__libc_fatal", "__libc_message", "__malloc_assert", "_Unwind_Resume", "__cxa_throw",
    "__cxa_rethrow", "__cxa_bad_cast", "__cxa_throw_bad_array_new_length", "_ZSt9terminatev",
];

/// All effects of a function on addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Model {
    pub effects: Vec<Effect>,
    /// The library memory that its effects refer to.
    pub memory: MemoryIdx,
    /// It may allocate or free memory, by functions that the program may define.
    pub allocates: bool,
}

/// Memory that a library owns and hands out through several of its functions and variables: an index into
/// [`Library::memory`]. Functions that may hand out the same memory name the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MemoryIdx(pub u16);

/// An argument in a general register, from 0: rdi, rsi, rdx, rcx, r8, r9.
pub type Argument = u8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Returns memory that nothing else points to, one object a call site.
    ReturnsFresh,
    /// The same, aligned as the caller or the page size says.
    ReturnsAligned,
    /// Returns an argument, or, if not `exact`, an address at an unknown distance from it.
    Returns { argument: Argument, exact: bool },
    /// It returns anything whose address escaped.
    ReturnsUnknown,
    /// Returns an address in memory that the library owns.
    ReturnsLibrary,
    /// Returns the contents of the argument's memory.
    ReturnsContents { argument: Argument, exact: bool },
    /// Copies memory from where `from` points to where `to` points, any number of bytes, byte 0 to byte 0 if `aligned`.
    Copies { from: Source, to: Source, aligned: bool },
    /// The nodes of a list or tree: those at the arguments (a bit each), and those that their links lead to, are linked in any way.
    /// Returns one of them, or nothing.
    Relinks { arguments: u8, fields: LinkFields, returns: bool },
    /// Returns a node that links lead to from the argument, or the argument.
    ReturnsLinked { argument: Argument, fields: LinkFields },
    /// Stores an address into the memory at `to`, at `offset` bytes or, if `None`, somewhere in it.
    Stores { what: StoredAddress, to: Source, offset: Option<i64> },
    /// The library keeps it in its own memory, where the program may read it, and calls nothing there except by another
    /// effect.
    Holds(Source),
    /// The same with an address somewhere in the argument's pointee.
    HoldsWithin(Argument),
    /// Returns the contents of the library's memory.
    ReturnsHeld,
    /// Returns an address somewhere in the pointees of the library's memory.
    ReturnsWithinContentsOfHeld,
    /// Writes the contents of the argument's memory to a file, where this process may read it again.
    WritesOut(Argument),
    /// Writes bytes of the argument to a file.
    WritesValue(Argument),
    /// Stores file contents into the memory there.
    ReadsIn(Source),
    /// Returns bytes of file contents.
    ReturnsFiles,
    /// Writes arguments out as text: those from `first` on and the stack's, or, if `within`, all that the memory of the argument
    /// `first` (a `va_list`) leads to.
    Prints { first: Argument, within: bool },
    /// Stores file contents through the arguments from `first` on and the stack's, or, if `within`, through all that the memory of
    /// the argument `first` (a `va_list`) leads to.
    Scans { first: Argument, within: bool },
    /// Memory is given back to its allocator.
    Frees,
    /// Uses arguments as numbers: addresses of code among them escape. The result may be made from floating-point arguments.
    Exposes(ExposedArguments),
    /// The argument escapes to unknown code.
    Escapes(Argument),
    /// Calls an address with these arguments in its general registers, in order.
    Calls { function: Source, arguments: [PassedArgument; 3], returned: ResultUse },
}

/// The arguments that a function uses as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExposedArguments {
    General(Argument),
    /// Floating-point numbers, in the registers xmm0 to xmm2.
    Vectors,
    /// Floating-point numbers on the stack (`long double`).
    Stack,
}

/// The offsets of a node's links to others, in bytes: each is 8 bytes.
pub type LinkFields = [Option<u8>; 3];

/// An address that a modelled function finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Argument(Argument),
    /// The 8 bytes at `offset` of the memory at the argument.
    Field {
        offset: i64,
        of: Argument,
    },
}

/// An address that a modelled function stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredAddress {
    /// Somewhere in the object that the argument points to.
    Within(Argument),
    /// That many bytes after the argument's pointee.
    Place { offset: i64, argument: Argument },
    /// The 8 bytes that the argument points to.
    Contents(Argument),
    /// In memory that nothing else points to.
    Fresh,
    /// The same, aligned as the caller says.
    Aligned,
    /// In memory that the library owns.
    Library,
    /// The contents of the library's memory.
    Held,
    /// It is anything whose address has escaped.
    Unknown,
}

/// The use of a called function's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultUse {
    Dropped,
    /// The modelled function returns the result.
    Returned,
    /// The library keeps the result.
    Kept,
}

/// An argument that a modelled function passes to a function that it calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassedArgument {
    /// It is a number that is no address.
    Nothing,
    /// It is an argument of the modelled function.
    Argument(Argument),
    /// An address somewhere in the object that an argument points to.
    Within(Argument),
    /// The contents of the argument's memory.
    Contents(Argument),
    /// An address in memory that the library owns.
    Library,
    /// It is anything whose address has escaped.
    Unknown,
}

#[derive(Debug, Clone, Default)]
pub struct Library {
    pub soname: String,
    /// The models of functions, by symbol name.
    pub functions: BTreeMap<String, Model>,
    /// Variables that hold only addresses in the library's memory: which memory, by name.
    pub data: BTreeMap<String, MemoryIdx>,
    /// Names of the distinguished memories; the first is that of all others.
    pub memory: Vec<String>,
}

/// An error in a table of models.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("models of {library}: {detail}")]
pub struct ModelError {
    pub library: String,
    pub detail: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTable {
    soname: String,
    functions: BTreeMap<String, String>,
    /// Variables; `library` is the only known kind.
    #[serde(default)]
    data: BTreeMap<String, DataOwner>,
    /// Memory that is distinguished from the rest: by its name, all functions and variables that return it.
    #[serde(default)]
    memory: BTreeMap<String, Vec<String>>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum DataOwner {
    Library,
}

/// The built-in models. A test checks that they can be read.
pub fn builtin() -> Result<Vec<Library>, ModelError> {
    let tables = [
        include_str!("../models/libc.toml"),
        include_str!("../models/libgcc_s.toml"),
        include_str!("../models/libm.toml"),
        include_str!("../models/libstdcxx.toml"),
    ];
    tables.map(read).into_iter().collect()
}

pub fn read(text: &str) -> Result<Library, ModelError> {
    let table: ModelTable = toml::from_str(text)
        .map_err(|e| ModelError { library: String::new(), detail: e.message().to_owned() })?;
    let wrong = |detail: String| ModelError { library: table.soname.clone(), detail };
    let mut memory = vec!["the rest".to_owned()];
    let mut memory_of: BTreeMap<&str, MemoryIdx> = BTreeMap::new();
    for (name, members) in &table.memory {
        let idx = u16::try_from(memory.len()).map_err(|_| wrong("too many memories".to_owned()))?;
        memory.push(name.clone());
        for member in members {
            let known = table.functions.contains_key(member) || table.data.contains_key(member);
            if !known || memory_of.insert(member, MemoryIdx(idx)).is_some() {
                return Err(wrong(format!("memory `{name}`: `{member}`")));
            }
        }
    }
    let memory_of = |name: &str| memory_of.get(name).copied().unwrap_or_default();
    let mut functions = BTreeMap::new();
    for (name, words) in &table.functions {
        let allocates = words != "allocates nothing" && !words.ends_with("; allocates nothing");
        let words = words.trim_end_matches("allocates nothing");
        let effects = words.split(';').map(str::trim).filter(|w| !w.is_empty()).map(words::effect);
        let effects =
            effects.collect::<Option<Vec<Effect>>>().ok_or_else(|| wrong(format!("{name}: `{words}`")))?;
        functions.insert(name.clone(), Model { effects, memory: memory_of(name), allocates });
    }
    let data = table.data.iter().map(|(name, DataOwner::Library)| (name.clone(), memory_of(name))).collect();
    Ok(Library { functions, data, memory, soname: table.soname })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_that_come_with_the_tool() {
        let libraries = builtin().unwrap();
        let libc = libraries.iter().find(|l| l.soname == "libc.so.6").unwrap();
        assert!(libc.functions.len() > 200, "{}", libc.functions.len());
        assert_eq!(libc.functions["strlen"].effects, []);
        let copies = Effect::Copies { from: Source::Argument(1), to: Source::Argument(0), aligned: true };
        assert_eq!(libc.functions["memcpy"].effects, [copies, Effect::Returns { argument: 0, exact: true }]);
        let calls = Effect::Calls {
            function: Source::Argument(3),
            arguments: [PassedArgument::Within(0), PassedArgument::Within(0), PassedArgument::Nothing],
            returned: ResultUse::Dropped,
        };
        assert!(libc.functions["qsort"].effects.contains(&calls));
        let memory = |name: &str| libc.functions[name].memory;
        assert_eq!(memory("getenv"), libc.data["environ"]);
        assert_eq!(memory("signal"), memory("sigaction"));
        assert_ne!(memory("signal"), memory("fopen"));
        assert_eq!(memory("localtime"), MemoryIdx(0));
        assert!(!libc.functions.contains_key("dlsym"), "what has no model may do anything");
    }

    /// A function may allocate unless the table says that it allocates nothing.
    #[test]
    fn who_may_allocate() {
        let libraries = builtin().unwrap();
        let model = |name: &str| libraries.iter().find_map(|l| l.functions.get(name)).unwrap();
        for name in ["malloc", "free", "realloc", "qsort", "strcoll", "strdup", "fwrite", "snprintf", "_Znwm"]
        {
            assert!(model(name).allocates, "{name}");
        }
        for name in ["memcpy", "strlen", "__dynamic_cast", "pthread_mutex_lock"] {
            assert!(!model(name).allocates, "{name}");
        }
        let exposes = |of| Effect::Exposes(of);
        assert_eq!(model("fseek").effects, [exposes(ExposedArguments::General(1))]);
        assert_eq!(model("pow").effects, [exposes(ExposedArguments::Vectors)]);
        assert_eq!(model("powl").effects, [exposes(ExposedArguments::Stack)]);
    }

    #[test]
    fn what_is_no_table() {
        let table = |line: &str| read(&format!("soname = \"x\"\n[functions]\n{line}\n"));
        for line in [
            "f = \"returns\"",
            "f = \"returns 6\"",
            "f = \"calls\"",
            "f = \"calls field 1\"",
            "f = \"calls 0 with 1 and eats it\"",
            "f = \"stores fresh to 0 at x\"",
            "f = \"copies 1\"",
            "f = \"scans\"",
            "f = \"prints 1 to 0\"",
            "f = \"exposes\"",
            "f = \"eats 1\"",
            "f = 1",
            "f",
        ] {
            assert!(table(line).is_err(), "{line}");
        }
        for memory in ["m = [\"g\"]", "m = [\"f\", \"f\"]", "m = [\"f\"]\nn = [\"f\"]", "m = 1"] {
            assert!(table(&format!("f = \"\"\n[memory]\n{memory}")).is_err(), "{memory}");
        }
        let words = "calls field -8 of 1 with 0, unknown and keeps it; stores fresh to 2 at 16";
        let calls = Effect::Calls {
            function: Source::Field { offset: -8, of: 1 },
            arguments: [PassedArgument::Argument(0), PassedArgument::Unknown, PassedArgument::Nothing],
            returned: ResultUse::Kept,
        };
        let stores = Effect::Stores { what: StoredAddress::Fresh, to: Source::Argument(2), offset: Some(16) };
        assert_eq!(table(&format!("f = \"{words}\"")).unwrap().functions["f"].effects, [calls, stores]);
    }
}
