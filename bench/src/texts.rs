//! Texts of blocks: a line `@KEY WORDS` begins a block, and the lines up to the next one are its text.

use std::collections::BTreeMap;

pub(crate) struct Block<'t> {
    pub(crate) key: &'t str,
    /// The rest of the first line, without the blank behind the key.
    pub(crate) words: &'t str,
    /// Each line ends with a newline.
    pub(crate) text: String,
}

/// All blocks of a text. Lines before the first one are comments.
pub(crate) fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for line in text.lines() {
        if let Some(line) = line.strip_prefix('@') {
            let (key, words) = line.split_once(' ').unwrap_or((line, ""));
            blocks.push(Block { key, words, text: String::new() });
        } else if let Some(block) = blocks.last_mut() {
            block.text.push_str(line);
            block.text.push('\n');
        }
    }
    blocks
}

/// The words of a text, owned.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// A text to fill in, with the texts that belong to it by their keys.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) key: &'static str,
    pub(crate) words: &'static str,
    pub(crate) text: String,
    parts: BTreeMap<&'static str, String>,
}

impl Template {
    pub(crate) fn part(&self, key: &str) -> &str {
        self.parts.get(key).map_or("", String::as_str)
    }
}

/// All templates of a text. Blocks with one of the keys `parts` belong to the template before them.
pub(crate) fn templates(text: &'static str, parts: &[&str]) -> Vec<Template> {
    let mut all: Vec<Template> = Vec::new();
    for Block { key, words, text } in blocks(text) {
        match all.last_mut().filter(|_| parts.contains(&key)) {
            Some(last) => drop(last.parts.insert(key, text)),
            None => all.push(Template { key, words, text, parts: BTreeMap::new() }),
        }
    }
    all
}

/// The text in which `mark` replaces each `@` and the character behind it.
pub(crate) fn filled(text: &str, mut mark: impl FnMut(&str) -> String) -> String {
    let mut pieces = text.split('@');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_at(1);
        out += &(mark(name) + rest);
    }
    out
}
