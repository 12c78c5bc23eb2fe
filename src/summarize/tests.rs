//! The pass on objects with and without a precomputed summary, and the two commands.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::pack::Pack;
use super::*;
use crate::inputs::{InputFile, Module, mapped::MappedFile};

fn compile(dir: &Path, name: &str, source: &str) -> PathBuf {
    let (input, output) = (dir.join(format!("{name}.c")), dir.join(format!("{name}.o")));
    fs::write(&input, source).unwrap();
    let status = Command::new("gcc").args(["-c", "-O1", "-o"]).arg(&output).arg(&input).status().unwrap();
    assert!(status.success());
    output
}

fn inputs(objects: &[PathBuf]) -> (Inputs, Vec<ModuleId>) {
    let mut inputs = Inputs::default();
    let mut loaded = Vec::new();
    for path in objects {
        let bytes = MappedFile::open(path).unwrap();
        let range = 0..bytes.len();
        let file = inputs.files.push(InputFile::new(path.clone(), FileKind::Object, bytes));
        loaded.push(inputs.modules.push(Module { file, archive: None, range, kind: FileKind::Object }));
    }
    (inputs, loaded)
}

/// Summarise as a link does, with a cache or without one.
fn made(
    inputs: &Inputs,
    loaded: &[ModuleId],
    granularity: Granularity,
    cache: Option<&Cache>,
) -> Vec<LoadedSummary> {
    summarise(inputs, loaded, granularity, LinkCache { cache, ..LinkCache::default() }, false)
}

/// Store new summaries, unless an input has changed.
fn put(inputs: &Inputs, made: &[LoadedSummary], cache: &Cache) {
    let keys: Vec<_> = made.iter().map(|s| s.key).collect();
    let summaries: Vec<_> = made.iter().map(|s| &s.summary).collect();
    LinkCache { cache: Some(cache), pack: None, keys: &keys }.if_unchanged(inputs).put_new(&summaries);
}

fn command(words: &[&str], dir: &Path) -> Vec<std::ffi::OsString> {
    words.iter().map(|w| w.replace("DIR", &dir.display().to_string()).into()).collect()
}

#[test]
fn order_and_cache() {
    let dir = tempfile::tempdir().unwrap();
    // Two of these have a section that is worth an entry.
    let large =
        |i: usize| (0..2000).map(|n| format!("int f{i}_{n}(int x) {{ return x ^ {n}; }}\n")).collect();
    let small = |i: usize| format!("int f{i}(void) {{ return {i}; }}");
    let source = |i: usize| -> String { if i < 2 { large(i) } else { small(i) } };
    let objects: Vec<_> = (0..5).map(|i| compile(dir.path(), &format!("m{i}"), &source(i))).collect();
    let (inputs, mut loaded) = inputs(&objects);
    loaded.reverse();
    let cache = Cache::new(dir.path().join("cache"), cache::DEFAULT_LIMIT);
    let plain = made(&inputs, &loaded, Granularity::Sections, None);
    for origin in [Origin::Extracted, Origin::Cache] {
        let cached = made(&inputs, &loaded, Granularity::Sections, Some(&cache));
        let expected = [Origin::Extracted, Origin::Extracted, Origin::Extracted, origin, origin];
        assert_eq!(cached.iter().map(|s| s.origin).collect::<Vec<_>>(), expected);
        for (a, b) in plain.iter().zip(&cached) {
            assert_eq!((a.module, &a.summary), (b.module, &b.summary));
        }
        put(&inputs, &cached, &cache);
    }
    assert_eq!(plain.iter().map(|s| s.module).collect::<Vec<_>>(), loaded);
}

