//! `-T` scripts: inputs, ENTRY, EXTERN, assignments, and from SECTIONS the KEEP patterns and file names.
//!
//! KEEP makes roots, and a file pattern ties an input to its name. Order, addresses, regions and segments don't matter.
//! An unknown statement is an error that names it, and so are STARTUP, OUTPUT, INCLUDE and OVERLAY.

use std::ops::Range;

use super::expression::{References, scan};
use super::facts::{ProvideAssignment, ScriptFacts, describe};
use super::implicit::{self, ScriptCommand};
use super::lexer::{Lexer, Token};
use super::version;

/// The inputs that a `-T` script names, and its relation to the linker's default script.
#[derive(Debug, Default)]
pub(in crate::inputs) struct ScriptInputs {
    pub(in crate::inputs) commands: Vec<ScriptCommand>,
    /// The text without INPUT and GROUP, if there is one of them.
    pub(in crate::inputs) without_inputs: Option<Vec<u8>>,
    /// It has INSERT, so that GNU ld reads its default script too.
    pub(in crate::inputs) augments: bool,
}

/// Read a `-T` script into `facts`.
///
/// # Errors
/// The first construct that isn't known.
pub(super) fn parse(text: &[u8], facts: &mut ScriptFacts) -> Result<ScriptInputs, String> {
    let mut lexer = Lexer::new(text);
    let mut parser =
        SectionsParser { lexer: &mut lexer, facts, inputs: ScriptInputs::default(), named: Vec::new() };
    parser.top_level()?;
    let SectionsParser { mut inputs, named, .. } = parser;
    if !named.is_empty() {
        let mut rest = text.to_vec();
        for range in named {
            // The line numbers of the linker's messages stay right.
            let bytes = rest.get_mut(range).unwrap_or_default().iter_mut();
            bytes.filter(|b| **b != b'\n').for_each(|b| *b = b' ');
        }
        inputs.without_inputs = Some(rest);
    }
    Ok(inputs)
}

struct SectionsParser<'a, 'b> {
    lexer: &'a mut Lexer<'b>,
    facts: &'a mut ScriptFacts,
    inputs: ScriptInputs,
    /// The ranges of INPUT and GROUP in the text.
    named: Vec<Range<usize>>,
}

impl SectionsParser<'_, '_> {
    fn top_level(&mut self) -> Result<(), String> {
        let length = self.lexer.rest().len();
        while !self.lexer.at_end() {
            let start = length - self.lexer.rest().len();
            let Some(token) = self.lexer.name() else { break };
            let word = match &token {
                Token::Punct(b';') => continue,
                Token::Word(word) => word.as_str(),
                _ => return Err(describe(Some(&token), self.lexer)),
            };
            if self.statement(word)? {
                continue;
            }
            match word {
                "ENTRY" => {
                    self.expect(b'(')?;
                    self.facts.entry = self.lexer.name().and_then(Token::into_text);
                    self.expect(b')')?;
                }
                "EXTERN" => {
                    self.expect(b'(')?;
                    let symbols = self.names()?;
                    self.facts.referenced_symbols.extend(symbols);
                }
                "SECTIONS" | "OVERWRITE_SECTIONS" => {
                    self.expect(b'{')?;
                    self.facts.has_sections = true;
                    self.sections()?;
                    let is_inserted = self.lexer.clone().name() == Some(Token::Word("INSERT".to_owned()));
                    self.facts.replaces_default |= !is_inserted;
                }
                "MEMORY" | "PHDRS" => {
                    self.expect(b'{')?;
                    while let Some(token) = self.lexer.name() {
                        if token == Token::Punct(b'}') {
                            break;
                        }
                    }
                }
                "VERSION" => {
                    self.expect(b'{')?;
                    version::nodes(self.lexer, self.facts, true)?;
                }
                "INPUT" | "GROUP" | "SEARCH_DIR" => {
                    self.expect(b'(')?;
                    implicit::input_command(word, self.lexer, &mut self.inputs.commands)?;
                    if word != "SEARCH_DIR" {
                        self.named.push(start..length - self.lexer.rest().len());
                    }
                }
                "OUTPUT_FORMAT" | "OUTPUT_ARCH" | "TARGET" | "NOCROSSREFS" | "NOCROSSREFS_TO"
                | "REGION_ALIAS" | "LD_FEATURE" => {
                    self.expect(b'(')?;
                    self.names()?;
                }
                "INSERT" => {
                    self.inputs.augments = true;
                    self.lexer.name();
                    self.lexer.name();
                }
                "FORCE_COMMON_ALLOCATION" | "INHIBIT_COMMON_ALLOCATION" | "FORCE_GROUP_ALLOCATION" => {}
                _ => return Err(describe(Some(&token), self.lexer)),
            }
        }
        Ok(())
    }

