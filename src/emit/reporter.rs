//! The code that says on standard error which stub runs (`--prune-stub=report`).
//!
//! Decides the section that an object with such stubs gets, behind all of its own: [`WRITE`], for each stub an entry, and
//! behind them a message for each. A stub calls its entry, which calls nothing but the kernel and comes back to the trap in
//! the stub, so the process dies where it would have died without us, every register being what the caller passed.
//! It is safe wherever the stub is: it needs no library, no memory but seven words of stack, no other object, no symbol that a
//! linker could export, prefer or refuse, and no relocation; the linker drops it with the last stub that calls it.
//!
//! Left out: what is no program of Linux, where `syscall` means something else; an object that says so in its header
//! traps only. So does what is not in `.text` or `.text.*`, which the linker may place more than 2 GiB away from it.

use object::elf;
use object::{I64, U64};

use super::input::{Input, LE, Rela, Shdr};
use super::stub::{self, Code, Named};
use crate::error::{Error, Result, Stage};

/// The name of the section. Every linker and every script places it where the other code is.
pub(super) const NAME: &[u8] = b".text";

/// `write(2, rax, edx)` until all is written or it fails, then back to the stub. On the stack are rdx, rax and the place in
/// the stub. A signal's handler may run in between, and `EINTR` is -4.
const WRITE: [u8; 47] = [
    0x56, // push rsi
    0x57, // push rdi
    0x51, // push rcx             ; the kernel returns rip in it
    0x41, 0x53, // push r11       ; and here the flags
    0x48, 0x89, 0xc6, // mov rsi, rax
    // next:
    0xbf, 2, 0, 0, 0, // mov edi, 2      ; standard error
    0xb8, 1, 0, 0, 0, // mov eax, 1      ; SYS_write
    0x0f, 0x05, // syscall
    0x48, 0x83, 0xf8, 0xfc, // cmp rax, -4
    0x74, 0xee, // je next
    0x48, 0x85, 0xc0, // test rax, rax
    0x7e, 8, // jle done
    0x48, 0x01, 0xc6, // add rsi, rax
    0x48, 0x29, 0xc2, // sub rdx, rax
    0x75, 0xe1, // jne next
    // done:
    0x41, 0x5b, // pop r11
    0x59, // pop rcx
    0x5f, // pop rdi
    0x5e, // pop rsi
    0x5a, // pop rdx
    0x58, // pop rax
    0xc3, // ret                  ; balanced, as shadow stacks ask for
];

/// Bytes of an entry.
const ENTRY: usize = 19;

/// The bytes of an entry: the message's place and length, each relative as the instruction has it, and the way to [`WRITE`].
fn entry(message: i32, length: u32, write: i32) -> [u8; ENTRY] {
    let mut code = [
        0x50, // push rax
        0x52, // push rdx
        0x48, 0x8d, 0x05, 0, 0, 0, 0, // lea rax, [rip + message]
        0xba, 0, 0, 0, 0, // mov edx, length
        0xe9, 0, 0, 0, 0, // jmp WRITE
    ];
    let fields = [(5, message.to_le_bytes()), (10, length.to_le_bytes()), (15, write.to_le_bytes())];
    for (at, bytes) in fields {
        if let Some(field) = code.get_mut(at..at + 4) {
            field.copy_from_slice(&bytes);
        }
    }
    code
}

/// Whether a stub in a section may call: the linker places the section near the reporter, and it is code of Linux.
pub(super) fn is_near(input: &Input<'_>, section: usize) -> bool {
    let name = input.section_name(section);
    let flags = input.sections.get(section).map_or(0, |s| s.sh_flags.get(LE).0);
    let code = elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0;
    let system = input.header.e_ident.os_abi;
    (name == NAME || name.starts_with(b".text."))
        && flags & !elf::SHF_GROUP.0 == code
        && matches!(system, elf::ELFOSABI_NONE | elf::ELFOSABI_GNU)
}

/// The relocation of a stub that calls entry `number`, `symbol` being that of the reporter's section.
pub(super) fn call(stub: Code, number: usize, symbol: u32) -> Option<Rela> {
    let entry = WRITE.len().checked_add(number.checked_mul(ENTRY)?)?;
    // The field is relative to its end.
    let addend = i64::try_from(entry).ok()?.checked_sub(4)?;
    let mut call =
        Rela { r_offset: U64::new(LE, stub.call()?), r_info: U64::default(), r_addend: I64::new(LE, addend) };
    // As compilers write a call within the object.
    call.set_r_info(LE, false, symbol, elf::R_X86_64_PLT32);
    Some(call)
}

/// What the stub of `function` says.
pub(super) fn message(function: &[u8], module: &str) -> Vec<u8> {
    let module = module.as_bytes();
    [
        b"lto-prune: the function ",
        function,
        b" of ",
        module,
        b" was called although nothing was found to call it; --prune-keep=",
        function,
        b" keeps it\n",
    ]
    .concat()
}

/// The bytes of the section, for the stubs that report, in the order of their entries.
pub(super) fn section(stubs: &[Named<'_>], module: &str) -> Result<Vec<u8>> {
    let messages: Vec<Vec<u8>> =
        stubs.iter().filter(|s| s.code.call().is_some()).map(|s| message(s.name, module)).collect();
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    let too_large = |_| Error::new(Stage::Emit, "the messages of its stubs are too large");
    let mut out = WRITE.to_vec();
    let mut place = WRITE.len() + messages.len() * ENTRY;
    for message in &messages {
        // Both distances count from the end of their instruction.
        let distance = i32::try_from(place - (out.len() + 9)).map_err(too_large)?;
        let back = i32::try_from(out.len() + ENTRY).map_err(too_large)?;
        let length = u32::try_from(message.len()).map_err(too_large)?;
        out.extend_from_slice(&entry(distance, length, -back));
        place += message.len();
    }
    messages.iter().for_each(|m| out.extend_from_slice(m));
    Ok(out)
}

/// The header of the section.
pub(super) fn header(name: u32) -> Shdr {
    let code = elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0;
    stub::new_header(name, elf::SHT_PROGBITS, code)
}