#[test]
fn an_input_that_changes_is_not_cached() {
    let dir = tempfile::tempdir().unwrap();
    let source: String = (0..2000).map(|n| format!("int f{n}(int x) {{ return x ^ {n}; }}\n")).collect();
    let (inputs, loaded) = inputs(&[compile(dir.path(), "a", &source)]);
    let cache = Cache::new(dir.path().join("cache"), cache::DEFAULT_LIMIT);
    let keep = || {
        let made = made(&inputs, &loaded, Granularity::Functions, Some(&cache));
        put(&inputs, &made, &cache);
        made[0].origin
    };
    let object = dir.path().join("a.o");
    let (bytes, time) = (fs::read(&object).unwrap(), fs::metadata(&object).unwrap().modified().unwrap());
    fs::write(&object, b"something else").unwrap();
    assert_eq!([keep(), keep()], [Origin::Extracted; 2]);
    fs::write(&object, bytes).unwrap();
    fs::File::options().append(true).open(&object).unwrap().set_modified(time).unwrap();
    assert_eq!([keep(), keep()], [Origin::Extracted, Origin::Cache]);
}

/// The file has the same size and time and the same inode each time, and other bytes. The cache has entries of both kinds.
#[test]
fn a_file_that_is_written_twice_within_a_tick_is_not_mistaken() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::new(dir.path().join("cache"), cache::DEFAULT_LIMIT);
    for count in [40, 2000] {
        let source = |last: &str| -> String {
            let functions = (0..count).map(|n| format!("int f{n}(int x) {{ return x * {n} - 1; }}\n"));
            functions.chain([format!("int g(void) {{ return {last}(1); }}\n")]).collect()
        };
        let objects = ["f1", "f2"].map(|last| fs::read(compile(dir.path(), last, &source(last))).unwrap());
        let direct = objects.clone().map(|bytes| extract::extract(&bytes, Granularity::Functions));
        assert!(objects[0].len() == objects[1].len() && direct[0] != direct[1]);
        let path = dir.path().join("a.o");
        let tries = if count == 40 { 1000 } else { 20 };
        let mut found = 0;
        for i in 0..tries {
            fs::write(&path, &objects[i % 2]).unwrap();
            let file = fs::File::options().append(true).open(&path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            let (inputs, loaded) = inputs(std::slice::from_ref(&path));
            let pack = Pack::open(&cache, Path::new("a"));
            let cached = LinkCache { cache: Some(&cache), pack: Some(&pack), keys: &[] };
            let made = summarise(&inputs, &loaded, Granularity::Functions, cached, false);
            assert_eq!(made[0].summary, direct[i % 2], "{count}, {i}");
            found += usize::from(made[0].origin == Origin::Cache);
            let keys = [made[0].key];
            LinkCache { keys: &keys, ..cached }.put_new(&[&made[0].summary]);
        }
        // The pack has the module of the last link alone.
        assert_eq!(found, if count == 40 { 0 } else { tries - 2 });
    }
}

#[test]
fn a_sidecar_is_used_while_it_fits() {
    let dir = tempfile::tempdir().unwrap();
    let object = compile(dir.path(), "a", "int f(void) { return 1; }");
    summarize_command(&command(&["--prune-level=sections", "DIR/a.o", "-o", "DIR/a.o.ltosum"], dir.path()))
        .unwrap();
    let (before, loaded) = inputs(&[object]);
    let found = &made(&before, &loaded, Granularity::Sections, None)[0];
    assert_eq!(found.origin, Origin::Sidecar);
    assert_eq!(made(&before, &loaded, Granularity::Functions, None)[0].origin, Origin::Extracted);
    assert_eq!(found.summary, extract::extract(before.module_bytes(loaded[0]), Granularity::Sections));

    // Each changed byte makes it unusable, even if it can still be decoded.
    let path = dir.path().join("a.o.ltosum");
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&path, bad).unwrap();
        let origin = made(&before, &loaded, Granularity::Sections, None)[0].origin;
        assert_eq!(origin, Origin::Extracted, "byte {at}");
    }
    fs::write(&path, good).unwrap();

    let (after, loaded) = inputs(&[compile(dir.path(), "a", "int f(void) { return g(); }")]);
    assert_eq!(made(&after, &loaded, Granularity::Sections, None)[0].origin, Origin::Extracted);
}

