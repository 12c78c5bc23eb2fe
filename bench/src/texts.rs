//! Texts of blocks: a line `@KEY WORDS` begins a block, and the lines up to the next one are its text.

use crate::Result;

pub(crate) struct Block<'t> {
    pub(crate) key: &'t str,
    /// The rest of the first line, without the blank behind the key.
    pub(crate) words: &'t str,
    /// Each line ends with a newline.
    pub(crate) text: String,
}

impl Block<'_> {
    /// A block that may have nothing behind its first line but comments.
    ///
    /// # Errors
    /// It has another line.
    pub(crate) fn is_one_line(&self) -> Result<()> {
        match self.text.lines().find(|line| !line.is_empty() && !line.starts_with('#')) {
            Some(line) => Err(format!("@{} {}: unexpected text: {line}", self.key, self.words).into()),
            None => Ok(()),
        }
    }
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
