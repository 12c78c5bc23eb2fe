//! The table of types of a module, by type id.
//!
//! Each record of a type has an id, so that an unknown record makes every later id doubtful: the table is then not
//! understood. Source: LLVM, `LLVMBitCodes.h` (`TypeCodes`), `TypeFinder`. Names of structures and parameters of target types are skipped.

use rustc_hash::FxHashMap;

use super::super::codes::types as code;
use super::super::error::Result;
use super::super::module::MAX_NOTES;
use super::super::stream::Stream;
use super::record::TypeId;
use super::record::{Record, short};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FloatKind {
    Half,
    Bfloat,
    Single,
    Double,
    /// The format with 80 bits of the x87 unit.
    X86Fp80,
    Fp128,
    PpcFp128,
}

/// A type. Its ids may be forward, and in malformed bytes may be out of the table or form a cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
#[rustfmt::skip]
pub enum Type {
    Void,
    Integer { bits: u32 },
    Float(FloatKind),
    Pointer {
        address_space: u32,
        /// The pointee of a typed pointer (LLVM 14 and before).
        pointee: Option<TypeId>,
    },
    Function { vararg: bool, result: TypeId, parameters: Box<[TypeId]> },
    Struct { packed: bool, elements: Box<[TypeId]> },
    /// A structure whose body is in another module.
    Opaque,
    Array { count: u64, element: TypeId },
    Vector {
        /// The minimum if it is scalable.
        count: u64,
        element: TypeId,
        scalable: bool,
    },
    Label,
    Metadata,
    Token,
    X86Mmx,
    X86Amx,
    TargetExt,
    /// The type of an unknown record.
    Unknown,
}

#[derive(Debug, Clone, Default)]
pub struct Types {
    /// The elements are indexed by type id.
    pub all: Vec<Type>,
    /// Unknown records: later ids can't be trusted.
    pub unknown: Vec<String>,
    /// The untyped pointer of address space 0.
    pointer: Option<TypeId>,
    truth: Option<TypeId>,
    /// Vector types by number and type of elements, and whether they are scalable.
    vectors: FxHashMap<(u64, TypeId, bool), TypeId>,
    /// Structures of two fields, by their types.
    pairs: FxHashMap<(TypeId, TypeId), TypeId>,
}

impl Types {
    /// The type with this id, if the table has it.
    pub fn get(&self, id: TypeId) -> Option<&Type> {
        self.all.get(id.0 as usize)
    }

    /// The id of `ptr`, if the module has it; modules with typed pointers don't.
    pub fn pointer(&self) -> Option<TypeId> {
        self.pointer
    }

    /// The id of `i1`, if the module has it.
    pub fn truth(&self) -> Option<TypeId> {
        self.truth
    }

    /// The id of the vector type like `like` with other elements, or `element` if `like` is no vector.
    pub fn lanes(&self, like: TypeId, element: TypeId) -> Option<TypeId> {
        match self.get(like)? {
            Type::Vector { count, scalable, .. } => self.vectors.get(&(*count, element, *scalable)).copied(),
            _ => Some(element),
        }
    }

    /// The id of `{ first, second }`.
    pub fn pair(&self, first: TypeId, second: TypeId) -> Option<TypeId> {
        self.pairs.get(&(first, second)).copied()
    }

    /// A function type's result, its parameters, and whether it is variadic.
    pub fn function(&self, id: TypeId) -> Option<(TypeId, &[TypeId], bool)> {
        match self.get(id)? {
            Type::Function { vararg, result, parameters } => Some((*result, parameters, *vararg)),
            _ => None,
        }
    }

    /// The type of the element of an aggregate at these indices.
    pub fn element(&self, id: TypeId, indices: &[u64]) -> Option<TypeId> {
        indices.iter().try_fold(id, |id, index| match self.get(id)? {
            Type::Struct { elements, .. } => elements.get(usize::try_from(*index).ok()?).copied(),
            Type::Array { element, .. } | Type::Vector { element, .. } => Some(*element),
            _ => None,
        })
    }

    fn add(&mut self, ty: Type) {
        let id = TypeId(self.all.len() as u32);
        match &ty {
            Type::Pointer { address_space: 0, pointee: None } => self.pointer = self.pointer.or(Some(id)),
            Type::Integer { bits: 1 } => self.truth = self.truth.or(Some(id)),
            Type::Vector { count, element, scalable } => {
                self.vectors.insert((*count, *element, *scalable), id);
            }
            Type::Struct { packed: false, elements } => {
                if let [first, second] = **elements {
                    // A named structure is another type with the same fields.
                    self.pairs.entry((first, second)).or_insert(id);
                }
            }
            _ => {}
        }
        self.all.push(ty);
    }

    /// Read the block that has just been entered.
    pub(super) fn read(&mut self, stream: &mut Stream<'_>) -> Result<()> {
        stream.each_record(|stream, code| {
            if !matches!(code, code::NUMENTRY | code::STRUCT_NAME) {
                let found = parse(Record::new(stream.operands(), 0), code);
                let found = found.ok_or_else(|| short(stream, code))?;
                if found == Type::Unknown && self.unknown.len() < MAX_NOTES {
                    self.unknown.push(format!("type record {code}"));
                }
                self.add(found);
            }
            Ok(())
        })
    }
}

fn parse(mut record: Record<'_>, code: u32) -> Option<Type> {
    Some(match code {
        code::VOID => Type::Void,
        code::FLOAT => Type::Float(FloatKind::Single),
        code::DOUBLE => Type::Float(FloatKind::Double),
        code::HALF => Type::Float(FloatKind::Half),
        code::BFLOAT => Type::Float(FloatKind::Bfloat),
        code::X86_FP80 => Type::Float(FloatKind::X86Fp80),
        code::FP128 => Type::Float(FloatKind::Fp128),
        code::PPC_FP128 => Type::Float(FloatKind::PpcFp128),
        code::LABEL => Type::Label,
        code::METADATA => Type::Metadata,
        code::TOKEN => Type::Token,
        code::X86_MMX => Type::X86Mmx,
        code::X86_AMX => Type::X86Amx,
        code::OPAQUE => Type::Opaque,
        code::TARGET_TYPE => Type::TargetExt,
        code::INTEGER => Type::Integer { bits: record.small()? },
        code::POINTER => {
            let pointee = Some(record.ty()?);
            Type::Pointer { pointee, address_space: record.small().unwrap_or_default() }
        }
        code::OPAQUE_POINTER => Type::Pointer { address_space: record.small()?, pointee: None },
        code::ARRAY => Type::Array { count: record.take()?, element: record.ty()? },
        code::VECTOR => Type::Vector {
            count: record.take()?,
            element: record.ty()?,
            scalable: record.take().unwrap_or_default() != 0,
        },
        code::STRUCT_ANON | code::STRUCT_NAMED => {
            Type::Struct { packed: record.take()? != 0, elements: list(&mut record)? }
        }
        code::FUNCTION => {
            let (vararg, result) = (record.take()? != 0, record.ty()?);
            Type::Function { vararg, result, parameters: list(&mut record)? }
        }
        _ => Type::Unknown,
    })
}

fn list(record: &mut Record<'_>) -> Option<Box<[TypeId]>> {
    let mut all = Vec::with_capacity(record.left());
    while record.left() > 0 {
        all.push(record.ty()?);
    }
    Some(all.into_boxed_slice())
}
