//! The data layout: sizes of types in memory, and offsets of the fields of structures.
//!
//! If the module's layout is silent, LLVM's default counts if it is the same for every version. The alignment of integers of more than 64 bits changed with
//! LLVM 18, so that it must be named. `None` means an unknown size. A type that contains itself, or whose size does
//! not fit, has no size. Source: LLVM, "Language Reference", Data Layout. Scalable vectors, target types and index sizes are not modelled.

use super::record::TypeId;
use super::types::{FloatKind, Type, Types};

/// The size and the alignment of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Bytes that a load or store touches.
    pub store: u64,
    /// Bytes from one element of an array to the next.
    pub alloc: u64,
    /// In bytes, a power of two.
    pub align: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataLayout {
    /// A part of it was not understood.
    doubtful: bool,
    /// Address space, size and alignment in bytes.
    pointers: Vec<(u32, u64, u64)>,
    /// Bits and alignment in bytes, sorted.
    integers: Vec<(u32, u64)>,
    floats: Vec<(u32, u64)>,
    vectors: Vec<(u64, u64)>,
    /// It is the least alignment of structures.
    aggregate: u64,
}

impl DataLayout {
    /// Parse the text of a module: `e-m:e-p270:32:32-i64:64-...`.
    pub fn parse(text: &[u8]) -> Self {
        let mut layout = DataLayout {
            doubtful: false,
            pointers: vec![(0, 8, 8)],
            integers: vec![(1, 1), (8, 1), (16, 2), (32, 4), (64, 4)],
            floats: vec![(16, 2), (32, 4), (64, 8), (128, 16)],
            vectors: vec![(64, 8), (128, 16)],
            aggregate: 1,
        };
        let text = String::from_utf8_lossy(text);
        for part in text.split('-').filter(|p| !p.is_empty()) {
            if layout.part(part).is_none() {
                layout.doubtful = true;
            }
        }
        layout
    }

    fn part(&mut self, part: &str) -> Option<()> {
        let kind = part.chars().next()?;
        let mut fields = part.get(1..)?.split(':');
        let first = fields.next()?;
        let number = |field: &str| if field.is_empty() { Some(0) } else { field.parse::<u32>().ok() };
        // In bits; LLVM knows no alignment between bytes.
        let bytes = |field: &str| {
            let bits = field.parse::<u32>().ok()?;
            let bytes = u64::from(bits / 8);
            (bits % 8 == 0 && (bytes.is_power_of_two() || bytes == 0)).then_some(bytes.max(1))
        };
        match kind {
            'E' | 'G' | 'A' | 'P' | 'F' => return (kind != 'E').then_some(()),
            // Mangling, native integers, the stack, integral pointers.
            'e' | 'm' | 'S' => return Some(()),
            'n' => return Some(()),
            'p' => {
                let space = number(first)?;
                let entry = (
                    space,
                    u64::from(fields.next()?.parse::<u32>().ok()?).div_ceil(8),
                    bytes(fields.next()?)?,
                );
                self.pointers.retain(|p| p.0 != space);
                self.pointers.push(entry);
            }
            'i' | 'f' | 'v' => {
                let (bits, align) = (number(first)?, bytes(fields.next()?)?);
                match kind {
                    'i' => set(&mut self.integers, bits, align),
                    'f' => set(&mut self.floats, bits, align),
                    _ => set(&mut self.vectors, u64::from(bits), align),
                }
            }
            'a' => self.aggregate = bytes(fields.next()?)?,
            _ => return None,
        }
        Some(())
    }

    /// The sizes of all types of a module.
    pub fn sizes(&self, types: &Types) -> Sizes {
        let mut sizes = Sizes { all: vec![None; types.all.len()], fields: vec![None; types.all.len()] };
        let mut state = vec![Visit::New; types.all.len()];
        // Types whose size is being computed, the innermost last.
        let mut open = Vec::new();
        for root in 0..types.all.len() as u32 {
            open.push(TypeId(root));
            while let Some(id) = open.last().copied() {
                let (Some(ty), Some(visit)) = (types.get(id), state.get_mut(id.0 as usize)) else {
                    open.pop();
                    continue;
                };
                match visit {
                    Visit::New => {
                        *visit = Visit::Open;
                        let is_new = |id: &TypeId| state.get(id.0 as usize) == Some(&Visit::New);
                        match ty {
                            Type::Struct { elements, .. } => {
                                open.extend(elements.iter().copied().filter(is_new))
                            }
                            Type::Array { element, .. } | Type::Vector { element, .. } => {
                                open.extend(Some(*element).filter(is_new));
                            }
                            _ => {}
                        }
                    }
                    Visit::Open => {
                        *visit = Visit::Done;
                        // An open element contains this type: neither has a size.
                        let (size, fields) = self.size(ty, types, &sizes);
                        sizes.set(id, size, fields);
                        open.pop();
                    }
                    Visit::Done => {
                        open.pop();
                    }
                }
            }
        }
        sizes
    }

