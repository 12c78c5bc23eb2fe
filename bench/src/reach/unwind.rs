//! Exception tables and personalities: what a function's entry in `.eh_frame` refers to is reached with the function.
//!
//! Left out: what the entries say; only their bounds and relocations matter here (LSB, chapter 10.6).

use super::graph::Graph;
use super::input::LoadedSection;

fn word(data: &[u8], at: u64) -> Option<u32> {
    let at = usize::try_from(at).ok()?;
    Some(u32::from_le_bytes(data.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Add the edges of one section: from each function to its table and to the personality of its CIE.
pub(super) fn add(graph: &mut Graph<'_>, m: usize, section: &LoadedSection) {
    let within =
        |start: u64, end: u64| section.relocs.iter().filter(move |r| r.offset >= start && r.offset < end);
    let mut at = 0;
    while let (Some(length), Some(id)) = (word(&section.data, at), word(&section.data, at + 4)) {
        if length == 0 || length == u32::MAX {
            break;
        }
        let end = at + 4 + u64::from(length);
        let cie = (at + 4).checked_sub(u64::from(id));
        if id != 0
            && let Some(cie) = cie
        {
            let cie_end = cie + 4 + u64::from(word(&section.data, cie).unwrap_or(0));
            let mut relocs = within(at, end);
            // The first field is where the function begins.
            let functions = relocs.next().map_or_else(Vec::new, |r| graph.targets(m, r.symbol, r.addend));
            let others: Vec<usize> = relocs
                .chain(within(cie, cie_end))
                .flat_map(|r| graph.targets(m, r.symbol, r.addend))
                .collect();
            for function in functions {
                for other in &others {
                    graph.edge(function, *other);
                }
            }
        }
        at = end;
    }
}
