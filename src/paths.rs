//! Lexical normalisation of paths. No file is looked at.

use std::path::{Component, Path, PathBuf};

/// A path without `.` and `..`, by its text alone, as lld and mold write it.
pub fn without_dots(path: &Path) -> String {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_go_by_text() {
        assert_eq!(without_dots(Path::new("./a/../b/c.o")), "b/c.o");
        assert_eq!(without_dots(Path::new("../a.o")), "../a.o");
        assert_eq!(without_dots(Path::new("/x/../../y")), "/../y");
    }
}
