// The page: the map, the table beside it that says the same, and what is known of the thing that is chosen.

const $ = (id) => document.getElementById(id);
const map = $("map");
const pen = map.getContext("2d");
const view = { grouping: "module", mode: "now", root: null, at: null, chosen: null, boxes: [], hits: null, atoms: null, sort: "value" };
const LISTED = 200;
const SHOWN = 50;

const number = (n) => n.toLocaleString("en-US");
const signed = (n) => (n > 0 ? "+" : n < 0 ? "\u2212" : "\u00b1") + number(Math.abs(n));
const percent = (n, all) => (all === 0 ? "" : ((n * 100) / all).toFixed(1) + "%");

function make(tag, content, className) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (typeof content === "string") made.textContent = content;
  else if (content) made.append(...content);
  return made;
}

function button(label, action) {
  const made = make("button", label, "link");
  made.type = "button";
  made.addEventListener("click", action);
  return made;
}

// Change as a sign that needs no colour.
function changeOf(at) {
  if (at.old === 0 && at.now !== 0) return "new";
  if (at.now === 0 && at.old !== 0) return "gone";
  return at.now > at.old ? "grown" : at.now < at.old ? "shrunk" : "same";
}
const SIGNS = { new: "+ ", gone: "\u2212 ", grown: "\u25b2 ", shrunk: "\u25bc ", same: "" };
// Beside a number, which has a sign of its own.
const WORDS = { new: "new ", gone: "gone ", grown: "\u25b2 ", shrunk: "\u25bc ", same: "" };

const FILLS = {
  text: "#d6e6f5", rodata: "#fbf0cf", data: "#f6dcd2", eh_frame: "#e3dcef", "symbol table": "#e4e4e4",
  debug: "#ededed", headers: "#e4e4e4", padding: "#f7f7f7",
};
const OTHER = "#dceadf";
const CHANGES = { new: "#f3c9bd", grown: "#f8ddd4", gone: "#bfe0c4", shrunk: "#d9eedc", same: "#f4f4f4" };

function fill(at) {
  if (view.mode === "change") return CHANGES[changeOf(at)];
  if (at.item >= 0) return FILLS[text(data.sections[items.section[at.item]][1])] ?? OTHER;
  return "#eef3f7";
}

const hatches = {};
function hatch(kind) {
  if (!hatches[kind]) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const ink = tile.getContext("2d");
    ink.strokeStyle = "rgba(0,0,0,0.35)";
    ink.beginPath();
    if (kind === "up") { ink.moveTo(0, 6); ink.lineTo(6, 0); }
    if (kind === "down") { ink.moveTo(0, 0); ink.lineTo(6, 6); }
    if (kind === "dots") ink.rect(2, 2, 1, 1);
    ink.stroke();
    hatches[kind] = pen.createPattern(tile, "repeat");
  }
  return hatches[kind];
}

function draw() {
  // How long it is says how much is left for the map.
  legend();
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [map.clientWidth, map.clientHeight];
  if (map.width !== Math.round(width * scale) || map.height !== Math.round(height * scale)) {
    [map.width, map.height] = [Math.round(width * scale), Math.round(height * scale)];
  }
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  view.boxes = layout(view.at, width, height);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "top";
  pen.lineWidth = 1;
  for (const box of view.boxes) {
    const { node: at, x, y, w, h } = box;
    if (at === null) {
      pen.fillStyle = hatch("dots");
      pen.fillRect(x, y, w, h);
      continue;
    }
    pen.fillStyle = fill(at);
    pen.fillRect(x, y, w, h);
    const change = view.mode === "change" && !box.inner ? changeOf(at) : "";
    if (change === "new" || change === "grown") pen.fillStyle = hatch("up");
    if (change === "gone" || change === "shrunk") pen.fillStyle = hatch("down");
    if (change && change !== "same") pen.fillRect(x, y, w, h);
    pen.strokeStyle = box.depth === 1 ? "#222" : "#8a8a8a";
    pen.strokeRect(x + 0.5, y + 0.5, w, h);
    label(box);
  }
  if (view.hits) outline((at) => (at.item >= 0 ? view.hits.has(at.item) : view.atoms.has(at.atom)), "#000", 2);
  if (view.chosen) outline((at) => at === view.chosen, "#000", 4);
}

