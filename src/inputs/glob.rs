//! Shell patterns as linkers match them: `*`, `?`, `[a-z]`, `[!a]`, `[^a]`, backslash. Bytes, no path semantics.
//!
//! `fnmatch` without flags, which GNU ld uses and the others imitate: `*` matches slashes and leading dots too. The
//! matcher backtracks to the last star only, so time is at most pattern times text, without recursion.

/// A compiled pattern of a shell, as linkers match names with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    parts: Vec<PatternPart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PatternPart {
    Byte(u8),
    Any,
    Star,
    Class { negated: bool, ranges: Vec<(u8, u8)> },
}

impl PatternPart {
    fn matches(&self, byte: u8) -> bool {
        match self {
            PatternPart::Byte(b) => *b == byte,
            PatternPart::Any | PatternPart::Star => true,
            PatternPart::Class { negated, ranges } => {
                ranges.iter().any(|(lo, hi)| (*lo..=*hi).contains(&byte)) != *negated
            }
        }
    }
}

impl Glob {
    /// Compile `pattern`. Every text is a pattern: an unclosed `[` is an ordinary byte.
    pub fn new(pattern: &str) -> Self {
        let bytes = pattern.as_bytes();
        let mut parts = Vec::with_capacity(bytes.len());
        let mut i = 0;
        while let Some(&b) = bytes.get(i) {
            i += 1;
            match b {
                b'*' if parts.last() == Some(&PatternPart::Star) => {}
                b'*' => parts.push(PatternPart::Star),
                b'?' => parts.push(PatternPart::Any),
                b'\\' => {
                    parts.push(PatternPart::Byte(*bytes.get(i).unwrap_or(&b'\\')));
                    i += 1;
                }
                b'[' => match class(bytes.get(i..).unwrap_or_default()) {
                    Some((part, length)) => {
                        parts.push(part);
                        i += length;
                    }
                    None => parts.push(PatternPart::Byte(b'[')),
                },
                _ => parts.push(PatternPart::Byte(b)),
            }
        }
        Glob { parts }
    }

    /// Whether the pattern is a plain name.
    pub fn is_literal(&self) -> bool {
        self.parts.iter().all(|p| matches!(p, PatternPart::Byte(_)))
    }

    /// The name that a literal pattern matches.
    pub fn literal(&self) -> Vec<u8> {
        self.parts.iter().filter_map(|p| if let PatternPart::Byte(b) = p { Some(*b) } else { None }).collect()
    }

    /// Whether the pattern is `*`, which linkers rank below every other.
    pub fn is_star(&self) -> bool {
        self.parts == [PatternPart::Star]
    }

    /// Whether all of `text` matches, from its first byte to its last.
    pub fn matches(&self, text: &[u8]) -> bool {
        let (mut p, mut t) = (0, 0);
        // The place to resume if a later part fails: after the last star, one byte further in the text.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match (self.parts.get(p), text.get(t)) {
                (None, None) => return true,
                (Some(PatternPart::Star), _) => {
                    p += 1;
                    retry = Some((p, t));
                    continue;
                }
                (Some(part), Some(byte)) if part.matches(*byte) => {
                    p += 1;
                    t += 1;
                    continue;
                }
                _ => {}
            }
            match retry {
                Some((star, from)) if from < text.len() => {
                    retry = Some((star, from + 1));
                    (p, t) = (star, from + 1);
                }
                _ => return false,
            }
        }
    }
}

/// A bracket expression after its `[`: the part and its length with the `]`.
fn class(bytes: &[u8]) -> Option<(PatternPart, usize)> {
    let negated = matches!(bytes.first(), Some(b'!' | b'^'));
    let first = usize::from(negated);
    let mut i = first;
    let mut ranges = Vec::new();
    loop {
        let lo = match bytes.get(i)? {
            // A `]` in the first place is a member.
            b']' if i > first => return Some((PatternPart::Class { negated, ranges }, i + 1)),
            b'\\' => {
                i += 1;
                *bytes.get(i)?
            }
            b => *b,
        };
        i += 1;
        match (bytes.get(i), bytes.get(i + 1)) {
            (Some(b'-'), Some(&hi)) if hi != b']' => {
                ranges.push((lo, hi));
                i += 2;
            }
            _ => ranges.push((lo, lo)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn m(pattern: &str, text: &str) -> bool {
        Glob::new(pattern).matches(text.as_bytes())
    }

    #[test]
    fn the_forms() {
        assert!(m("", "") && !m("", "a") && m("abc", "abc") && !m("abc", "abcd") && !m("abcd", "abc"));
        assert!(
            m("*", "")
                && m("*", "any/thing")
                && m("a*c", "abbc")
                && !m("a*c", "abb")
                && m("*crt0.o", "/x/crt0.o")
        );
        assert!(m("a?c", "abc") && !m("a?c", "ac") && m(".text.*", ".text.x") && !m(".text.*", ".text"));
        assert!(
            m("[a-c]x", "bx")
                && !m("[a-c]x", "dx")
                && m("[!a-c]x", "dx")
                && m("[^a]", "b")
                && !m("[!a]", "a")
        );
        assert!(m("[]]", "]") && m("[!]]", "a") && m("[a-]", "-") && m("[abc", "[abc") && m("a[", "a["));
        assert!(m("\\*", "*") && !m("\\*", "a") && m("a\\", "a\\") && m("[\\]]", "]"));
        assert!(m("a**b*c", "aXbYbZc") && !m("a*b*c", "aXbYbZ"));
        assert!(Glob::new("main").is_literal() && !Glob::new("m*").is_literal());
        assert!(Glob::new("**").is_star() && !Glob::new("*a").is_star());
    }

    #[test]
    fn many_stars_stay_cheap() {
        let pattern = "*a".repeat(2_000) + "b";
        assert!(!m(&pattern, &"a".repeat(20_000)));
    }
}
