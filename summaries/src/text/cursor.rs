//! The token cursor of the parser, and the lookup of entries by name or number. Errors are messages; the parser adds the line.

use std::collections::HashMap;

use super::lex::Token;

pub(super) type Result<T, E = String> = std::result::Result<T, E>;

/// Names of one kind of entry, in order.
#[derive(Default)]
pub(super) struct Names {
    count: u32,
    by_name: HashMap<Vec<u8>, Option<u32>>,
}

impl Names {
    pub(super) fn add(&mut self, name: Vec<u8>) {
        let number = self.count;
        self.count += 1;
        if !name.is_empty() {
            self.by_name.entry(name).and_modify(|e| *e = None).or_insert(Some(number));
        }
    }

    /// The entry that a token means: `#3` by number, anything else by name.
    pub(super) fn find(&self, token: &Token<'_>, what: &str) -> Result<u32> {
        if let Token::Word(word) = token
            && let Some(number) = word.strip_prefix('#')
        {
            let number: u32 = number.parse().map_err(|_| format!("`{word}` is no number of a {what}"))?;
            return if number < self.count { Ok(number) } else { Err(format!("there is no {what} {word}")) };
        }
        let name = name_of(token).ok_or_else(|| format!("the name of a {what} is expected"))?;
        let shown = String::from_utf8_lossy(&name).into_owned();
        match self.by_name.get(&name) {
            Some(Some(number)) => Ok(*number),
            Some(None) => Err(format!("several {what}s are named `{shown}`: use a number, as in #3")),
            None => Err(format!("no {what} is named `{shown}`")),
        }
    }
}

pub(super) fn name_of(token: &Token<'_>) -> Option<Vec<u8>> {
    match token {
        Token::Word(word) => Some(word.as_bytes().to_vec()),
        Token::Quoted(bytes) => Some(bytes.clone()),
        Token::Open | Token::Close => None,
    }
}

/// The remaining tokens of a line.
pub(super) struct LineCursor<'t> {
    tokens: std::slice::Iter<'t, Token<'t>>,
}

impl<'t> LineCursor<'t> {
    pub(super) fn new(tokens: &'t [Token<'t>]) -> Self {
        LineCursor { tokens: tokens.iter() }
    }

    pub(super) fn peek(&self) -> Option<&'t Token<'t>> {
        self.tokens.as_slice().first()
    }

    pub(super) fn next(&mut self) -> Result<&'t Token<'t>> {
        self.tokens.next().ok_or_else(|| "the line ends too early".to_owned())
    }

    /// The next word, if there is one more token.
    pub(super) fn word(&mut self) -> Result<Option<&'t str>> {
        match self.tokens.next() {
            None => Ok(None),
            Some(Token::Word(word)) => Ok(Some(word)),
            Some(_) => Err("a word is expected".to_owned()),
        }
    }

    /// Consumes this word of the line.
    pub(super) fn expect(&mut self, word: &str) -> Result<()> {
        if self.need_word()? == word { Ok(()) } else { Err(format!("`{word}` is expected")) }
    }

    pub(super) fn need_word(&mut self) -> Result<&'t str> {
        self.word()?.ok_or_else(|| "the line ends too early".to_owned())
    }

    pub(super) fn number<T: TryFrom<u64>>(&mut self) -> Result<T> {
        let word = self.need_word()?;
        number(word)
            .and_then(|n| T::try_from(n).ok())
            .ok_or_else(|| format!("`{word}` is no number in range"))
    }

    pub(super) fn place(&mut self) -> Result<u64> {
        let word = self.need_word()?;
        word.strip_prefix('@')
            .and_then(number)
            .ok_or_else(|| format!("an offset such as @0x10 is expected, not `{word}`"))
    }

    pub(super) fn end(&mut self) -> Result<()> {
        match self.tokens.next() {
            None => Ok(()),
            Some(_) => Err("the line has too much at its end".to_owned()),
        }
    }

    pub(super) fn peek_word(&self) -> Option<&'t str> {
        match self.peek() {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }
}

fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        _ if word.starts_with('+') => None,
        _ => word.parse().ok(),
    }
}

/// Read a number with an optional sign: `-4`, `+0x10`.
pub(super) fn signed(word: &str) -> Result<i64> {
    let magnitude = |w: &str| number(w).map(i128::from);
    let value = match word.strip_prefix('-') {
        Some(digits) => magnitude(digits).map(|n| -n),
        None => magnitude(word.strip_prefix('+').unwrap_or(word)),
    };
    value.and_then(|n| i64::try_from(n).ok()).ok_or_else(|| format!("`{word}` is no signed number"))
}
