//! The text form of constants: conditions, what calls pass, direct accesses, and what data holds; both ways.
//!
//! An integer is `constant 5`, or where it comes from with what is made of it: `rdi bytes 4`, `memory verbose +0 size 4 bytes 4`.
//! Lines of a function stand below its `constants`; conditions are numbered in their order.

use std::fmt::Write as _;

use super::cursor::{Cursor, Result};
use super::lex::{self, Token};
use super::parse::Parser;
use super::parse_functions::{expect, known_offset, register, size, target};
use super::{Dumper, words};
use crate::constant::{
    Cell, Condition, Contents, FunctionConstants, Integer, Outcome, Pass, Put, Quantity, Source,
};

/// The first words of lines below a function's `constants`.
pub(super) const LINES: [&str; 5] = ["condition", "pass", "put", "get", "directly"];

impl Dumper<'_> {
    pub(super) fn constants(&mut self, of: &FunctionConstants) {
        self.out.push_str("constants ");
        self.atom_reference(of.atom);
        self.out.push('\n');
        for condition in &of.conditions {
            self.out.push_str("  condition ");
            self.quantity(&condition.quantity);
            let word = words::comparison(condition.comparison);
            let _ = writeln!(self.out, " over {} {word} {:#x}", condition.size, condition.with);
        }
        for pass in &of.passes {
            let _ = write!(self.out, "  pass section {} @{:#x}", pass.section, pass.offset);
            self.needs(&pass.needs);
            for (register, integer) in &pass.actuals {
                let _ = write!(self.out, " {} ", words::register(*register));
                self.integer(integer);
            }
            self.out.push('\n');
        }
        for put in &of.puts {
            self.out.push_str("  put ");
            self.memory(&put.cell);
            self.out.push_str(" = ");
            match &put.value {
                Some(integer) => self.integer(integer),
                None => self.out.push_str("anything"),
            }
            self.needs(&put.needs);
            self.out.push('\n');
        }
        for cell in &of.gets {
            self.out.push_str("  get ");
            self.memory(cell);
            self.out.push('\n');
        }
        for (section, offset) in &of.direct {
            let _ = writeln!(self.out, "  directly section {section} @{offset:#x}");
        }
    }

    pub(super) fn contents(&mut self, of: &Contents) {
        self.out.push_str("contents ");
        self.atom_reference(of.atom);
        let _ = write!(self.out, " @{:#x} ", of.offset);
        lex::write_quoted(&mut self.out, &of.bytes);
        self.out.push('\n');
    }

    fn memory(&mut self, cell: &Cell) {
        self.target(cell.target);
        let _ = write!(self.out, " {:+} size {}", cell.offset, cell.size);
    }

    fn quantity(&mut self, of: &Quantity) {
        match &of.source {
            Source::Parameter(register) => self.out.push_str(&words::register(*register)),
            Source::Memory(cell) => {
                self.out.push_str("memory ");
                self.memory(cell);
            }
        }
        let _ = write!(self.out, " bytes {}", of.bytes);
        if of.signed != 0 {
            let _ = write!(self.out, " signed {}", of.signed);
        }
        if of.mask != u64::MAX {
            let _ = write!(self.out, " mask {:#x}", of.mask);
        }
    }

    fn integer(&mut self, of: &Integer) {
        match of {
            Integer::Constant(value) => {
                let _ = write!(self.out, "constant {value:#x}");
            }
            Integer::Of(quantity) => self.quantity(quantity),
        }
    }

    fn needs(&mut self, of: &[Outcome]) {
        for outcome in of {
            let word = if outcome.holds { "if" } else { "unless" };
            let _ = write!(self.out, " {word} {}", outcome.condition);
        }
    }
}

impl Parser {
    pub(super) fn constants(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let atom = self.atom_reference(cursor)?;
        self.summary.constants.push(FunctionConstants {
            atom,
            conditions: Vec::new(),
            passes: Vec::new(),
            puts: Vec::new(),
            gets: Vec::new(),
            direct: Vec::new(),
        });
        cursor.end()
    }