function label({ node: at, x, y, w, h, inner }) {
  if (w < 34 || h < 12) return;
  const letters = Math.floor((w - 6) / 5.5);
  let name = (view.mode === "change" ? SIGNS[changeOf(at)] : "") + at.name;
  if (name.length > letters) name = sectionOf(name);
  if (name.length > letters) name = brief(name);
  if (name.length > letters) name = own(name);
  if (name.length > letters) name = name.slice(0, letters - 1) + "\u2026";
  pen.fillStyle = "#111";
  pen.fillText(name, x + 4, y + 3, w - 6);
  if (!inner && h > 26) pen.fillText(sizeOf(at), x + 4, y + 15, w - 6);
}

// Of a place without a name its section, since its module is the box around it; of a function without one its address.
const sectionOf = (name) => name.replace(/^\[(?:function at|linker-made) (.+)\]$/, "$1").replace(/^(.*)\[[^\]]*:\((.+)\)\]$/, "$1[$2]");

// A function's name without its parameters; places keep what is in parentheses.
function brief(name) {
  const end = name.includes(":(") ? -1 : name.search(/\((?!anonymous namespace\))/);
  return end > 0 && !name.endsWith("operator()") ? name.slice(0, end) + "()" : name;
}

// The last part of a path, outside of brackets, without what stands before the name (a return type).
function own(name) {
  const sign = name.match(/^[+\u2212\u25b2\u25bc] /)?.[0] ?? "";
  let [depth, start] = [0, sign.length];
  for (let i = sign.length; i < name.length; i++) {
    if ("<([{".includes(name[i])) depth++;
    else if (">)]}".includes(name[i])) depth--;
    else if (depth === 0 && name[i] === ":" && name[i + 1] === ":") start = i + 2;
    else if (depth === 0 && name[i] === " ") start = i + 1;
  }
  return depth === 0 && start < name.length ? sign + name.slice(start) : name;
}

const sizeOf = (at) => (view.mode === "change" ? signed(at.now - at.old) : number(view.mode === "before" ? at.old : at.now));

// What areas and colours stand for, beside the map.
function legend() {
  const areas = { now: "bytes of the file", before: "bytes of the file before", change: "bytes that changed" };
  const of = view.grouping === "dominators" ? "bytes that would go" : areas[view.mode];
  const none = view.root.value === 0 ? (view.mode === "change" ? " Nothing changed." : " Nothing has any.") : "";
  const marks = view.mode === "change"
    ? "+ new, \u2212 gone, \u25b2 grown, \u25bc shrunk; grown is hatched one way, shrunk the other."
    : "Dots: too small to be drawn.";
  const shown = [`Areas are ${of}.${none} ${marks}`];
  if (view.mode !== "change" && view.grouping !== "dominators") {
    const used = new Set(data.sections.map((s) => text(s[1])).filter((c) => FILLS[c]));
    for (const category of Object.keys(FILLS).filter((c) => used.has(c))) {
      const swatch = make("span", " ", "swatch");
      swatch.style.background = FILLS[category];
      shown.push(" ", swatch, ` ${category}`);
    }
    const rest = [...new Set(data.sections.map((s) => text(s[1])))].filter((c) => !FILLS[c]).sort();
    if (rest.length > 0) {
      const swatch = make("span", " ", "swatch");
      swatch.style.background = OTHER;
      shown.push(" ", swatch, ` ${rest.join(", ")}`);
    }
  }
  $("legend").replaceChildren(...shown);
}

function outline(which, colour, thick) {
  pen.strokeStyle = colour;
  for (const box of view.boxes) {
    const { node: at, x, y, w, h } = box;
    if (!at || !which(at)) continue;
    const line = Math.max(1, Math.min(thick, w / 4, h / 4));
    pen.lineWidth = line;
    pen.strokeRect(x + line / 2, y + line / 2, w - line, h - line);
    label(box);
  }
  pen.lineWidth = 1;
}

// The path from the whole to what is shown.
function crumbs() {
  const parts = [];
  for (let at = view.at; at; at = at.parent) {
    const here = at;
    parts.unshift(at === view.at ? make("strong", at.name) : button(at.name, () => zoom(here)), " \u203a ");
  }
  $("crumbs").replaceChildren(...parts.slice(0, -1), `  ${number(view.at.now)} bytes`);
}

