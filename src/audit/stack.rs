//! The worst case of the stack: longest paths in the call graph of a linked file, weighted by the depth of the stack at each call.
//!
//! The bound of a function is the largest of its own depth and, for each call, the depth at the call plus the bound of the callee. The
//! components of the graph (Tarjan) are visited callees first. A component with a call inside that is deeper than a tail call is a
//! recursion. A function that may reach one, or whose callees are not all known, has no bound. Its least depth is that of the known chains.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use summaries::native::StackCallee;

use super::demangle::demangle;
use super::elf::{FunctionTarget, StackFile};
use super::find::is_called;
use crate::components::components;
use crate::ids::named;
use crate::inputs::glob::Glob;

/// Libraries start functions that they get in this argument.
const STARTS: [(&str, usize, &str); 7] = [
    ("__libc_start_main", 0, "main"),
    ("pthread_create", 2, "thread"),
    ("thrd_create", 1, "thread"),
    ("signal", 1, "signal handler"),
    ("atexit", 0, "exit handler"),
    ("__cxa_atexit", 0, "exit handler"),
    ("on_exit", 0, "exit handler"),
];

/// A recursion with more functions than this is not searched for its deepest chain.
const SEARCHED: usize = 2000;

named! {
    /// The reason for which a function has no bound.
    #[derive(PartialOrd, Ord)]
    pub(crate) enum UnboundedCause {
        Recursion = "recursion",
        IndirectCall = "indirect call",
        Import = "import",
        /// `alloca`, an array of variable length, or a switch to another stack.
        DynamicFrame = "dynamic frame",
        /// Bytes that are no instruction, or no code at all.
        Undecoded = "undecoded code",
    }
}

/// Facts about functions and calls that are not in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StackAssumptions {
    /// Names or patterns with the bound of the functions.
    pub(crate) bounds: Vec<(String, u64)>,
    /// The callees of the indirect calls of a function.
    pub(crate) callees: Vec<(String, String)>,
    /// By the address of an indirect call in the first file of the command: the callees that value flow found.
    pub(crate) sites: BTreeMap<u64, Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum StackKey {
    /// The number of a file and an address.
    Function(usize, u64),
    Import(String),
}

#[derive(Debug)]
pub(crate) struct StackNode {
    key: StackKey,
    pub(crate) name: String,
    /// The largest depth of the function without callees.
    pub(crate) own: u64,
    /// Callees with the depth at the call, once each.
    calls: Vec<(usize, u64)>,
    causes: Vec<(UnboundedCause, u64)>,
    is_assumed: bool,
    /// The largest known depth with callees, which is the bound if there is one.
    pub(crate) least: u64,
    pub(crate) is_bounded: bool,
    component: usize,
}

/// A function of a chain of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChainLink {
    pub(crate) node: usize,
    /// The depth at the call of the next function, or the largest depth of the last one.
    pub(crate) depth: u64,
}

/// A cause with a shortest chain that leads to it.
#[derive(Debug)]
pub(crate) struct FoundCause {
    pub(crate) cause: UnboundedCause,
    /// The address of the instruction; `None` for an import and for a recursion.
    pub(crate) address: Option<u64>,
    pub(crate) chain: Vec<usize>,
    /// The functions of a recursion, in their order.
    pub(crate) circle: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct StackGraph<'f, 'a> {
    files: &'f [StackFile<'a>],
    assumptions: &'f StackAssumptions,
    pub(crate) nodes: Vec<StackNode>,
    index: BTreeMap<StackKey, usize>,
    members: Vec<Vec<usize>>,
    /// Functions that libraries start, with the reason.
    pub(crate) starts: BTreeMap<u64, &'static str>,
    /// Instructions for which unwind tables and the code say different depths.
    pub(crate) disagreements: usize,
}