    fn size(&self, ty: &Type, types: &Types, known: &Sizes) -> (Option<Size>, Option<Box<[u64]>>) {
        if self.doubtful {
            return (None, None);
        }
        match ty {
            Type::Struct { packed, elements } => match self.structure(*packed, elements, known) {
                Some((size, fields)) => (Some(size), Some(fields)),
                None => (None, None),
            },
            ty => (self.scalar(ty, types, known), None),
        }
    }

    fn scalar(&self, ty: &Type, types: &Types, known: &Sizes) -> Option<Size> {
        match ty {
            Type::Integer { bits } => rounded(u64::from(*bits).div_ceil(8), self.integer_align(*bits)?),
            Type::Float(kind) => {
                let (bits, bytes) = match kind {
                    FloatKind::Half | FloatKind::Bfloat => (16, 2),
                    FloatKind::Single => (32, 4),
                    FloatKind::Double => (64, 8),
                    FloatKind::X86Fp80 => (80, 10),
                    FloatKind::Fp128 | FloatKind::PpcFp128 => (128, 16),
                };
                rounded(bytes, find(&self.floats, bits)?)
            }
            Type::Pointer { address_space, .. } => {
                let entry = self.pointers.iter().find(|p| p.0 == *address_space)?;
                rounded(entry.1, entry.2)
            }
            Type::X86Mmx => rounded(8, 8),
            Type::X86Amx => rounded(1024, 64),
            Type::Array { count, element } => {
                let element = known.of(*element)?;
                let bytes = element.alloc.checked_mul(*count)?;
                rounded(bytes, element.align)
            }
            Type::Vector { count, element, scalable: false } => {
                let element_bits = match types.get(*element)? {
                    Type::Integer { bits } => u64::from(*bits),
                    _ => known.of(*element)?.store.checked_mul(8)?,
                };
                let bits = element_bits.checked_mul(*count)?;
                let bytes = bits.div_ceil(8);
                let align = match find(&self.vectors, bits) {
                    Some(align) => align,
                    None => bytes.checked_next_power_of_two()?,
                };
                rounded(bytes, align)
            }
            _ => None,
        }
    }

    /// The alignment of the next larger integer in the layout, else of the largest; of more than 64 bits only if one is named.
    fn integer_align(&self, bits: u32) -> Option<u64> {
        let larger = self.integers.iter().find(|(named, _)| *named >= bits);
        match larger.or(self.integers.last()) {
            Some((named, align)) if bits <= 64 || *named > 64 => Some(*align),
            _ => None,
        }
    }

    fn structure(&self, packed: bool, elements: &[TypeId], known: &Sizes) -> Option<(Size, Box<[u64]>)> {
        let (mut end, mut align) = (0u64, 1);
        let mut fields = Vec::with_capacity(elements.len());
        for element in elements {
            let size = known.of(*element)?;
            let own = if packed { 1 } else { size.align };
            let start = end.checked_next_multiple_of(own)?;
            fields.push(start);
            end = start.checked_add(size.alloc)?;
            align = align.max(own);
        }
        let align = if packed { 1 } else { align.max(self.aggregate) };
        let bytes = end.checked_next_multiple_of(align)?;
        Some((Size { store: bytes, alloc: bytes, align }, fields.into_boxed_slice()))
    }
}

/// The state of a type while sizes are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visit {
    New,
    Open,
    Done,
}

/// The sizes of a module's types.
#[derive(Debug, Clone, Default)]
pub struct Sizes {
    all: Vec<Option<Size>>,
    fields: Vec<Option<Box<[u64]>>>,
}

