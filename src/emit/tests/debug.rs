//! Debug information of kept code, and the tombstones of dropped code.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSection};
use summaries::{Granularity, native};

use super::planner::{discard_group, emitted, plan, verified};
use super::tools::{Workshop, run};
use crate::emit::object::rewrite;
use crate::plan::{Action, ModulePlan, SymbolFlags};

/// Name and (address, size) of every function of an executable that has a size, where the name is unique.
fn functions(exe: &Path) -> BTreeMap<String, (u64, u64)> {
    let mut found: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for line in run(Command::new("nm").arg("-S").arg(exe)).lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let [address, size, "t" | "T" | "W", name] = words[..] {
            let number = |s| u64::from_str_radix(s, 16).unwrap();
            found.entry(name.to_owned()).or_default().push((number(address), number(size)));
        }
    }
    found.into_iter().filter(|(_, v)| v.len() == 1).map(|(n, v)| (n, v[0])).collect()
}

/// A pointer of debug information may lie before the first object of its section, as in the original, but no further.
#[test]
fn places_before_divided_data() {
    let shop = Workshop::new();
    let source = include_str!("../../../fixtures/fn_debug_before_data/main.c");
    let object = shop.compile("gcc", "main.c", source, &["-O3", "-g"]);
    let summary = native::extract_at(&object, Granularity::Functions);
    let plan = plan(&summary, &["main"]);
    let emitted = emitted(&object, &summary, &plan);
    let file = object::File::parse(emitted.as_slice()).unwrap();
    let (start, size) = file.section_by_name(".rela.debug_loclists").unwrap().file_range().unwrap();
    let mut entries = (start as usize..(start + size) as usize).step_by(24);
    let at = entries.find(|at| emitted[at + 16..at + 24] == (-4i64).to_le_bytes()).unwrap();
    let mut damaged = emitted.clone();
    damaged[at + 16..at + 24].copy_from_slice(&(-8i64).to_le_bytes());
    let error = verified(&object, &damaged, &summary, &plan).unwrap_err();
    assert!(error.contains("means no place of a part"), "{error}");
}

/// Functions with variables that move between registers, and an inner block. Every third one is kept.
fn functions_with_lists() -> String {
    let mut text = String::from(
        "int seen(int); static inline int twice(int a) { int b = seen(a); return b * 2 + a; }\n",
    );
    for i in 0..30 {
        let name = if i % 3 == 0 { "live" } else { "dead" };
        text += &format!(
            "__attribute__((noinline)) int {name}{i}(int x, int y) {{ int z = seen(x + {i}); if (z > y) {{ int u = seen(z); x += u * y; }} \
             else {{ int w = twice(z ^ y); x = seen(w + x) + w; }} return x + seen(y - z); }}\n"
        );
    }
    text +=
        "int seen(int x) { static volatile int v; v += x; return v; }\nint main(int n, char **) { return 0";
    (0..30).step_by(3).for_each(|i| text += &format!(" + live{i}(n, {i})"));
    text + "; }\n"
}

/// For each function: start, end and expression of its variables' lists, from the start of the function, and the
/// ranges of its blocks.
fn lists(exe: &Path) -> BTreeMap<String, Vec<(u64, u64, Vec<u8>)>> {
    let bytes = std::fs::read(exe).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let section = |id: gimli::SectionId| {
        let data = file.section_by_name(id.name()).map_or(&[][..], |s| s.data().unwrap());
        Ok::<_, gimli::Error>(gimli::EndianSlice::new(data, gimli::LittleEndian))
    };
    let dwarf = gimli::Dwarf::load(section).unwrap();
    let starts = functions(exe);
    let mut found: BTreeMap<String, Vec<(u64, u64, Vec<u8>)>> = BTreeMap::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next().unwrap() {
        let unit = dwarf.unit(header).unwrap();
        let mut entries = unit.entries();
        let mut here = None;
        while let Some(entry) = entries.next_dfs().unwrap() {
            if entry.tag() == gimli::DW_TAG_subprogram {
                let name = entry.attr_value(gimli::DW_AT_name).and_then(|n| dwarf.attr_string(&unit, n).ok());
                let name = name.map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
                here = starts.get(&name).map(|(start, _)| (name, *start));
            }
            let Some((name, start)) = &here else { continue };
            let all = found.entry(name.clone()).or_default();
            for attribute in entry.attrs() {
                if let Some(mut list) = dwarf.attr_locations(&unit, attribute.value()).unwrap() {
                    while let Some(location) = list.next().unwrap() {
                        let gimli::Range { begin, end } = location.range;
                        all.push((
                            begin.wrapping_sub(*start),
                            end.wrapping_sub(*start),
                            location.data.0.to_vec(),
                        ));
                    }
                }
                if let Some(mut ranges) = dwarf.attr_ranges(&unit, attribute.value()).unwrap() {
                    while let Some(gimli::Range { begin, end }) = ranges.next().unwrap() {
                        all.push((begin.wrapping_sub(*start), end.wrapping_sub(*start), Vec::new()));
                    }
                }
            }
        }
    }
    found
}

