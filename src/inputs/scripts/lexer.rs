//! Words of linker scripts, version scripts and dynamic lists.
//!
//! GNU ld's lexer has modes: in an expression `a*b` is three tokens, in a list of files it is one name. So the caller
//! chooses the mode: [`Lexer::name`] or [`Lexer::operand`]. Comments are `/* */`, and `#` to the end of the line.

/// A place in a script. Cloning it is a bookmark.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'a> {
    text: &'a [u8],
}

/// A token of the language of linker scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A name, a pattern or a number: the lexer does not tell.
    Word(String),
    /// The same in double quotes: never a keyword, never a pattern.
    Quoted(String),
    /// One byte of punctuation that stands for itself.
    Punct(u8),
}

impl Token {
    /// The text of a word, quoted or not.
    pub(super) fn into_text(self) -> Option<String> {
        match self {
            Token::Word(text) | Token::Quoted(text) => Some(text),
            Token::Punct(_) => None,
        }
    }
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Lexer { text }
    }

    fn skip_blanks(&mut self) {
        loop {
            self.text = self.text.trim_ascii_start();
            if let Some(comment) = self.text.strip_prefix(b"/*") {
                let end = comment.windows(2).position(|w| w == b"*/").map_or(comment.len(), |at| at + 2);
                self.text = comment.get(end..).unwrap_or_default();
            } else if self.text.first() == Some(&b'#') {
                let end = self.text.iter().position(|b| *b == b'\n').unwrap_or(self.text.len());
                self.text = self.text.get(end..).unwrap_or_default();
            } else {
                return;
            }
        }
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (head, tail) = self.text.split_at_checked(length).unwrap_or((self.text, &[]));
        self.text = tail;
        head
    }

    fn token(&mut self, in_word: impl Fn(u8) -> bool) -> Option<Token> {
        self.skip_blanks();
        let first = *self.text.first()?;
        if first == b'"' {
            self.take(1);
            let end = self.text.iter().position(|b| *b == b'"').unwrap_or(self.text.len());
            let text = String::from_utf8_lossy(self.take(end)).into_owned();
            self.take(1);
            return Some(Token::Quoted(text));
        }
        let length = self.text.iter().position(|b| !in_word(*b)).unwrap_or(self.text.len());
        if length == 0 {
            self.take(1);
            return Some(Token::Punct(first));
        }
        Some(Token::Word(String::from_utf8_lossy(self.take(length)).into_owned()))
    }

    /// The next token where names and patterns are expected: a word runs to white space or one of `(){};,="`.
    pub(super) fn name(&mut self) -> Option<Token> {
        self.token(|b| !b.is_ascii_whitespace() && !b"(){};,=\"".contains(&b))
    }

    /// The next token of an expression: identifiers and numbers are words, all else punctuation.
    pub(super) fn operand(&mut self) -> Option<Token> {
        self.token(|b| b.is_ascii_alphanumeric() || b"_.$\\".contains(&b) || b >= 0x80)
    }

    /// Whether `punct` comes next; if so it is consumed.
    pub(super) fn eat(&mut self, punct: u8) -> bool {
        self.skip_blanks();
        let found = self.text.first() == Some(&punct);
        if found {
            self.take(1);
        }
        found
    }

    /// The operator of an assignment, if one comes next; if so it is consumed. `==` does not count.
    pub(super) fn eat_assignment(&mut self) -> bool {
        self.skip_blanks();
        let operators: [&[u8]; 11] =
            [b"<<=", b">>=", b"+=", b"-=", b"*=", b"/=", b"&=", b"|=", b"^=", b"?=", b"="];
        let Some(operator) = operators.iter().find(|o| self.text.starts_with(o)) else { return false };
        if self.text.starts_with(b"==") {
            return false;
        }
        self.take(operator.len());
        true
    }

    pub(super) fn at_end(&mut self) -> bool {
        self.skip_blanks();
        self.text.is_empty()
    }

    /// Bytes that remain, to bound what is quoted in a message.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.text
    }
}
