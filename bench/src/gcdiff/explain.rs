//! Why a section is kept on one side only: a proved reason, or an error.
//!
//! Dropped by the pruner alone: lld takes every CIE's personality and every exception table outside groups as a root, also those of
//! functions that it removed (lld/ELF/MarkLive.cpp, `scanEhFrameSection`). So a table is explained if no FDE of a kept function names it, a
//! personality if no such FDE is under its CIE, and so are sections that only these reach. No kept section may refer to a dropped one.
//!
//! Kept by the pruner alone: without `--gc-sections` on the line, sections outside the standard families are its roots. An undefined symbol
//! without a relocation (rustc's list of exports) is a root too. Sections without bytes do not count.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use super::objects::{LinkObjects, ReferenceTarget, SectionRef};

/// Why a section is on one side only: the text in the table.
pub(super) type SectionReason = &'static str;

const EMPTY: SectionReason = "no bytes";
const DEAD_TABLE: SectionReason = "exception table of dropped functions only";
const DEAD_PERSONALITY: SectionReason = "personality of CIEs without a kept function";
const BEHIND_DEAD_UNWIND: SectionReason = "reached only from such a table or personality";
const ODD_NAME: SectionReason = "name outside the standard families, and no --gc-sections on the line";
const BEHIND_ODD_NAME: SectionReason = "reached from a section with such a name";
const DECLARED: SectionReason = "an object has it as undefined, so that the link fails unless it is defined";
const BEHIND_DECLARED: SectionReason = "reached from a section that has to be defined";
const DANGLING: SectionReason = "DANGLING: a kept section refers to it";
const UNEXPLAINED: SectionReason = "UNEXPLAINED";

pub(super) fn is_error(reason: SectionReason) -> bool {
    [DANGLING, UNEXPLAINED].contains(&reason)
}

/// Facts by section, over which both directions are explained.
pub(super) struct SectionFacts<'a> {
    pub(super) link_objects: &'a LinkObjects,
    pub(super) lld: &'a dyn Fn(SectionRef) -> bool,
    pub(super) ours: &'a dyn Fn(SectionRef) -> bool,
    pub(super) gc_on_line: bool,
}

type Reasons = HashMap<SectionRef, SectionReason>;

