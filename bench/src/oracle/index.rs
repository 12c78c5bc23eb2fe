//! lld's combined index, as `--save-temps` leaves it: which values are live, and who refers to whom.
//!
//! It is read from what `llvm-bcanalyzer` prints, whose reader shares nothing with ours and knows no record's meaning, so that it reads
//! what a newer lld wrote too. Records are those of summary versions 9 to 12 (`llvm/lib/Bitcode/Writer/BitcodeWriter.cpp`,
//! IndexBitcodeWriter); another version is an error. Left out: type tests, profiles, parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::process::run_ok;

/// Versions of the records that are read here.
const VERSIONS: std::ops::RangeInclusive<u64> = 9..=12;
/// Bit of an entry's flags: it is live.
const LIVE: u64 = 1 << 5;

/// The low 64 bits of the MD5 of an identifier.
pub(super) type Guid = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefinitionKind {
    Function,
    Variable,
    Alias,
}

/// What the index says of one definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) guid: Guid,
    /// As lld names a module: `FILE`, or `ARCHIVE(MEMBER at OFFSET)`.
    pub(super) module: String,
    pub(super) kind: DefinitionKind,
    pub(super) live: bool,
    /// Mentions that are no direct calls; of an alias, what it is an alias of.
    pub(super) refs: Vec<Guid>,
    pub(super) calls: Vec<Guid>,
}

/// All definitions of a thin link, and which symbols something else than its bitcode sees.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) entries: Vec<Entry>,
    /// Names of prevailing definitions that native objects, shared libraries or the linker may refer to.
    pub(super) roots: BTreeSet<String>,
}

