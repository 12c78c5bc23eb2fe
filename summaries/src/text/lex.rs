//! The lexer of the text form: words, quoted byte strings and brackets.
//!
//! A name may have any bytes, so that it is quoted unless it looks like a common symbol or section name. Quoted text is ASCII.

use std::fmt::Write as _;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'t> {
    Word(&'t str),
    Quoted(Vec<u8>),
    Open,
    Close,
}

/// Split a line; the error is a message.
pub(super) fn tokens(line: &str) -> Result<Vec<Token<'_>>, String> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        match first {
            ';' => break,
            '[' | ']' => {
                tokens.push(if first == '[' { Token::Open } else { Token::Close });
                rest = rest.get(1..).unwrap_or("");
            }
            '"' => {
                let (bytes, tail) = quoted(rest.get(1..).unwrap_or(""))?;
                tokens.push(Token::Quoted(bytes));
                rest = tail;
            }
            _ => {
                let end = |c: char| c.is_whitespace() || matches!(c, '[' | ']' | '"' | ';');
                let (word, tail) = rest.split_at(rest.find(end).unwrap_or(rest.len()));
                tokens.push(Token::Word(word));
                rest = tail;
            }
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

/// The contents of a quoted string after its opening quote, and the rest of the text.
fn quoted(text: &str) -> Result<(Vec<u8>, &str), String> {
    let mut bytes = Vec::new();
    let mut rest = text.char_indices();
    while let Some((i, c)) = rest.next() {
        match c {
            '"' => return Ok((bytes, text.get(i + 1..).unwrap_or(""))),
            '\\' => match rest.next() {
                Some((_, escaped @ ('"' | '\\'))) => bytes.push(escaped as u8),
                Some((at, 'x')) => {
                    let digits =
                        text.get(at + 1..at + 3).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
                    let byte = digits.and_then(|d| u8::from_str_radix(d, 16).ok());
                    bytes.push(byte.ok_or("\\x takes two hexadecimal digits")?);
                    rest.nth(1);
                }
                _ => return Err("a backslash is followed by \\, \" or x".to_owned()),
            },
            c => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Err("a quoted string has no end".to_owned())
}

/// Whether a name needs no quotes: it can't be taken for a number, an offset or a bracket.
fn is_bare(name: &[u8]) -> bool {
    let first = |b: &u8| b.is_ascii_alphabetic() || matches!(b, b'_' | b'.' | b'$');
    name.first().is_some_and(first)
        && name.iter().all(|b| first(b) || b.is_ascii_digit() || matches!(b, b'@' | b'-' | b'+' | b':'))
}

/// Append a name, quoted if necessary.
pub(super) fn write_name(out: &mut String, name: &[u8]) {
    if is_bare(name) {
        out.extend(name.iter().map(|b| char::from(*b)));
    } else {
        write_quoted(out, name);
    }
}

pub(super) fn write_quoted(out: &mut String, bytes: &[u8]) {
    out.push('"');
    for byte in bytes {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(*byte));
            }
            b' '..=b'~' => out.push(char::from(*byte)),
            other => {
                // Writing to a String never fails.
                let _ = write!(out, "\\x{other:02x}");
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_line() {
        let line = "  in [.note.GNU-stack] \"a\\x00\\\"ü\" -4 ; \"not this";
        let quoted = Token::Quoted(b"a\0\"\xc3\xbc".to_vec());
        let words = [
            Token::Word("in"),
            Token::Open,
            Token::Word(".note.GNU-stack"),
            Token::Close,
            quoted,
            Token::Word("-4"),
        ];
        assert_eq!(tokens(line).unwrap(), words);
    }

    #[test]
    fn what_is_wrong() {
        for bad in ["\"abc", "\"\\q\"", "\"\\x4\"", "\"\\xü\"", "\"\\"] {
            assert!(tokens(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_that_need_quotes() {
        for name in [&b""[..], b"#1", b"a b", b"1a", b"\xff", b"[x]", b"a;b", b"-4", b"a\"b"] {
            let mut out = String::new();
            write_name(&mut out, name);
            assert_eq!(tokens(&out).unwrap(), [Token::Quoted(name.to_vec())]);
        }
    }
}