impl SectionFacts<'_> {
    /// Kept by lld, dropped by us.
    pub(super) fn dropped_by_us(&self) -> Vec<(SectionRef, SectionReason)> {
        let differs = |n: SectionRef| (self.lld)(n) && !(self.ours)(n);
        let mut reasons = Reasons::new();
        let mut queue = VecDeque::new();
        // Seeds are the targets of unwind tables, unless a frame of a kept function has them.
        let mut held: HashMap<SectionRef, bool> = HashMap::new();
        let mut seeds: Vec<(SectionRef, SectionReason)> = Vec::new();
        for (o, object) in self.link_objects.objects.iter().enumerate() {
            for frame in &object.frames {
                let live = frame.function.as_ref().is_none_or(|f| self.kept_function(o, f));
                let parts = [(&frame.tables, DEAD_TABLE), (&frame.personality, DEAD_PERSONALITY)];
                for (targets, reason) in parts {
                    for node in
                        targets.iter().flat_map(|t| self.link_objects.resolve(o, t)).filter(|n| differs(*n))
                    {
                        *held.entry(node).or_default() |= live;
                        seeds.push((node, reason));
                    }
                }
            }
        }
        for (node, reason) in seeds {
            let reason = if held.get(&node) == Some(&true) { DANGLING } else { reason };
            if reasons.insert(node, reason).is_none() {
                queue.push_back(node);
            }
        }
        self.spread(&mut reasons, queue, &differs, BEHIND_DEAD_UNWIND);
        // Even an explained section may not be needed by a kept one.
        for (o, object) in self.link_objects.objects.iter().enumerate() {
            for (_, target) in object.references.iter().filter(|(from, _)| (self.ours)((o, *from))) {
                for node in self.certain(o, target).filter(|n| differs(*n)) {
                    reasons.insert(node, DANGLING);
                }
            }
        }
        self.all(&differs, &reasons)
    }

    /// Kept by us, removed by lld.
    pub(super) fn kept_by_us(&self) -> Vec<(SectionRef, SectionReason)> {
        let differs = |n: SectionRef| !(self.lld)(n) && (self.ours)(n);
        let mut reasons = Reasons::new();
        let mut queue = VecDeque::new();
        for node in self.link_objects.nodes().filter(|n| differs(*n)) {
            let odd = self.link_objects.section(node).is_some_and(|s| !standard_family(&s.name));
            if odd && !self.gc_on_line {
                reasons.insert(node, ODD_NAME);
                queue.push_back(node);
            }
        }
        self.spread(&mut reasons, queue, &differs, BEHIND_ODD_NAME);
        let mut queue = VecDeque::new();
        for (o, object) in self.link_objects.objects.iter().enumerate() {
            let declared = object.declared.iter().flat_map(|target| self.link_objects.resolve(o, target));
            for node in declared.filter(|n| differs(*n)) {
                if let Entry::Vacant(entry) = reasons.entry(node) {
                    entry.insert(DECLARED);
                    queue.push_back(node);
                }
            }
        }
        self.spread(&mut reasons, queue, &differs, BEHIND_DECLARED);
        self.all(&differs, &reasons)
    }

    /// Carry `reason` along references to every differing section without a reason.
    fn spread(
        &self,
        reasons: &mut Reasons,
        mut queue: VecDeque<SectionRef>,
        differs: &dyn Fn(SectionRef) -> bool,
        reason: SectionReason,
    ) {
        let mut outgoing: HashMap<SectionRef, Vec<&ReferenceTarget>> = HashMap::new();
        for (o, object) in self.link_objects.objects.iter().enumerate() {
            for (from, target) in &object.references {
                outgoing.entry((o, *from)).or_default().push(target);
            }
        }
        while let Some(node) = queue.pop_front() {
            for target in outgoing.get(&node).into_iter().flatten() {
                for next in self.link_objects.resolve(node.0, target).into_iter().filter(|n| differs(*n)) {
                    if let Entry::Vacant(entry) = reasons.entry(next) {
                        entry.insert(reason);
                        queue.push_back(next);
                    }
                }
            }
        }
    }

    /// Every differing section with its reason, in the order of the link.
    fn all(
        &self,
        differs: &dyn Fn(SectionRef) -> bool,
        reasons: &Reasons,
    ) -> Vec<(SectionRef, SectionReason)> {
        let reason = |n: SectionRef| match reasons.get(&n) {
            Some(r) => *r,
            None if self.link_objects.section(n).is_some_and(|s| s.size == 0) => EMPTY,
            None => UNEXPLAINED,
        };
        self.link_objects.nodes().filter(|n| differs(*n)).map(|n| (n, reason(n))).collect()
    }

    /// Whether the function of an FDE is kept: the object's own copy of it, where there is one.
    fn kept_function(&self, object: usize, target: &ReferenceTarget) -> bool {
        let mut nodes = self.link_objects.resolve(object, target);
        if nodes.iter().any(|n| n.0 == object) {
            nodes.retain(|n| n.0 == object);
        }
        nodes.into_iter().any(self.ours)
    }

    /// The section that `target` means, if the link has exactly one definition of it.
    fn certain(&self, object: usize, target: &ReferenceTarget) -> impl Iterator<Item = SectionRef> + use<> {
        let mut nodes = self.link_objects.resolve(object, target);
        nodes.retain(|n| self.link_objects.section(*n).is_some_and(|s| !s.discarded));
        if nodes.len() > 1 {
            nodes.clear();
        }
        nodes.into_iter()
    }
}

/// Whether a name is one that compilers give to sections without being asked by the program.
fn standard_family(name: &str) -> bool {
    const FAMILIES: &str = ".text .rodata .data .bss .tdata .tbss .gcc_except_table .init_array .fini_array .preinit_array .ctors .dtors \
                            .init .fini .ldata .lbss .lrodata .ltext .sdata .sbss";
    FAMILIES
        .split_whitespace()
        .any(|f| name.strip_prefix(f).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}
