//! What LLVM's own called value propagation resolves of the same sources, as one module.
//!
//! `build.sh --bitcode` compiles them by clang as for full LTO. Here the modules are linked, everything but `main` is made
//! internal, and the passes run that full LTO runs up to that one. Counted are calls and invokes of a value that is no
//! function, in the text of the module, and those of them with `!callees`.
//! Left out: Rust, whose standard library comes without bitcode of this version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::corpus::Corpus;
use crate::process::run_ok;

/// So many functions a value is what the pass tells apart: no bound.
pub(crate) const UNLIMITED: &str = "-cvp-max-functions-per-value=1000000";

pub(super) const PASSES: &str = "internalize,globaldce,ipsccp,called-value-propagation";

/// Indirect calls of one program, by LLVM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Llvm {
    pub(super) sites: usize,
    /// Sites resolved with the option's default, four functions a value at most.
    pub(super) resolved: usize,
    /// Sites resolved with no bound to speak of.
    pub(super) unlimited: usize,
}

/// Run LLVM on a program; `None` if it has no bitcode.
///
/// # Errors
/// If a tool fails.
pub(super) fn resolve(corpus: &Corpus, program: &str) -> Result<Option<Llvm>> {
    let dir = corpus.root.join("work/obj").join(program).join("clang-bitcode");
    let modules = modules(&dir)?;
    if modules.is_empty() {
        return Ok(None);
    }
    let scratch = corpus.scratch(&format!("llvm/{program}"))?;
    let whole = scratch.join("whole.bc");
    run_ok(Command::new("llvm-link-19").args(modules).arg("-o").arg(&whole), &scratch)?;
    let count = |name: &str, options: &[&str]| -> Result<(usize, usize)> {
        let text = scratch.join(name);
        let mut opt = Command::new("opt-19");
        opt.arg(format!("-passes={PASSES}")).arg("-internalize-public-api-list=main").args(options);
        run_ok(opt.args(["-S", "-o"]).args([&text, &whole]), &scratch)?;
        Ok(indirect_calls(&fs::read_to_string(text)?))
    };
    let (sites, resolved) = count("four.ll", &[])?;
    let (_, unlimited) = count("unlimited.ll", &[UNLIMITED])?;
    Ok(Some(Llvm { sites, resolved, unlimited }))
}

/// Files of bitcode in a folder; assembly is none.
fn modules(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    if !dir.join("ld.args").exists() {
        return Ok(out);
    }
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "o") && fs::read(&path)?.starts_with(b"BC\xc0\xde") {
            out.push(path);
        }
    }
    out.sort();
    Ok(out)
}

/// Calls of something that is no function, and those with `!callees`, in a module's text.
fn indirect_calls(text: &str) -> (usize, usize) {
    let mut all = 0;
    let mut resolved = 0;
    for line in text.lines() {
        if !line.starts_with(' ') {
            continue;
        }
        all += usize::from(is_indirect_call(line));
        // An invoke's is in its second line.
        resolved += usize::from(line.contains(", !callees !"));
    }
    (all, resolved)
}

/// The callee is the first name with an open parenthesis after it.
pub(crate) fn is_indirect_call(line: &str) -> bool {
    // `%x = tail call`, `call`, `invoke`: the instruction's name comes before its operands.
    let text = line.trim_start();
    let text =
        text.split_once(" = ").filter(|(name, _)| name.starts_with('%')).map_or(text, |(_, rest)| rest);
    let start = ["tail ", "musttail ", "notail "].iter().find_map(|p| text.strip_prefix(p)).unwrap_or(text);
    let Some(mut rest) = start.strip_prefix("call ").or_else(|| start.strip_prefix("invoke ")) else {
        return false;
    };
    if rest.contains(" asm ") {
        return false;
    }
    while let Some(at) = rest.find(['%', '@']) {
        let local = rest[at..].starts_with('%');
        let name = &rest[at + 1..];
        let end = match name.strip_prefix('"') {
            Some(quoted) => quoted.find('"').map_or(name.len(), |e| e + 2),
            None => {
                let inside = |c: char| c.is_ascii_alphanumeric() || "-$._".contains(c);
                name.find(|c| !inside(c)).unwrap_or(name.len())
            }
        };
        if name[end..].starts_with('(') {
            return local;
        }
        rest = &name[end..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indirect_calls_are_told_from_direct_ones() {
        let text = "\
define i32 @f(ptr %0) {
  %2 = tail call i32 %0(i32 noundef 1) #3, !callees !7
  %3 = call noundef align 8 dereferenceable(32) ptr %2(ptr nonnull %0)
  call void (ptr, ...) @printf(ptr @s)
  call void (ptr, ...) %3(ptr @s)
  %4 = invoke %struct.a @\"g h\"(ptr %3)
  %5 = invoke %struct.a %\"g h\"(ptr %3)
          to label %7 unwind label %8, !callees !9
  %6 = call i64 asm sideeffect \"call $0\", \"r\"(ptr %3)
  store ptr @call, ptr %3
}
";
        assert_eq!(indirect_calls(text), (4, 2));
    }
}