impl Index {
    /// Read `OUTPUT.index.bc` and `OUTPUT.resolution.txt`.
    ///
    /// # Errors
    /// If they aren't there, or of another form.
    pub(super) fn read(output: &Path, scratch: &Path) -> Result<Index> {
        let beside = |end: &str| output.with_file_name(format!("{}.{end}", name_of(output)));
        run_ok(Command::new("llvm-bcanalyzer-19").arg("--dump").arg(beside("index.bc")), scratch)?;
        let entries = entries(&String::from_utf8_lossy(&fs::read(scratch.join("stdout"))?))?;
        let resolutions = fs::read(beside("resolution.txt"))?;
        Ok(Index { entries, roots: roots(&String::from_utf8_lossy(&resolutions)) })
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// `-r=MODULE,SYMBOL,FLAGS`: `p` prevails, `x` is seen outside of the modules' summaries.
fn roots(text: &str) -> BTreeSet<String> {
    let root = |line: &str| {
        let (rest, flags) = line.strip_prefix("-r=")?.rsplit_once(',')?;
        let (_, symbol) = rest.rsplit_once(',')?;
        (flags.contains('p') && flags.contains('x')).then(|| symbol.to_owned())
    };
    text.lines().filter_map(root).collect()
}

/// Numbers after `opN=` in a line of a dump; 64-bit ones are printed with a sign.
fn operands(line: &str) -> Vec<u64> {
    let words = line.split_ascii_whitespace().filter(|w| w.starts_with("op"));
    let number = |w: &str| {
        let (_, value) = w.split_once('=')?;
        let digits = value.trim_end_matches(['/', '>']);
        digits.parse::<u64>().ok().or_else(|| digits.parse::<i64>().ok().map(i64::cast_unsigned))
    };
    words.filter_map(number).collect()
}

/// An entry before its value ids are GUIDs.
struct Raw {
    value: u64,
    module: u64,
    flags: u64,
    kind: DefinitionKind,
    refs: Vec<u64>,
    calls: Vec<u64>,
}

/// `None` if the record is too short.
fn raw(kind: DefinitionKind, ops: &[u64], step: usize) -> Option<Raw> {
    let (value, module, flags) = (*ops.first()?, *ops.get(1)?, *ops.get(2)?);
    let (refs, calls) = match kind {
        // After instructions, flags and a number that is no more used: how many references there are, and how many of
        // them read only and write only.
        DefinitionKind::Function => {
            let end = 9 + *ops.get(6)? as usize;
            (ops.get(9..end)?.to_vec(), ops.get(end..)?.iter().copied().step_by(step).collect())
        }
        DefinitionKind::Variable => (ops.get(4..)?.to_vec(), Vec::new()),
        DefinitionKind::Alias => (vec![*ops.get(3)?], Vec::new()),
    };
    Some(Raw { value, module, flags, kind, refs, calls })
}

fn entries(dump: &str) -> Result<Vec<Entry>> {
    let mut modules: BTreeMap<u64, String> = BTreeMap::new();
    let mut guids: BTreeMap<u64, Guid> = BTreeMap::new();
    let mut found = Vec::new();
    let mut in_summary = false;
    let mut version = 0;
    for line in dump.lines() {
        let Some(record) = line.trim_start().strip_prefix('<') else { continue };
        let name = record.split([' ', '>']).next().unwrap_or_default();
        let ops = || operands(record);
        let kind = match name {
            "GLOBALVAL_SUMMARY_BLOCK" => {
                in_summary = true;
                continue;
            }
            "VERSION" if in_summary => {
                version = ops().first().copied().unwrap_or_default();
                continue;
            }
            "ENTRY" => {
                let ops = ops();
                let bytes: Vec<u8> = ops.iter().skip(1).map(|c| *c as u8).collect();
                let id = ops.first().copied().ok_or("a module without a number")?;
                modules.insert(id, String::from_utf8_lossy(&bytes).into_owned());
                continue;
            }
            "VALUE_GUID" => {
                match *ops() {
                    [value, guid] => guids.insert(value, guid),
                    [value, high, low] => guids.insert(value, high << 32 | low),
                    _ => return Err("a GUID of another form".into()),
                };
                continue;
            }
            "COMBINED" | "COMBINED_PROFILE" => DefinitionKind::Function,
            "COMBINED_GLOBALVAR_INIT_REFS" => DefinitionKind::Variable,
            "COMBINED_ALIAS" => DefinitionKind::Alias,
            _ => continue,
        };
        // With a profile each callee has a second number.
        let step = if name == "COMBINED_PROFILE" { 2 } else { 1 };
        found.push(raw(kind, &ops(), step).ok_or_else(|| format!("a short record: {line}"))?);
    }
    if !VERSIONS.contains(&version) {
        return Err(format!("a combined index of version {version}").into());
    }
    let guid = |value: &u64| guids.get(value).copied().ok_or("a value without a GUID");
    let list = |values: &[u64]| values.iter().map(guid).collect::<std::result::Result<Vec<_>, _>>();
    let entry = |raw: Raw| -> Result<Entry> {
        Ok(Entry {
            guid: guid(&raw.value)?,
            module: modules.get(&raw.module).ok_or("an entry of no module")?.clone(),
            kind: raw.kind,
            live: raw.flags & LIVE != 0,
            refs: list(&raw.refs)?,
            calls: list(&raw.calls)?,
        })
    };
    found.into_iter().map(entry).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn records_of_an_index() {
        let dump = "\
<MODULE_BLOCK NumWords=9 BlockCodeSize=3>
  <VERSION op0=2/>
  <MODULE_STRTAB_BLOCK NumWords=7 BlockCodeSize=3>
    <ENTRY abbrevid=5 op0=0 op1=97 op2=46 op3=111/> record string = 'a.o'
  </MODULE_STRTAB_BLOCK>
  <GLOBALVAL_SUMMARY_BLOCK NumWords=5 BlockCodeSize=4>
    <VERSION op0=10/>
    <VALUE_GUID op0=1 op1=-1/>
    <VALUE_GUID op0=2 op1=7/>
    <VALUE_GUID abbrevid=4 op0=3 op1=1 op2=2/>
    <COMBINED_PROFILE abbrevid=4 op0=1 op1=0 op2=96 op3=78 op4=64 op5=0 op6=1 op7=0 op8=0 op9=3 op10=2 op11=8/>
    <COMBINED_GLOBALVAR_INIT_REFS abbrevid=5 op0=3 op1=0 op2=64 op3=4 op4=1/>
    <COMBINED_ALIAS op0=2 op1=0 op2=96 op3=1/>
";
        let entry =
            |guid, kind, live, refs, calls| Entry { guid, module: "a.o".into(), kind, live, refs, calls };
        let third = 1 << 32 | 2;
        assert_eq!(
            entries(dump).unwrap(),
            [
                entry(u64::MAX, DefinitionKind::Function, true, vec![third], vec![7]),
                entry(third, DefinitionKind::Variable, false, vec![u64::MAX], vec![]),
                entry(7, DefinitionKind::Alias, true, vec![u64::MAX], vec![]),
            ]
        );
        assert!(entries(&dump.replace("op0=10", "op0=99")).is_err());
    }

    #[test]
    fn roots_prevail_and_are_seen() {
        let text = "a.o\n-r=a.o,main,plx\n-r=a(b.o at 7),f,pl\n-r=a.o,g,x\n-r=a.o,h,\n";
        assert_eq!(roots(text), BTreeSet::from(["main".to_owned()]));
    }
}