function table() {
  const at = view.at;
  const retained = (kid) => (kid.atom >= 0 ? data.atoms.retained[kid.atom] : -1);
  const orders = {
    value: (a, b) => b.value - a.value || b.now - a.now,
    retained: (a, b) => retained(b) - retained(a),
    change: (a, b) => Math.abs(b.now - b.old) - Math.abs(a.now - a.old),
    name: (a, b) => (a.name < b.name ? -1 : 1),
  };
  const kids = at.kids ?? [];
  const rows = view.sort === "value" ? kids : [...kids].sort(orders[view.sort]);
  const head = (title, order, className) => {
    const cell = make("th", [button(title, () => { view.sort = order; table(); })], className);
    if (order === view.sort) cell.setAttribute("aria-sort", order === "name" ? "ascending" : "descending");
    return cell;
  };
  const cells = [head("bytes", "value", "n"), make("th", "%", "n")];
  const both = has.old && view.grouping !== "dominators";
  if (both) cells.push(make("th", "before", "n"), head("change", "change", "n"));
  if (has.graph) cells.push(head("retained", "retained", "n"));
  cells.push(head("name", "name"));
  const made = make("table", [make("thead", [make("tr", cells)])]);
  const body = make("tbody", []);
  for (const kid of rows.slice(0, LISTED)) {
    const row = make("tr", [make("td", number(kid.now), "n"), make("td", percent(kid.now, at.now), "n")]);
    if (both) row.append(make("td", number(kid.old), "n"), make("td", WORDS[changeOf(kid)] + signed(kid.now - kid.old), "n"));
    if (has.graph) row.append(make("td", retained(kid) < 0 ? "" : number(retained(kid)), "n"));
    row.append(make("td", [button(kid.name, () => open(kid))]));
    body.append(row);
  }
  made.append(body);
  const more = rows.length > LISTED ? [make("p", `\u2026 and ${number(rows.length - LISTED)} more`)] : [];
  $("list").replaceChildren(made, ...more);
}

function zoom(at) {
  view.at = at;
  choose(at);
  crumbs();
  table();
}

// Into what has something in it, else to what is known of it.
function open(at) {
  if (at.kids) zoom(at);
  else choose(at);
}

function choose(at) {
  view.chosen = at;
  panel(at);
  draw();
}

function panel(at) {
  const parts = [make("h2", at.name)];
  parts.push(make("p", `${number(at.now)} bytes, ${percent(at.now, view.root.now)}` + (at.count > 1 ? ` in ${number(at.count)} things` : "")));
  if (has.old && at.now !== at.old) parts.push(make("p", `${changeOf(at)}: ${signed(at.now - at.old)} (${number(at.old)} \u2192 ${number(at.now)})`));
  if (at.item >= 0 && !has.graph) parts.push(make("p", text(data.sections[items.section[at.item]][0]), "place"));
  if (at.item >= 0 && at.atom < 0 && has.graph) {
    parts.push(make("p", items.now[at.item] === 0 ? "It was in the other program only." : "No symbol of an input: what the linker made, tables of the file, or padding."));
  }
  const sharing = at.item >= 0 && at.atom >= 0 ? items.atom.filter((a) => a === at.atom).length : 1;
  if (sharing > 1) parts.push(make("p", `${number(sharing)} things share its section, and stay or go together: what follows is of the whole section.`));
  if (at.atom >= 0) parts.push(...why(at.atom));
  if (at.item >= 0 && items.atoms[at.item] > 1) parts.push(make("p", `${number(items.atoms[at.item])} things have this name here; the largest is told of.`));
  const told = has.graph ? "here stands what keeps it, and what would go with it." : "here stands its section. A report of its link says what keeps it.";
  if (at === view.root) parts.push(make("p", `Choose a thing in the map or the table: ${told}`), ...removedList(), ...librariesList());
  $("panel").replaceChildren(...parts);
}

// With the whole: what of the inputs the link does not have.
function removedList() {
  const { size, count, list } = data.removed;
  const title = `${data.pruned ? "Removed" : "Would be removed"}: ${number(size)} bytes of input in ${number(count)} things`;
  return listOf(title, list, ([name, module, bytes]) => [`${number(bytes)}  ${text(name)} `, make("span", text(module), "place")], "ul", LISTED);
}

function link(atom) {
  return button(text(data.atoms.name[atom]), () => panel({ ...node(text(data.atoms.name[atom]), null, -1), atom, now: data.atoms.own[atom], old: data.atoms.own[atom], count: 1 }));
}

