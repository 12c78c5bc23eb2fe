//! Objects made by the compilers and the assembler of the machine.

use crate::texts::blocks;
use std::process::Command;

use summaries::{Atom, AtomIdx, ModuleSummary, Reference, Symbol, Target};

/// Compile or assemble `source` (named `t.SUFFIX`) with these words and give back the object.
pub(crate) fn object(command: &[&str], suffix: &str, source: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join(format!("t.{suffix}"));
    let output = dir.path().join("t.o");
    std::fs::write(&input, source).unwrap();
    let mut line = Command::new(command[0]);
    line.args(&command[1..]).arg("-o").arg(&output).arg(&input);
    let result = line.output().unwrap_or_else(|e| panic!("{line:?}: {e}"));
    assert!(result.status.success(), "{line:?}: {}", String::from_utf8_lossy(&result.stderr));
    std::fs::read(&output).unwrap()
}

pub(crate) fn assembled(source: &str) -> Vec<u8> {
    object(&["as", "--64"], "s", source)
}

/// The summary of an object, which must be valid.
pub(crate) fn summary(bytes: &[u8]) -> ModuleSummary {
    let summary = summaries::extract::extract(bytes, summaries::Granularity::Sections);
    assert_eq!(summary.check(), Ok(()));
    summary
}

pub(crate) trait Find {
    fn atom_named(&self, name: &str) -> (AtomIdx, &Atom);
    fn symbol_named(&self, name: &str) -> &Symbol;
    /// The references of the atom: names of symbols, `[name]` for atoms.
    fn edges(&self, atom: &str) -> Vec<String>;
    fn edge_name(&self, reference: &Reference) -> String;
    fn limits_found(&self) -> Vec<summaries::Limit>;
}

impl Find for ModuleSummary {
    fn atom_named(&self, name: &str) -> (AtomIdx, &Atom) {
        let mut found = self.atoms.iter().enumerate().filter(|(_, a)| self.name(a.name) == name.as_bytes());
        let (i, atom) = found.next().unwrap_or_else(|| panic!("no atom {name}"));
        assert!(found.next().is_none(), "several atoms {name}");
        (AtomIdx::new(i), atom)
    }

    fn symbol_named(&self, name: &str) -> &Symbol {
        let mut found = self.symbols.iter().filter(|s| self.name(s.name) == name.as_bytes());
        found.next().unwrap_or_else(|| panic!("no symbol {name}"))
    }

    fn edges(&self, atom: &str) -> Vec<String> {
        let (index, _) = self.atom_named(atom);
        self.references_of(index).iter().map(|r| format!("{:?} {}", r.kind, self.edge_name(r))).collect()
    }

    fn edge_name(&self, reference: &Reference) -> String {
        match reference.target {
            Target::Symbol(s) => String::from_utf8_lossy(self.symbol_name(s)).into_owned(),
            Target::Atom(a) => {
                format!("[{}]", String::from_utf8_lossy(self.name(self.atoms[a.index()].name)))
            }
        }
    }

    fn limits_found(&self) -> Vec<summaries::Limit> {
        self.limits.iter().map(|l| l.limit).collect()
    }
}

/// The cases that a test has in `programs/cases.txt`; in their fields `\n` is a new line.
pub(crate) fn cases<const N: usize>(test: &str) -> Vec<[&'static str; N]> {
    let case = |line: &str| {
        let fields: Vec<&'static str> = line.split('|').map(|f| &*f.replace("\\n", "\n").leak()).collect();
        fields.try_into().unwrap()
    };
    let blocks = blocks(include_str!("programs/cases.txt"));
    let block = blocks.iter().find(|block| block.key == test).unwrap();
    block.text.lines().filter(|line| !line.starts_with('#')).map(case).collect()
}
