//! `bench advisories`: verdicts of `lto-prune audit reach` on functions that real advisories name, compared with other tools.
//!
//! `nm` has the function or not. The disassembly and the dynamic relocations must have each step of the shortest path. A run in the
//! debugger reaches the function or not. `bench/advisories/list.txt` has the advisories.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::check;
use crate::corpus::{Corpus, find_linker};
use crate::process::output;
use crate::report::{list, text};
use crate::table::{Table, publish};
use crate::{Options, Result};

/// A pruned program with its symbols, references and disassembly by binutils.
struct LinkedMain {
    folder: PathBuf,
    library: String,
    /// By name: start and end of each symbol of `nm`.
    symbols: BTreeMap<String, Vec<(u64, u64)>>,
    /// Places that refer to an address, with that address, sorted.
    references: Vec<(u64, u64)>,
    disassembly: String,
}

fn hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word, 16).ok()
}

impl LinkedMain {
    fn new(corpus: &Corpus, options: &Options, program: &str) -> Result<LinkedMain> {
        let folder = corpus.scratch(&format!("advisories/{program}"))?;
        let link = corpus.links.iter().find(|link| link.program == program);
        let link = link.ok_or_else(|| format!("{program} is not built; bench/build.sh --mains does it"))?;
        let [_, file] = check::link_pair(corpus, link, &options.level, &find_linker("lld")?, &folder)?;
        let (status, _, errors) = check::transcript(corpus, link, &file, &folder)?;
        if status != 0 {
            return Err(format!("status {status}: {}", String::from_utf8_lossy(&errors)).into());
        }
        let library =
            link.driver.iter().find_map(|word| word.strip_prefix("-l:")).unwrap_or_default().to_owned();
        let library = library + if program.ends_with("-g") { ", built with -g" } else { "" };
        let mut symbols: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
        for line in output(Command::new("nm").args(["-S", "--defined-only"]).arg(&file))?.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [start, rest @ .., _, name] = &words[..] else { continue };
            // A symbol without a size, as of assembly, counts as a byte.
            let size = rest.first().map_or(Some(1), |size| hex(size));
            let (start, size) = hex(start).zip(size).ok_or_else(|| format!("nm: {line}"))?;
            symbols.entry((*name).to_owned()).or_default().push((start, start + size));
        }
        let disassembly = output(Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(&file))?;
        let of_code = disassembly.lines().filter_map(|line| {
            let (at, instruction) = line.split_once(":\t")?;
            let operand = instruction.split_once(" <")?.0.split_whitespace().last()?;
            Some((hex(at.trim())?, hex(operand)?))
        });
        let relocations = output(Command::new("objdump").arg("-R").arg(&file))?;
        let of_data = relocations.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((hex(words.next()?)?, hex(words.nth(1)?.strip_prefix("*ABS*+0x")?)?))
        });
        let mut references: Vec<(u64, u64)> = of_code.chain(of_data).collect();
        references.sort_unstable();
        Ok(LinkedMain { folder, library, symbols, references, disassembly })
    }

    /// Whether the code or data of one symbol refers to another.
    fn refers(&self, from: &str, to: &str) -> bool {
        let Some((from, to)) = self.symbols.get(from).zip(self.symbols.get(to)) else { return false };
        let leads = |target: u64| to.iter().any(|(start, end)| (*start..*end).contains(&target));
        from.iter().any(|(start, end)| {
            let first = self.references.partition_point(|r| r.0 < *start);
            self.references.iter().skip(first).take_while(|r| r.0 < *end).any(|r| leads(r.1))
        })
    }

    fn audit(&self, corpus: &Corpus, words: &[&str]) -> Result<Value> {
        let mut audit = Command::new(&corpus.pruner);
        audit.args(["audit", "reach", "-n", "0"]).args(words).arg("report.json").current_dir(&self.folder);
        let output = audit.output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice(&output.stdout).map_err(|e| format!("audit reach: {e}: {text}").into())
    }

    /// Whether a run hits a breakpoint of these functions; `None` if the debugger finds none of them.
    fn runs(&self, functions: &[&str]) -> Result<Option<bool>> {
        let mut gdb = Command::new("gdb");
        gdb.args(["-batch", "-nx", "-iex", "set breakpoint pending off"]);
        gdb.args(functions.iter().flat_map(|f| ["-ex".to_owned(), format!("break {f}")]));
        let text = output(gdb.args(["-ex", "run"]).arg(self.folder.join("pruned")))?;
        // Set: `Breakpoint 1 at 0x1130`. Hit: `Breakpoint 1, 0x1130 in main ()`.
        let numbers = || text.lines().filter_map(|l| l.strip_prefix("Breakpoint ")?.split(' ').next());
        let is_hit = numbers().any(|number| number.ends_with(','));
        if !is_hit && !text.contains("exited normally") {
            return Err(format!("gdb: {}", text.trim_end()).into());
        }
        Ok(numbers().next().map(|_| is_hit))
    }

    /// The cells of a row behind its program. An error names the tool that disagrees.
    fn check(&self, corpus: &Corpus, cve: &str, function: &str, is_called: bool) -> Result<[String; 5]> {
        let answer = self.audit(corpus, &["--json", function])?;
        let finding = list(&answer, "symbols")?.first().ok_or("no verdict")?;
        let (verdict, is_proved) = (text(finding, "verdict").to_owned(), finding["proved"] == "yes");
        let vulnerability = format!("--vulnerability={cve}");
        let words = ["--format=openvex", &vulnerability, "--product=pkg:generic/app@1.0", function];
        let status = text(&self.audit(corpus, &words)?["statements"][0], "status").to_owned();
        let is_reachable = verdict == "reachable";
        if (status == "not_affected") != is_proved || is_proved && is_reachable {
            return Err(format!("{verdict}, proved: {is_proved}, and the status is {status}").into());
        }
        // Clones of the function have its name and a suffix.
        let is_of = |name: &&str| name.split('.').next() == Some(function);
        let found: Vec<&str> = self.symbols.keys().map(String::as_str).filter(is_of).collect();
        let is_in_code = self.disassembly.contains(&format!("<{function}"));
        if is_reachable == found.is_empty() || !is_reachable && is_in_code {
            return Err(format!("{verdict}, and nm has {found:?}, the disassembly: {is_in_code}").into());
        }
        let path: Vec<&str> = list(&answer, "paths")?.iter().map(|row| text(row, "to")).collect();
        let missing = path.iter().zip(path.iter().skip(1)).find(|(from, to)| !self.refers(from, to));
        if missing.is_some() || is_reachable && !path.last().is_some_and(|end| found.contains(end)) {
            return Err(format!("the disassembly has no step {missing:?} of {path:?}").into());
        }
        let run = self.runs(if is_reachable { &found } else { std::slice::from_ref(&function) })?;
        if run.is_some() != is_reachable || is_called && run != Some(true) {
            return Err(format!("{verdict}, and a run: {run:?}").into());
        }
        let (nm, objdump) = match is_reachable {
            true => (found.join(", "), format!("{} steps", path.len() - 1)),
            false => ("none".to_owned(), "none".to_owned()),
        };
        let verdict = verdict + if is_proved { ", proved" } else { "" };
        let run = run.map_or("not found", |is_hit| if is_hit { "hit" } else { "not hit" });
        Ok([verdict, status, nm, objdump, run.to_owned()])
    }
}