/// The section is there with its final size before the summary is made, and only its contents change afterwards.
#[test]
fn a_section_is_used_while_it_fits() {
    let dir = tempfile::tempdir().unwrap();
    let object = compile(dir.path(), "a", "int f(void) { return 1; }");
    let with_section = |contents: &[u8]| {
        let (data, out) = (dir.path().join("data"), dir.path().join("b.o"));
        fs::write(&data, contents).unwrap();
        let add = format!(".lto_prune.summary={}", data.display());
        let mut objcopy = Command::new("objcopy");
        objcopy.args(["--add-section", &add, "--set-section-flags", ".lto_prune.summary=readonly,exclude"]);
        assert!(objcopy.arg(&object).arg(&out).status().unwrap().success());
        fs::read(out).unwrap()
    };
    let mut size = 100;
    let mut bytes = loop {
        let bytes = with_section(&vec![0; size]);
        let summary = extract::extract(&bytes, Granularity::Sections);
        let encoded = hashing::with_checksum(format::encode(&summary, [0; 32]));
        if encoded.len() == size {
            break bytes;
        }
        size = encoded.len();
    };
    let range = native::find_section(&bytes, format::SECTION_NAME).unwrap();
    let summary = extract::extract(&bytes, Granularity::Sections);
    let encoded =
        hashing::with_checksum(format::encode(&summary, hashing::hash_without(&bytes, range.clone())));
    bytes[range].copy_from_slice(&encoded);
    assert_eq!(from_section(&bytes), Some(summary));
    // Every later change of the object by a tool is detected.
    let embedded = dir.path().join("embedded.o");
    fs::write(&embedded, &bytes).unwrap();
    for edit in [
        "--redefine-sym=f=g",
        "--globalize-symbol=x",
        "--set-section-flags=.comment=alloc",
        "--rename-section=.text=.init",
    ] {
        let out = dir.path().join("edited.o");
        assert!(Command::new("objcopy").arg(edit).arg(&embedded).arg(&out).status().unwrap().success());
        let edited = fs::read(out).unwrap();
        assert!(native::find_section(&edited, format::SECTION_NAME).is_some());
        assert_eq!(from_section(&edited).is_some(), edited == bytes, "{edit}");
    }
    // Bytes that another section shares are in no hash.
    let headers = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap()) as usize;
    let range = native::find_section(&bytes, format::SECTION_NAME).unwrap();
    let mut shared = bytes.clone();
    // The offset of section 1, which is the code.
    shared[headers + 64 + 24..headers + 64 + 32].copy_from_slice(&(range.start as u64).to_le_bytes());
    let of_shared = format::encode(
        &extract::extract(&bytes, Granularity::Sections),
        hashing::hash_without(&shared, range.clone()),
    );
    shared[range].copy_from_slice(&hashing::with_checksum(of_shared));
    assert_eq!(from_section(&shared), None);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    assert_eq!(from_section(&bytes), None);
}