function listOf(title, found, row, tag = "ul", shown = SHOWN) {
  if (found.length === 0) return [];
  const list = make(tag, found.slice(0, shown).map((f) => make("li", row(f))));
  const more = found.length > shown ? [make("p", `\u2026 and ${number(found.length - shown)} more`)] : [];
  return [make("h3", title), list, ...more];
}

// A reference: what it is, where it stands, and a button to what is at its other end.
const step = (kind, place, other) => [`${kind} `, make("span", place, "place"), " ", other];

// What keeps it, what it keeps, and what would go with it.
function why(atom) {
  const { own, retained, dominator } = data.atoms;
  const parts = [make("p", placeOf(atom), "place")];
  const kept = [`${number(own[atom])} bytes of its own; ${number(retained[atom])} retained: so many would go with it.`];
  if (dominator[atom] >= 0) kept.push(" It goes if this goes: ", link(dominator[atom]));
  parts.push(make("p", kept));
  const path = shortest(atom);
  parts.push(...listOf("A shortest path to it", path ?? [], (s) => {
    if (s.root !== undefined) return [`root: ${s.root} `, link(s.to)];
    return step(...referenceOf(s.edge, s.from), link(s.to));
  }, "ol"));
  parts.push(...listOf("What refers to it", holders(atom), (h) => step(...referenceOf(h.edge, h.from), link(h.from))));
  const { start, target } = data.graph;
  const out = [];
  for (let e = start[atom]; e < start[atom + 1]; e++) out.push({ edge: e, to: target[e] });
  parts.push(...listOf("What it refers to", out, (o) => step(...referenceOf(o.edge, atom), link(o.to))));
  parts.push(...listOf("What it uses of others", importsOf(atom), (u) => [
    ...step(...referenceOf(u.row, atom, data.imports), importLink(u.import)),
    ` of ${text(data.imports.by[u.import])}`,
  ]));
  parts.push(...listOf("What goes with it", dominated(atom), (a) => [`${number(retained[a])} `, link(a)]));
  parts.push(cutOf(text(data.atoms.name[atom])));
  return parts;
}

const cutOf = (name) => make("p", ["The fewest references to remove: ", make("code", `lto-prune audit why '${name}' ${text(data.report)}`)]);

function find() {
  const part = $("search").value;
  if (part === "") {
    view.hits = null;
    $("found").textContent = "";
    return zoom(view.at);
  }
  const hits = search(part);
  view.hits = new Set(hits);
  view.atoms = new Set(hits.map((i) => items.atom[i]).filter((a) => a >= 0));
  const bytes = hits.reduce((sum, i) => sum + items.now[i], 0);
  const imports = importsWith(part.toLowerCase());
  const others = imports.length > 0 ? `, and ${times(imports.length, "symbol")} of others` : "";
  $("found").textContent = `${number(hits.length)} found, ${number(bytes)} bytes${others}`;
  const row = (i) => [`${number(items.now[i])} `, button(text(items.name[i]), () => reveal(i)), " ", make("span", items.module[i] < 0 ? "" : text(data.modules[items.module[i]][1]), "place")];
  $("panel").replaceChildren(...listOf(`Names with \u201c${part}\u201d`, hits, row, "ol"), ...listOf(`Of others, with \u201c${part}\u201d`, imports, importRow));
  draw();
}

// Show an item where it is in the map.
function reveal(item) {
  const leaf = view.grouping === "dominators" ? leafOfAtom(items.atom[item]) : leafOfItem(item);
  if (leaf) {
    zoom(leaf.parent);
    choose(leaf);
  } else if (items.atom[item] >= 0) {
    $("panel").replaceChildren(make("h2", text(items.name[item])), ...why(items.atom[item]));
  }
}

function leafOfItem(item) {
  let at = view.root;
  for (const name of groupings[view.grouping](item)) at = at?.kids.find((k) => k.name === name && k.kids);
  return at?.kids.find((k) => k.item === item);
}

function leafOfAtom(atom) {
  const chain = [];
  for (let a = atom; a >= 0; a = data.atoms.dominator[a]) chain.unshift(a);
  let at = chain.length > 0 ? view.root : undefined;
  for (const a of chain) at = at?.kids?.find((k) => k.atom === a);
  return at;
}

function rebuild() {
  if (view.grouping === "dominators") view.mode = $("mode").value = "now";
  view.root = build(view.grouping, view.mode);
  zoom(view.root);
}

