//! What linkers collect of archives that `lto-prune split --data` divided, beside what lto-prune keeps of the undivided ones.
//!
//! Programs are `bench/mains`, with all archives that lld takes members from (libc's own, where it is linked), and for each of the
//! first packages of `bench survey` a program that holds addresses of some functions of its largest archive. Each linker links the
//! divided ones with `--gc-sections`, and lto-prune, with that linker behind, the others.
//!
//! Left out: archives that the line names in a linker script, which stay as they are in both.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSymbol, SymbolKind};

use super::{Sizes, behaviour, bytes, excess, within, yes};
use crate::corpus::{Corpus, find_linker};
use crate::process::run_ok;
use crate::reach;
use crate::survey::{hash, libraries};
use crate::table::{Table, publish};
use crate::{Options, Result};

const LINKERS: [&str; 5] = ["lld", "mold", "wild", "bfd", "gold"];

/// Packages that are looked at, if nobody says how many.
const COUNT: u64 = 20;

/// Functions of a library that its program refers to, and how many are tried.
const WANTED: usize = 3;
const TRIED: usize = 40;

/// A program: `main.o`, in its folder, and what follows it.
struct Driver {
    name: String,
    compiler: &'static str,
    libraries: Vec<String>,
}

/// The link of `dir/main.o` with the archives of `dir`, by `linker/ld`; all in `scratch`.
fn link(driver: &Driver, scratch: &Path, dir: &str, linker: &str, output: &str) -> Command {
    let mut command = Command::new("nice");
    command.arg(driver.compiler).current_dir(scratch).arg(format!("-B{linker}/"));
    command.args([&format!("-L{dir}"), "-Wl,--gc-sections", &format!("{dir}/main.o"), "-o", output]);
    command.args(&driver.libraries);
    command.env_remove("LTO_PRUNE_FLAGS").env_remove("LTO_PRUNE_LINKER");
    command
}

/// The names of global functions of an archive, in the order of their hash.
fn functions(archive: &Path) -> Result<Vec<String>> {
    let data = fs::read(archive)?;
    let mut names = BTreeSet::new();
    for member in object::read::archive::ArchiveFile::parse(&*data)?.members() {
        let Ok(file) = object::File::parse(member?.data(&*data)?) else { continue };
        let functions =
            file.symbols().filter(|s| s.is_global() && s.is_definition() && s.kind() == SymbolKind::Text);
        names.extend(functions.filter_map(|s| s.name().ok().map(str::to_owned)));
    }
    let mut names: Vec<String> = names.into_iter().filter(|name| name != "main").collect();
    names.sort_by_key(|name| hash(name));
    Ok(names)
}

/// Write and compile a program that holds the addresses of these functions.
fn compile_holder(names: &[&str], dir: &Path) -> Result<()> {
    let mut text = String::from("#include <stdio.h>\n");
    for (i, name) in names.iter().enumerate() {
        text += &format!("extern char f{i}[] __asm__(\"{name}\");\n");
    }
    text += "char *volatile held[] = {";
    (0..names.len()).for_each(|i| text += &format!("f{i}, "));
    text += "};\nint main(void) { printf(\"%d functions\\n\", (held[0] != 0) * (int)(sizeof held / sizeof *held)); return 0; }\n";
    fs::write(dir.join("main.c"), text)?;
    run_ok(
        Command::new("gcc").current_dir(dir).args(["-w", "-O2", "-fPIE", "-c", "main.c", "-o", "main.o"]),
        dir,
    )?;
    Ok(())
}

/// The program for the largest archive of a package; `None` where no function of it links.
fn holder(package: &str, archives: &[PathBuf], scratch: &Path) -> Result<Option<Driver>> {
    let size = |path: &PathBuf| fs::metadata(path).map_or(0, |m| m.len());
    let Some(archive) = archives.iter().max_by_key(|path| (size(path), std::cmp::Reverse(*path))) else {
        return Ok(None);
    };
    let file = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let plain = scratch.join("plain");
    fs::copy(archive, plain.join(&file))?;
    let libraries = vec![format!("-l:{file}"), "-lm".to_owned(), "-lpthread".to_owned()];
    let driver = Driver { name: format!("{package} {file}"), compiler: "g++", libraries };
    let links = |names: &[&str]| -> Result<bool> {
        compile_holder(names, &plain)?;
        Ok(run_ok(&mut link(&driver, scratch, "plain", "lld", "tried"), scratch).is_ok())
    };
    let names = functions(archive)?;
    let mut good: Vec<&str> = Vec::new();
    for name in names.iter().take(TRIED) {
        good.push(name);
        if !links(&good)? {
            good.pop();
        }
        if good.len() == WANTED {
            break;
        }
    }
    Ok((!good.is_empty() && links(&good)?).then_some(driver))
}

/// `divided`: what is in `plain`, and the archives that lld takes members from, divided.
fn divide(corpus: &Corpus, driver: &Driver, scratch: &Path) -> Result<()> {
    run_ok(link(driver, scratch, "plain", "lld", "tried").arg("-Wl,--trace"), scratch)?;
    let trace = fs::read_to_string(scratch.join("stdout"))?;
    let archives = trace.lines().filter_map(|line| Some(line.split_once(".a(")?.0.to_owned() + ".a"));
    let files: BTreeSet<String> = archives.chain(["plain/main.o".to_owned()]).collect();
    for file in files {
        let path = scratch.join(&file);
        let name = path.file_name().unwrap_or_default();
        let mut split = Command::new("nice");
        split.arg(&corpus.pruner).args(["split", "--data", "--report=/dev/null"]);
        run_ok(split.arg(&path).arg("-o").arg(scratch.join("divided").join(name)), scratch)?;
    }
    Ok(())
}

