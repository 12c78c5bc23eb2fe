//! Version scripts and dynamic lists: global and local names.
//!
//! The version of a symbol does not matter to liveness, so that nodes are joined. It is noted for names, to check the output.
//! Dependencies between nodes add no names.

use super::super::glob::Glob;
use super::facts::{Pattern, ScriptFacts, describe};
use super::lexer::{Lexer, Token};

/// Read a `--version-script`.
///
/// # Errors
/// The first construct that isn't known.
pub(super) fn parse_script(text: &[u8], facts: &mut ScriptFacts) -> Result<(), String> {
    nodes(&mut Lexer::new(text), facts, false)
}

/// Read a `--dynamic-list` or `--export-dynamic-symbol-list`.
///
/// # Errors
/// The first construct that isn't known.
pub(super) fn parse_list(text: &[u8], facts: &mut ScriptFacts) -> Result<(), String> {
    let mut lexer = Lexer::new(text);
    while !lexer.at_end() {
        if !lexer.eat(b'{') {
            return Err(describe(lexer.name().as_ref(), &lexer));
        }
        let mut local = Vec::new();
        body(&mut lexer, &mut facts.dynamic_list, &mut local)?;
        if !local.is_empty() {
            return Err("local: in a dynamic list".to_owned());
        }
        lexer.eat(b';');
    }
    Ok(())
}

/// Version nodes `[name] { ... } [dependency...] ;` up to the end, or inside a `VERSION` command to its brace.
pub(super) fn nodes(lexer: &mut Lexer<'_>, facts: &mut ScriptFacts, braced: bool) -> Result<(), String> {
    let global = facts.version_global.get_or_insert_default();
    let mut named: Option<String> = None;
    loop {
        match lexer.name() {
            None if !braced && named.is_none() => return Ok(()),
            Some(Token::Punct(b'}')) if braced && named.is_none() => return Ok(()),
            Some(Token::Punct(b';')) if named.is_none() => {}
            Some(Token::Word(name) | Token::Quoted(name)) if named.is_none() => named = Some(name),
            Some(Token::Punct(b'{')) => {
                let version = named.take().unwrap_or_default();
                let earlier = global.len();
                body(lexer, global, &mut facts.version_local)?;
                let is_name = |p: &&Pattern| !p.quoted && !p.cplusplus && Glob::new(&p.text).is_literal();
                for pattern in global[earlier..].iter().filter(is_name) {
                    let version = Some(version.clone());
                    let given = facts.versions.entry(Glob::new(&pattern.text).literal());
                    let given = given.or_insert_with(|| version.clone());
                    *given = version.filter(|version| given.as_ref() == Some(version));
                }
                while let Some(Token::Word(_)) = lexer.clone().name() {
                    lexer.name();
                }
                if !lexer.eat(b';') && !lexer.at_end() {
                    return Err(describe(lexer.name().as_ref(), lexer));
                }
            }
            other => return Err(describe(other.as_ref(), lexer)),
        }
    }
}

/// The patterns of one node, after its opening brace.
fn body(lexer: &mut Lexer<'_>, global: &mut Vec<Pattern>, local: &mut Vec<Pattern>) -> Result<(), String> {
    let mut in_local = false;
    let mut cplusplus = false;
    let mut in_extern = false;
    loop {
        let (mut text, quoted) = match lexer.name() {
            Some(Token::Punct(b'}')) if in_extern => {
                (in_extern, cplusplus) = (false, false);
                continue;
            }
            Some(Token::Punct(b'}')) => return Ok(()),
            Some(Token::Punct(b';')) => continue,
            Some(Token::Word(word)) if word == "extern" && !in_extern => {
                match (lexer.name(), lexer.eat(b'{')) {
                    (Some(Token::Quoted(language)), true) => {
                        (in_extern, cplusplus) = (true, language != "C");
                        continue;
                    }
                    (other, _) => return Err(describe(other.as_ref(), lexer)),
                }
            }
            Some(Token::Word(word)) => (word, false),
            Some(Token::Quoted(word)) => (word, true),
            other => return Err(describe(other.as_ref(), lexer)),
        };
        if !quoted && !in_extern {
            // `global:`, `global :` or, without a blank, `global:name`.
            for (label, is_local) in [("global", false), ("local", true)] {
                let Some(rest) = text.strip_prefix(label) else { continue };
                if let Some(name) = rest.strip_prefix(':') {
                    in_local = is_local;
                    text = name.to_owned();
                } else if rest.is_empty() && matches!(lexer.clone().name(), Some(Token::Word(w)) if w == ":")
                {
                    lexer.name();
                    in_local = is_local;
                    text.clear();
                }
                break;
            }
            if text.is_empty() {
                continue;
            }
        }
        let pattern = Pattern { text, cplusplus, quoted };
        if in_local { local.push(pattern) } else { global.push(pattern) }
    }
}
