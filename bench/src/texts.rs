//! Texts of blocks: a line `@KEY WORDS` begins a block, and the lines up to the next one are its text.

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