    /// A line below `constants`; `word` is its first.
    pub(super) fn constants_line(&mut self, word: &str, cursor: &mut Cursor<'_>) -> Result<()> {
        let Some(mut of) = self.summary.constants.pop() else {
            return Err(format!("`{word}` stands below the constants of a function"));
        };
        match word {
            "condition" => of.conditions.push(self.condition(cursor)?),
            "pass" => {
                expect(cursor, "section")?;
                let (section, offset) = (cursor.number()?, cursor.place()?);
                let mut pass = Pass { section, offset, needs: needs(cursor)?, actuals: Vec::new() };
                while cursor.peek().is_some() {
                    pass.actuals.push((register(cursor)?, self.integer(cursor)?));
                }
                of.passes.push(pass);
            }
            "put" => {
                let cell = self.memory(cursor)?;
                expect(cursor, "=")?;
                let value = match cursor.peek_word() {
                    Some("anything") => cursor.next().map(|_| None)?,
                    _ => Some(self.integer(cursor)?),
                };
                of.puts.push(Put { cell, value, needs: needs(cursor)? });
            }
            "get" => of.gets.push(self.memory(cursor)?),
            _ => {
                expect(cursor, "section")?;
                of.direct.push((cursor.number()?, cursor.place()?));
            }
        }
        self.summary.constants.push(of);
        cursor.end()
    }

    pub(super) fn contents(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let (atom, offset) = (self.atom_reference(cursor)?, cursor.place()?);
        let Token::Quoted(bytes) = cursor.next()? else { return Err("contents are quoted".to_owned()) };
        self.summary.contents.push(Contents { atom, offset, bytes: bytes.clone() });
        cursor.end()
    }

    fn condition(&self, cursor: &mut Cursor<'_>) -> Result<Condition> {
        let quantity = self.quantity(cursor)?;
        expect(cursor, "over")?;
        let size = cursor.number()?;
        let word = cursor.need_word()?;
        let comparison = words::read_comparison(word).ok_or_else(|| format!("`{word}` compares nothing"))?;
        Ok(Condition { quantity, size, comparison, with: cursor.number()? })
    }

    fn memory(&self, cursor: &mut Cursor<'_>) -> Result<Cell> {
        Ok(Cell { target: target(self, cursor)?, offset: known_offset(cursor)?, size: size(cursor)? })
    }

    fn quantity(&self, cursor: &mut Cursor<'_>) -> Result<Quantity> {
        let source = match cursor.peek_word() {
            Some("memory") => {
                cursor.next()?;
                Source::Memory(self.memory(cursor)?)
            }
            _ => Source::Parameter(register(cursor)?),
        };
        expect(cursor, "bytes")?;
        let mut quantity = Quantity { source, bytes: cursor.number()?, signed: 0, mask: u64::MAX };
        if cursor.peek_word() == Some("signed") {
            cursor.next()?;
            quantity.signed = cursor.number()?;
        }
        if cursor.peek_word() == Some("mask") {
            cursor.next()?;
            quantity.mask = cursor.number()?;
        }
        Ok(quantity)
    }

    fn integer(&self, cursor: &mut Cursor<'_>) -> Result<Integer> {
        match cursor.peek_word() {
            Some("constant") => {
                cursor.next()?;
                Ok(Integer::Constant(cursor.number()?))
            }
            _ => Ok(Integer::Of(self.quantity(cursor)?)),
        }
    }

    /// Bring the tables into their order.
    pub(super) fn sort_constants(&mut self) {
        self.summary.constants.sort_by_key(|c| c.atom);
        for of in &mut self.summary.constants {
            of.passes.sort();
            of.puts.sort();
            of.gets.sort();
            of.direct.sort_unstable();
            of.passes.iter_mut().for_each(|p| p.actuals.sort());
        }
        self.summary.contents.sort_by_key(|c| (c.atom, c.offset));
    }
}

fn needs(cursor: &mut Cursor<'_>) -> Result<Vec<Outcome>> {
    let mut needs = Vec::new();
    while let Some(word @ ("if" | "unless")) = cursor.peek_word() {
        cursor.next()?;
        needs.push(Outcome { condition: cursor.number()?, holds: word == "if" });
    }
    Ok(needs)
}
