//! Inline assembly without address operands: it does nothing, or it reads numbers from the processor.
//!
//! Assembly that does nothing has no operands and consists of alignment, fences and pauses. Assembly that reads numbers is one of a few
//! instructions. Each of them writes all of its listed registers, and every output is one of those. Other assembly may do anything.

/// Statements that change no register and no memory. `rep` is the prefix of the next one.
const NOTHING: &[&[u8]] = &[b"nop", b"pause", b"rep", b"rep nop", b"lfence", b"mfence", b"sfence"];
/// Directives that align the code, before their numbers.
const ALIGNMENTS: &[&[u8]] = &[b".p2align", b".balign", b".align"];

/// Instructions, with the registers that they write (`a`, `b`, `c`, `d`), as LLVM's constraints name them.
const INSTRUCTIONS: &[(&[u8], &[&[u8]])] = &[
    (b"cpuid", &[b"={ax}", b"={bx}", b"={cx}", b"={dx}"]),
    (b"rdtsc", &[b"={ax}", b"={dx}"]),
    (b"rdtscp", &[b"={ax}", b"={cx}", b"={dx}"]),
    (b"xgetbv", &[b"={ax}", b"={dx}"]),
];

/// `cpuid` where rbx is reserved: clang's `cpuid.h`. It ends in the second output.
const WITHOUT_RBX: &[&[u8]] = &[b"xchgq %rbx,${1:q}", b"cpuid", b"xchgq %rbx,${1:q}"];
const OF_WITHOUT_RBX: &[&[u8]] = &[b"={ax}", b"=r", b"={cx}", b"={dx}"];

/// Whether a statement with this text and these constraints has no operands and does nothing.
pub(super) fn does_nothing(text: &[u8], constraints: &[u8]) -> bool {
    let is_alignment = |statement: &[u8]| {
        ALIGNMENTS.iter().filter_map(|name| statement.strip_prefix(*name)).any(|numbers| {
            numbers.first() == Some(&b' ')
                && numbers.iter().all(|c| c.is_ascii_digit() || matches!(c, b' ' | b','))
        })
    };
    let mut clobbers = constraints.split(|c| *c == b',').filter(|c| !c.is_empty());
    clobbers.all(|constraint| constraint.starts_with(b"~{"))
        && statements(text).iter().all(|of| NOTHING.contains(&of.as_slice()) || is_alignment(of))
}

/// The statements of a text, without blank ones.
fn statements(text: &[u8]) -> Vec<Vec<u8>> {
    let statements = text.split(|c| matches!(c, b'\n' | b';')).map(words);
    statements.filter(|statement| !statement.is_empty()).collect()
}

/// Whether all outputs of a statement with this text and these constraints are numbers of the processor's.
pub(super) fn gives_numbers(text: &[u8], constraints: &[u8]) -> bool {
    let statements = statements(text);
    let outputs = constraints.split(|c| *c == b',').take_while(|c| c.starts_with(b"="));
    let mut outputs = outputs.map(|c| c.iter().copied().filter(|c| *c != b'&').collect::<Vec<u8>>());
    if statements.iter().map(Vec::as_slice).eq(WITHOUT_RBX.iter().copied()) {
        return outputs.eq(OF_WITHOUT_RBX.iter().map(|c| c.to_vec()));
    }
    let [statement] = statements.as_slice() else { return false };
    let known = INSTRUCTIONS.iter().find(|(name, _)| *name == statement.as_slice());
    known.is_some_and(|(_, written)| outputs.all(|output| written.contains(&output.as_slice())))
}

/// A statement with one blank between its words.
fn words(statement: &[u8]) -> Vec<u8> {
    let words: Vec<&[u8]> = statement.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty()).collect();
    words.join(&b' ')
}

#[cfg(test)]
mod tests {
    use super::{does_nothing, gives_numbers};

    #[test]
    fn what_does_nothing() {
        let clobbers = b"~{dirflag},~{fpsr},~{flags}";
        let all = [
            "",
            ".p2align 5",
            "\t.p2align 4,,15\n",
            ".balign 32",
            "nop; nop",
            "pause",
            "rep; nop",
            "mfence\nlfence",
        ];
        for text in all {
            assert!(does_nothing(text.as_bytes(), clobbers), "{text}");
            assert!(
                does_nothing(text.as_bytes(), b"~{memory},~{dirflag}") && does_nothing(text.as_bytes(), b"")
            );
            // An output may hold an input operand unchanged.
            assert!(!does_nothing(text.as_bytes(), b"=r,0,~{flags}") && !does_nothing(text.as_bytes(), b"r"));
        }
        for text in [
            ".p2align",
            ".p2align 5 nop",
            ".p2align $0",
            ".set f, g",
            "rep stosb",
            "call f",
            "nop # x",
            "int3",
        ] {
            assert!(!does_nothing(text.as_bytes(), clobbers), "{text}");
        }
    }

    #[test]
    fn what_gives_numbers() {
        let clobbers = b"~{dirflag},~{fpsr},~{flags}";
        let asks = |text: &str, outputs: &str| {
            gives_numbers(text.as_bytes(), &[outputs.as_bytes(), clobbers].concat())
        };
        assert!(asks("cpuid", "={ax},={bx},={cx},={dx},0,2,"));
        assert!(asks("\tcpuid\n\t", "={ax},{ax},~{ebx},~{ecx},~{edx},"));
        assert!(asks("  xchgq  %rbx,${1:q}\n  cpuid\n  xchgq  %rbx,${1:q}", "={ax},=r,={cx},={dx},0,2,"));
        assert!(asks("xgetbv", "={ax},={dx},{cx},"));
        // An output that it does not write may hold an input; an output without a register of its own may be memory.
        assert!(!asks("cpuid", "=r,={bx},0,"));
        assert!(!asks("rdtsc", "={cx},0,"));
        assert!(!asks("cpuid", "=*m,r,"));
        assert!(!asks("xchgq %rbx,${1:q}; cpuid", "={ax},=r,"));
        assert!(!asks("xchgq %rbx,${1:q}\ncpuid\nxchgq %rbx,${1:q}", "={ax},=r,=r,={dx},2,"));
        for text in ["", "nop", "call *$0", "cpuid; mov %rsi, %rax", "cpuid $0"] {
            assert!(!asks(text, "={ax},0,"), "{text}");
        }
    }
}
