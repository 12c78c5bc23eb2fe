//! Program-wide ids: dense `u32` newtypes and the table type that only they index.
//!
//! Ids are given in a deterministic order (command line, then file order), so ordering by id is ordering by
//! input. No id is ever reused or renumbered after its table is frozen.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

pub trait Id: Copy + Eq + Ord {
    /// The id as an index into its table.
    fn index(self) -> usize;
    /// The id of table entry `index`.
    fn new(index: usize) -> Self;
}

/// An enum with a name for each value. Messages, reports and options use these names.
macro_rules! named {
    ($(#[$of:meta])* $vis:vis enum $ty:ident { $($(#[$doc:meta])* $value:ident = $name:literal,)* }) => {
        $(#[$of])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $ty {
            $($(#[$doc])* $value,)*
        }

        #[allow(dead_code, reason = "some enums are only written, others only read")]
        impl $ty {
            /// All values by their names, in the order of the definition.
            $vis const ALL: &'static [(&'static str, $ty)] = &[$(($name, $ty::$value),)*];

            $vis fn name(self) -> &'static str {
                match self { $($ty::$value => $name,)* }
            }
        }
    };
}
pub(crate) use named;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl Id for $name {
            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }

            #[inline]
            fn new(index: usize) -> Self {
                debug_assert!(index < u32::MAX as usize);
                Self(index as u32)
            }
        }
    };
}

id! {
    /// A file that was opened, in order of first mention.
    FileId
}
id! {
    /// A relocatable object: a file of its own or an archive member (path + offset), loaded or not.
    ModuleId
}
id! {
    DsoId
}
id! {
    /// A global symbol name, as resolved.
    SymbolId
}
id! {
    /// An atom of a loaded module, in load order.
    AtomId
}

/// A table indexed by one kind of id.
#[derive(Debug, Clone)]
pub struct IdVec<I, T> {
    items: Vec<T>,
    id: PhantomData<fn(I)>,
}

impl<I: Id, T> Default for IdVec<I, T> {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl<I: Id, T> From<Vec<T>> for IdVec<I, T> {
    fn from(items: Vec<T>) -> Self {
        IdVec { items, id: PhantomData }
    }
}

impl<I: Id, T> IdVec<I, T> {
    pub fn push(&mut self, item: T) -> I {
        let id = I::new(self.items.len());
        self.items.push(item);
        id
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    pub fn enumerated(&self) -> impl ExactSizeIterator<Item = (I, &T)> + '_ {
        self.items.iter().enumerate().map(|(i, t)| (I::new(i), t))
    }

    pub fn ids(&self) -> impl ExactSizeIterator<Item = I> + use<I, T> {
        (0..self.items.len()).map(I::new)
    }

    pub fn as_slice(&self) -> &[T] {
        &self.items
    }

    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }
}

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}
