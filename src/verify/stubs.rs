//! Stubs of an emitted object: their bytes, and the table that names them.
//!
//! A stub must be exactly the trap that fits into the function that it replaces, in a section of its own. The table must
//! have one entry for each stub, in order, whose relocation means the stub's first byte.

use goblin::elf::section_header as sh;

use super::elf::{Object, by_target, entries};
use super::parts::EmittedPart;
use crate::error::Result;

const TABLE: &[u8] = b".debug_lto_prune_stubs";
const R_X86_64_64: u32 = 1;

/// The bytes that stand for a function of these bytes.
pub(super) fn body(original: &[u8]) -> Vec<u8> {
    let (landing, rest): (&[u8], &[u8]) = match original {
        [0xf3, 0x0f, 0x1e, 0xfa, rest @ ..] if !rest.is_empty() => (&[0xf3, 0x0f, 0x1e, 0xfa], rest),
        _ => (&[], original),
    };
    let trap: &[u8] = match rest.len() {
        0 => &[],
        1 => &[0xce],
        _ => &[0x0f, 0x0b],
    };
    [landing, trap].concat()
}

/// Check the table of stubs, which must be the next of the `rest` of sections exactly if there are stubs.
pub(super) fn check(
    new: &Object<'_>,
    parts: &[EmittedPart],
    rest: &mut impl Iterator<Item = usize>,
) -> Result<()> {
    let Some(first) = parts.iter().find(|p| p.stub) else { return Ok(()) };
    let missing = || new.about(first.new, "is a stub, and there is no table of stubs");
    check_table(new, parts, rest.next().ok_or_else(missing)?)
}

/// Check that the table is of the stubs and of nothing else.
fn check_table(new: &Object<'_>, parts: &[EmittedPart], table: usize) -> Result<()> {
    let wrong = |what: &str| Err(new.about(table, format!("the table of stubs {what}")));
    let shape = new.sections.get(table).map(|s| (s.sh_type, s.sh_flags, s.sh_addralign));
    if new.section_name(table) != TABLE || shape != Some((sh::SHT_PROGBITS, 0, 1)) {
        return wrong("is missing");
    }
    let relocations = entries(new, &by_target(new), table)?;
    let mut relocations = relocations.iter();
    let mut data = new.contents(table)?;
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
        data = next;
        at += length as u64;
    }
    if !data.is_empty() || relocations.next().is_some() {
        return wrong("has an entry too many");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn agrees_with_emission_on_what_fits() {
        assert_eq!(body(&[0xc3]).len(), 1);
        assert_eq!(body(&[0x31, 0xc0]), [0x0f, 0x0b]);
        assert_eq!(body(&[0xf3, 0x0f, 0x1e, 0xfa]), [0x0f, 0x0b]);
        assert_eq!(body(&[0xf3, 0x0f, 0x1e, 0xfa, 0xc3]).len(), 5);
        assert_eq!(body(&[0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xc0, 0xc3]).len(), 6);
    }
}