impl<'f, 'a> StackGraph<'f, 'a> {
    /// The graph of the functions at `entries` of the first file, and of all their callees.
    pub(crate) fn new(
        files: &'f [StackFile<'a>],
        entries: &[u64],
        assumptions: &'f StackAssumptions,
    ) -> Self {
        let mut graph = StackGraph {
            files,
            assumptions,
            nodes: Vec::new(),
            index: BTreeMap::new(),
            members: Vec::new(),
            starts: BTreeMap::new(),
            disagreements: 0,
        };
        for entry in entries {
            graph.add(StackKey::Function(0, *entry));
        }
        let mut at = 0;
        while at < graph.nodes.len() {
            graph.read(at);
            at += 1;
        }
        graph.bound();
        graph
    }

    /// The node of an entry, with its number.
    pub(crate) fn entry(&self, address: u64) -> Option<(usize, &StackNode)> {
        let number = *self.index.get(&StackKey::Function(0, address))?;
        Some((number, &self.nodes[number]))
    }

    fn add(&mut self, key: StackKey) -> usize {
        let next = self.nodes.len();
        let number = *self.index.entry(key.clone()).or_insert(next);
        if number == next {
            let name = match &key {
                StackKey::Function(file, address) => self.files[*file].name(*address),
                StackKey::Import(name) => demangle(name).into_owned(),
            };
            self.nodes.push(StackNode {
                key,
                name,
                own: 0,
                calls: Vec::new(),
                causes: Vec::new(),
                is_assumed: false,
                least: 0,
                is_bounded: true,
                component: usize::MAX,
            });
        }
        number
    }

    /// Analyse the function of a node, and add its callees.
    fn read(&mut self, number: usize) {
        let StackNode { key, name, .. } = &self.nodes[number];
        let (key, name) = (key.clone(), name.clone());
        let linker_name = match &key {
            StackKey::Import(name) => name,
            StackKey::Function(..) => &name,
        };
        let is_meant = |of: &str| {
            of == linker_name || is_called(&name, of) || Glob::new(of).matches(linker_name.as_bytes())
        };
        let assumed = self.assumptions.bounds.iter().find(|a| is_meant(&a.0)).map(|a| a.1);
        let mut calls: BTreeMap<usize, u64> = BTreeMap::new();
        let mut causes: Vec<(UnboundedCause, u64)> = Vec::new();
        let mut own = assumed.unwrap_or(0);
        match (&key, assumed) {
            (_, Some(_)) => {}
            (StackKey::Import(_), None) => causes.push((UnboundedCause::Import, 0)),
            (StackKey::Function(file, address), None) => {
                let code = &self.files[*file];
                let stack = code.stack(*address);
                own = stack.deepest.max(0) as u64;
                self.disagreements += stack.disagreements.len();
                causes.extend(stack.dynamic.map(|at| (UnboundedCause::DynamicFrame, at)));
                causes.extend(stack.undecoded.map(|at| (UnboundedCause::Undecoded, at)));
                for (at, site) in &stack.sites {
                    // A weak function that is not there is not called.
                    if site.callee == StackCallee::Address(0) {
                        continue;
                    }
                    let callees = match code.target(site.callee) {
                        FunctionTarget::Unknown => self.said(*file, *at, &is_meant),
                        target => self.keys(*file, target),
                    };
                    if callees.is_empty() {
                        causes.push((UnboundedCause::IndirectCall, *at));
                    }
                    for callee in callees {
                        let to = self.add(callee);
                        self.start(*file, to, &site.arguments);
                        let depth = calls.entry(to).or_default();
                        *depth = (*depth).max(site.depth.max(0) as u64);
                    }
                }
            }
        }
        let node = &mut self.nodes[number];
        (node.own, node.causes, node.is_assumed) = (own, causes, assumed.is_some());
        node.calls = calls.into_iter().collect();
    }

    /// The functions of any file that the dynamic linker finds by a name, or the import.
    fn import(&self, name: &str) -> Vec<StackKey> {
        let mut files = self.files.iter().enumerate();
        match files.find_map(|(number, file)| Some((number, file.export(name)?))) {
            Some((number, target)) => self.keys(number, target),
            None => vec![StackKey::Import(name.to_owned())],
        }
    }

    /// The nodes of the functions that a call may lead to; none if they are unknown.
    fn keys(&self, file: usize, target: FunctionTarget) -> Vec<StackKey> {
        match target {
            FunctionTarget::Unknown => Vec::new(),
            FunctionTarget::Address(address) => vec![StackKey::Function(file, address)],
            FunctionTarget::Import(name) => self.import(&name),
            FunctionTarget::Resolved(resolver) => {
                let stack = self.files[file].stack(resolver);
                let taken = if stack.is_result_unknown { Default::default() } else { stack.taken };
                taken.into_iter().map(|address| StackKey::Function(file, address)).collect()
            }
        }
    }

    /// The callees of an indirect call by the user or the report; empty without either.
    fn said(&self, file: usize, at: u64, is_caller: &dyn Fn(&str) -> bool) -> Vec<StackKey> {
        let by_user = self.assumptions.callees.iter().filter(|c| is_caller(&c.0)).map(|c| &c.1);
        let mut names: Vec<&String> = by_user.collect();
        if names.is_empty() && file == 0 {
            names.extend(self.assumptions.sites.get(&at).into_iter().flatten());
        }
        let mut found = Vec::new();
        for name in names {
            let addresses = self.files[file].find(name);
            match addresses.is_empty() {
                true => found.extend(self.import(name)),
                false => found.extend(addresses.into_iter().map(|a| StackKey::Function(file, a))),
            }
        }
        found
    }

    /// A function that is passed to one that starts it is an entry.
    fn start(&mut self, file: usize, callee: usize, arguments: &[Option<u64>; 3]) {
        let callee = &self.nodes[callee].name;
        let Some((_, position, what)) = STARTS.iter().find(|s| file == 0 && s.0 == callee) else { return };
        let Some(address) = arguments.get(*position).copied().flatten() else { return };
        if self.files[file].is_code(address) && !self.starts.contains_key(&address) {
            self.starts.insert(address, what);
            self.add(StackKey::Function(0, address));
        }
    }

    fn bound(&mut self) {
        let edge = |node: usize, at: usize| self.nodes[node].calls.get(at).map(|c| c.0);
        let order = components(self.nodes.len(), 0..self.nodes.len(), edge);
        for (number, members) in order.into_iter().enumerate() {
            members.iter().for_each(|member| self.nodes[*member].component = number);
            self.members.push(members.clone());
            let is_bounded = !self.is_recursion(number)
                && members.iter().map(|m| &self.nodes[*m]).all(|node| {
                    let mut callees = node.calls.iter().map(|c| &self.nodes[c.0]);
                    node.causes.is_empty() && callees.all(|c| c.component == number || c.is_bounded)
                });
            let outside = members.iter().map(|m| self.outside(*m).0);
            let least: Vec<u64> = match self.is_recursion(number) {
                // Tail calls lead from each function to all others.
                false => vec![outside.max().unwrap_or(0); members.len()],
                true if members.len() > SEARCHED => outside.collect(),
                true => members.iter().map(|m| self.inside(*m).iter().map(|l| l.depth).sum()).collect(),
            };
            for (member, least) in members.into_iter().zip(least) {
                (self.nodes[member].least, self.nodes[member].is_bounded) = (least, is_bounded);
            }
        }
    }

    /// Whether a component has a call inside that makes the stack deeper.
    fn is_recursion(&self, component: usize) -> bool {
        let mut calls = self.members[component].iter().flat_map(|m| &self.nodes[*m].calls);
        calls.any(|(to, depth)| *depth > 0 && self.nodes[*to].component == component)
    }

    /// The largest depth of a function without callees in its own component, and that callee.
    fn outside(&self, number: usize) -> (u64, Option<(usize, u64)>) {
        let node = &self.nodes[number];
        let mut best = (node.own, None);
        for (to, depth) in &node.calls {
            let callee = &self.nodes[*to];
            let total = depth.saturating_add(callee.least);
            if callee.component != node.component && total > best.0 {
                best = (total, Some((*to, *depth)));
            }
        }
        best
    }

    /// Shortest chains in the component of a node from it to each other member: (member, the one before).
    fn within(&self, number: usize) -> Vec<(usize, Option<(usize, u64)>)> {
        let mut before: BTreeMap<usize, Option<(usize, u64)>> = BTreeMap::from([(number, None)]);
        let mut order = vec![number];
        let mut at = 0;
        while let Some(from) = order.get(at).copied() {
            at += 1;
            for (to, depth) in &self.nodes[from].calls {
                let is_inside = self.nodes[*to].component == self.nodes[number].component;
                if is_inside && !before.contains_key(to) {
                    before.insert(*to, Some((from, *depth)));
                    order.push(*to);
                }
            }
        }
        order.into_iter().map(|n| (n, before.get(&n).copied().flatten())).collect()
    }

    /// The deepest known chain inside of the component of a node. The last link has the depth with all callees outside.
    fn inside(&self, number: usize) -> Vec<ChainLink> {
        let tree = self.within(number);
        let mut total: BTreeMap<usize, u64> = BTreeMap::new();
        let mut best = (0, number);
        for (node, before) in &tree {
            let depth = before.map_or(0, |(from, depth)| depth + total.get(&from).copied().unwrap_or(0));
            total.insert(*node, depth);
            let all = depth.saturating_add(self.outside(*node).0);
            if all > best.0 {
                best = (all, *node);
            }
        }
        let before: BTreeMap<usize, Option<(usize, u64)>> = tree.into_iter().collect();
        let mut chain = vec![ChainLink { node: best.1, depth: self.outside(best.1).0 }];
        let mut at = best.1;
        while let Some((from, depth)) = before.get(&at).copied().flatten() {
            chain.push(ChainLink { node: from, depth });
            at = from;
        }
        chain.reverse();
        chain
    }

    /// The deepest known chain of calls from a node.
    pub(crate) fn deepest(&self, number: usize) -> Vec<ChainLink> {
        let mut chain = self.inside(number);
        while let Some(last) = chain.last().copied() {
            let Some((to, depth)) = self.outside(last.node).1 else { break };
            chain.pop();
            chain.push(ChainLink { node: last.node, depth });
            chain.extend(self.inside(to));
        }
        chain
    }

    /// All causes for which a node has no bound, the nearest first.
    pub(crate) fn causes(&self, number: usize) -> Vec<FoundCause> {
        let mut before: BTreeMap<usize, Option<usize>> = BTreeMap::from([(number, None)]);
        let mut work = VecDeque::from([number]);
        let mut recursions: BTreeSet<usize> = BTreeSet::new();
        let mut found = Vec::new();
        while let Some(at) = work.pop_front() {
            let node = &self.nodes[at];
            let mut chain = vec![at];
            while let Some(from) = chain.last().and_then(|n| before.get(n).copied().flatten()) {
                chain.push(from);
            }
            chain.reverse();
            for (cause, address) in &node.causes {
                let address = (*cause != UnboundedCause::Import).then_some(*address);
                found.push(FoundCause { cause: *cause, address, chain: chain.clone(), circle: Vec::new() });
            }
            if self.is_recursion(node.component) && recursions.insert(node.component) {
                let circle = self.circle(at);
                found.push(FoundCause { cause: UnboundedCause::Recursion, address: None, chain, circle });
            }
            for (to, _) in &node.calls {
                if !before.contains_key(to) {
                    before.insert(*to, Some(at));
                    work.push_back(*to);
                }
            }
        }
        found
    }

    /// A shortest circle of calls through a node of a recursion.
    fn circle(&self, number: usize) -> Vec<usize> {
        let tree = self.within(number);
        let leads_back = |n: &usize| self.nodes[*n].calls.iter().any(|(to, _)| *to == number);
        let before: BTreeMap<usize, usize> =
            tree.iter().filter_map(|(n, from)| from.map(|from| (*n, from.0))).collect();
        let Some(last) = tree.iter().map(|t| t.0).find(leads_back) else { return vec![number] };
        let mut circle = vec![last];
        while let Some(from) = circle.last().and_then(|n| before.get(n)) {
            circle.push(*from);
        }
        circle.reverse();
        circle.push(number);
        circle
    }

    pub(crate) fn name(&self, node: usize) -> &str {
        &self.nodes[node].name
    }

    /// Whether the bound of a function is the user's.
    pub(crate) fn is_assumed(&self, node: usize) -> bool {
        self.nodes[node].is_assumed
    }
}