    fn expect(&mut self, punct: u8) -> Result<(), String> {
        if self.lexer.eat(punct) {
            return Ok(());
        }
        let found = self.lexer.name();
        Err(format!("{}, where `{}` should be", describe(found.as_ref(), self.lexer), char::from(punct)))
    }

    /// Words up to the closing parenthesis, commas ignored; the opening one is consumed.
    fn names(&mut self) -> Result<Vec<String>, String> {
        let mut names = Vec::new();
        loop {
            match self.lexer.name() {
                Some(Token::Punct(b')')) => return Ok(names),
                Some(Token::Punct(b',' | b'=')) => {}
                Some(Token::Word(name) | Token::Quoted(name)) => names.push(name),
                other => return Err(describe(other.as_ref(), self.lexer)),
            }
        }
    }

    /// A statement that is allowed anywhere: an assignment, PROVIDE, HIDDEN or ASSERT. False for other words.
    fn statement(&mut self, word: &str) -> Result<bool, String> {
        match word {
            "PROVIDE" | "PROVIDE_HIDDEN" | "HIDDEN" if self.lexer.eat(b'(') => {
                let symbol =
                    self.lexer.name().and_then(Token::into_text).ok_or("PROVIDE without a symbol")?;
                self.expect(b'=')?;
                let mut references = References::default();
                scan(self.lexer, b")", &mut references)?;
                if word == "HIDDEN" {
                    self.facts.assigned_symbols.push(symbol);
                    references.count(self.facts);
                } else {
                    self.facts.tested_symbols.extend(references.tested);
                    self.facts.provided.push(ProvideAssignment { symbol, references: references.symbols });
                }
                return Ok(true);
            }
            "ASSERT" if self.lexer.eat(b'(') => {
                let mut references = References::default();
                if scan(self.lexer, b",)", &mut references)? == b',' {
                    scan(self.lexer, b")", &mut References::default())?;
                }
                references.count(self.facts);
                return Ok(true);
            }
            _ => {}
        }
        if !self.lexer.eat_assignment() {
            return Ok(false);
        }
        // `x+=1` without blanks leaves the operator at the end of the name.
        let symbol = word.trim_end_matches(['+', '-', '*', '/', '&', '|', '^', '?', '<', '>']);
        if symbol != "." {
            self.facts.assigned_symbols.push(symbol.to_owned());
            if symbol != word {
                self.facts.referenced_symbols.push(symbol.to_owned());
            }
        }
        let mut references = References::default();
        scan(self.lexer, b";", &mut references)?;
        references.count(self.facts);
        Ok(true)
    }

    /// Read the body of `SECTIONS`, up to its closing brace.
    fn sections(&mut self) -> Result<(), String> {
        loop {
            let token = self.lexer.name();
            match &token {
                Some(Token::Punct(b'}')) => return Ok(()),
                Some(Token::Punct(b';')) => {}
                Some(Token::Word(word)) if matches!(word.as_str(), "INCLUDE" | "OVERLAY") => {
                    return Err(describe(token.as_ref(), self.lexer));
                }
                Some(Token::Word(word)) if word == "ENTRY" && self.lexer.eat(b'(') => {
                    self.facts.entry = self.lexer.name().and_then(Token::into_text);
                    self.expect(b')')?;
                }
                Some(Token::Word(word)) => {
                    if !self.statement(word)? {
                        self.output_section(word.ends_with(':'))?;
                    }
                }
                Some(Token::Quoted(_)) => self.output_section(false)?,
                _ => return Err(describe(token.as_ref(), self.lexer)),
            }
        }
    }

    /// An output section after its name: `[address] [(type)] : [AT(lma)] [ALIGN(n)] [constraint] { ... } [>region]...`
    fn output_section(&mut self, colon_seen: bool) -> Result<(), String> {
        let mut references = References::default();
        if !colon_seen {
            scan(self.lexer, b":", &mut references)?;
        }
        scan(self.lexer, b"{", &mut references)?;
        references.count(self.facts);
        self.contents()?;
        // Regions, segments and the fill value.
        loop {
            let mut ahead = self.lexer.clone();
            match ahead.name() {
                Some(Token::Punct(b'=')) => {
                    *self.lexer = ahead;
                    if self.lexer.eat(b'(') {
                        scan(self.lexer, b")", &mut References::default())?;
                    } else {
                        self.lexer.name();
                    }
                }
                Some(Token::Punct(b',')) => *self.lexer = ahead,
                Some(Token::Word(word)) if word == ">" || word == ":" || word == "AT>" => {
                    *self.lexer = ahead;
                    self.lexer.name();
                }
                Some(Token::Word(word)) if word.starts_with([':', '>']) || word.starts_with("AT>") => {
                    *self.lexer = ahead;
                }
                // `AT >region`.
                Some(Token::Word(word)) if word == "AT" => *self.lexer = ahead,
                _ => return Ok(()),
            }
        }
    }

