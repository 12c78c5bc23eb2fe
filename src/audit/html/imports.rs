//! What the page knows of symbols of libraries: who uses which, where. The rows are those of the report, for atoms that live.

use serde::Serialize;

use super::Strings;
use crate::audit::demangle::demangle;
use crate::audit::model::Model;

/// What others define, by position. The users of import `i` are the rows from `start[i]` up to `start[i + 1]`.
#[derive(Default, Serialize)]
pub(super) struct Imports {
    name: Vec<u32>,
    /// The library, or what stands for none.
    by: Vec<u32>,
    start: Vec<u32>,
    from: Vec<u32>,
    kind: Vec<u8>,
    offset: Vec<i64>,
}

impl Imports {
    /// `live` is the number in the page of an atom of the report.
    pub(super) fn new(model: &Model<'_>, strings: &mut Strings, live: impl Fn(u32) -> Option<u32>) -> Self {
        let mut imports = Imports::default();
        for (import, edges) in model.used_imports() {
            imports.name.push(strings.of(&demangle(&import.symbol)));
            imports.by.push(strings.of(import.definer.name()));
            imports.start.push(imports.from.len() as u32);
            for (edge, from) in edges.iter().filter_map(|e| Some((e, live(e.from)?))) {
                imports.from.push(from);
                imports.kind.push(edge.kind);
                imports.offset.push(edge.offset);
            }
        }
        imports.start.push(imports.from.len() as u32);
        imports
    }
}
