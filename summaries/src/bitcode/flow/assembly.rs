//! Inline assembly that gives numbers, whatever it is given: it asks the processor what it is, or what time it is.
//!
//! Safe because the text has to be one of a few instructions, each of which writes all of the registers that it is known to write, and every output has to
//! be one of those. Anything else may do anything. Left out: all other assembly.

/// Instructions, with the registers that they write (`a`, `b`, `c`, `d`), as LLVM's constraints name them.
const INSTRUCTIONS: &[(&[u8], &[&[u8]])] = &[
    (b"cpuid", &[b"={ax}", b"={bx}", b"={cx}", b"={dx}"]),
    (b"rdtsc", &[b"={ax}", b"={dx}"]),
    (b"rdtscp", &[b"={ax}", b"={cx}", b"={dx}"]),
    (b"xgetbv", &[b"={ax}", b"={dx}"]),
];

/// `cpuid` where rbx belongs to somebody: clang's `cpuid.h`. It ends in the second output.
const WITHOUT_RBX: &[&[u8]] = &[b"xchgq %rbx,${1:q}", b"cpuid", b"xchgq %rbx,${1:q}"];
const OF_WITHOUT_RBX: &[&[u8]] = &[b"={ax}", b"=r", b"={cx}", b"={dx}"];

/// Whether all outputs of a statement with this text and these constraints are numbers of the processor's.
pub(super) fn gives_numbers(text: &[u8], constraints: &[u8]) -> bool {
    let statements = text.split(|c| matches!(c, b'\n' | b';')).map(words);
    let statements: Vec<Vec<u8>> = statements.filter(|s| !s.is_empty()).collect();
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
    use super::gives_numbers;

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
        // What it doesn't write may be what came in; what isn't a register of its own may be memory.
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
