//! `lto-prune completions`: a script that completes commands, options and their values, made from the help texts.
//!
//! The options of linkers and compilers are not completed.

use std::ffi::OsStr;
use std::fmt::Write;

use crate::args::help::{self, HelpOption, OptionValue, about, prune_options};

/// The script for a shell of this name, or the manual page.
pub(super) fn script(shell: &OsStr) -> Option<String> {
    match shell.to_str()? {
        "bash" => Some(bash()),
        "zsh" => Some(zsh()),
        "fish" => Some(fish()),
        "man" => Some(super::manual::page()),
        _ => None,
    }
}

/// The first words of a line, and the completions of the word after them.
struct SubcommandWords {
    name: &'static str,
    /// The command of `audit` that follows.
    command: Option<&'static str>,
    words: Vec<String>,
}

/// The commands that a line may begin with, with their help texts.
fn first_words() -> impl Iterator<Item = (&'static str, &'static str)> {
    help::commands().filter(|(name, _)| !name.contains(' '))
}

/// The commands of `audit`.
fn audit_commands() -> Vec<String> {
    help::commands().filter_map(|(name, _)| Some(name.strip_prefix("audit ")?.to_owned())).collect()
}

/// The words of all commands: the commands of `audit`, and the options of each, sorted, with the equals sign before a value.
fn subcommands() -> Vec<SubcommandWords> {
    let words = |(name, text): (&'static str, &'static str)| {
        let word = |option: HelpOption| {
            format!("--{}{}", option.name, if option.value == OptionValue::None { "" } else { "=" })
        };
        let mut words = match name {
            "completions" => ["bash", "zsh", "fish", "man"].map(str::to_owned).to_vec(),
            "audit" => audit_commands(),
            _ => help::options(text).into_iter().map(word).filter(|w| !w.starts_with("--prune-")).collect(),
        };
        if !matches!(name, "completions" | "audit") {
            words.sort();
        }
        let (name, command) =
            name.split_once(' ').map_or((name, None), |(name, command)| (name, Some(command)));
        SubcommandWords { name, command, words }
    };
    help::commands().map(words).collect()
}

/// The word as it is typed, up to a value that it needs.
fn word(option: &HelpOption) -> String {
    let needs_none = matches!(option.value, OptionValue::None | OptionValue::Optional(_));
    format!("--prune-{}{}", option.name, if needs_none { "" } else { "=" })
}

fn bash() -> String {
    // bash takes the equals sign for the end of a word, so that a reply is the value alone.
    let mut out = String::from(
        "_lto_prune() {\n    local cur=${COMP_LINE:0:COMP_POINT} words=\n    cur=${cur##* }\n    COMPREPLY=()\n    \
         if [ \"$COMP_CWORD\" -gt 1 ]; then\n        case \"${COMP_WORDS[1]} ${COMP_WORDS[2]-}\" in\n",
    );
    for SubcommandWords { name, command, words } in subcommands().iter().rev() {
        let command = command.unwrap_or("*");
        let _ = writeln!(out, "            '{name} '{command}) words='{}' ;;", words.join(" "));
    }
    out += "        esac\n    fi\n    if [ -n \"$words\" ]; then\n        \
            mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\"; [[ $cur == -* ]] || compgen -f -- \"$cur\")\n        \
            [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null\n        return\n    fi\n    case $cur in\n";
    for option in prune_options() {
        let values = match &option.value {
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
    let words: Vec<String> = prune_options().iter().map(word).collect();
    let commands: Vec<&str> = first_words().map(|(name, _)| name).collect();
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
    for (name, text) in first_words() {
        let _ = writeln!(out, "    '{name}:{}'", plain(about(text)));
    }
    out += ")\nif (( CURRENT > 2 )); then\n    case \"$words[2] $words[3]\" in\n";
    for SubcommandWords { name, command, words } in subcommands().iter().rev() {
        let command = command.unwrap_or("*");
        let _ = writeln!(
            out,
            "        '{name} '{command}) compadd -S '' -- {}; _files; return ;;",
            words.join(" ")
        );
    }
    out +=
        "    esac\nfi\n_lto_prune_first() {\n    _describe command commands\n    _files\n}\n_arguments \\\n";
    for option in prune_options() {
        let values = match &option.value {
            OptionValue::None => String::new(),
            OptionValue::File => ":file:_files".to_owned(),
            OptionValue::Folder => ":folder:_files -/".to_owned(),
            OptionValue::OneOf(words) | OptionValue::Optional(words) => {
                format!(":value:({})", plain(&words.join(" ")))
            }
            OptionValue::Other => ":value: ".to_owned(),
        };
        let joined = if option.value == OptionValue::None { "" } else { "=-" };
        let _ = writeln!(out, "    '*--prune-{}{joined}[{}]{values}' \\", option.name, plain(&option.help));
    }
    out + "    '1:command or file:_lto_prune_first' '*:file:_files'\n"
}

fn fish() -> String {
    let plain = |text: &str| text.replace('\'', "\\'");
    let mut out = String::new();
    for (name, text) in first_words() {
        let _ = writeln!(
            out,
            "complete -c lto-prune -n __fish_use_subcommand -a {name} -d '{}'",
            plain(about(text))
        );
    }
    let seen = "__fish_seen_subcommand_from";
    let commands = audit_commands().join(" ");
    for SubcommandWords { name, command, words } in subcommands() {
        let condition = match (name, command) {
            (_, Some(command)) => format!("{seen} {name}; and {seen} {command}"),
            ("audit", None) => format!("{seen} audit; and not {seen} {commands}"),
            _ => format!("{seen} {name}"),
        };
        for word in words {
            let _ = match word.strip_prefix("--") {
                None => writeln!(out, "complete -c lto-prune -n '{condition}' -a {word}"),
                Some(option) => {
                    let (option, value) = option.strip_suffix('=').map_or((option, ""), |name| (name, " -r"));
                    writeln!(out, "complete -c lto-prune -n '{condition}' -l {option}{value}")
                }
            };
        }
    }
    for option in prune_options() {
        let values = match &option.value {
            OptionValue::None => String::new(),
            OptionValue::File | OptionValue::Folder => " -r -F".to_owned(),
            OptionValue::OneOf(words) => format!(" -x -a '{}'", words.join(" ")),
            OptionValue::Optional(words) => format!(" -f -a '{}'", words.join(" ")),
            OptionValue::Other => " -x".to_owned(),
        };
        let help = plain(&option.help);
        let _ = writeln!(out, "complete -c lto-prune -l prune-{}{values} -d '{help}'", option.name);
    }
    out
}
