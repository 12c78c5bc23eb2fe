//! Programs by csmith: arithmetic, structures and pointers in shapes that nobody would write.
//!
//! Everything that csmith generates is static and called, so nothing of it would be dead. Two programs are therefore put in
//! one unit, the second with its names changed: its main is a global function that nobody calls, so it is all dead
//! code in the sections of the first. In half of the programs `static` is defined away besides, which leaves the
//! helpers of csmith's own headers, some hundred functions, as globals that are hardly used.

use std::path::Path;
use std::process::Command;

use super::program::{SoakProgram, Unit};
use super::rng::Rng;

use crate::Result;

/// Where Debian's libcsmith-dev puts the headers that generated programs include.
const HEADERS: &str = "-I/usr/include/csmith";

fn csmith(seed: u64, rng: &mut Rng, scratch: &Path) -> Result<String> {
    let mut command = Command::new("csmith");
    // It leaves a file where it runs.
    command.current_dir(scratch);
    command.arg("--seed").arg(seed.to_string());
    // Small ones: many programs find more than large ones.
    command.args(["--max-funcs", &rng.range(4, 12).to_string()]);
    command.args(["--max-block-depth", "3", "--max-expr-complexity", &rng.range(3, 8).to_string()]);
    command.args(["--inline-function", "--concise"]);
    if rng.one_in(3) {
        command.arg("--float");
    }
    let output = command.output().map_err(|e| format!("csmith: {e}; it is a package of Debian"))?;
    if !output.status.success() {
        return Err(format!("csmith --seed {seed}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The text with every generated name of file scope, and main, changed.
fn renamed(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word: &str = if first.is_ascii_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            rest.get(..end).unwrap_or(rest)
        } else {
            rest.get(..first.len_utf8()).unwrap_or(rest)
        };
        let numbered = |prefix: &str| {
            word.strip_prefix(prefix).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        if numbered("func_") || numbered("g_") || numbered("S") || numbered("U") || word == "main" {
            out.push_str("dead_");
        }
        out.push_str(word);
        rest = rest.get(word.len()..).unwrap_or("");
    }
    out
}

/// The program of a seed.
///
/// # Errors
/// If csmith isn't there, or fails.
pub(crate) fn generate(seed: u64, scratch: &Path) -> Result<SoakProgram> {
    let mut rng = Rng::new(seed, 9);
    let live = csmith(seed, &mut rng, scratch)?;
    let dead = renamed(&csmith(seed.wrapping_add(1 << 40), &mut rng, scratch)?);
    let text = if rng.one_in(2) { format!("{live}\n{dead}") } else { format!("{dead}\n{live}") };
    let mut flags = vec![HEADERS.to_owned()];
    if rng.one_in(2) {
        // gnu89: an inline function is defined where it is written.
        flags.extend(["-Dstatic=", "-fgnu89-inline"].map(str::to_owned));
    }
    let mut program = SoakProgram::new(vec![Unit::new("u0".into(), text, false)], 0);
    program.flags = flags;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_changed_and_nothing_else() {
        let text =
            "static int g_12 = 3; struct S0 f; int main(void) { return func_1(g_12, \"S0x\", g_x, mainly); }";
        let expected = "static int dead_g_12 = 3; struct dead_S0 f; int dead_main(void) { return dead_func_1(dead_g_12, \"S0x\", g_x, mainly); }";
        assert_eq!(renamed(text), expected);
    }
}