/// Unit tests use small tasks, so each list here is at the boundary of a task.
#[test]
fn lists_say_the_same_of_what_stays() {
    for compiler in ["g++", "clang++-19"] {
        for format in ["-gdwarf-4", "-gdwarf-5"] {
            let shop = Workshop::new();
            let flags = ["-O2", format];
            let object = shop.compile(
                compiler,
                "main.cc",
                &format!("extern \"C\" {{\n{}}}\n", functions_with_lists()),
                &flags,
            );
            let summary = native::extract_at(&object, Granularity::Functions);
            let plan = plan(&summary, &["main"]);
            let pruned = emitted(&object, &summary, &plan);
            let link = |name: &str, bytes: &[u8]| {
                let exe = shop.link("g++", "lld", &[("main.o".to_owned(), bytes.to_vec())], &["-no-pie"]);
                let kept = shop.path(name);
                std::fs::rename(exe, &kept).unwrap();
                lists(&kept)
            };
            let (plain, ours) = (link("plain", &object), link("ours", &pruned));
            let stays: Vec<_> = plain.iter().filter(|(name, _)| name.starts_with("live")).collect();
            assert_eq!(stays.len(), 10, "{compiler} {format}");
            for (name, lists) in stays {
                assert!(lists.len() > 3, "{compiler} {format} {name}: {lists:?}");
                assert_eq!(ours.get(name), Some(lists), "{compiler} {format} {name}");
            }
        }
    }
}

const NONALLOC: &[&str] = &[
    ".debug_line",
    ".debug_info",
    ".debug_addr",
    ".debug_loclists",
    ".debug_rnglists",
    ".debug_aranges",
    ".debug_names",
    ".debug_str_offsets",
    ".debug_loc",
    ".debug_ranges",
    ".debug_frame",
    ".debug_macro",
    ".debug_gdb_index",
    ".debug_types",
    ".debug_gnu_pubnames",
    ".debugfoo",
    ".gdb_index",
    ".stack_sizes",
    ".note.stapsdt",
    ".custom",
];

fn references_to_dead() -> String {
    let mut text = String::from(
        ".section .text.dead,\"ax\",@progbits\n.globl deadg\n.type deadg,@function\n.space 16\ndeadg: ret\ndeadl: ret\n\
         .size deadg, 9\n.section .tdata.dead,\"awT\",@progbits\n.globl dtls\ndtls: .quad 0\n\
         .section .text._start,\"ax\",@progbits\n.globl _start\n_start: ret\n",
    );
    for section in NONALLOC {
        text += &format!(
            ".section {section},\"\",@progbits\n.quad deadl+5\n.long deadl+5\n.quad deadg+7\n.quad 0x1111111111111111\n\
             .quad dtls@dtpoff+3\n.quad deadg@size\n.short deadl+1\n.quad _start\n"
        );
    }
    text
}

