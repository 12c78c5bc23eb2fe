//! Markdown tables, and the files of results that they go to.

use std::fs;

use crate::corpus::{Corpus, Link};
use crate::{Options, Result, machine};

/// A table that grows row by row; the first column is text, the others are right-aligned.
#[derive(Debug)]
pub(crate) struct Table {
    columns: usize,
    text: String,
}

impl Table {
    pub(crate) fn new(columns: &[&str]) -> Table {
        let mut text = format!("| {} |\n|---", columns.join(" | "));
        for _ in 1..columns.len() {
            text.push_str("|--:");
        }
        text.push_str("|\n");
        Table { columns: columns.len(), text }
    }

    pub(crate) fn row(&mut self, cells: &[String]) {
        debug_assert_eq!(cells.len(), self.columns);
        self.text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }

    /// Add a row for each link of the corpus, and name those that fail. True if none does.
    pub(crate) fn links(
        &mut self,
        corpus: &Corpus,
        mut cells: impl FnMut(&Link) -> Result<Vec<String>>,
    ) -> bool {
        let mut good = true;
        for link in &corpus.links {
            eprintln!("{}", link.name());
            match cells(link) {
                Ok(cells) => self.row(&cells),
                Err(e) => {
                    eprintln!("{}: {e}", link.name());
                    good = false;
                }
            }
        }
        good
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

/// A count with separators: 1234567 is `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Print a result and, if asked, write it to `results/NAME.md` with the facts of the machine.
pub(crate) fn publish(corpus: &Corpus, options: &Options, name: &str, title: &str, body: &str) -> Result<()> {
    print!("{body}");
    if options.write {
        let dir = corpus.root.join("results");
        fs::create_dir_all(&dir)?;
        let text = format!("# {title}\n\n{}\n{body}", machine::facts(corpus)?);
        fs::write(dir.join(name).with_extension("md"), text)?;
    }
    Ok(())
}

/// Publish a result that is good, print any other one. The result is whether it is good.
pub(crate) fn publish_good(
    good: bool,
    corpus: &Corpus,
    options: &Options,
    name: &str,
    title: &str,
    body: &str,
) -> Result<bool> {
    match good {
        true => publish(corpus, options, name, title, body)?,
        false => print!("{body}"),
    }
    Ok(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_separators() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")];
        for (n, expected) in cases {
            assert_eq!(count(n), expected);
        }
    }
}
