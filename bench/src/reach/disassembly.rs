//! Instructions as objdump prints them: where each is, how long, and where a direct branch or an operand relative to
//! the instruction pointer leads.
//!
//! The text is the interface on purpose: no decoder of ours is in it. Only what the walk needs is taken from it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::input::ReachedObject;

use crate::Result;

#[derive(Debug, Clone)]
pub(super) struct Instruction {
    pub(super) at: u64,
    pub(super) len: u64,
    pub(super) lea: bool,
    pub(super) nop: bool,
    /// Nothing follows it: a jump, a return, a trap, or a call, which at the end of a function isn't expected back.
    pub(super) ends: bool,
    /// The address that the printed text names: meaningless where a relocation fills it in.
    pub(super) target: Option<u64>,
}

/// The instructions of each section of a module, by address.
pub(super) type Listing = BTreeMap<usize, Vec<Instruction>>;

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// `  1f:\tbytes\tmnemonic operands`, or the rest of a long one's bytes.
fn instruction(line: &str) -> Option<Instruction> {
    let mut fields = line.split('\t');
    let at = hex(fields.next()?.trim().strip_suffix(':')?)?;
    let len = fields.next()?.split_whitespace().count() as u64;
    let text = fields.next().unwrap_or("");
    let prefixes =
        ["bnd", "notrack", "rep", "repz", "repnz", "lock", "data16", "addr32", "cs", "ds", "rex.W"];
    let mut words = text.split_whitespace().skip_while(|w| prefixes.contains(w));
    let mnemonic = words.next().unwrap_or("");
    let operand = words.next().unwrap_or("");
    let branch = mnemonic.starts_with('j')
        || mnemonic.starts_with("call")
        || mnemonic.starts_with("loop")
        || mnemonic == "xbegin";
    // `jmp 1f <f+0x3>`, `lea 0x5(%rip),%rax        # 1f <f+0x3>`
    let target = if branch && !operand.starts_with('*') {
        hex(operand.split(',').next().unwrap_or(operand))
    } else if text.contains("(%rip)") {
        text.rsplit_once("# ").and_then(|(_, t)| hex(t.split_whitespace().next().unwrap_or("")))
    } else {
        None
    };
    Some(Instruction {
        at,
        len,
        lea: mnemonic.starts_with("lea"),
        nop: mnemonic.starts_with("nop") || text.starts_with("xchg   %ax,%ax") || mnemonic == "int3",
        ends: ["jmp", "ret", "ud", "hlt", "call", "int3"].iter().any(|e| mnemonic.starts_with(e)),
        target,
    })
}

/// Disassemble all modules; `scratch` takes their bytes.
pub(super) fn listings(modules: &[ReachedObject], scratch: &Path) -> Result<Vec<Listing>> {
    let mut out: Vec<Listing> = vec![Listing::new(); modules.len()];
    let names: Vec<String> = (0..modules.len()).map(|i| format!("m{i}.o")).collect();
    for (name, module) in names.iter().zip(modules) {
        fs::write(scratch.join(name), &module.bytes)?;
    }
    for chunk in names.chunks(200) {
        let output = Command::new("objdump")
            .args(["-d", "-z", "-w", "--insn-width=16"])
            .args(chunk)
            .current_dir(scratch)
            .env("LC_ALL", "C.UTF-8")
            .output()
            .map_err(|e| format!("objdump: {e}"))?;
        if !output.status.success() {
            return Err(format!("objdump: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let mut place: Option<(usize, usize)> = None;
        // Sections of one name come in their order.
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut current = 0;
        for line in text.lines() {
            if let Some((file, _)) = line.split_once(":     file format ") {
                current = file.trim_start_matches('m').trim_end_matches(".o").parse()?;
                seen.clear();
                place = None;
            } else if let Some(name) =
                line.strip_prefix("Disassembly of section ").and_then(|l| l.strip_suffix(':'))
            {
                let nth = seen.entry(name.to_owned()).or_default();
                let section = modules.get(current).and_then(|m| {
                    m.sections.iter().filter(|(_, s)| s.code && s.size > 0 && s.name == name).nth(*nth)
                });
                *nth += 1;
                place = section.map(|(index, _)| (current, *index));
            } else if let (Some((module, section)), Some(i)) = (place, instruction(line))
                && let Some(listing) = out.get_mut(module)
            {
                listing.entry(section).or_default().push(i);
            }
        }
    }
    for name in &names {
        fs::remove_file(scratch.join(name))?;
    }
    Ok(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_objdump() {
        let i = instruction("  1f:\t0f 84 05 00 00 00 \tje     2a <f+0x2a>").unwrap();
        assert_eq!((i.at, i.len, i.target, i.ends), (0x1f, 6, Some(0x2a), false));
        let i =
            instruction("   4:\t48 8d 05 00 00 00 00 \tlea    0x0(%rip),%rax        # b <f+0xb>").unwrap();
        assert_eq!((i.len, i.lea, i.target), (7, true, Some(0xb)));
        let i = instruction("   0:\t3e ff e0             \tnotrack jmp *%rax").unwrap();
        assert_eq!((i.target, i.ends), (None, true));
        let i = instruction("   0:\te9 00 00 00 00       \tjmp    5 <f+0x5>").unwrap();
        assert_eq!((i.target, i.ends), (Some(5), true));
        assert!(instruction("\t\t\t5: R_X86_64_PLT32\tg-0x4").is_none());
        assert!(instruction("0000000000000000 <f>:").is_none());
    }
}
