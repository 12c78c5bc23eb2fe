//! The upper bound of division over a linker's own garbage collection: the bytes that it counts, and the objects without a bound.

use crate::compilers::assembled;
use summaries::native::divisible::{SectionBytes, section_bytes};

/// Two functions of a byte each, in a section with these flags, and group where there is one.
fn two_functions(section: &str) -> String {
    let function = |name: &str| format!(".type {name}, @function\n{name}: ret\n.size {name}, .-{name}\n");
    format!(".section {section}\n{}{}", function("f"), function("g"))
}

fn divisible(source: &str) -> u64 {
    section_bytes(&assembled(source)).unwrap().divisible
}

#[test]
fn definitions_that_share_a_section_count() {
    let text = two_functions(".text.both,\"ax\",@progbits");
    assert_eq!(section_bytes(&assembled(&text)), Some(SectionBytes { all: 2, code: 2, divisible: 2 }));
    assert_eq!(divisible(&two_functions(".text.both,\"axG\",@progbits,f,comdat")), 0);
    // Two names of one function, and labels, are no second one.
    assert_eq!(divisible(".text\n.type f, @function\n.type g, @function\nf: g: nop\nlabel: ret\n"), 0);
    let objects = |sizes: [u8; 2], flags: &str| {
        let [a, b] = sizes;
        let sizes = format!(".size a, {a}\n.size b, {b}\n");
        divisible(&format!(
            ".section .data.x,{flags}\n.type a, @object\n.type b, @object\na: .quad 1\nb: .quad 2\n{sizes}"
        ))
    };
    assert_eq!(objects([8, 8], "\"aw\",@progbits"), 16);
    // An object without a size keeps its section whole. Mergeable pieces do not count.
    assert_eq!(objects([8, 0], "\"aw\",@progbits"), 0);
    assert_eq!(objects([8, 8], "\"aM\",@progbits,8"), 0);
}

/// lld keeps each exception table that is neither in a group nor ordered after a function.
#[test]
fn exception_tables_count_where_lld_keeps_them() {
    let table = |flags: &str| {
        divisible(&format!(
            ".section .text.f,\"ax\",@progbits\nf: ret\n.section .gcc_except_table.f,{flags}\n.quad 1\n"
        ))
    };
    assert_eq!(table("\"a\",@progbits"), 8);
    assert_eq!(table("\"aG\",@progbits,f,comdat"), 0);
    assert_eq!(table("\"ao\",@progbits,.text.f"), 0);
}

#[test]
fn there_is_no_bound_for_what_is_not_understood() {
    let object = assembled(&two_functions(".text,\"ax\",@progbits"));
    assert!((0..object.len()).step_by(7).all(|end| section_bytes(&object[..end]).is_none()));
    assert_eq!(section_bytes(&assembled(".section .gnu.lto_f,\"e\",@progbits\n.quad 1\n")), None);
    assert_eq!(section_bytes(&assembled(".section odd,\"a\",@0x60000001\n.quad 1\n")), None);
}
