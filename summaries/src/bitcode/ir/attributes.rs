//! Attributes of functions, parameters and calls.
//!
//! A function or call names a list, a list names groups, and a group has attributes of the function, its result or one parameter. Kinds are
//! numbers that LLVM never changes; unknown kinds are kept. An attribute in an unknown form ends its group, which the table
//! notes. Source: LLVM, `LLVMBitCodes.h` (`AttributeKindCodes`), `parseAttributeGroupBlock`. Ranges and values of string attributes are skipped.

use rustc_hash::FxHashMap;

use super::super::codes::attributes::{GROUP, LIST};
use super::super::codes::numbers;
use super::super::error::Result;
use super::super::module::MAX_NOTES;
use super::super::stream::Stream;
use super::constants::{pass_bounds, pass_range};
use super::record::TypeId;
use super::record::{Record, short};

numbers! {
    /// Kinds that change how an argument is passed, or affect the caller.
    pub mod kind: u32 {
        BY_VAL = 3, IN_REG = 5, NAKED = 7, NEST = 8, NO_RETURN = 17, RETURNED = 22, RETURNS_TWICE = 23,
        STRUCT_RET = 29, IN_ALLOCA = 38, SWIFT_SELF = 46, SWIFT_ERROR = 47, PREALLOCATED = 65, BY_REF = 69,
        SWIFT_ASYNC = 75,
    }
}

/// The attributes of [`kind`] that determine how a parameter is passed.
#[rustfmt::skip]
const PASSING: &[u32] = &[
    kind::BY_VAL, kind::IN_REG, kind::NEST, kind::STRUCT_RET, kind::IN_ALLOCA, kind::SWIFT_SELF, kind::SWIFT_ERROR,
    kind::PREALLOCATED, kind::SWIFT_ASYNC,
];

/// A list of groups by its number in functions and calls: 0 is the empty one, which no record describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AttributeList(pub u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributePlace {
    Result,
    Function,
    /// The first one has number 0.
    Parameter(u32),
}

/// An attribute that is no string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IrAttribute {
    /// The values are those of [`kind`].
    pub kind: u32,
    /// It is the type `T` of `byval(T)` and others.
    pub ty: Option<TypeId>,
    /// The number of an attribute that has one, as `align`.
    pub value: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributeGroup {
    pub place: AttributePlace,
    pub attributes: Vec<IrAttribute>,
    /// These are the keys of string attributes.
    pub keys: Vec<Vec<u8>>,
}

/// The passing of an argument, if its type alone does not determine it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassingAttribute {
    /// The first one has number 0.
    pub parameter: u32,
    /// The values are those of [`kind`].
    pub kind: u32,
    pub ty: Option<TypeId>,
}

#[derive(Debug, Clone, Default)]
pub struct Attributes {
    groups: Vec<AttributeGroup>,
    /// The place in `groups` of each group, by its number in the file.
    numbers: FxHashMap<u64, u32>,
    /// The elements are lists of numbers of groups.
    lists: Vec<Box<[u64]>>,
    pub unknown: Vec<String>,
}

numbers! {
    /// The forms of an attribute in a group's record.
    pub(super) mod form: u64 {
        ENUM = 0, NUMBER = 1, KEY = 3, KEY_AND_VALUE = 4, NO_TYPE = 5, TYPE = 6, RANGE = 7, RANGES = 8,
    }
}

impl Attributes {
    /// The groups of a list, in its order. `None` if the module has no such list, or one of its groups is missing.
    pub fn groups(&self, list: AttributeList) -> Option<impl Iterator<Item = &AttributeGroup>> {
        let numbers: &[u64] = match list.0.checked_sub(1) {
            None => &[],
            Some(index) => self.lists.get(index as usize)?,
        };
        let find = |number: &u64| self.groups.get(*self.numbers.get(number)? as usize);
        numbers.iter().all(|n| find(n).is_some()).then(|| numbers.iter().filter_map(find))
    }

    /// Whether the function has an attribute of this kind. `None` as in [`Self::groups`].
    pub fn of_function(&self, list: AttributeList, kind: u32) -> Option<bool> {
        let is_it = |g: &AttributeGroup| {
            g.place == AttributePlace::Function && g.attributes.iter().any(|a| a.kind == kind)
        };
        Some(self.groups(list)?.any(is_it))
    }

