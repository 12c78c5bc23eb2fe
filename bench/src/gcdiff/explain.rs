//! Why the two differ: each section that only one side keeps gets a reason that this tool has proved, or none.
//!
//! Dropped by the pruner alone. lld takes every unwind table as a root: all CIEs' personality routines, and all
//! exception tables outside groups, also those of functions that it removed itself (lld/ELF/MarkLive.cpp,
//! `scanEhFrameSection`). So a table is explained if every FDE that names it is of a function that isn't kept, a
//! personality if no FDE under a CIE that names it is; and whatever hangs on those alone is explained with them.
//! And nothing that the pruner keeps may refer to what it drops: that holds however the reason is called.
//!
//! Kept by the pruner alone. Sections outside the standard families are its roots where the line has no
//! `--gc-sections`; what they reach stays with them. So does what an object has as undefined without referring to it (rustc's list of
//! what is exported): lld removes the section and leaves the symbol defined. A section without bytes is nobody's concern.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use super::objects::{LinkObjects, ReferenceTarget, SectionRef};

/// Why a section is on one side only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SectionReason {
    Empty,
    DeadExceptionTable,
    DeadPersonality,
    /// Only reachable through the two above.
    BehindDeadUnwind,
    NonStandardName,
    BehindNonStandardName,
    /// An object has it as undefined and does not refer to it.
    Declared,
    BehindDeclared,
    /// The pruner keeps something that refers to it.
    Dangling,
    Unexplained,
}

impl SectionReason {
    pub(super) fn text(self) -> &'static str {
        match self {
            SectionReason::Empty => "no bytes",
            SectionReason::DeadExceptionTable => "exception table of dropped functions only",
            SectionReason::DeadPersonality => "personality of CIEs without a kept function",
            SectionReason::BehindDeadUnwind => "reached only from such a table or personality",
            SectionReason::NonStandardName => {
                "name outside the standard families, and no --gc-sections on the line"
            }
            SectionReason::BehindNonStandardName => "reached from a section with such a name",
            SectionReason::Declared => {
                "an object has it as undefined, so that the link fails unless it is defined"
            }
            SectionReason::BehindDeclared => "reached from what has to be defined",
            SectionReason::Dangling => "DANGLING: something kept refers to it",
            SectionReason::Unexplained => "UNEXPLAINED",
        }
    }

    pub(super) fn is_error(self) -> bool {
        matches!(self, SectionReason::Dangling | SectionReason::Unexplained)
    }
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
        // Seeds: what unwind tables point to, unless a frame of a kept function does.
        let mut held: HashMap<SectionRef, bool> = HashMap::new();
        let mut seeds: Vec<(SectionRef, SectionReason)> = Vec::new();
        for (o, object) in self.link_objects.objects.iter().enumerate() {
            for frame in &object.frames {
                let live = frame.function.as_ref().is_none_or(|f| self.kept_function(o, f));
                let parts = [
                    (&frame.tables, SectionReason::DeadExceptionTable),
                    (&frame.personality, SectionReason::DeadPersonality),
                ];
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
            let reason = if held.get(&node) == Some(&true) { SectionReason::Dangling } else { reason };
            if reasons.insert(node, reason).is_none() {
                queue.push_back(node);
            }
        }
        self.spread(&mut reasons, queue, &differs, SectionReason::BehindDeadUnwind);
        // However it is explained, nothing kept may need it.
        for (o, object) in self.link_objects.objects.iter().enumerate() {
            for (_, target) in object.references.iter().filter(|(from, _)| (self.ours)((o, *from))) {
                for node in self.certain(o, target).filter(|n| differs(*n)) {
                    reasons.insert(node, SectionReason::Dangling);
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
                reasons.insert(node, SectionReason::NonStandardName);
                queue.push_back(node);
            }
        }
        self.spread(&mut reasons, queue, &differs, SectionReason::BehindNonStandardName);
        let mut queue = VecDeque::new();
        for (o, object) in self.link_objects.objects.iter().enumerate() {
            let declared = object.declared.iter().flat_map(|target| self.link_objects.resolve(o, target));
            for node in declared.filter(|n| differs(*n)) {
                if let Entry::Vacant(entry) = reasons.entry(node) {
                    entry.insert(SectionReason::Declared);
                    queue.push_back(node);
                }
            }
        }
        self.spread(&mut reasons, queue, &differs, SectionReason::BehindDeclared);
        self.all(&differs, &reasons)
    }

    /// Carry `reason` along references to every differing section that has none yet.
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
            None if self.link_objects.section(n).is_some_and(|s| s.size == 0) => SectionReason::Empty,
            None => SectionReason::Unexplained,
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

    /// What `target` means if that is beyond doubt: a definition in the link of which there is one.
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
    const FAMILIES: [&str; 20] = [
        ".text",
        ".rodata",
        ".data",
        ".bss",
        ".tdata",
        ".tbss",
        ".gcc_except_table",
        ".init_array",
        ".fini_array",
        ".preinit_array",
        ".ctors",
        ".dtors",
        ".init",
        ".fini",
        ".ldata",
        ".lbss",
        ".lrodata",
        ".ltext",
        ".sdata",
        ".sbss",
    ];
    FAMILIES.iter().any(|f| name.strip_prefix(f).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

#[cfg(test)]
mod tests {
    use super::standard_family;

    #[test]
    fn families() {
        let cases = [
            (".text", true),
            (".text.unlikely.f", true),
            (".data.rel.ro.x", true),
            (".textual", false),
            ("my_section", false),
            (".gcc_except_table._Z1fv", true),
            (".tm_clone_table", false),
        ];
        for (name, expected) in cases {
            assert_eq!(standard_family(name), expected, "{name}");
        }
    }
}
