//! Linkage, visibility and the flags of summaries, in the numbers of LLVM's files.
//!
//! Module records and summaries number linkages differently (`getDecodedLinkage` and `GlobalValue::LinkageTypes`); unknown numbers are
//! `None`, and the caller keeps the module.

use crate::summary::Visibility;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linkage {
    External,
    /// A copy of a definition that is elsewhere, for inlining: to a linker a declaration.
    AvailableExternally,
    LinkOnceAny,
    LinkOnceOdr,
    WeakAny,
    WeakOdr,
    /// Arrays that linking joins (`llvm.used`, `llvm.global_ctors`).
    Appending,
    Internal,
    /// Internal without a name in the object.
    Private,
    /// The symbol is a weak reference, no definition.
    ExternWeak,
    /// The symbol is a tentative definition of C.
    Common,
}

impl Linkage {
    /// The linkage that has this number in a record of a module.
    pub(super) fn of_record(value: u64) -> Option<Self> {
        Some(match value {
            // 5 and 6 were import and export, 15 an obsolete way to hide.
            0 | 5 | 6 | 15 => Linkage::External,
            1 | 16 => Linkage::WeakAny,
            2 => Linkage::Appending,
            3 => Linkage::Internal,
            4 | 18 => Linkage::LinkOnceAny,
            7 => Linkage::ExternWeak,
            8 => Linkage::Common,
            // 13 and 14 were private to the linker.
            9 | 13 | 14 => Linkage::Private,
            10 | 17 => Linkage::WeakOdr,
            11 | 19 => Linkage::LinkOnceOdr,
            12 => Linkage::AvailableExternally,
            _ => return None,
        })
    }

    /// The linkage that has this number in a summary.
    pub(super) fn of_summary(value: u64) -> Option<Self> {
        Some(match value {
            0 => Linkage::External,
            1 => Linkage::AvailableExternally,
            2 => Linkage::LinkOnceAny,
            3 => Linkage::LinkOnceOdr,
            4 => Linkage::WeakAny,
            5 => Linkage::WeakOdr,
            6 => Linkage::Appending,
            7 => Linkage::Internal,
            8 => Linkage::Private,
            9 => Linkage::ExternWeak,
            10 => Linkage::Common,
            _ => return None,
        })
    }

    /// Its word in LLVM's assembly language of summaries.
    pub fn word(self) -> &'static str {
        match self {
            Linkage::External => "external",
            Linkage::AvailableExternally => "available_externally",
            Linkage::LinkOnceAny => "linkonce",
            Linkage::LinkOnceOdr => "linkonce_odr",
            Linkage::WeakAny => "weak",
            Linkage::WeakOdr => "weak_odr",
            Linkage::Appending => "appending",
            Linkage::Internal => "internal",
            Linkage::Private => "private",
            Linkage::ExternWeak => "extern_weak",
            Linkage::Common => "common",
        }
    }

    /// Whether nothing outside the module can name it.
    pub fn is_local(self) -> bool {
        matches!(self, Linkage::Internal | Linkage::Private)
    }

    /// Whether another definition may replace it without conflict.
    pub fn is_weak(self) -> bool {
        matches!(
            self,
            Linkage::LinkOnceAny
                | Linkage::LinkOnceOdr
                | Linkage::WeakAny
                | Linkage::WeakOdr
                | Linkage::ExternWeak
        )
    }
}

/// A visibility; LLVM has no internal one.
pub(super) fn visibility(value: u64) -> Option<Visibility> {
    match value {
        0 => Some(Visibility::Default),
        1 => Some(Visibility::Hidden),
        2 => Some(Visibility::Protected),
        _ => None,
    }
}
