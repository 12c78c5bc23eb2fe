//! Stubs of an emitted object: their bytes, what they say when they run, and the table that names them.
//!
//! A stub must be exactly the trap that fits into the function that it replaces, in a section of its own; where the plan wants a
//! report and there is room, a call of an entry of the reporter comes before the trap. The reporter must be the code that is
//! written down here, an entry for each such stub, and for each the message with its name, and nothing more. The table must
//! have one entry for each stub, in order, whose relocation means the stub's first byte.

use goblin::elf::section_header as sh;

use super::elf::Object;
use super::parts::Part;
use super::relocations::{by_target, entries};
use crate::error::Result;

const TABLE: &[u8] = b".debug_lto_prune_stubs";
const R_X86_64_64: u32 = 1;
const R_X86_64_PLT32: u32 = 4;

/// Saves rsi, rdi, rcx and r11, writes to standard error (from rax, edx bytes) until it is done, restores all and returns.
const WRITE: &[u8] =
    b"\x56\x57\x51\x41\x53\x48\x89\xc6\xbf\x02\0\0\0\xb8\x01\0\0\0\x0f\x05\x48\x83\xf8\xfc\x74\xee\
    \x48\x85\xc0\x7e\x08\x48\x01\xc6\x48\x29\xc2\x75\xe1\x41\x5b\x59\x5f\x5e\x5a\x58\xc3";
/// Bytes of an entry of the reporter: `push rax; push rdx; lea rax, [rip + message]; mov edx, length; jmp write`.
const ENTRY: usize = 19;

/// The bytes that stand for a function of these bytes, and where in them the distance of a call is.
pub(super) fn body(original: &[u8], reports: bool) -> (Vec<u8>, Option<u64>) {
    let (landing, rest): (&[u8], &[u8]) = match original {
        [0xf3, 0x0f, 0x1e, 0xfa, rest @ ..] if !rest.is_empty() => (&[0xf3, 0x0f, 0x1e, 0xfa], rest),
        _ => (&[], original),
    };
    let calls = reports && rest.len() >= 6;
    let (call, room): (&[u8], usize) =
        if calls { (&[0xe8, 0, 0, 0, 0], rest.len() - 5) } else { (&[], rest.len()) };
    let trap: &[u8] = match room {
        0 => &[],
        1 => &[0xce],
        _ => &[0x0f, 0x0b],
    };
    ([landing, call, trap].concat(), calls.then_some(landing.len() as u64 + 1))
}

/// Whether a stub in the section may call the reporter, which is in `.text`: it is ordinary code of a program of Linux.
pub(super) fn may_call(old: &Object<'_>, section: usize) -> bool {
    let flags = old.sections.get(section).map_or(0, |s| s.sh_flags);
    let code = u64::from(sh::SHF_ALLOC | sh::SHF_EXECINSTR);
    let name = old.section_name(section);
    matches!(old.system(), 0 | 3)
        && flags & !u64::from(sh::SHF_GROUP) == code
        && (name == b".text" || name.starts_with(b".text."))
}

/// Check the reporter and the table of stubs, which must be the next of the `rest` of sections exactly if there are stubs that
/// report, and stubs. `module` is what reports call the module. Returns the index of the reporter; 0 if there is none.
pub(super) fn check(
    new: &Object<'_>,
    parts: &[Part],
    module: &str,
    rest: &mut impl Iterator<Item = usize>,
) -> Result<usize> {
    let Some(first) = parts.iter().find(|p| p.stub) else { return Ok(0) };
    let missing = || new.about(first.new, "is a stub, and there is no table of stubs");
    let calls = parts.iter().any(|p| p.call.is_some());
    let reporter = if calls { rest.next().ok_or_else(missing)? } else { 0 };
    let table = rest.next().ok_or_else(missing)?;
    let names = names(new, parts, table)?;
    if calls {
        check_reporter(new, parts, &names, module, reporter)?;
    }
    Ok(reporter)
}

/// The name of each stub, from the table, which must be of them and of nothing else.
fn names<'n>(new: &Object<'n>, parts: &[Part], table: usize) -> Result<Vec<&'n [u8]>> {
    let wrong = |what: &str| Err(new.about(table, format!("the table of stubs {what}")));
    let shape = new.sections.get(table).map(|s| (s.sh_type, s.sh_flags, s.sh_addralign));
    if new.section_name(table) != TABLE || shape != Some((sh::SHT_PROGBITS, 0, 1)) {
        return wrong("is missing");
    }
    let relocations = entries(new, &by_target(new), table)?;
    let mut relocations = relocations.iter();
    let mut data = new.contents(table)?;
    let mut names = Vec::new();
    let mut at = 0;
    for stub in parts.iter().filter(|p| p.stub) {
        let size = new.sections.get(stub.new).map_or(0, |s| s.sh_size);
        let name = data.get(12..).and_then(|d| d.split(|b| *b == 0).next());
        let (Some(name), Some(address), Some(says)) =
            (name, data.first_chunk::<8>(), data.get(8..).and_then(|d| d.first_chunk::<4>()))
        else {
            return wrong("ends early");
        };
        if *address != [0; 8] || u64::from(u32::from_le_bytes(*says)) != size || name.is_empty() {
            return wrong("has an entry that says something else");
        }
        let means = relocations.next().is_some_and(|r| {
            (r.offset, r.kind, r.addend) == (at, R_X86_64_64, 0) && new.is_start_of(r.symbol, stub.new)
        });
        let length = 12 + name.len() + 1;
        let Some(next) = data.get(length..) else { return wrong("ends early") };
        if !means {
            return wrong("has an entry that means another place");
        }
        names.push(name);
        data = next;
        at += length as u64;
    }
    if !data.is_empty() || relocations.next().is_some() {
        return wrong("has an entry too many");
    }
    Ok(names)
}

