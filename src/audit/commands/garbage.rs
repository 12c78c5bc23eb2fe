//! `audit garbage`: what was dropped, and by which reason. Bytes are those of the input, memory of zero-initialised sections
//! included: what never was in an output has no bytes there.

use crate::audit::args::{ROWS, Request, rows};
use crate::audit::attribute::{GroupBy, Item, divide, sums};
use crate::audit::model::{Atom, AtomState, Model};
use crate::audit::table::{Answer, Cell, Format, Table, count};

/// Why something isn't in the program.
const REASONS: [(&str, &str); 6] = [
    ("duplicate", "another module's COMDAT group stands for it; every linker drops it"),
    (
        "unreachable",
        "nothing that lives refers to it; --gc-sections finds so too, where sections are as fine",
    ),
    ("unreachable here", "nothing that lives refers to it; --gc-sections would keep it"),
    ("stub", "only its address is needed: its body was replaced by a trap"),
    ("debug information", "it is not wanted in the output, and says by numbers where code was"),
    ("excluded", "no output has it (SHF_EXCLUDE): it is not written for nothing"),
];

fn reason(atom: &Atom<'_>) -> Option<usize> {
    match atom.state {
        AtomState::Kept => None,
        _ if atom.size == 0 => None,
        AtomState::Stub => Some(3),
        AtomState::Dropped if atom.discarded => Some(0),
        AtomState::Dropped if atom.kind == "debug" => Some(4),
        AtomState::Dropped if atom.kind == "non-alloc" && atom.linker_live => Some(5),
        AtomState::Dropped if atom.linker_live => Some(2),
        AtomState::Dropped => Some(1),
    }
}

pub(crate) fn answer(model: &Model<'_>, request: &Request) -> Answer {
    let mut by_reason = [(0u64, 0u64); REASONS.len()];
    let mut items: Vec<Item> = Vec::new();
    for (i, atom) in model.atoms.iter().enumerate() {
        let Some(slot) = reason(atom).and_then(|r| by_reason.get_mut(r)) else { continue };
        slot.0 += atom.size;
        slot.1 += 1;
        // A copy that no linker takes is garbage of nobody.
        if atom.discarded {
            continue;
        }
        divide(atom, i as u32, u32::MAX, atom.size as i64, &mut items);
    }
    let mut reasons = Table::new("reasons", "by reason", &["bytes", "atoms", "reason", "what"]);
    for ((name, what), (bytes, atoms)) in REASONS.iter().zip(by_reason).filter(|r| r.1.1 > 0) {
        reasons.row(vec![Cell::Number(bytes), Cell::Number(atoms), Cell::text(*name), Cell::text(*what)]);
    }
    let duplicates = by_reason.first().map_or(0, |r| r.0);
    let total = by_reason.iter().map(|r| r.0).sum::<u64>() - duplicates;
    let column = GroupBy::ALL.iter().find(|b| b.1 == request.by).map_or("namespace", |b| b.0);
    let mut columns = vec!["bytes", "atoms", column];
    columns.extend((request.by == GroupBy::Symbol).then_some("in"));
    let mut table = Table::new("garbage", "the largest", &columns);
    for sum in sums(model, &items, request.by, request.depth.unwrap_or(1)) {
        let module = sum.module.and_then(|m| model.modules.get(m as usize));
        let module = module.map(|m| m.short()).unwrap_or_default();
        let mut row =
            vec![Cell::Number(sum.bytes.unsigned_abs()), Cell::Number(sum.atoms), Cell::Text(sum.name)];
        row.extend((request.by == GroupBy::Symbol).then_some(Cell::Text(module)));
        table.row(row);
    }
    table.limit(rows(request, ROWS));
    let what = match model.report.pruned {
        true => "were dropped".to_owned(),
        false => format!("would be dropped; {}", model.report.not_pruned()),
    };
    let mut answer = Answer::default();
    let more = match duplicates {
        0 => String::new(),
        n => format!("; {} more are copies that no linker takes", count(n)),
    };
    answer.lines.push(format!("{}: {} bytes of input {what}{more}", model.report.output, count(total)));
    answer.facts = vec![
        ("dropped", total.into()),
        ("copies", duplicates.into()),
        ("pruned", model.report.pruned.into()),
    ];
    answer.tables = vec![table, reasons];
    // People read the reasons first.
    answer
        .tables
        .rotate_left(usize::from(request.format == Format::Table || request.format == Format::Markdown));
    answer
}
