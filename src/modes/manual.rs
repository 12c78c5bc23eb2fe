//! The manual page in the format of man(7), made from the help text of the program.

use crate::args::help::{PROGRAM, about, described, text};

/// The sections that the help text has no room for.
const MORE: &str = "\
.SH FILES
.TP
.B lto-prune.toml
Options of each link whose output is in its folder or below; the nearest file counts. A key is the name of an option without --prune-, \
and its value is a string, a number, true, false, or an array of them. Paths are relative to the folder of the file. A file that another \
user may write to is read only if LTO_PRUNE_CONFIG names it.
.SH ENVIRONMENT
.TP
.B LTO_PRUNE_CONFIG
The file to read in place of the nearest lto-prune.toml; if it is empty, none is read.
.TP
.B LTO_PRUNE_FLAGS
Options that override those of lto-prune.toml; those of the command line override both.
.TP
.B LTO_PRUNE_LINKER
The linker to call if no option names one: a path, or a name such as mold. It overrides the name of the shim.
.TP
.B CC, CXX
The compiler driver that standalone links ask for the link line.
.SH EXIT STATUS
That of the linker. It is 1 if lto-prune itself fails; in a link it does so only with --prune-strict.
";

/// The manual page of the program.
pub(super) fn page() -> String {
    let help = text(PROGRAM);
    let mut page = format!(".TH LTO-PRUNE 1\n.SH NAME\n{PROGRAM} - {}\n.SH DESCRIPTION\n", about(help));
    let mut lines = help.lines().skip(2).peekable();
    let mut is_literal = false;
    while let Some(line) = lines.next() {
        let paragraph = match line {
            "" if std::mem::take(&mut is_literal) => ".fi".to_owned(),
            "" => ".PP".to_owned(),
            "Usage:" => ".SH COMMANDS".to_owned(),
            "Examples:" => {
                is_literal = true;
                ".SH EXAMPLES\n.nf".to_owned()
            }
            _ if is_literal => line.trim().to_owned(),
            _ if line.starts_with("Options ") => format!(".SH OPTIONS\n{line}"),
            _ if line.starts_with("  ") => {
                let (names, description) = described(line.trim(), &mut lines);
                format!(".TP\n.B {names}\n{description}")
            }
            _ => line.strip_prefix(' ').map_or_else(|| line.to_owned(), |heading| format!(".SS {heading}")),
        };
        page += &paragraph;
        page += "\n";
    }
    (page + MORE).replace('-', "\\-").replace('\'', "\\(aq")
}