    /// Statements between the braces of an output section.
    fn contents(&mut self) -> Result<(), String> {
        loop {
            let token = self.lexer.name();
            match token {
                Some(Token::Punct(b'}')) => return Ok(()),
                Some(Token::Punct(b';' | b',')) => {}
                Some(Token::Quoted(file)) => self.input_sections(&file, false)?,
                Some(Token::Word(word)) => match word.as_str() {
                    "BYTE" | "SHORT" | "LONG" | "QUAD" | "SQUAD" | "FILL" => {
                        self.expect(b'(')?;
                        let mut references = References::default();
                        scan(self.lexer, b")", &mut references)?;
                        references.count(self.facts);
                    }
                    "ASCIZ" | "ASCII" => {
                        let parenthesised = self.lexer.eat(b'(');
                        self.lexer.name();
                        if parenthesised {
                            self.names()?;
                        }
                    }
                    "CREATE_OBJECT_SYMBOLS" | "CONSTRUCTORS" | "LINKER_VERSION" => {}
                    "INCLUDE" => return Err("INCLUDE".to_owned()),
                    "KEEP" => {
                        self.expect(b'(')?;
                        let file =
                            self.lexer.name().and_then(Token::into_text).ok_or("KEEP without a pattern")?;
                        self.input_sections(&file, true)?;
                        self.expect(b')')?;
                    }
                    _ => {
                        if !self.statement(&word)? {
                            self.input_sections(&word, false)?;
                        }
                    }
                },
                other => return Err(describe(other.as_ref(), self.lexer)),
            }
        }
    }

    /// An input section description, `first` being its first word: `file(patterns)`, with sorting and exclusions.
    fn input_sections(&mut self, first: &str, keep: bool) -> Result<(), String> {
        let mut first = first.to_owned();
        // Words that may precede the file pattern.
        let file = loop {
            match first.as_str() {
                "INPUT_SECTION_FLAGS" => {
                    self.expect(b'(')?;
                    self.names()?;
                }
                "EXCLUDE_FILE" => {
                    self.expect(b'(')?;
                    let files = self.names()?;
                    self.files(files);
                }
                sort if is_sort(sort) => {
                    // SORT(CONSTRUCTORS), or SORT(file-pattern) before the sections.
                    self.expect(b'(')?;
                    let sorted = self.names()?;
                    match sorted.as_slice() {
                        [one] if one == "CONSTRUCTORS" => return Ok(()),
                        [one] => break one.clone(),
                        _ => return Err(format!("{sort} of several files")),
                    }
                }
                _ => break first,
            }
            first = self.lexer.name().and_then(Token::into_text).ok_or("a file pattern is missing")?;
        };
        let mut patterns = Vec::new();
        if self.lexer.eat(b'(') {
            self.section_patterns(&mut patterns)?;
        } else {
            patterns.push("*".to_owned());
        }
        let described = if keep { &mut self.facts.keep } else { &mut self.facts.placed };
        described.push((file.clone(), patterns));
        self.files(vec![file]);
        Ok(())
    }

    /// The list after `file(`, up to its closing parenthesis.
    fn section_patterns(&mut self, patterns: &mut Vec<String>) -> Result<(), String> {
        let mut depth = 0_usize;
        loop {
            match self.lexer.name() {
                Some(Token::Punct(b')')) if depth == 0 => return Ok(()),
                Some(Token::Punct(b')')) => depth -= 1,
                Some(Token::Punct(b',')) => {}
                Some(Token::Quoted(pattern)) => patterns.push(pattern),
                Some(Token::Word(word)) if word == "EXCLUDE_FILE" => {
                    // The sections are kept for the excluded files too: more than the script keeps, never less.
                    self.expect(b'(')?;
                    let files = self.names()?;
                    self.files(files);
                }
                Some(Token::Word(word)) if is_sort(&word) => {
                    self.expect(b'(')?;
                    depth += 1;
                }
                Some(Token::Word(pattern)) => patterns.push(pattern),
                other => return Err(describe(other.as_ref(), self.lexer)),
            }
        }
    }

    fn files(&mut self, patterns: Vec<String>) {
        for pattern in patterns {
            if pattern != "*" && !self.facts.file_patterns.contains(&pattern) {
                self.facts.file_patterns.push(pattern);
            }
        }
    }
}

fn is_sort(word: &str) -> bool {
    word == "SORT" || word == "REVERSE" || word.starts_with("SORT_BY_") || word == "SORT_NONE"
}
