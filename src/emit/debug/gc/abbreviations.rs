//! Sweep phase for `.debug_abbrev` (DWARF 5, 7.5.3): the abbreviations that kept entries use, without the attributes that are left out.

use gimli::constants as dw;
use rustc_hash::FxHashMap;

use super::attributes::is_left_out;
use super::entries::invalid;
use crate::emit::cursor::{Cursor, sleb, uleb};
use crate::error::Result;

/// A table of abbreviations, and those of it that are used.
#[derive(Debug)]
pub(super) struct AbbreviationTable {
    /// By old code: the tag and the kept attribute specifications, without the zeros at the end.
    declarations: FxHashMap<u64, Vec<u8>>,
    /// New codes. Abbreviations that became alike have one.
    codes: FxHashMap<Vec<u8>, u64>,
    /// By what an entry says of it.
    used: FxHashMap<AbbreviationUse, u64>,
    /// The used ones with their codes, as bytes of the section.
    pub(super) bytes: Vec<u8>,
}

/// How an entry uses an abbreviation: its old code, whether the entry has children, and whether it gets `DW_AT_addr_base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct AbbreviationUse {
    pub(super) code: u64,
    pub(super) has_child: bool,
    pub(super) has_base: bool,
}

impl AbbreviationTable {
    /// Read the table at `offset` of the section.
    ///
    /// # Errors
    /// It ends early.
    pub(super) fn read(section: &[u8], offset: u64) -> Result<Self> {
        let mut declarations = FxHashMap::default();
        let mut cursor = Cursor::new(section, offset);
        loop {
            let code = cursor.uleb()?;
            if code == 0 {
                break;
            }
            let mut kept = Vec::new();
            uleb(&mut kept, cursor.uleb()?);
            cursor.u8()?;
            loop {
                let (name, form) = (cursor.uleb()?, cursor.uleb()?);
                let constant = match form == u64::from(dw::DW_FORM_implicit_const.0) {
                    true => Some(cursor.sleb()?),
                    false => None,
                };
                if (name, form) == (0, 0) {
                    break;
                }
                if u16::try_from(name).is_ok_and(|name| is_left_out(gimli::DwAt(name))) {
                    continue;
                }
                uleb(&mut kept, name);
                uleb(&mut kept, form);
                constant.into_iter().for_each(|constant| sleb(&mut kept, constant));
            }
            declarations.insert(code, kept);
        }
        let (codes, used) = Default::default();
        Ok(AbbreviationTable { declarations, codes, used, bytes: Vec::new() })
    }

    /// The new code of an abbreviation.
    ///
    /// # Errors
    /// The table has no such abbreviation.
    pub(super) fn code(&mut self, of: AbbreviationUse) -> Result<u64> {
        if let Some(code) = self.used.get(&of) {
            return Ok(*code);
        }
        let declaration = self.declarations.get(&of.code);
        let declaration = declaration.ok_or_else(|| invalid("an entry has no abbreviation"))?;
        let mut cursor = Cursor::new(declaration, 0);
        let mut bytes = Vec::with_capacity(declaration.len() + 8);
        uleb(&mut bytes, cursor.uleb()?);
        bytes.push(u8::from(of.has_child));
        bytes.extend_from_slice(declaration.get(cursor.at as usize..).unwrap_or(&[]));
        if of.has_base {
            uleb(&mut bytes, dw::DW_AT_addr_base.0.into());
            uleb(&mut bytes, dw::DW_FORM_sec_offset.0.into());
        }
        bytes.extend_from_slice(&[0, 0]);
        let next = self.codes.len() as u64 + 1;
        let code = *self.codes.entry(bytes).or_insert_with_key(|bytes| {
            uleb(&mut self.bytes, next);
            self.bytes.extend_from_slice(bytes);
            next
        });
        self.used.insert(of, code);
        Ok(code)
    }
}
