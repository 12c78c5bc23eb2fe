// What the report says, as trees of sizes, and their layout. Knows nothing of the page.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const items = data.items;
const count = items.name.length;
// Whether there is an older report, and whether the report says what keeps each thing.
const has = { old: data.old !== null, graph: data.explains };
const text = (at) => data.strings[at];
const OUTSIDE = "[not of an input]";

// How the path of an item is made, without the item's own name.
const groupings = {
  module: (i) => {
    const m = items.module[i];
    if (m < 0) return [OUTSIDE];
    const [archive, name] = data.modules[m];
    return archive < 0 ? [text(name)] : [text(archive), text(name)];
  },
  namespace: (i) => {
    const space = items.space[i];
    if (space >= 0) return text(space).split("::");
    return [items.module[i] < 0 ? OUTSIDE : "[no namespace]"];
  },
  section: (i) => {
    const [name, category] = data.sections[items.section[i]];
    return [text(category), text(name)];
  },
};

// Bytes by which the areas are made.
const modes = {
  now: (i) => items.now[i],
  before: (i) => items.old[i],
  change: (i) => Math.abs(items.now[i] - items.old[i]),
};

function node(name, parent, item) {
  return { name, parent, item, atom: -1, now: 0, old: 0, value: 0, count: 0, kids: item < 0 ? [] : null, by: null };
}

// The tree of a grouping: sizes in `now` and `old` are exact, `value` is what areas are made of (never negative).
function build(grouping, mode) {
  if (grouping === "dominators") return buildDominators();
  const pathOf = groupings[grouping];
  const valueOf = modes[mode];
  const root = node(text(data.output), null, -1);
  for (let i = 0; i < count; i++) {
    let at = root;
    for (const step of pathOf(i)) {
      at.by ??= new Map();
      let next = at.by.get(step);
      if (!next) {
        next = node(step, at, -1);
        at.by.set(step, next);
        at.kids.push(next);
      }
      at = next;
    }
    const leaf = node(text(items.name[i]), at, i);
    leaf.atom = items.atom[i];
    at.kids.push(leaf);
    const value = Math.max(0, valueOf(i));
    for (let up = leaf; up; up = up.parent) {
      up.now += items.now[i];
      up.old += items.old[i];
      up.value += value;
      up.count++;
    }
  }
  sort(root);
  return root;
}

// What goes if something goes: each thing with all that only it keeps below it.
function buildDominators() {
  const { name, own, retained, dominator } = data.atoms;
  const root = node(text(data.output), null, -1);
  const nodes = [];
  for (let a = 0; a < name.length; a++) {
    const made = node(text(name[a]), null, -1);
    made.atom = a;
    made.now = made.old = made.value = retained[a];
    made.count = 1;
    nodes.push(made);
  }
  for (let a = 0; a < name.length; a++) {
    const above = dominator[a] < 0 ? root : nodes[dominator[a]];
    nodes[a].parent = above;
    above.kids.push(nodes[a]);
  }
  for (const made of nodes) {
    if (made.parent === root) root.value += made.value;
    if (made.kids.length === 0) {
      made.kids = null;
    } else if (own[made.atom] > 0) {
      const self = node("itself", made, -1);
      self.kids = null;
      self.atom = made.atom;
      self.now = self.old = self.value = own[made.atom];
      self.count = 1;
      made.kids.push(self);
    }
  }
  root.now = root.old = root.value;
  root.count = nodes.length;
  sort(root);
  return root;
}

function sort(root) {
  const work = [root];
  while (work.length > 0) {
    const at = work.pop();
    at.by = null;
    at.kids.sort((a, b) => b.value - a.value || (a.name < b.name ? -1 : 1));
    for (const kid of at.kids) if (kid.kids) work.push(kid);
  }
}

const SMALLEST = 14; // square pixels
const HEADER = 16; // pixels

// Rectangles of a tree, outer ones first: {node, x, y, w, h, depth, inner}. What is too small to be seen is one
// rectangle of its parent's ({node: null}). Squarified: rows that are as square as they can be.
function layout(root, width, height) {
  const out = [];
  const work = [{ node: root, x: 0, y: 0, w: width, h: height, depth: 0 }];
  while (work.length > 0) {
    const box = work.pop();
    if (box.depth > 0) out.push(box);
    const kids = box.node.kids;
    box.inner = kids !== null && kids.length > 0;
    if (!box.inner) continue;
    let { x, y, w, h } = box;
    if (box.depth > 0) {
      if (w < 8 || h < 8) continue;
      const header = w > 40 && h > 2 * HEADER ? HEADER : 1;
      [x, y, w, h] = [x + 1, y + header, w - 2, h - header - 1];
    }
    squarify(kids, x, y, w, h, box.depth + 1, work, out);
  }
  return out;
}

