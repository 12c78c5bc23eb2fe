//! Shell completions and the manual page have every option of `--help`.

use std::collections::BTreeSet;

use lto_prune::args::help;

use crate::run::{Job, Session};

const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// The options and environment variables that `--help` names.
fn words_of_help(session: &mut Session) -> BTreeSet<String> {
    let help = session.cmd("lto-prune --help").stdout;
    let words = help.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_');
    let words = words.filter(|w| w.starts_with("--prune-") && w.len() > 8 || w.starts_with("LTO_PRUNE_"));
    let words: BTreeSet<String> = words.map(str::to_owned).collect();
    session.check(words.len() > 20, &format!("{words:?}"));
    words
}

/// Write the script of a shell.
fn script(session: &mut Session, shell: &str) -> String {
    let text = session.must(&session.job("lto-prune").arg("completions").arg(shell)).stdout;
    session.write(&format!("script.{shell}"), &text);
    text
}

#[test]
fn every_option_is_completed_and_in_the_manual_page() {
    let mut session = Session::new("completions/all");
    let words = words_of_help(&mut session);
    let manual = script(&mut session, "man").replace("\\-", "-");
    for word in words.iter().map(String::as_str).chain(help::commands().map(|(name, _)| name)) {
        let is_there = word.starts_with("audit ") || manual.contains(word);
        session.check(is_there, &format!("{word} is not in the manual page"));
    }
    for shell in SHELLS {
        let text = script(&mut session, shell);
        for word in words.iter().filter(|word| word.starts_with("--")) {
            // fish names a long option without its dashes.
            let form = if shell == "fish" { format!("-l {}", &word[2..]) } else { word.clone() };
            session.check(text.contains(&form), &format!("{shell} does not complete {word}"));
        }
        session.must(&Job::new(session.dir(), shell).arg("-n").arg(format!("script.{shell}")));
    }
    let outcome = session.run(&session.job("lto-prune completions tcsh"));
    session.check(outcome.status == 1 && outcome.stderr.contains("bash, zsh and fish"), &outcome.stderr);
}

#[test]
fn bash_and_fish_complete_options_values_and_commands() {
    let mut session = Session::new("completions/run");
    let dir = session.dir().to_owned();
    session.write("input.o", "");
    script(&mut session, "bash");
    script(&mut session, "fish");
    for (typed, expected) in [
        ("--prune-le", "--prune-level="),
        ("--prune-level=fu", "functions"),
        ("expl", "explain-trap"),
        ("audit top --al", "--all"),
        ("audit top --b", "--bss --by="),
        ("audit domin", "dominators"),
        ("audit top inp", "input.o"),
        ("bisect --time", "--timeout="),
        ("completions fi", "fish"),
        ("inp", "input.o"),
        ("--prune-report=inp", "input.o"),
    ] {
        let line = format!("lto-prune {typed}");
        let bash = format!(
            "source ./script.bash; COMP_LINE='{line}' COMP_POINT={} COMP_CWORD={} COMP_WORDS=({line}); \
             _lto_prune; echo \"${{COMPREPLY[@]}}\"",
            line.len(),
            typed.split(' ').count()
        );
        let replies = session.must(&session.job("bash").arg("-c").arg(bash)).stdout;
        session.check_eq(&replies.trim(), &expected, &format!("bash: {line}"));
        let fish = format!("source ./script.fish; complete -C '{line}'");
        let job = session.job("fish").env("HOME", &dir).arg("--no-config").arg("-c").arg(fish);
        let replies = session.must(&job).stdout;
        // fish adds the equals sign itself.
        let expected = expected.split(' ').next().unwrap().trim_end_matches('=');
        let found = replies.lines().any(|reply| reply.split('\t').next().unwrap().ends_with(expected));
        session.check(found, &format!("fish: {line}: {replies}"));
    }
}
