//! What `ld.lld --gc-sections` kept, from what it prints.
//!
//! `--print-gc-sections` names what was removed, and `--trace` the files, in the order of reading; what a link loses
//! to COMDAT resolution is printed nowhere and follows from the groups. The map is held against the result: it
//! shows every section of the output but merged ones.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::objects::{LinkObjects, SectionRef, label};
use crate::Result;
use crate::corpus::{Corpus, Link};
use crate::process::run_ok;

/// (label of the object, section name) to how many such sections.
type SectionCounts = HashMap<(String, String), usize>;

#[derive(Debug)]
pub(super) struct Kept {
    pub(super) link_objects: LinkObjects,
    /// How many sections of this object and name lld kept.
    pub(super) counts: SectionCounts,
    /// Sections whose fate lld's own outputs contradict: this tool has misunderstood something.
    pub(super) unaccounted: Vec<String>,
}

/// Link with lld's garbage collection and read what it did.
pub(super) fn run(corpus: &Corpus, link: &Link, lld: &Path, scratch: &Path) -> Result<Kept> {
    let map = scratch.join("lld.map");
    let mut command = corpus.linker_command(link, lld, &scratch.join("lld.out"));
    command.args(["--gc-sections", "--print-gc-sections", "--trace"]).arg(format!("-Map={}", map.display()));
    run_ok(&mut command, scratch)?;
    let printed = fs::read_to_string(scratch.join("stdout"))?;

    let mut removed = SectionCounts::new();
    let mut trace = Vec::new();
    for line in printed.lines() {
        match line.strip_prefix("removing unused section ") {
            Some(section) => add(&mut removed, &link.dir, section),
            None => trace.push(line.to_owned()),
        }
    }
    let mut mapped = SectionCounts::new();
    for line in fs::read_to_string(&map)?.lines() {
        // VMA, LMA, size and alignment, then, further right, the section.
        let mut words = line.split_ascii_whitespace();
        if let Some(section) = words.nth(4).filter(|s| s.ends_with(')') && s.contains(":(")) {
            add(&mut mapped, &link.dir, section);
        }
    }
    let link_objects = LinkObjects::read(&link.dir, &trace)?;
    let (counts, unaccounted) = count_kept(&link_objects, &removed, &mapped);
    Ok(Kept { link_objects, counts, unaccounted })
}

fn add(counts: &mut SectionCounts, dir: &Path, place: &str) {
    if let Some((file, section)) = place.strip_suffix(')').and_then(|p| p.split_once(":(")) {
        *counts.entry((label(dir, file), section.to_owned())).or_default() += 1;
    }
}

fn count_kept(
    link_objects: &LinkObjects,
    removed: &SectionCounts,
    mapped: &SectionCounts,
) -> (SectionCounts, Vec<String>) {
    let mut kept = SectionCounts::new();
    let mut merged: HashMap<(String, String), bool> = HashMap::new();
    let mut order = Vec::new();
    for (o, s) in link_objects.nodes() {
        let (object, section) = (&link_objects.objects[o], &link_objects.objects[o].sections[s]);
        let key = (object.label.clone(), section.name.clone());
        if !kept.contains_key(&key) {
            order.push(key.clone());
        }
        *kept.entry(key.clone()).or_default() += usize::from(!section.discarded);
        *merged.entry(key).or_default() |= section.merge;
    }
    let mut unaccounted = Vec::new();
    for key in order {
        let Some(n) = kept.get_mut(&key) else { continue };
        let gone = removed.get(&key).copied().unwrap_or(0);
        let shown = mapped.get(&key).copied().unwrap_or(0);
        *n = n.saturating_sub(gone);
        if merged.get(&key) != Some(&true) && *n != shown {
            unaccounted
                .push(format!("{}:({}): {n} kept by --print-gc-sections, {shown} in the map", key.0, key.1));
        }
    }
    (kept, unaccounted)
}

impl Kept {
    /// Which sections lld kept. Where a file has several of one name and lld kept some, which ones can't be known: it is
    /// taken to agree with `ours` as far as the number allows.
    pub(super) fn sections(&self, ours: &dyn Fn(SectionRef) -> bool) -> Vec<Vec<bool>> {
        let mut kept: Vec<Vec<bool>> =
            self.link_objects.objects.iter().map(|o| vec![false; o.sections.len()]).collect();
        let mut left = self.counts.clone();
        for agreeing in [true, false] {
            for (o, s) in self.link_objects.nodes() {
                let section = &self.link_objects.objects[o].sections[s];
                if section.discarded || kept[o][s] || ours((o, s)) != agreeing {
                    continue;
                }
                let key = (self.link_objects.objects[o].label.clone(), section.name.clone());
                if let Some(n) = left.get_mut(&key).filter(|n| **n > 0) {
                    *n -= 1;
                    kept[o][s] = true;
                }
            }
        }
        kept
    }
}
