//! `lto-prune completions SHELL`: a script that completes subcommands, options and their values, made from the tables of `--help`.
//!
//! Left out: the options of linkers and compilers.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write;

use crate::args::prune::options::{OptionValue, PruneOption, SUBCOMMANDS, all};

/// Names of commands, with the help of each.
pub type CommandHelp = [(&'static str, &'static str)];

/// The help texts that are not in the tables of this module.
#[derive(Debug, Clone, Copy)]
pub struct HelpTexts<'h> {
    /// The texts of subcommands with a parser of their own.
    pub subcommands: &'h CommandHelp,
    /// The texts of the commands of `audit`.
    pub audit: &'h CommandHelp,
}

/// The script for a shell of this name, if there is one.
pub(super) fn script(shell: &OsStr, texts: HelpTexts<'_>) -> Option<String> {
    match shell.to_str()? {
        "bash" => Some(bash(texts)),
        "zsh" => Some(zsh(texts)),
        "fish" => Some(fish(texts)),
        _ => None,
    }
}

/// The first words of a line, and the completions of the word after them.
struct SubcommandWords {
    name: &'static str,
    /// The second word, if a command of `audit` stands there.
    command: Option<&'static str>,
    words: Vec<String>,
}

/// The words of all subcommands: the commands of `audit`, and the options that the help of each names.
fn subcommands(texts: HelpTexts<'_>) -> Vec<SubcommandWords> {
    let commands = texts.audit;
    let names = commands.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut all = vec![SubcommandWords { name: "audit", command: None, words: names }];
    let of_command = |&(name, text): &(&'static str, &'static str)| SubcommandWords {
        name: "audit",
        command: Some(name),
        words: options_in(text),
    };
    all.extend(commands.iter().map(of_command));
    for (name, ..) in SUBCOMMANDS.iter().filter(|(name, ..)| *name != "audit") {
        let own = texts.subcommands.iter().find(|(known, _)| known == name);
        let text = own.map_or_else(|| super::help::of_subcommand(name), |(_, text)| (*text).to_owned());
        let words = match *name {
            "completions" => ["bash", "zsh", "fish"].map(str::to_owned).to_vec(),
            _ => options_in(&text),
        };
        all.push(SubcommandWords { name, command: None, words });
    }
    all
}

/// The long options of a help text, sorted, with the equals sign of those that take a value.
fn options_in(text: &str) -> Vec<String> {
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '=');
    let words = text.split(is_end).filter(|word| word.len() > 2 && word.starts_with("--"));
    let words = words.map(|word| word.split_inclusive('=').next().unwrap_or_default());
    let words: BTreeSet<&str> =
        words.filter(|word| !word.starts_with("--prune-") && *word != "---").collect();
    // An option is named without its value, too.
    let is_longer = |word: &&&str| !words.contains(format!("{word}=").as_str());
    words.iter().filter(is_longer).map(|word| (*word).to_owned()).collect()
}

/// The word as it is typed, up to a value that it needs.
fn word(option: &PruneOption) -> String {
    let needs_none = matches!(option.value, OptionValue::None | OptionValue::Optional(_));
    format!("--prune-{}{}", option.name, if needs_none { "" } else { "=" })
}

fn bash(texts: HelpTexts<'_>) -> String {
    // bash takes the equals sign for the end of a word, so that a reply is the value alone.
    let mut out = String::from(
        "_lto_prune() {\n    local cur=${COMP_LINE:0:COMP_POINT} words=\n    cur=${cur##* }\n    COMPREPLY=()\n    \
         if [ \"$COMP_CWORD\" -gt 1 ]; then\n        case \"${COMP_WORDS[1]} ${COMP_WORDS[2]-}\" in\n",
    );
    for SubcommandWords { name, command, words } in subcommands(texts).iter().rev() {
        let command = command.unwrap_or("*");
        let _ = writeln!(out, "            '{name} '{command}) words='{}' ;;", words.join(" "));
    }
    out += "        esac\n    fi\n    if [ -n \"$words\" ]; then\n        \
            mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\"; [[ $cur == -* ]] || compgen -f -- \"$cur\")\n        \
            [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null\n        return\n    fi\n    case $cur in\n";
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

fn zsh(texts: HelpTexts<'_>) -> String {
    // In a specification brackets, colons and quotes have a meaning of their own.
    let plain = |text: &str| text.replace(['[', ']'], "").replace(':', "\\:").replace('\'', "'\\''");
    let mut out = String::from("#compdef lto-prune ld.lto-prune\n\nlocal -a commands=(\n");
    for (name, _, help) in SUBCOMMANDS {
        let _ = writeln!(out, "    '{name}:{}'", plain(help));
    }
    out += ")\nif (( CURRENT > 2 )); then\n    case \"$words[2] $words[3]\" in\n";
    for SubcommandWords { name, command, words } in subcommands(texts).iter().rev() {
        let command = command.unwrap_or("*");
        let _ = writeln!(
            out,
            "        '{name} '{command}) compadd -S '' -- {}; _files; return ;;",
            words.join(" ")
        );
    }
    out +=
        "    esac\nfi\n_lto_prune_first() {\n    _describe command commands\n    _files\n}\n_arguments \\\n";
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

fn fish(texts: HelpTexts<'_>) -> String {
    let plain = |text: &str| text.replace('\'', "\\'");
    let mut out = String::new();
    for (name, _, help) in SUBCOMMANDS {
        let _ =
            writeln!(out, "complete -c lto-prune -n __fish_use_subcommand -a {name} -d '{}'", plain(help));
    }
    let seen = "__fish_seen_subcommand_from";
    let commands: Vec<&str> = texts.audit.iter().map(|(name, _)| *name).collect();
    let commands = commands.join(" ");
    for SubcommandWords { name, command, words } in subcommands(texts) {
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
