//! References of static initializers: the addresses that are stored in the atom of a variable.
//!
//! An address of 8 bytes with a known distance is a reference of kind `data`, which the value flow analyses as contents. Every other
//! reference is of kind `address`, and its target escapes. Bytes that are not an address are ignored.

use super::super::ir::constants::ConstantKind;
use super::super::ir::types::Type;
use super::super::ir::{TypeId, ValueId};
use super::places::{ConstantValues, GlobalPlace};

pub(super) struct StoredConstant {
    /// The offset in bytes from the beginning of the variable.
    pub(super) at: u64,
    pub(super) place: GlobalPlace,
    /// It is the whole address, and not computed from it.
    pub(super) plain: bool,
}

/// The addresses in an initializer. `None` if the layout of a type is unknown, or after `budget` constants.
pub(super) fn stored(
    values: ConstantValues<'_>,
    initializer: ValueId,
    budget: &mut usize,
) -> Option<Vec<StoredConstant>> {
    let mut found = Vec::new();
    let mut open = vec![(initializer, 0u64)];
    while let Some((id, at)) = open.pop() {
        *budget = budget.checked_sub(1)?;
        let constant = values.constant(id);
        if let Some(ConstantKind::Aggregate(elements)) = constant.map(|c| &c.kind) {
            let ty = constant?.ty;
            for (i, element) in elements.iter().enumerate() {
                // Elements without an address need no place.
                if !leads_somewhere(values, *element) {
                    continue;
                }
                open.push((*element, at.checked_add(offset_of(values, ty, i)?)?));
            }
            continue;
        }
        let places = values.places(id)?;
        let is_address = values.module.global(id).is_some()
            || constant.is_some_and(|c| matches!(c.kind, ConstantKind::BlockAddress { .. }))
            || constant.is_some_and(|c| is_pointer_sized(values, c.ty));
        let plain = places.len() == 1 && is_address;
        found.extend(places.into_iter().map(|place| StoredConstant {
            at,
            place,
            plain: plain && place.1.is_some(),
        }));
    }
    Some(found)
}

/// Whether a constant is made of anything but numbers.
fn leads_somewhere(values: ConstantValues<'_>, id: ValueId) -> bool {
    values.constant(id).is_none_or(|c| {
        let mut any = false;
        c.each_operand(|_| any = true);
        any
    })
}

fn is_pointer_sized(values: ConstantValues<'_>, ty: TypeId) -> bool {
    match values.module.types.get(ty) {
        Some(Type::Pointer { address_space: 0, .. }) => true,
        Some(Type::Integer { bits }) => *bits == 64,
        _ => false,
    }
}

fn offset_of(values: ConstantValues<'_>, ty: TypeId, index: usize) -> Option<u64> {
    match values.module.types.get(ty)? {
        Type::Struct { .. } => values.sizes.fields(ty)?.get(index).copied(),
        Type::Array { element, .. } => values.sizes.of(*element)?.alloc.checked_mul(index as u64),
        Type::Vector { element, scalable: false, .. } => {
            let size = values.sizes.of(*element)?;
            // Packed by bits; of addresses there are no others.
            (size.store == 8).then(|| size.store.checked_mul(index as u64))?
        }
        _ => None,
    }
}
