//! Matching of the files of an older and a newer link, by their paths.
//!
//! Two builds may be in two folders, and a build may have many files of one name. Files with equal paths match. Of the others, those
//! match whose paths have the longest end in common, at least the last component, if no other file of their link has it. Other files
//! were added, removed or renamed.

use std::collections::BTreeMap;

/// The files of two links, each once.
#[derive(Debug, Default)]
pub(crate) struct FileMatching {
    /// The number here of each file of the old link.
    pub(crate) old: Vec<u32>,
    pub(crate) new: Vec<u32>,
    /// By number: a name for people. Without folders where that is enough.
    pub(crate) names: Vec<String>,
}

/// Match the paths of files. A path that is there several times is as many files, in their order.
pub(crate) fn files(old: &[String], new: &[String]) -> FileMatching {
    let mut matched = FileMatching {
        old: vec![u32::MAX; old.len()],
        new: (0..new.len() as u32).collect(),
        names: new.to_vec(),
    };
    let mut by_name: BTreeMap<&str, [Vec<usize>; 2]> = BTreeMap::new();
    for (side, list) in [old, new].into_iter().enumerate() {
        let named = list.iter().enumerate();
        named.for_each(|(i, path)| by_name.entry(base(path)).or_default()[side].push(i));
    }
    for sides in by_name.values() {
        pair([old, new], sides, &mut matched.old);
    }
    for (path, number) in old.iter().zip(&mut matched.old).filter(|(_, n)| **n == u32::MAX) {
        *number = matched.names.len() as u32;
        matched.names.push(path.clone());
    }
    let mut of_name: BTreeMap<String, u32> = BTreeMap::new();
    for path in &matched.names {
        *of_name.entry(base(path).to_owned()).or_default() += 1;
    }
    for path in &mut matched.names {
        let name = base(path);
        if of_name.get(name) == Some(&1) {
            *path = name.to_owned();
        }
    }
    matched
}

/// Match files with one basename by whole path, then by the longest ending unique on both sides. `found[old]` is the new index.
fn pair(paths: [&[String]; 2], sides: &[Vec<usize>; 2], found: &mut [u32]) {
    let files = || paths.iter().zip(sides).enumerate();
    let all = files().flat_map(|(_, (paths, positions))| positions.iter().map(|i| &paths[*i]));
    let longest = all.map(|p| p.split('/').count()).max().unwrap_or(0);
    // The whole path first, then ends of it.
    let mut taken: Vec<usize> = Vec::new();
    for end in std::iter::once(None).chain((1..=longest).rev().map(Some)) {
        // By end of the path: who has it on either side, matched or not.
        let mut groups: BTreeMap<String, [Vec<usize>; 2]> = BTreeMap::new();
        for (side, (paths, positions)) in files() {
            for i in positions {
                let path = &paths[*i];
                let end = end.map_or_else(|| Some(path.clone()), |n| last(path, n));
                end.into_iter().for_each(|end| groups.entry(end).or_default()[side].push(*i));
            }
        }
        // Of a whole path any number; of a part of it only one.
        let tells = |g: &&[Vec<usize>; 2]| end.is_none() || g.iter().all(|side| side.len() == 1);
        for [left, right] in groups.values().filter(tells) {
            for (i, k) in left.iter().zip(right) {
                if found[*i] == u32::MAX && !taken.contains(k) {
                    found[*i] = *k as u32;
                    taken.push(*k);
                }
            }
        }
    }
}

/// The last `count` components of a path; `None` if it has fewer.
fn last(path: &str, count: usize) -> Option<String> {
    let parts: Vec<&str> = path.split('/').collect();
    Some(parts.get(parts.len().checked_sub(count)?..)?.join("/"))
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each old file the new one that it is, and the names.
    fn found(old: &[&str], new: &[&str]) -> (Vec<u32>, Vec<String>) {
        let owned = |list: &[&str]| list.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
        let matched = files(&owned(old), &owned(new));
        assert_eq!(matched.new, (0..new.len() as u32).collect::<Vec<_>>());
        (matched.old, matched.names)
    }

    #[test]
    fn one_name_in_many_folders() {
        let (old, names) = found(&["src/a/u.o", "src/b/u.o", "m.o"], &["m.o", "src/b/u.o", "src/c/u.o"]);
        assert_eq!(
            (old, names),
            (vec![3, 1, 0], ["m.o", "src/b/u.o", "src/c/u.o", "src/a/u.o"].map(str::to_owned).into())
        );
        // Two builds, each in its own folder.
        let (old, _) = found(&["/x/src/a/u.o", "/x/src/b/u.o"], &["/y/z/src/b/u.o", "/y/z/src/a/u.o"]);
        assert_eq!(old, [1, 0]);
        let (old, names) = found(&["O2/u.o"], &["Os/u.o"]);
        assert_eq!((old, names), (vec![0], vec!["u.o".to_owned()]));
        // Ambiguous files do not match.
        assert_eq!(found(&["p/u.o", "q/u.o"], &["r/u.o", "s/u.o"]).0, [2, 3]);
        assert_eq!(found(&["p/u.o"], &["r/u.o", "s/u.o"]).0, [2]);
    }

    #[test]
    fn members_and_repeated_paths() {
        let (old, names) = found(&["1/l.a(u.o)", "2/l.a(u.o)"], &["2/l.a(u.o)", "2/l.a(v.o)"]);
        assert_eq!((old, names.len()), (vec![2, 0], 3));
        assert_eq!(names, ["2/l.a(u.o)", "l.a(v.o)", "1/l.a(u.o)"]);
        assert_eq!(found(&["l.a(u.o)", "l.a(u.o)"], &["l.a(u.o)", "l.a(u.o)"]).0, [0, 1]);
        assert_eq!(found(&["l.a(u.o)"], &["l.a(u.o)", "l.a(u.o)"]).0, [0]);
        assert_eq!(found(&[], &[]).0, Vec::<u32>::new());
    }
}