/// The command. True if every verdict agrees with the other tools.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut table =
        Table::new("advisory | library | function | program | verdict | VEX status | nm | objdump | run");
    let list = fs::read_to_string(corpus.root.join("advisories/list.txt"))?;
    let mut programs: BTreeMap<&str, LinkedMain> = BTreeMap::new();
    let (mut good, mut verdicts, mut proofs) = (true, 0, 0);
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let (cve, function) = words.next().zip(words.next()).ok_or("a line without a function")?;
        for word in words {
            let program = word.trim_end_matches('!');
            if !options.only.is_empty() && !options.only.iter().any(|only| only == program) {
                continue;
            }
            if !programs.contains_key(program) {
                eprintln!("{program}");
                programs.insert(program, LinkedMain::new(corpus, options, program)?);
            }
            let linked = programs.get(program).ok_or("not linked")?;
            match linked.check(corpus, cve, function, program != word) {
                Ok(cells) => {
                    verdicts += 1;
                    proofs += u64::from(cells.contains(&"not_affected".to_owned()));
                    let names = [cve, &linked.library, function, program].map(str::to_owned);
                    table.row(&[&names[..], &cells[..]].concat());
                }
                Err(e) => {
                    eprintln!("FAILED {cve} {function} {program}: {e}");
                    good = false;
                }
            }
        }
    }
    let body = format!(
        "Functions that advisories name, in programs pruned at `--prune-level={}` with Debian's static libraries, or with libraries built with `-g`. \
         {verdicts} verdicts of `lto-prune audit reach` agree with other tools, and {proofs} of them are proved. `nm` has the function, or a clone of it, only if it is reachable. Each step of the \
         shortest path is a reference in the code or the dynamic relocations. gdb finds a place for a breakpoint only if the function is reachable, and each run that calls it hits it. Whether the library has the fix is not asked.\n\n{}",
        options.level,
        table.as_str()
    );
    publish(good, corpus, options, ("advisories", "Verdicts on the functions of advisories"), &body)
}
