//! Words of a module that may be symbol names and are in no symbol table: from inline assembly and string attributes.
//!
//! Code generation makes references of them: a `call` in the text of an `asm`, the function that `-pg` or a trap calls, the probe of a
//! stack. Every word counts as a name, which only keeps more. Text in an unknown form gives no answer at all. Names
//! that assembly pastes together, includes from a file, or quotes because of blanks are not found.

use super::codes::{block, constants, instruction, metadata};
use super::container;
use super::ir::constants::assembly;
use super::stream::{Event, Stream};

const ASSEMBLY: [u32; 4] =
    [constants::INLINEASM_OLD, constants::INLINEASM_OLD2, constants::INLINEASM_OLD3, constants::INLINEASM];
/// A module flag that names a symbol: such a module is not understood.
const GUARD: &[u8] = b"stack-protector-guard-symbol";

/// The words of bitcode, raw or wrapped, sorted; `None` if they can't be determined.
pub fn words(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut stream = Stream::new(bytes.get(container::unwrap(bytes)?)?).ok()?;
    let mut found = Vec::new();
    // A module's constants may be large data; assembly is among those of functions.
    let mut functions = 0_u32;
    let mut any_module = false;
    loop {
        match stream.next().ok()? {
            Event::Enter(block::FUNCTION) => functions = functions.saturating_add(1),
            Event::Enter(block::MODULE) => any_module = true,
            Event::Enter(block::BLOCKINFO | block::PARAMATTR_GROUP) => {}
            Event::Enter(block::CONSTANTS) if functions > 0 => {}
            Event::Enter(block::METADATA) if functions == 0 => {}
            Event::Enter(_) => stream.skip_block(),
            Event::Record(code) if stream.is_in(block::FUNCTION) => {
                if code != instruction::DECLARE_BLOCKS {
                    stream.skip_block();
                    functions = functions.saturating_sub(1);
                }
            }
            Event::Record(code) if stream.is_in(block::CONSTANTS) => {
                if ASSEMBLY.contains(&code) {
                    split(assembly(code, stream.operands())?.0, &mut found);
                }
            }
            Event::Record(_) if stream.is_in(block::PARAMATTR_GROUP) => split(stream.operands(), &mut found),
            Event::Record(code) if stream.is_in(block::METADATA) => {
                let strings = stream.blob().filter(|_| code == metadata::STRINGS).unwrap_or_default();
                if strings.windows(GUARD.len()).any(|w| w == GUARD) {
                    return None;
                }
                // The strings come first.
                stream.skip_block();
            }
            Event::Record(_) => {}
            // All entered blocks of a function are its constants.
            Event::Leave if functions > 0 && stream.is_in(block::MODULE) => functions = 0,
            Event::Leave => {}
            Event::End => break,
        }
    }
    found.sort_unstable();
    found.dedup();
    any_module.then_some(found)
}

/// The words of a text with a character in each operand. A `$` may be part of a name or lead a template command: both are added.
fn split(text: &[u64], found: &mut Vec<Vec<u8>>) {
    let byte = |c: &u64| u8::try_from(*c).unwrap_or_default();
    let in_name = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'$') || c >= 0x80;
    for run in text.split(|c| !in_name(byte(c))) {
        let run: Vec<u8> = run.iter().map(byte).collect();
        let (mut pieces, mut whole) = (0, Vec::new());
        for piece in run.split(|c| *c == b'$') {
            pieces += 1;
            add(piece, found);
        }
        if pieces > 1 {
            // The template writes `$$` for a `$`.
            let mut rest = run.iter().peekable();
            while let Some(c) = rest.next() {
                whole.push(*c);
                if *c == b'$' {
                    rest.next_if(|next| **next == b'$');
                }
            }
            add(&whole, found);
        }
    }
}

fn add(word: &[u8], found: &mut Vec<Vec<u8>>) {
    if !word.iter().all(|c| c.is_ascii_digit() || *c == b'$') {
        found.push(word.to_vec());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(text: &str) -> Vec<String> {
        let operands: Vec<u64> = text.bytes().map(u64::from).collect();
        let mut found = Vec::new();
        split(&operands, &mut found);
        found.iter().map(|w| String::from_utf8_lossy(w).into_owned()).collect()
    }

    #[test]
    fn words_of_assembly() {
        assert_eq!(words_of("\tcall one@PLT\n2: jmp 2b"), ["call", "one", "PLT", "jmp", "2b"]);
        assert_eq!(words_of("lea two$$x+4(%rip), ${0:P}"), ["lea", "two", "x", "two$x", "rip", "P"]);
        assert_eq!(words_of("$(jmp three$|jmp  four$)"), ["jmp", "three", "three$", "jmp", "four", "four$"]);
    }

    #[test]
    fn what_is_no_bitcode_has_no_answer() {
        assert_eq!(words(b""), None);
        assert_eq!(words(b"BC\xc0\xde\x35\x14\0\0\x05"), None);
        assert_eq!(words(b"\xde\xc0\x17\x0b\0\0"), None);
    }
}
