//! `lto-prune completions SHELL`: a script that completes subcommands, options and their values, made from the tables of `--help`.
//!
//! Left out: the options of linkers and compilers.

use std::ffi::OsStr;
use std::fmt::Write;

use crate::args::prune::options::{OptionValue, PruneOption, SUBCOMMANDS, all};

/// The script for a shell of this name, if there is one.
pub(super) fn script(shell: &OsStr) -> Option<String> {
    match shell.to_str()? {
        "bash" => Some(bash()),
        "zsh" => Some(zsh()),
        "fish" => Some(fish()),
        _ => None,
    }
}

/// The word as it is typed, up to a value that it needs.
fn word(option: &PruneOption) -> String {
    let needs_none = matches!(option.value, OptionValue::None | OptionValue::Optional(_));
    format!("--prune-{}{}", option.name, if needs_none { "" } else { "=" })
}

fn bash() -> String {
    // bash takes the equals sign for the end of a word, so that a reply is the value alone.
    let mut out = String::from(
        "_lto_prune() {\n    local cur=${COMP_LINE:0:COMP_POINT}\n    cur=${cur##* }\n    COMPREPLY=()\n    case $cur in\n",
    );
    for option in all() {
        let values = match option.value {
            OptionValue::None => continue,
            OptionValue::File => "-f".to_owned(),
            OptionValue::Folder => "-d".to_owned(),
            OptionValue::OneOf(words) | OptionValue::Optional(words) => format!("-W '{}'", words.join(" ")),
            OptionValue::Other => "-W ''".to_owned(),
        };
        let _ = writeln!(
            out,
            "        --prune-{}=*) mapfile -t COMPREPLY < <(compgen {values} -- \"${{cur#*=}}\") ;;",
            option.name
        );
    }
    let words: Vec<String> = all().map(word).collect();
    let commands: Vec<&str> = SUBCOMMANDS.iter().map(|(name, ..)| *name).collect();
    let _ = write!(
        out,
        "        -*)\n            mapfile -t COMPREPLY < <(compgen -W '--help --version {}' -- \"$cur\")\n            \
         [[ ${{COMPREPLY[0]}} != *= ]] || compopt -o nospace 2>/dev/null\n            ;;\n        \
         *)\n            mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n            \
         [ \"$COMP_CWORD\" != 1 ] || mapfile -t -O ${{#COMPREPLY[@]}} COMPREPLY < <(compgen -W '{}' -- \"$cur\")\n            \
         ;;\n    esac\n}}\ncomplete -o filenames -F _lto_prune lto-prune ld.lto-prune\n",
        words.join(" "),
        commands.join(" ")
    );
    out
}

fn zsh() -> String {
    // In a specification brackets, colons and quotes have a meaning of their own.
    let plain = |text: &str| text.replace(['[', ']'], "").replace(':', "\\:").replace('\'', "'\\''");
    let mut out = String::from("#compdef lto-prune ld.lto-prune\n\nlocal -a commands=(\n");
    for (name, _, help) in SUBCOMMANDS {
        let _ = writeln!(out, "    '{name}:{}'", plain(help));
    }
    out += ")\n_lto_prune_first() {\n    _describe command commands\n    _files\n}\n_arguments \\\n";
    for option in all() {
        let values = match option.value {
            OptionValue::None => String::new(),
            OptionValue::File => ":file:_files".to_owned(),
            OptionValue::Folder => ":folder:_files -/".to_owned(),
            OptionValue::OneOf(words) | OptionValue::Optional(words) => {
                format!(":value:({})", plain(&words.join(" ")))
            }
            OptionValue::Other => ":value: ".to_owned(),
        };
        let joined = if option.value == OptionValue::None { "" } else { "=-" };
        let _ = writeln!(out, "    '*--prune-{}{joined}[{}]{values}' \\", option.name, plain(option.help));
    }
    out + "    '1:command or file:_lto_prune_first' '*:file:_files'\n"
}

fn fish() -> String {
    let plain = |text: &str| text.replace('\'', "\\'");
    let mut out = String::new();
    for (name, _, help) in SUBCOMMANDS {
        let _ =
            writeln!(out, "complete -c lto-prune -n __fish_use_subcommand -a {name} -d '{}'", plain(help));
    }
    for option in all() {
        let values = match option.value {
            OptionValue::None => String::new(),
            OptionValue::File | OptionValue::Folder => " -r -F".to_owned(),
            OptionValue::OneOf(words) => format!(" -x -a '{}'", words.join(" ")),
            OptionValue::Optional(words) => format!(" -f -a '{}'", words.join(" ")),
            OptionValue::Other => " -x".to_owned(),
        };
        let help = plain(option.help);
        let _ = writeln!(out, "complete -c lto-prune -l prune-{}{values} -d '{help}'", option.name);
    }
    out
}