impl Sizes {
    /// The size of a type, if it is known.
    pub fn of(&self, id: TypeId) -> Option<Size> {
        self.all.get(id.0 as usize).copied().flatten()
    }

    /// The offset of each field of a structure, in bytes.
    pub fn fields(&self, id: TypeId) -> Option<&[u64]> {
        self.fields.get(id.0 as usize)?.as_deref()
    }

    fn set(&mut self, id: TypeId, size: Option<Size>, fields: Option<Box<[u64]>>) {
        if let (Some(size_at), Some(fields_at)) =
            (self.all.get_mut(id.0 as usize), self.fields.get_mut(id.0 as usize))
        {
            (*size_at, *fields_at) = (size, fields);
        }
    }
}

fn rounded(store: u64, align: u64) -> Option<Size> {
    Some(Size { store, alloc: store.checked_next_multiple_of(align)?, align })
}

fn find<K: Ord>(list: &[(K, u64)], key: K) -> Option<u64> {
    let at = list.binary_search_by(|(k, _)| k.cmp(&key)).ok()?;
    list.get(at).map(|(_, align)| *align)
}

fn set<K: Ord + Copy>(list: &mut Vec<(K, u64)>, key: K, align: u64) {
    list.retain(|(k, _)| *k != key);
    let at = list.partition_point(|(k, _)| *k < key);
    list.insert(at, (key, align));
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128";
    const NEW: &str = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128";

    fn sizes(text: &str, all: &[Type]) -> Sizes {
        let mut types = Types::default();
        types.all.extend_from_slice(all);
        DataLayout::parse(text.as_bytes()).sizes(&types)
    }

    fn structure(packed: bool, elements: &[u32]) -> Type {
        Type::Struct { packed, elements: elements.iter().map(|i| TypeId(*i)).collect() }
    }

    #[test]
    fn fields_of_structures() {
        let integer = |bits| Type::Integer { bits };
        let pointer = Type::Pointer { address_space: 0, pointee: None };
        let fp80 = Type::Float(FloatKind::X86Fp80);
        let all = [
            integer(8),
            integer(32),
            pointer,
            fp80,
            structure(false, &[0, 1, 0, 2, 3]),
            structure(true, &[0, 1]),
        ];
        let sizes = sizes(NEW, &all);
        assert_eq!(sizes.fields(TypeId(4)), Some(&[0, 4, 8, 16, 32][..]));
        assert_eq!(sizes.of(TypeId(4)), Some(Size { store: 48, alloc: 48, align: 16 }));
        assert_eq!(sizes.fields(TypeId(5)), Some(&[0, 1][..]));
        assert_eq!(sizes.of(TypeId(5)), Some(Size { store: 5, alloc: 5, align: 1 }));
        assert_eq!(sizes.of(TypeId(3)), Some(Size { store: 10, alloc: 16, align: 16 }));
    }

    #[test]
    fn wide_integers_need_a_word_of_the_layout() {
        let all = [Type::Integer { bits: 128 }, structure(false, &[0]), Type::Integer { bits: 24 }];
        assert_eq!(sizes(OLD, &all).of(TypeId(0)), None);
        assert_eq!(sizes(OLD, &all).of(TypeId(1)), None);
        assert_eq!(sizes(NEW, &all).of(TypeId(1)), Some(Size { store: 16, alloc: 16, align: 16 }));
        assert_eq!(sizes(NEW, &all).of(TypeId(2)), Some(Size { store: 3, alloc: 4, align: 4 }));
        assert_eq!(sizes("e-x:1", &all).of(TypeId(2)), None);
    }

    #[test]
    fn types_without_a_size() {
        // Two that contain each other; a missing element; a size that does not fit.
        let array = |count, element| Type::Array { count, element: TypeId(element) };
        let all =
            [structure(false, &[1]), array(3, 0), array(1, 9), Type::Integer { bits: 64 }, array(1 << 61, 3)];
        let found = sizes(NEW, &all);
        assert_eq!([0, 1, 2, 4].map(|i| found.of(TypeId(i))), [None; 4]);
        let deep: Vec<Type> =
            (0..200_000).map(|i| array(1, i + 1)).chain([Type::Integer { bits: 8 }]).collect();
        assert_eq!(sizes(NEW, &deep).of(TypeId(0)), Some(Size { store: 1, alloc: 1, align: 1 }));
    }
}