#[test]
fn values_for_dropped_targets_are_those_of_lld() {
    let shop = Workshop::new();
    let object = shop.compile("clang-19", "t.s", &references_to_dead(), &[]);
    let summary = native::extract(&object);
    let plan = plan(&summary, &["_start"]);
    let pruned = emitted(&object, &summary, &plan);
    let link = |name: &str, bytes: &[u8], flag: &str| {
        let input = shop.write(&format!("{name}.o"), bytes);
        let output = shop.path(name);
        // One address for both: what is alive must not differ either.
        run(Command::new("ld.lld-19").args([flag, "-Ttext=0x401000", "-o"]).arg(&output).arg(input));
        std::fs::read(output).unwrap()
    };
    let (plain, ours) = (link("plain", &object, "--gc-sections"), link("ours", &pruned, "--gc-sections"));
    let (plain, ours) = (object::File::parse(&*plain).unwrap(), object::File::parse(&*ours).unwrap());
    for section in NONALLOC {
        let data = |f: &object::File<'_>| f.section_by_name(section).unwrap().data().unwrap().to_vec();
        assert_eq!(data(&plain), data(&ours), "{section}");
    }
}

#[test]
fn compressed_sections_get_the_same_values_on_every_linker() {
    let shop = Workshop::new();
    let source = include_str!("debug_compressed.s");
    let object = shop.compile("clang-19", "t.s", source, &["-gz=zlib"]);
    let summary = native::extract(&object);
    let plan = plan(&summary, &["_start"]);
    let pruned = emitted(&object, &summary, &plan);
    let input = shop.write("t.o", &pruned);
    for linker in ["ld.lld-19", "ld.bfd", "ld.gold", "mold"] {
        let output = shop.path(linker);
        // GNU ld dies of relocations against absolute symbols here, but only where it collects garbage.
        run(Command::new(linker).args(["--gc-sections", "-o"]).arg(&output).arg(&input));
        let bytes = std::fs::read(output).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let data = |name: &str| file.section_by_name(name).unwrap().uncompressed_data().unwrap().to_vec();
        assert_eq!(data(".debug_ranges")[..16], [[1, 0, 0, 0, 0, 0, 0, 0]; 2].concat(), "{linker}");
        assert_ne!(data(".debug_ranges")[16..24], [0; 8], "{linker}");
        assert_eq!(data(".debug_names")[..12], [0xff; 12], "{linker}");
        assert_eq!(data(".debug_info")[..15], [0; 15], "{linker}");
    }
}

#[test]
fn a_debug_section_keeps_references_to_what_lives_elsewhere() {
    // Two modules define the same inline variable; the debug information of both means the one that is linked.
    let shop = Workshop::new();
    let source = "inline int shared = 5; int b() { return ++shared; }";
    let object = shop.compile("g++", "b.cc", source, &["-g", "-O1", "-ffunction-sections"]);
    let summary = native::extract(&object);
    let mut plan = plan(&summary, &["_Z1bv"]);
    discard_group(&summary, &mut plan, b"shared");
    let pruned = shop.write("b.o", emitted(&object, &summary, &plan));
    let symbols = run(Command::new("readelf").arg("-sW").arg(&pruned));
    assert!(symbols.lines().any(|l| l.contains("UND shared")), "{symbols}");
    let relocations = run(Command::new("readelf").arg("-rW").arg(pruned));
    let debug = relocations.split(".rela.debug_info").nth(1).unwrap();
    assert!(debug.lines().any(|l| l.contains(" shared")), "{relocations}");
}

#[test]
fn nothing_is_written_where_the_plan_says_nothing() {
    // Without flags an undefined symbol of debug information stays as it is.
    let shop = Workshop::new();
    let source = ".section .debug_info,\"\",@progbits\n.quad outside\n.text\n.globl _start\n_start: ret\n\
        .section .text.dead,\"ax\",@progbits\ndead: ret\n";
    let object = shop.compile("gcc", "t.s", source, &[]);
    let summary = native::extract(&object);
    let mut plan: ModulePlan = plan(&summary, &["_start"]);
    assert!(plan.atoms.contains(&Action::Drop));
    plan.symbols.clear();
    let has_reference = |bytes: &[u8]| {
        let file = object::File::parse(bytes).unwrap();
        file.section_by_name(".debug_info").unwrap().relocations().count() == 1
    };
    assert!(has_reference(&rewrite(&object, &summary, &plan).unwrap()));
    // With it, one whose definition is dropped elsewhere goes.
    plan.symbols = vec![SymbolFlags::DEFINITION_DROPPED; summary.symbols.len()];
    assert!(!has_reference(&rewrite(&object, &summary, &plan).unwrap()));
}