function hit(event) {
  const { left, top } = map.getBoundingClientRect();
  const [x, y] = [event.clientX - left, event.clientY - top];
  const inside = view.boxes.filter((b) => b.node && x >= b.x && x < b.x + b.w && y >= b.y && y < b.y + b.h);
  return inside.length > 0 ? inside.reduce((a, b) => (b.depth > a.depth ? b : a)) : null;
}

function keys(event) {
  const typing = event.target === $("search") || event.target.tagName === "SELECT";
  if (event.key === "/" && !typing) {
    event.preventDefault();
    $("search").focus();
  } else if (event.key === "Escape") {
    if (typing) map.focus();
    else if (view.at.parent) zoom(view.at.parent);
  } else if (event.target === map) {
    const kids = (view.at.kids ?? []).filter((k) => k.value > 0);
    const now = kids.indexOf(view.chosen);
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (steps[event.key] && kids.length > 0) {
      event.preventDefault();
      const next = now < 0 ? 0 : Math.min(Math.max(now + steps[event.key], 0), kids.length - 1);
      choose(kids[next]);
    } else if (event.key === "Enter" && view.chosen) {
      open(view.chosen);
    } else if (event.key === "Home") {
      zoom(view.root);
    }
  }
}

function begin() {
  const before = has.old ? `; before: ${text(data.old.report)}, ${number(data.old.size)} bytes, ${signed(data.size - data.old.size)}` : "";
  document.title = `${text(data.output)} \u2013 lto-prune audit`;
  $("title").textContent = text(data.output);
  $("summary").textContent = `${number(data.size)} bytes, ${text(data.how)}${before}`;
  const option = (value, label) => Object.assign(make("option", label), { value });
  $("grouping").append(option("module", "archive and module"), option("namespace", "namespace or crate"), option("section", "section"));
  if (has.graph) $("grouping").append(option("dominators", "what keeps what (retained sizes)"));
  $("mode").append(option("now", "size"), option("before", "size before"), option("change", "change"));
  $("mode-label").hidden = !has.old;
  $("grouping").addEventListener("change", () => { view.grouping = $("grouping").value; rebuild(); });
  $("mode").addEventListener("change", () => {
    view.mode = $("mode").value;
    if (view.grouping === "dominators") view.grouping = $("grouping").value = "module";
    rebuild();
  });
  $("search").addEventListener("input", find);
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("keydown", keys);
  // A click on a symbol chooses it, one on a group goes one step towards it, a second one all the way.
  map.addEventListener("click", (event) => {
    const box = hit(event);
    if (!box) return;
    let outer = box.node;
    while (outer.parent && outer.parent !== view.at) outer = outer.parent;
    if (box.node.kids === null) choose(box.node);
    else zoom(box.inner && event.detail === 1 ? outer : box.node);
  });
  map.addEventListener("dblclick", (event) => { const box = hit(event); if (box?.node.kids === null) zoom(box.node.parent); });
  map.addEventListener("mousemove", (event) => {
    const box = hit(event);
    map.title = box ? `${box.node.name}\n${sizeOf(box.node)} bytes` : "";
  });
  new ResizeObserver(draw).observe(map);
  rebuild();
  state();
}

// `#group=section&areas=change&search=x&show=NAME`: the page as it was when somebody pointed at something in it.
function state() {
  const asked = new URLSearchParams(location.hash.slice(1));
  for (const [id, key] of [["grouping", "group"], ["mode", "areas"]]) {
    if (!asked.has(key)) continue;
    $(id).value = asked.get(key);
    if ($(id).selectedIndex >= 0) $(id).dispatchEvent(new Event("change"));
    else $(id).value = view[id];
  }
  if (asked.has("search")) {
    $("search").value = asked.get("search");
    find();
  }
  if (!asked.has("show")) return;
  // Of several things with the name, the largest.
  const at = (names, size) => names.reduce((m, n, i) => (text(n) === asked.get("show") && (m < 0 || size(i) > size(m)) ? i : m), -1);
  const [shown, imported] = [at(items.name, (i) => items.now[i]), at(data.imports.name, () => 0)];
  if (shown >= 0) reveal(shown);
  else if (imported >= 0) importPanel(imported);
  else $("found").textContent = `There is no ${asked.get("show")} here.`;
}

begin();
