//! The floor of a pruned link: the time to read its tables, to decode its code and to write its objects, if nothing else is done.
//!
//! Each of the three is one short loop over the bytes of the link, on one thread. The first loop reads the symbols and relocations of
//! all loaded objects. The second one decodes the code of the objects that are rewritten. The third one writes their pruned copies to one file.
//! The floor does not include shared libraries, the start and end of the process, or any decision.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use iced_x86::{Decoder, DecoderOptions, Instruction};
use object::read::archive::ArchiveFile;
use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use serde_json::Value;

use crate::Result;
use crate::corpus::Link;
use crate::table::{Table, count};

/// The links that have a row in the table: program and mode.
const LINKS: [(&str, &str); 3] = [("sqlite3", "gcc-mono"), ("git", "gcc-others"), ("digest", "gcc-others")];

/// The rows of the table so far.
pub(crate) struct Floor {
    table: Table,
}

impl Floor {
    pub(crate) fn new() -> Self {
        let columns = [
            "link",
            "entries of tables",
            "ms",
            "code, bytes",
            "ms",
            "written, bytes",
            "ms",
            "sum, ms",
            "ours more than lld, ms",
        ];
        Floor { table: Table::new(&columns) }
    }

    pub(crate) fn as_str(&self) -> &str {
        self.table.as_str()
    }

    /// Add the row of a link, if it is one of the table. `pruned` is the command of a pruned link, `more` what that takes longer than lld.
    pub(crate) fn add(&mut self, link: &Link, pruned: Command, more: Duration, scratch: &Path) -> Result<()> {
        if LINKS.contains(&(link.program.as_str(), link.mode.as_str())) {
            let row = row(link, pruned, more, scratch)?;
            self.table.row(&row);
        }
        Ok(())
    }
}

fn row(link: &Link, mut pruned: Command, more: Duration, scratch: &Path) -> Result<Vec<String>> {
    let (report, emitted) = (scratch.join("floor.json"), scratch.join("floor"));
    let path = |name: &str, path: &Path| format!("--prune-{name}={}", path.display());
    pruned.args([path("report", &report), path("emit", &emitted)]);
    if !pruned.status()?.success() {
        return Err("it fails with a report".into());
    }
    let report: Value = serde_json::from_slice(&std::fs::read(report)?)?;
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let (mut entries, mut code) = (0, 0);
    let (mut reading, mut decoding) = (Duration::ZERO, Duration::ZERO);
    for module in report["modules"].as_array().into_iter().flatten() {
        let name = module["name"].as_str().unwrap_or_default();
        let file = module["archive"].as_str().unwrap_or(name);
        if !files.contains_key(file) {
            files.insert(file.to_owned(), std::fs::read(link.dir.join(file))?);
        }
        let bytes = files[file].as_slice();
        let Some(bytes) = object_of(bytes, module["archive"].is_string().then_some(name))? else { continue };
        let begin = Instant::now();
        entries += read_tables(bytes)?;
        reading += begin.elapsed();
        if module["status"] == "pruned" {
            let begin = Instant::now();
            code += decode(bytes)?;
            decoding += begin.elapsed();
        }
    }
    let mut written = Vec::new();
    read_files(&emitted, &mut written)?;
    let begin = Instant::now();
    std::fs::write(scratch.join("floor.o"), &written)?;
    let writing = begin.elapsed();
    let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
    Ok(vec![
        link.name(),
        count(entries),
        ms(reading),
        count(code),
        ms(decoding),
        count(written.len() as u64),
        ms(writing),
        ms(reading + decoding + writing),
        ms(more),
    ])
}

/// Append the contents of all files under a folder.
fn read_files(folder: &Path, contents: &mut Vec<u8>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => read_files(&path, contents)?,
            false => contents.extend(std::fs::read(path)?),
        }
    }
    Ok(())
}

/// The bytes of an object: the file, or the first member of the archive with this name. `None` for a member of a thin archive.
fn object_of<'f>(file: &'f [u8], member: Option<&str>) -> Result<Option<&'f [u8]>> {
    let Some(name) = member else { return Ok(Some(file)) };
    let archive = ArchiveFile::parse(file)?;
    for member in archive.members() {
        let member = member?;
        if member.name() == name.as_bytes() {
            return Ok(member.data(file).ok());
        }
    }
    Ok(None)
}

/// Read each symbol and each relocation once; how many there are.
fn read_tables(bytes: &[u8]) -> Result<u64> {
    let object = object::File::parse(bytes)?;
    let mut entries = 0;
    for symbol in object.symbols() {
        black_box((symbol.address(), symbol.size(), symbol.section_index(), symbol.name_bytes()?));
        entries += 1;
    }
    for section in object.sections() {
        for (offset, relocation) in section.relocations() {
            black_box((offset, relocation.target(), relocation.addend()));
            entries += 1;
        }
    }
    Ok(entries)
}

/// Decode each instruction of an object once; how many bytes of code there are.
fn decode(bytes: &[u8]) -> Result<u64> {
    let object = object::File::parse(bytes)?;
    let mut all = 0;
    let mut instruction = Instruction::default();
    for section in object.sections().filter(|section| section.kind() == SectionKind::Text) {
        let code = section.data()?;
        let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            black_box(instruction.flow_control());
        }
        all += code.len() as u64;
    }
    Ok(all)
}