/// Check that each stub that reports calls an entry that says its name.
fn check_reporter(
    new: &Object<'_>,
    parts: &[Part],
    names: &[&[u8]],
    module: &str,
    reporter: usize,
) -> Result<()> {
    let wrong = |what: &str| Err(new.about(reporter, format!("the reporter of stubs {what}")));
    let shape = new.sections.get(reporter).map(|s| (s.sh_type, s.sh_flags, s.sh_addralign));
    let code = u64::from(sh::SHF_ALLOC | sh::SHF_EXECINSTR);
    if new.section_name(reporter) != b".text" || shape != Some((sh::SHT_PROGBITS, code, 1)) {
        return wrong("is missing");
    }
    let by_target = by_target(new);
    if !entries(new, &by_target, reporter)?.is_empty() {
        return wrong("has relocations");
    }
    let bytes = new.contents(reporter)?;
    if !bytes.starts_with(WRITE) {
        return wrong("is other code");
    }
    let stubs = parts.iter().filter(|p| p.stub).zip(names);
    let callers: Vec<(&Part, u64, &[u8])> = stubs.filter_map(|(p, name)| Some((p, p.call?, *name))).collect();
    let mut entry_at = WRITE.len();
    let mut message_at = entry_at + callers.len() * ENTRY;
    for (stub, field, name) in callers {
        let calls = match entries(new, &by_target, stub.new)?[..] {
            [r] => {
                (r.offset, r.kind, r.addend) == (field, R_X86_64_PLT32, entry_at as i64 - 4)
                    && new.is_start_of(r.symbol, reporter)
            }
            _ => false,
        };
        if !calls {
            return Err(new.about(stub.new, "is a stub that does not call its entry of the reporter"));
        }
        let message = message(name, module);
        let entry = bytes.get(entry_at..).and_then(|b| b.first_chunk::<ENTRY>());
        let Some([0x50, 0x52, 0x48, 0x8d, 0x05, a, b, c, d, 0xba, e, f, g, h, 0xe9, i, j, k, l]) = entry
        else {
            return wrong("has an entry of other code");
        };
        let field = |bytes: [&u8; 4]| i64::from(i32::from_le_bytes(bytes.map(|b| *b)));
        let end = (entry_at + ENTRY) as i64;
        let says = (end - 10 + field([a, b, c, d]), field([e, f, g, h]), end + field([i, j, k, l]));
        if says != (message_at as i64, message.len() as i64, 0) {
            return wrong("has an entry that says something else");
        }
        if bytes.get(message_at..message_at + message.len()) != Some(&message[..]) {
            return wrong("has other words");
        }
        entry_at += ENTRY;
        message_at += message.len();
    }
    if message_at != bytes.len() {
        return wrong("has more than messages at its end");
    }
    Ok(())
}

fn message(function: &[u8], module: &str) -> Vec<u8> {
    let mut text = b"lto-prune: the function ".to_vec();
    text.extend_from_slice(function);
    text.extend_from_slice(
        format!(" of {module} was called although nothing was found to call it; ").as_bytes(),
    );
    text.extend_from_slice(b"--prune-keep=");
    text.extend_from_slice(function);
    text.extend_from_slice(b" keeps it\n");
    text
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn agrees_with_emission_on_what_fits() {
        let trap = |original: &[u8]| body(original, false).0;
        assert_eq!(trap(&[0xc3]).len(), 1);
        assert_eq!(trap(&[0x31, 0xc0]), [0x0f, 0x0b]);
        assert_eq!(trap(&[0xf3, 0x0f, 0x1e, 0xfa]), [0x0f, 0x0b]);
        assert_eq!(trap(&[0xf3, 0x0f, 0x1e, 0xfa, 0xc3]).len(), 5);
        assert_eq!(trap(&[0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xc0, 0xc3]).len(), 6);
        assert_eq!(body(&[0x90; 5], true), (vec![0x0f, 0x0b], None));
        assert_eq!(body(&[0x90; 6], true), (vec![0xe8, 0, 0, 0, 0, 0xce], Some(1)));
        assert_eq!(body(&[0x90; 9], true), (vec![0xe8, 0, 0, 0, 0, 0x0f, 0x0b], Some(1)));
        let (with_landing, field) = body(&[0xf3, 0x0f, 0x1e, 0xfa, 1, 2, 3, 4, 5, 6], true);
        assert_eq!((with_landing.len(), field), (10, Some(5)));
    }
}