fn measure(driver: &Driver, options: &Options, scratch: &Path) -> Vec<Result<ArchiveRow>> {
    let wanted =
        if options.linkers.is_empty() { LINKERS.map(str::to_owned).into() } else { options.linkers.clone() };
    let one = |linker: String| -> Result<ArchiveRow> {
        run_ok(&mut link(driver, scratch, "plain", &linker, "collected"), scratch)?;
        run_ok(&mut link(driver, scratch, "divided", &linker, "divided.out"), scratch)?;
        let mut command = link(driver, scratch, "plain", "ours", "pruned");
        let flags = format!("--prune-level={} --prune-strict", options.level);
        command.env("LTO_PRUNE_LINKER", find_linker(&linker)?).env("LTO_PRUNE_FLAGS", flags);
        run_ok(&mut command, scratch)?;
        let run = |file: &str| behaviour(&scratch.join(file), &[], scratch);
        let plain = run("collected")?;
        let same = plain.0 == 0 && run("divided.out")? == plain && run("pruned")? == plain;
        let size = |file: &str| Sizes::of(&scratch.join(file));
        let [plain, divided, pruned] = [size("collected")?, size("divided.out")?, size("pruned")?];
        Ok(ArchiveRow { linker, plain, divided, pruned, same })
    };
    wanted
        .into_iter()
        .map(|linker| one(linker.clone()).map_err(|e| format!("{}, {linker}: {e}", driver.name).into()))
        .collect()
}

struct ArchiveRow {
    linker: String,
    plain: Sizes,
    divided: Sizes,
    pruned: Sizes,
    same: bool,
}

/// The command. True if each link keeps no more than is allowed, and runs alike.
pub(crate) fn split(corpus: &Corpus, options: &Options) -> Result<bool> {
    let scratch = corpus.scratch("split")?;
    for linker in LINKERS {
        fs::create_dir(scratch.join(linker))?;
        symlink(find_linker(linker)?, scratch.join(linker).join("ld"))?;
    }
    fs::create_dir(scratch.join("ours"))?;
    symlink(&corpus.pruner, scratch.join("ours/ld"))?;
    let fresh = || -> Result<()> {
        for dir in ["plain", "divided"] {
            let _ = fs::remove_dir_all(scratch.join(dir));
            fs::create_dir(scratch.join(dir))?;
        }
        Ok(())
    };
    let asked = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let mut table = Table::new(&[
        "program",
        "linker",
        "`.text` plain",
        "divided",
        "lto-prune",
        "",
        "`.rodata` divided",
        "lto-prune",
        "`.data`, `.bss` divided",
        "lto-prune",
        "runs alike",
    ]);
    let (mut rows, mut near, mut alike) = (0, 0, 0);
    let mut failures: Vec<String> = Vec::new();
    let mut look = |driver: &Driver| -> Result<()> {
        eprintln!("{}", driver.name);
        divide(corpus, driver, &scratch)?;
        for row in measure(driver, options, &scratch) {
            let row = match row {
                Ok(row) => row,
                Err(e) => {
                    failures.push(e.to_string());
                    continue;
                }
            };
            rows += 1;
            near += usize::from(within(row.divided.text, row.pruned.text));
            alike += usize::from(row.same);
            table.row(&[
                driver.name.clone(),
                row.linker,
                bytes(row.plain.text),
                bytes(row.divided.text),
                bytes(row.pruned.text),
                excess(row.divided.text, row.pruned.text),
                bytes(row.divided.rodata),
                bytes(row.pruned.rodata),
                bytes(row.divided.data),
                bytes(row.pruned.data),
                yes(row.same),
            ]);
        }
        Ok(())
    };
    for main in reach::mains(corpus, &[])?.into_iter().filter(|main| asked(&main.name)) {
        fresh()?;
        reach::compile(&main, &scratch.join("plain"))?;
        look(&Driver { name: main.name, compiler: main.compiler, libraries: main.libraries })?;
    }
    let wanted = options.count.unwrap_or(COUNT);
    let (mut having, mut without) = (0, 0);
    for package in libraries::packages(&scratch)? {
        if having == wanted {
            break;
        }
        if !asked(&package) {
            continue;
        }
        let archives =
            libraries::archives(&package, &corpus.root.join("work/survey").join(&package), &scratch)?;
        fresh()?;
        match holder(&package, &archives, &scratch)? {
            Some(driver) => {
                having += 1;
                look(&driver)?;
            }
            None => without += u64::from(!archives.is_empty()),
        }
    }
    let mut body = format!(
        "`bench/mains`, and {having} packages in the order of `bench survey` ({without} have an archive of which no function links without other libraries): a program that holds the addresses \
         of the first {WANTED} global functions of the largest archive that link, by the hash of their names. `--gc-sections` is on every line. Plain: the linker alone. Divided: the linker alone, \
         archives and `main.o` by `lto-prune split --data`. lto-prune: with that linker behind, `--prune-level={}`.\n\n{}\n",
        options.level,
        table.as_str()
    );
    body.push_str(&format!(
        "`.text` of divided archives within 0.5% of lto-prune's: {near} of {rows}; {alike} run alike.\n"
    ));
    failures.iter().for_each(|failure| body.push_str(&format!("\nFAILED {failure}\n")));
    publish(corpus, options, "split", "Divided archives, by each linker", &body)?;
    Ok(failures.is_empty() && near == rows && alike == rows)
}
