//! Text for terminals: names of files, sections and symbols come from inputs, and no input may control a terminal.
//!
//! The macros here replace those of the standard library with the same names, so that printed text goes through this module. Code
//! that writes to stdout in another way calls [`lines`] or [`json`].

use std::borrow::Cow;

/// Whether a character is a control character, or one that changes the order or the look of others and shows nothing itself.
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// A name in one line of text: control characters are escaped as in a string of Rust.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, &|c| is_control(c), &|c, out| out.extend(c.escape_default()))
}

/// A text of lines, whose names are [`printable`] where they could end a line.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, &|c| is_control(c) && c != '\n', &|c, out| out.extend(c.escape_default()))
}

/// JSON whose strings hold the same, with the characters escaped that serialisation leaves as they are.
pub fn json(text: &str) -> Cow<'_, str> {
    escaped(text, &|c| is_control(c) && c != '\n', &|c, out| {
        c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| *out += &format!("\\u{unit:04x}"));
    })
}

fn escaped<'t>(
    text: &'t str,
    is_escaped: &dyn Fn(char) -> bool,
    escape: &dyn Fn(char, &mut String),
) -> Cow<'t, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_escaped(c) {
            true => escape(c, &mut out),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// A message on stderr, in one line.
macro_rules! eprintln {
    ($($argument:tt)*) => {
        std::eprintln!("{}", $crate::terminal::printable(&format!($($argument)*)))
    };
}

/// A text of lines on stderr.
macro_rules! eprint {
    ($($argument:tt)*) => {
        std::eprint!("{}", $crate::terminal::lines(&format!($($argument)*)))
    };
}

/// A text of lines on stdout.
macro_rules! print {
    ($($argument:tt)*) => {
        std::print!("{}", $crate::terminal::lines(&format!($($argument)*)))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_controls_the_terminal() {
        let name = "f\x1b[31m\x07\n\u{9b}2J\u{202e}\u{e0041}\x7f ü";
        assert_eq!(printable(name), "f\\u{1b}[31m\\u{7}\\n\\u{9b}2J\\u{202e}\\u{e0041}\\u{7f} ü");
        assert_eq!(printable(&printable(name)), printable(name));
        assert_eq!(lines("a\tb\n"), "a\\tb\n");
        let text = serde_json::to_string(name).unwrap_or_default();
        assert!(!json(&text).contains(is_control));
        assert_eq!(serde_json::from_str::<String>(&json(&text)).ok().as_deref(), Some(name));
    }
}