#[test]
fn archives_give_one_summary_a_member() {
    let dir = tempfile::tempdir().unwrap();
    compile(dir.path(), "a", "int a;");
    compile(dir.path(), "b", "int b;");
    for (flags, name) in [("rcs", "fat.a"), ("rcsT", "thin.a")] {
        let mut ar = Command::new("ar");
        let status = ar.current_dir(dir.path()).args([flags, name, "a.o", "b.o"]).status().unwrap();
        assert!(status.success());
    }
    let words = ["DIR/fat.a", "DIR/thin.a", "DIR/a.o", "-o", "DIR/out"];
    summarize_command(&command(&words, dir.path())).unwrap();
    let mut names: Vec<_> = fs::read_dir(dir.path().join("out"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected =
        ["a.o.ltosum", "fat.a(a.o).ltosum", "fat.a(b.o).ltosum", "thin.a(a.o).ltosum", "thin.a(b.o).ltosum"];
    assert_eq!(names, expected);
    let read = |name: &str| fs::read(dir.path().join("out").join(name)).unwrap();
    assert_eq!(read("fat.a(a.o).ltosum"), read("a.o.ltosum"));
    assert_eq!(read("thin.a(b.o).ltosum"), read("fat.a(b.o).ltosum"));
    for dumped in ["DIR/out/a.o.ltosum", "DIR/a.o", "DIR/thin.a"] {
        dump_command(&command(&[dumped], dir.path())).unwrap();
    }
}

#[test]
fn summaries_beside_an_archive_are_used_while_they_fit() {
    let dir = tempfile::tempdir().unwrap();
    compile(dir.path(), "a", "int f(void) { return 1; }");
    compile(dir.path(), "b", "int g(void) { return 2; }");
    let ar = || {
        let words = ["rcs", "lib.a", "a.o", "b.o"];
        assert!(Command::new("ar").current_dir(dir.path()).args(words).status().unwrap().success());
        let path = dir.path().join("lib.a");
        let bytes = fs::read(&path).unwrap();
        let archive = object::read::archive::ArchiveFile::parse(bytes.as_slice()).unwrap();
        let mut inputs = Inputs::default();
        let kind = FileKind::Archive;
        let file = inputs.files.push(InputFile::new(path.clone(), kind, MappedFile::open(&path).unwrap()));
        let mut loaded = Vec::new();
        for member in archive.members().map(Result::unwrap) {
            let name = String::from_utf8(member.name().to_vec()).unwrap();
            let (start, size) = member.file_range();
            let (range, kind) = (start as usize..(start + size) as usize, FileKind::Object);
            loaded.push(inputs.modules.push(Module { file, archive: Some((file, name)), range, kind }));
        }
        (inputs, loaded)
    };
    let origins = |(inputs, loaded): &(Inputs, Vec<ModuleId>)| -> Vec<Origin> {
        made(inputs, loaded, Granularity::Functions, None).iter().map(|s| s.origin).collect()
    };
    let before = ar();
    assert_eq!(origins(&before), [Origin::Extracted; 2]);
    summarize_command(&command(&["DIR/lib.a", "-o", "DIR/lib.a.ltosum"], dir.path())).unwrap();
    assert_eq!(origins(&before), [Origin::Sidecar; 2]);
    compile(dir.path(), "b", "int g(void) { return 3; }");
    assert_eq!(origins(&ar()), [Origin::Sidecar, Origin::Extracted]);
}

#[test]
fn what_the_commands_refuse() {
    let dir = tempfile::tempdir().unwrap();
    compile(dir.path(), "a", "int a;");
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::copy(dir.path().join("a.o"), dir.path().join("sub/a.o")).unwrap();
    fs::write(dir.path().join("bad.ltosum"), [&format::MAGIC[..], &[0xff; 60]].concat()).unwrap();
    for (words, message) in [
        (&["DIR/a.o"][..], "usage"),
        (&["-o", "DIR/x"], "usage"),
        (&["--prune-level=frob", "DIR/a.o", "-o", "DIR/x"], "--prune-level=frob"),
        (&["--frob", "DIR/a.o", "-o", "DIR/x"], "--frob"),
        (&["DIR/none.o", "-o", "DIR/x"], "none.o"),
        (&["DIR/a.o", "DIR/sub/a.o", "-o", "DIR/x"], "two inputs are named a.o"),
    ] {
        let error = summarize_command(&command(words, dir.path())).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let error = dump_command(&command(&["DIR/bad.ltosum"], dir.path())).unwrap_err().to_string();
    assert!(error.contains("bad.ltosum") && error.contains("schema version"), "{error}");
}
