//! Stubs of an emitted object: their bytes, and the table that names them.
//!
//! A stub must be exactly the trap that fits into the function that it replaces, in a section of its own, and the table must
//! have one entry for each, in order, whose relocation means the stub's first byte.

use goblin::elf::section_header as sh;

use super::elf::Object;
use super::parts::Part;
use super::relocations::{by_target, entries};
use crate::error::Result;

const TABLE: &[u8] = b".debug_lto_prune_stubs";
const R_X86_64_64: u32 = 1;

/// The bytes that stand for a function of these bytes.
pub(super) fn trap(original: &[u8]) -> Vec<u8> {
    match original {
        [] => vec![],
        [_] => vec![0xce],
        [0xf3, 0x0f, 0x1e, 0xfa, _] => vec![0xf3, 0x0f, 0x1e, 0xfa, 0xce],
        [0xf3, 0x0f, 0x1e, 0xfa, _, _, ..] => vec![0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x0b],
        _ => vec![0x0f, 0x0b],
    }
}

/// Check the table of stubs, which must be the next of the `rest` of sections exactly if there are stubs.
pub(super) fn check(new: &Object<'_>, parts: &[Part], rest: &mut impl Iterator<Item = usize>) -> Result<()> {
    let mut stubs = parts.iter().filter(|p| p.stub).peekable();
    let Some(first) = stubs.peek() else { return Ok(()) };
    let missing = || new.about(first.new, "is a stub, and there is no table of stubs");
    let table = rest.next().ok_or_else(missing)?;
    let wrong = |what: &str| Err(new.about(table, format!("the table of stubs {what}")));
    let shape = new.sections.get(table).map(|s| (s.sh_type, s.sh_flags, s.sh_addralign));
    if new.section_name(table) != TABLE || shape != Some((sh::SHT_PROGBITS, 0, 1)) {
        return wrong("is missing");
    }
    let relocations = entries(new, &by_target(new), table)?;
    let mut relocations = relocations.iter();
    let mut data = new.contents(table)?;
    let mut at = 0;
    for stub in stubs {
        let size = new.sections.get(stub.new).map_or(0, |s| s.sh_size);
        let named = data.get(12..).and_then(|d| d.iter().position(|b| *b == 0));
        let (Some(name), Some(address), Some(says)) =
            (named, data.first_chunk::<8>(), data.get(8..).and_then(|d| d.first_chunk::<4>()))
        else {
            return wrong("ends early");
        };
        if *address != [0; 8] || u64::from(u32::from_le_bytes(*says)) != size || name == 0 {
            return wrong("has an entry that says something else");
        }
        let means = relocations.next().is_some_and(|r| {
            (r.offset, r.kind, r.addend) == (at, R_X86_64_64, 0) && new.is_start_of(r.symbol, stub.new)
        });
        if !means {
            return wrong("has an entry that means another place");
        }
        let length = 12 + name + 1;
        data = data.get(length..).unwrap_or(&[]);
        at += length as u64;
    }
    if !data.is_empty() || relocations.next().is_some() {
        return wrong("has an entry too many");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::trap;

    #[test]
    fn agrees_with_emission_on_what_fits() {
        assert_eq!(trap(&[0xc3]).len(), 1);
        assert_eq!(trap(&[0x31, 0xc0]), [0x0f, 0x0b]);
        assert_eq!(trap(&[0xf3, 0x0f, 0x1e, 0xfa]), [0x0f, 0x0b]);
        assert_eq!(trap(&[0xf3, 0x0f, 0x1e, 0xfa, 0xc3]).len(), 5);
        assert_eq!(trap(&[0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xc0, 0xc3]).len(), 6);
    }
}
