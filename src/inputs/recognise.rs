//! The kind of a file by its first bytes, as linkers decide it; names say nothing.
//!
//! A text that is neither ELF, archive nor bitcode is a linker script, as for every GNU linker. An empty file is an empty script.

use super::files::FileKind;

/// Magic of a regular archive, and of a thin one.
pub(crate) const ARCHIVE: &[u8] = b"!<arch>\n";
pub(crate) const THIN_ARCHIVE: &[u8] = b"!<thin>\n";

const EM_X86_64: u16 = 62;

/// Recognise a file or an archive member by its content.
pub fn recognise(bytes: &[u8]) -> FileKind {
    if bytes.starts_with(b"\x7fELF") {
        return match half(bytes, 16) {
            Some(1) => FileKind::Object,
            Some(3) => FileKind::SharedLibrary,
            _ => FileKind::Unknown,
        };
    }
    if bytes.starts_with(ARCHIVE) {
        return FileKind::Archive;
    }
    if bytes.starts_with(THIN_ARCHIVE) {
        return FileKind::ThinArchive;
    }
    // Raw bitcode, or the wrapper around it (LLVM BitCodeFormat).
    if bytes.starts_with(b"BC\xc0\xde") || bytes.starts_with(&[0xde, 0xc0, 0x17, 0x0b]) {
        return FileKind::Bitcode;
    }
    let head = bytes.get(..bytes.len().min(4096)).unwrap_or_default();
    if head.contains(&0) { FileKind::Unknown } else { FileKind::Script }
}

/// Whether an ELF file is of another class, byte order or machine than x86-64; false for other files.
pub fn is_foreign_elf(bytes: &[u8]) -> bool {
    let ours = bytes.get(4) == Some(&2) && bytes.get(5) == Some(&1) && half(bytes, 18) == Some(EM_X86_64);
    bytes.starts_with(b"\x7fELF") && !ours
}

/// A 16-bit field of the ELF header in the file's own byte order.
fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let field: [u8; 2] = bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
    Some(if bytes.get(5) == Some(&2) { u16::from_be_bytes(field) } else { u16::from_le_bytes(field) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_content() {
        assert_eq!(recognise(b""), FileKind::Script);
        assert_eq!(recognise(b"GROUP ( libc.so.6 )"), FileKind::Script);
        assert_eq!(recognise(b"!<arch>\n"), FileKind::Archive);
        assert_eq!(recognise(b"!<thin>\n"), FileKind::ThinArchive);
        assert_eq!(recognise(b"BC\xc0\xde...."), FileKind::Bitcode);
        assert_eq!(recognise(&[0xde, 0xc0, 0x17, 0x0b, 0]), FileKind::Bitcode);
        assert_eq!(recognise(b"\x7fELF"), FileKind::Unknown);
        assert_eq!(recognise(b"\x00asm\x01\x00\x00\x00"), FileKind::Unknown);
        let mut elf = *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0";
        assert_eq!(recognise(&elf), FileKind::Object);
        assert!(!is_foreign_elf(&elf));
        elf[16] = 3;
        assert_eq!(recognise(&elf), FileKind::SharedLibrary);
        elf[18] = 3;
        assert!(is_foreign_elf(&elf));
        // Big-endian: e_type is 00 01.
        elf[5] = 2;
        elf[16..18].copy_from_slice(&[0, 1]);
        assert_eq!(recognise(&elf), FileKind::Object);
        assert!(is_foreign_elf(&elf));
    }
}
