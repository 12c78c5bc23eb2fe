//! Expressions of linker scripts: the symbols that they name, not their values.
//!
//! Every identifier that isn't a function, a keyword, a section or a memory region counts as a symbol. A superfluous name does no harm.
//! An unknown function is an error.

use super::facts::ScriptFacts;
use super::lexer::{Lexer, Token};

/// The symbols that an expression of a linker script names.
#[derive(Debug, Default)]
pub(super) struct References {
    /// The symbols whose value is part of its value.
    pub(super) symbols: Vec<String>,
    /// The symbols in `DEFINED()`, which it only tests.
    pub(super) tested: Vec<String>,
}

impl References {
    /// Add them as references of the link.
    pub(super) fn count(self, facts: &mut ScriptFacts) {
        facts.referenced_symbols.extend(self.symbols);
        facts.tested_symbols.extend(self.tested);
    }
}

/// Functions that take an expression as argument.
#[rustfmt::skip]
const FUNCTIONS: &[&str] = &[
    "ABSOLUTE", "ALIGN", "BLOCK", "DATA_SEGMENT_ALIGN", "DATA_SEGMENT_END", "DATA_SEGMENT_RELRO_END", "LOG2CEIL", "MAX",
    "MIN", "NEXT", "AT", "SUBALIGN",
];

/// Words of section headers and expressions that are no symbols.
#[rustfmt::skip]
const KEYWORDS: &[&str] = &[
    "SIZEOF_HEADERS", "sizeof_headers", "NOLOAD", "DSECT", "COPY", "INFO", "OVERLAY", "READONLY", "TYPE", "SHT_PROGBITS",
    "SHT_NOBITS", "SHT_NOTE", "SHT_STRTAB", "SHT_INIT_ARRAY", "SHT_FINI_ARRAY", "SHT_PREINIT_ARRAY", "ONLY_IF_RO",
    "ONLY_IF_RW", "ALIGN_WITH_INPUT", "SPECIAL",
];

/// Read an expression up to one of `stops` outside parentheses, and return that.
///
/// # Errors
/// An unknown function, or the end of the script.
pub(super) fn scan(lexer: &mut Lexer<'_>, stops: &[u8], out: &mut References) -> Result<u8, String> {
    let mut depth = 0_usize;
    loop {
        match lexer.operand() {
            None => return Err("the script ends in an expression".to_owned()),
            Some(Token::Punct(b)) if depth == 0 && stops.contains(&b) => return Ok(b),
            Some(Token::Punct(b'(')) => depth += 1,
            Some(Token::Punct(b')')) => {
                depth = depth.checked_sub(1).ok_or("a closing parenthesis too many")?;
            }
            Some(Token::Punct(_)) => {}
            // Only section names, segment names and file names are quoted, or symbols with odd characters.
            Some(Token::Quoted(text)) => out.symbols.push(text),
            Some(Token::Word(word)) => {
                let is_number = word.starts_with(|c: char| c.is_ascii_digit());
                if word == "." || is_number || KEYWORDS.contains(&word.as_str()) {
                    continue;
                }
                if !lexer.eat(b'(') {
                    out.symbols.push(word);
                    continue;
                }
                match word.as_str() {
                    "ADDR" | "ALIGNOF" | "LOADADDR" | "SIZEOF" | "LENGTH" | "ORIGIN" | "CONSTANT" => {
                        argument(lexer)?;
                    }
                    "DEFINED" => out.tested.extend(argument(lexer)?),
                    "SEGMENT_START" => {
                        lexer.name();
                        depth += 1;
                    }
                    function if FUNCTIONS.contains(&function) => depth += 1,
                    _ => return Err(format!("function {word}()")),
                }
            }
        }
    }
}

/// The one name between the parentheses of a function; the opening one is consumed.
fn argument(lexer: &mut Lexer<'_>) -> Result<Option<String>, String> {
    let name = lexer.name().and_then(Token::into_text);
    if lexer.eat(b')') { Ok(name) } else { Err("a function that takes one name".to_owned()) }
}