    /// Whether the function has a string attribute with this key and any value. `None` as in [`Self::groups`].
    pub fn has_key(&self, list: AttributeList, key: &[u8]) -> Option<bool> {
        let is_it =
            |g: &AttributeGroup| g.place == AttributePlace::Function && g.keys.iter().any(|k| k == key);
        Some(self.groups(list)?.any(is_it))
    }

    /// The parameters that are not passed by their type alone. `None` as in [`Self::groups`].
    pub fn passing(&self, list: AttributeList) -> Option<Vec<PassingAttribute>> {
        let mut found = Vec::new();
        for group in self.groups(list)? {
            let AttributePlace::Parameter(parameter) = group.place else { continue };
            let peculiar = group.attributes.iter().filter(|a| PASSING.contains(&a.kind));
            found.extend(peculiar.map(|a| PassingAttribute { parameter, kind: a.kind, ty: a.ty }));
        }
        Some(found)
    }

    fn note_unknown(&mut self, what: String) {
        if self.unknown.len() < MAX_NOTES {
            self.unknown.push(what);
        }
    }

    /// Read a block of groups that has just been entered.
    pub(super) fn read_groups(&mut self, stream: &mut Stream<'_>) -> Result<()> {
        stream.each_record(|stream, code| {
            if code != GROUP {
                self.note_unknown(format!("attribute group record {code}"));
                return Ok(());
            }
            let mut record = Record::new(stream.operands(), 0);
            let head = record.take().zip(record.take()).ok_or_else(|| short(stream, GROUP))?;
            let (group, complete) = group(head.1, record);
            if !complete {
                self.note_unknown(format!("attribute group {}", head.0));
            }
            self.numbers.insert(head.0, self.groups.len() as u32);
            self.groups.push(group);
            Ok(())
        })
    }

    /// Read a block of lists that has just been entered.
    pub(super) fn read_lists(&mut self, stream: &mut Stream<'_>) -> Result<()> {
        stream.each_record(|stream, code| {
            if code != LIST {
                self.note_unknown(format!("attribute list record {code}"));
            }
            self.lists.push(if code == LIST { stream.operands().into() } else { Box::default() });
            Ok(())
        })
    }
}

/// A group, and whether all of it was understood.
fn group(place: u64, mut record: Record<'_>) -> (AttributeGroup, bool) {
    let place = match place {
        0 => AttributePlace::Result,
        0xffff_ffff => AttributePlace::Function,
        index => AttributePlace::Parameter((index - 1) as u32),
    };
    let mut group = AttributeGroup { place, attributes: Vec::new(), keys: Vec::new() };
    while record.left() > 0 {
        if attribute(&mut record, &mut group).is_none() {
            return (group, false);
        }
    }
    (group, true)
}

fn attribute(record: &mut Record<'_>, group: &mut AttributeGroup) -> Option<()> {
    let form = record.take()?;
    if matches!(form, form::KEY | form::KEY_AND_VALUE) {
        let key = text(record)?;
        group.keys.push(key.iter().map(|c| *c as u8).collect());
        if form == form::KEY_AND_VALUE {
            text(record)?;
        }
        return Some(());
    }
    let mut attribute = IrAttribute { kind: record.small()?, ty: None, value: None };
    match form {
        form::ENUM | form::NO_TYPE => {}
        form::NUMBER => attribute.value = Some(record.take()?),
        form::TYPE => attribute.ty = Some(record.ty()?),
        form::RANGE => pass_range(record)?,
        form::RANGES => {
            let (count, width) = (record.take()?, record.take()?);
            for _ in 0..count {
                pass_bounds(record, width)?;
            }
        }
        _ => return None,
    }
    group.attributes.push(attribute);
    Some(())
}

/// The characters before a zero, which is consumed too.
fn text<'r>(record: &mut Record<'r>) -> Option<&'r [u64]> {
    let length = record.rest().iter().position(|c| *c == 0)?;
    let text = record.take_many(length as u64)?;
    record.take()?;
    Some(text)
}
