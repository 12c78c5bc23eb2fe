//! Scripts that are inputs on the line: glibc's `libc.so`, `libncurses.so` and the like.
//!
//! Such a script names further inputs. Sections and assignments in it would augment the linker's default script, which is not
//! modelled: the link is not pruned, and the limit names the construct.

use super::lexer::{Lexer, Token};

/// A command of a script, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptCommand {
    /// A file name, or `-lNAME` for a library to look for.
    Input {
        name: String,
        as_needed: bool,
    },
    GroupStart,
    GroupEnd,
    /// A comma between two names, which lld takes for a name.
    Comma,
    /// A folder of `SEARCH_DIR(path)`, which is searched as if after `-L`.
    SearchDir(String),
}

/// Read an implicit script.
///
/// # Errors
/// The first construct that isn't `INPUT`, `GROUP`, `AS_NEEDED`, `SEARCH_DIR` or one without effect.
pub fn parse(text: &[u8]) -> Result<Vec<ScriptCommand>, String> {
    let mut lexer = Lexer::new(text);
    let mut commands = Vec::new();
    while !lexer.at_end() {
        let token = lexer.name();
        let keyword = match &token {
            Some(Token::Word(word)) if lexer.eat(b'(') => word.as_str(),
            Some(Token::Punct(b';')) => continue,
            _ => return Err(super::facts::describe(token.as_ref(), &lexer)),
        };
        match keyword {
            "INPUT" | "GROUP" | "SEARCH_DIR" => input_command(keyword, &mut lexer, &mut commands)?,
            // It selects the format of the line's emulation, which holds already.
            "OUTPUT_FORMAT" => output_format(&mut lexer)?,
            _ => return Err(format!("{keyword}(...)")),
        }
    }
    Ok(commands)
}

/// `INPUT(`, `GROUP(` or `SEARCH_DIR(` up to the closing parenthesis; the opening one is consumed.
pub(super) fn input_command(
    keyword: &str,
    lexer: &mut Lexer<'_>,
    commands: &mut Vec<ScriptCommand>,
) -> Result<(), String> {
    match keyword {
        "INPUT" => list(lexer, commands),
        "GROUP" => {
            commands.push(ScriptCommand::GroupStart);
            list(lexer, commands)?;
            commands.push(ScriptCommand::GroupEnd);
            Ok(())
        }
        _ => {
            let directory = lexer.name().and_then(Token::into_text).ok_or("SEARCH_DIR without a path")?;
            commands.push(ScriptCommand::SearchDir(directory));
            match lexer.eat(b')') {
                true => Ok(()),
                false => Err("SEARCH_DIR without its closing parenthesis".to_owned()),
            }
        }
    }
}

/// `OUTPUT_FORMAT(` up to the closing parenthesis: the format of x86-64, or that three times (default, big-endian, little-endian).
fn output_format(lexer: &mut Lexer<'_>) -> Result<(), String> {
    let mut formats = 0;
    loop {
        match lexer.name() {
            Some(Token::Word(format) | Token::Quoted(format)) if format == "elf64-x86-64" => formats += 1,
            Some(Token::Punct(b',')) => {}
            Some(Token::Punct(b')')) if formats == 1 || formats == 3 => return Ok(()),
            _ => return Err("OUTPUT_FORMAT of another format".to_owned()),
        }
    }
}

/// The files of `INPUT(` or `GROUP(` up to the closing parenthesis.
fn list(lexer: &mut Lexer<'_>, commands: &mut Vec<ScriptCommand>) -> Result<(), String> {
    let mut as_needed = false;
    loop {
        match lexer.name() {
            Some(Token::Punct(b',')) => commands.push(ScriptCommand::Comma),
            Some(Token::Punct(b')')) if as_needed => as_needed = false,
            Some(Token::Punct(b')')) => return Ok(()),
            Some(Token::Word(word)) if word == "AS_NEEDED" && !as_needed && lexer.eat(b'(') => {
                as_needed = true
            }
            Some(Token::Word(name) | Token::Quoted(name)) => {
                commands.push(ScriptCommand::Input { name, as_needed })
            }
            // `=` begins a name that is relative to the sysroot; the name follows without a blank.
            Some(Token::Punct(b'=')) => match lexer.name() {
                Some(Token::Word(name) | Token::Quoted(name)) => {
                    commands.push(ScriptCommand::Input { name: format!("={name}"), as_needed });
                }
                other => return Err(super::facts::describe(other.as_ref(), lexer)),
            },
            other => return Err(super::facts::describe(other.as_ref(), lexer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(name: &str, as_needed: bool) -> ScriptCommand {
        ScriptCommand::Input { name: name.to_owned(), as_needed }
    }

    #[test]
    fn glibc() {
        let text =
            b"/* GNU ld script\n   Use the shared library, but some functions are only in\n   the static \
            library, so try that secondarily.  */\nOUTPUT_FORMAT(elf64-x86-64)\nGROUP ( \
            /lib/x86_64-linux-gnu/libc.so.6 /usr/lib/x86_64-linux-gnu/libc_nonshared.a  AS_NEEDED ( \
            /lib64/ld-linux-x86-64.so.2 ) )\n";
        let want = Ok(vec![
            ScriptCommand::GroupStart,
            input("/lib/x86_64-linux-gnu/libc.so.6", false),
            input("/usr/lib/x86_64-linux-gnu/libc_nonshared.a", false),
            input("/lib64/ld-linux-x86-64.so.2", true),
            ScriptCommand::GroupEnd,
        ]);
        assert_eq!(parse(text), want);
    }

    #[test]
    fn other_forms() {
        assert_eq!(parse(b""), Ok(vec![]));
        let text = b"INPUT(libncurses.so.6 -ltinfo, \"a b.o\" =/x.o); SEARCH_DIR(\"=/lib\") # end";
        let want = vec![
            input("libncurses.so.6", false),
            input("-ltinfo", false),
            ScriptCommand::Comma,
            input("a b.o", false),
            input("=/x.o", false),
            ScriptCommand::SearchDir("=/lib".to_owned()),
        ];
        assert_eq!(parse(text), Ok(want));
        for text in [
            "OUTPUT_FORMAT(binary)",
            "OUTPUT_FORMAT(elf64-x86-64, elf64-x86-64)",
            "TARGET(elf64-x86-64)",
            "x = 1;",
            "SECTIONS { }",
            "INPUT(a",
            "GROUP",
            "hello world",
            "VERSION { V { }; }",
            "INPUT(a;b)",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
