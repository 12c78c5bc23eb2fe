//! Functions of the C library whose names the C standard reserves (C11 7.1.3), and those that glibc's headers call in their place.
//!
//! A call of one leaves in the registers that the psABI lets callees clobber (3.2.1) no value that its caller looks at. Behind other calls
//! these registers hold what they held before, since attributes such as `preserve_most` let compilers rely on that.

use super::state::{RegisterState, SlotValue};
use super::walker::BlockWalker;
use crate::native::decode::effects::{RegisterId, SLOTS};
use crate::registers::{self, RSP, SAVED};
use crate::relation::Callee;
use crate::summary::{Definition, Target};

/// The names of the functions, sorted by their bytes.
const RESERVED: &[&[u8]] = &[
    b"_Exit",
    b"__assert_fail",
    b"__ctype_b_loc",
    b"__ctype_tolower_loc",
    b"__ctype_toupper_loc",
    b"__errno_location",
    b"__fgets_chk",
    b"__fprintf_chk",
    b"__fread_chk",
    b"__isoc23_strtol",
    b"__isoc23_strtoul",
    b"__isoc99_fscanf",
    b"__isoc99_scanf",
    b"__isoc99_sscanf",
    b"__memcpy_chk",
    b"__memmove_chk",
    b"__memset_chk",
    b"__printf_chk",
    b"__snprintf_chk",
    b"__sprintf_chk",
    b"__stack_chk_fail",
    b"__strcat_chk",
    b"__strcpy_chk",
    b"__strncat_chk",
    b"__strncpy_chk",
    b"__vfprintf_chk",
    b"__vsnprintf_chk",
    b"abort",
    b"abs",
    b"aligned_alloc",
    b"asctime",
    b"atexit",
    b"atof",
    b"atoi",
    b"atol",
    b"atoll",
    b"bsearch",
    b"calloc",
    b"clearerr",
    b"clock",
    b"ctime",
    b"difftime",
    b"div",
    b"exit",
    b"fclose",
    b"feof",
    b"ferror",
    b"fflush",
    b"fgetc",
    b"fgetpos",
    b"fgets",
    b"fopen",
    b"fprintf",
    b"fputc",
    b"fputs",
    b"fread",
    b"free",
    b"freopen",
    b"fscanf",
    b"fseek",
    b"fsetpos",
    b"ftell",
    b"fwrite",
    b"getc",
    b"getchar",
    b"getenv",
    b"gmtime",
    b"labs",
    b"ldiv",
    b"llabs",
    b"lldiv",
    b"localeconv",
    b"localtime",
    b"malloc",
    b"mblen",
    b"mbstowcs",
    b"mbtowc",
    b"memchr",
    b"memcmp",
    b"memcpy",
    b"memmove",
    b"memset",
    b"mktime",
    b"perror",
    b"printf",
    b"putc",
    b"putchar",
    b"puts",
    b"qsort",
    b"quick_exit",
    b"raise",
    b"rand",
    b"realloc",
    b"remove",
    b"rename",
    b"rewind",
    b"scanf",
    b"setbuf",
    b"setlocale",
    b"setvbuf",
    b"signal",
    b"snprintf",
    b"sprintf",
    b"srand",
    b"sscanf",
    b"strcat",
    b"strchr",
    b"strcmp",
    b"strcoll",
    b"strcpy",
    b"strcspn",
    b"strerror",
    b"strftime",
    b"strlen",
    b"strncat",
    b"strncmp",
    b"strncpy",
    b"strpbrk",
    b"strrchr",
    b"strspn",
    b"strstr",
    b"strtod",
    b"strtof",
    b"strtok",
    b"strtol",
    b"strtold",
    b"strtoll",
    b"strtoul",
    b"strtoull",
    b"strxfrm",
    b"system",
    b"time",
    b"tmpfile",
    b"tmpnam",
    b"ungetc",
    b"vfprintf",
    b"vfscanf",
    b"vprintf",
    b"vscanf",
    b"vsnprintf",
    b"vsprintf",
    b"vsscanf",
    b"wcstombs",
    b"wctomb",
];

impl BlockWalker<'_, '_, '_, '_> {
    /// Behind a call of a function of the C library, forget what the callee may have clobbered. Results are set later.
    pub(super) fn clobber(&self, callee: Callee, state: &mut RegisterState) {
        if !self.is_of_c_library(callee) {
            return;
        }
        let kept = SAVED | registers::set(&[RSP]);
        let (written, left) = (state.written, state.left);
        for slot in (0..SLOTS as RegisterId).filter(|slot| !registers::has(kept, *slot)) {
            state.set(slot, SlotValue::None);
        }
        (state.written, state.left) = (written, left & kept);
    }

    fn is_of_c_library(&self, callee: Callee) -> bool {
        let Callee::Direct { target: Target::Symbol(symbol), offset: 0 } = callee else { return false };
        let of = self.module.symbols.get(symbol.index());
        of.is_some_and(|of| of.definition == Definition::Undefined)
            && RESERVED.binary_search(&self.module.name(Target::Symbol(symbol))).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted() {
        assert!(RESERVED.is_sorted());
    }
}