function squarify(kids, x, y, w, h, depth, work, out) {
  let rest = 0;
  for (const kid of kids) rest += kid.value;
  let i = 0;
  while (i < kids.length && kids[i].value > 0 && w > 0 && h > 0) {
    const scale = (w * h) / rest;
    if (kids[i].value * scale < SMALLEST) break;
    const side = Math.min(w, h);
    let [sum, worst, end] = [0, Infinity, i];
    const largest = kids[i].value * scale;
    while (end < kids.length && kids[end].value > 0) {
      const area = kids[end].value * scale;
      const next = sum + area;
      const ratio = Math.max((side * side * largest) / (next * next), (next * next) / (side * side * area));
      if (ratio > worst) break;
      [sum, worst, end] = [next, ratio, end + 1];
    }
    const thick = sum / side;
    let along = 0;
    for (; i < end; i++) {
      const length = (kids[i].value * scale) / thick;
      work.push(w >= h
        ? { node: kids[i], x, y: y + along, w: thick, h: length, depth }
        : { node: kids[i], x: x + along, y, w: length, h: thick, depth });
      along += length;
      rest -= kids[i].value;
    }
    if (w >= h) [x, w] = [x + thick, w - thick];
    else [y, h] = [y + thick, h - thick];
  }
  if (i < kids.length && w * h >= 1) out.push({ node: null, x, y, w, h, depth, inner: false, left: kids.length - i });
}

// References to each atom, as rows like the graph's own: made when they are first asked for.
let reversed = null;
function holders(atom) {
  const { start, target } = data.graph;
  if (!reversed) {
    const first = new Uint32Array(data.atoms.name.length + 1);
    for (const to of target) first[to + 1]++;
    for (let a = 1; a < first.length; a++) first[a] += first[a - 1];
    const next = first.slice();
    const edge = new Uint32Array(target.length);
    const from = new Uint32Array(target.length);
    for (let a = 0; a + 1 < start.length; a++) {
      for (let e = start[a]; e < start[a + 1]; e++) {
        const slot = next[target[e]]++;
        [edge[slot], from[slot]] = [e, a];
      }
    }
    reversed = { first, edge, from };
  }
  const found = [];
  for (let s = reversed.first[atom]; s < reversed.first[atom + 1]; s++) {
    found.push({ from: reversed.from[s], edge: reversed.edge[s] });
  }
  return found;
}

// The nearest way from what is live by itself to each atom: breadth first, once for all of them.
let nearest = null;
function shortest(atom) {
  const { start, target } = data.graph;
  if (!nearest) {
    const size = data.atoms.name.length;
    const by = new Int32Array(size).fill(-1); // the edge that leads to it
    const from = new Int32Array(size).fill(-1); // its source, or -2 - the root's number
    const queue = [];
    data.roots.forEach(([root], number) => {
      if (from[root] === -1) {
        from[root] = -2 - number;
        queue.push(root);
      }
    });
    for (let at = 0; at < queue.length; at++) {
      const a = queue[at];
      for (let e = start[a]; e < start[a + 1]; e++) {
        if (from[target[e]] === -1) {
          [from[target[e]], by[target[e]]] = [a, e];
          queue.push(target[e]);
        }
      }
    }
    nearest = { by, from };
  }
  const steps = [];
  let at = atom;
  while (nearest.from[at] >= 0) {
    steps.push({ to: at, from: nearest.from[at], edge: nearest.by[at] });
    at = nearest.from[at];
  }
  if (nearest.from[at] === -1) return null;
  const [, reason, symbol] = data.roots[-2 - nearest.from[at]];
  steps.push({ to: at, root: text(reason), symbol: symbol < 0 ? "" : text(symbol) });
  return steps.reverse();
}

function dominated(atom) {
  const { dominator, retained } = data.atoms;
  const found = [];
  for (let a = 0; a < dominator.length; a++) if (dominator[a] === atom) found.push(a);
  return found.sort((a, b) => retained[b] - retained[a]);
}

function fileOf(atom) {
  const [archive, name] = data.modules[data.atoms.module[atom]];
  const short = (path) => path.slice(path.lastIndexOf("/") + 1);
  return archive < 0 ? short(text(name)) : `${short(text(archive))}(${text(name)})`;
}

// A place in an input, as linkers write it.
function placeOf(atom, offset) {
  const at = offset ?? data.atoms.offset[atom];
  return `${fileOf(atom)}:(${text(data.atoms.section[atom])}${at > 0 ? "+0x" + at.toString(16) : ""})`;
}

// What an edge of a table is and where it stands.
function referenceOf(edge, from, { kind, offset } = data.graph) {
  const name = data.graph.kinds[kind[edge]];
  if (offset[edge] < 0) return [name, placeOf(from, 0)];
  if (name === "unwind") return [name, `${fileOf(from)}:(.eh_frame+0x${offset[edge].toString(16)})`];
  if (name === "data" && data.atoms.code[from]) return [name, "a table of " + placeOf(from, 0)];
  return [name, placeOf(from, offset[edge])];
}

let lowered = null;
// Items with `part` in their names, the largest first.
function search(part) {
  lowered ??= items.name.map((n) => text(n).toLowerCase());
  const wanted = part.toLowerCase();
  const found = [];
  for (let i = 0; i < count; i++) if (lowered[i].includes(wanted)) found.push(i);
  return found.sort((a, b) => items.now[b] - items.now[a] || items.old[b] - items.old[a]);
}
