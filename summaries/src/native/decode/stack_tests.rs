//! The depth of the stack in functions of a few instructions, without a file around them.

use std::ops::Range;

use super::stack::{CfaRow, FunctionStack, StackCallee, StackCode, function_stack};

/// Code at an address, without unwind rows and other functions.
struct CodeAlone(&'static [u8]);

const START: u64 = 0x1000;

impl StackCode for CodeAlone {
    fn code(&self, address: u64) -> &[u8] {
        let from = address.checked_sub(START).and_then(|n| usize::try_from(n).ok());
        from.and_then(|n| self.0.get(n..)).unwrap_or_default()
    }
    fn row(&self, _: u64) -> Option<CfaRow> {
        None
    }
    fn constant(&self, _: u64, _: usize) -> Option<i64> {
        None
    }
    fn is_function(&self, address: u64) -> bool {
        address == START
    }
    fn extent(&self, _: u64) -> Range<u64> {
        START..START + self.0.len() as u64
    }
    fn is_final(&self, _: StackCallee) -> bool {
        false
    }
}

fn stack(code: &'static [u8]) -> FunctionStack {
    function_stack(&CodeAlone(code), START..START + code.len() as u64, &[], false)
}

#[test]
fn a_loop_that_pushes_has_no_bound() {
    // 1: push %rax; dec %rdi; jne 1b; ret
    let found = stack(&[0x50, 0x48, 0xff, 0xcf, 0x75, 0xfa, 0xc3]);
    assert_eq!((found.dynamic.is_some(), found.frame), (true, 16));
}

#[test]
fn a_probing_loop_ends_at_its_limit() {
    // lea -0x4000(%rsp),%r11; 1: sub $0x1000,%rsp; cmp %r11,%rsp; jne 1b; add $0x4000,%rsp; ret
    let code = &[
        0x4c, 0x8d, 0x9c, 0x24, 0x00, 0xc0, 0xff, 0xff, 0x48, 0x81, 0xec, 0x00, 0x10, 0x00, 0x00, 0x4c, 0x39,
        0xdc, 0x75, 0xf4, 0x48, 0x81, 0xc4, 0x00, 0x40, 0x00, 0x00, 0xc3,
    ];
    let found = stack(code);
    assert_eq!((found.dynamic, found.frame, found.undecoded), (None, 0x4008, None));
}

#[test]
fn bytes_that_are_no_instruction_are_named() {
    assert_eq!(stack(&[0x90, 0x06]).undecoded, Some(START + 1));
}
