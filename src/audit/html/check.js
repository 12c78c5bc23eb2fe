// `page.html#selfcheck`: whether the page is right about its data, and how fast it is. The answer is text in the page, which a
// browser without a screen prints (`chromium --headless --dump-dom`).

function selfcheck(loaded) {
  const result = { loaded, failures: [], times: {}, items: count, atoms: data.atoms.name.length };
  const expect = (holds, what) => { if (!holds) result.failures.push(what); };
  const time = (name, action) => {
    const start = performance.now();
    const value = action();
    result.times[name] = Math.max(result.times[name] ?? 0, performance.now() - start);
    return value;
  };
  const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const set = (id, value, event) => { $(id).value = value; $(id).dispatchEvent(new Event(event)); };

  for (const grouping of ["module", "namespace", "section", ...(has.graph ? ["dominators"] : [])]) {
    time("group", () => set("grouping", grouping, "change"));
    const root = view.root;
    const whole = grouping === "dominators" ? data.kept : data.size;
    expect(root.now === whole, `${grouping} adds up to ${root.now} and not ${whole}`);
    const work = [root];
    while (work.length > 0) {
      const at = work.pop();
      const sum = (at.kids ?? []).reduce((s, k) => s + k.now, 0);
      if (at.kids && sum !== at.now) { expect(false, `${grouping}: ${at.name} is ${at.now}, its parts ${sum}`); break; }
      for (const kid of at.kids ?? []) if (kid.kids) work.push(kid);
    }
    const { clientWidth: w, clientHeight: h } = map;
    const outer = view.boxes.filter((b) => b.depth === 1);
    const covered = outer.reduce((s, b) => s + b.w * b.h, 0);
    expect(Math.abs(covered - w * h) < 0.01 * w * h, `${grouping}: the map covers ${covered} of ${w * h}`);
    expect(outer.every((b) => b.x >= -0.01 && b.y >= -0.01 && b.x + b.w <= w + 0.01 && b.y + b.h <= h + 0.01), `${grouping}: a box is outside of the map`);
    for (const box of outer.filter((b) => b.node && b.w > 20 && b.h > 20)) {
      const wanted = (box.node.value / root.value) * w * h;
      expect(Math.abs(box.w * box.h - wanted) <= 0.01 * wanted + 1, `${grouping}: ${box.node.name} has the wrong area`);
    }
    const drawn = new Set(outer.map((b) => b.node));
    for (const kid of root.kids.filter((k) => (k.value / root.value) * w * h > 4 * SMALLEST)) {
      expect(drawn.has(kid), `${grouping}: ${kid.name} is not drawn`);
    }
    // Into the largest, as far as it goes, and back, by keys alone.
    map.focus();
    let depth = 0;
    for (; depth < 100; depth++) {
      const before = view.at;
      press(map, "ArrowRight");
      time("zoom", () => press(map, "Enter"));
      if (view.at === before) break;
    }
    expect(depth > 0, `${grouping}: Enter opens nothing`);
    for (; depth > 0; depth--) press(map, "Escape");
    expect(view.at === view.root, `${grouping}: Escape does not lead back`);
  }
  set("grouping", "module", "change");
  time("draw", draw);
  for (const [, category] of data.sections) expect($("legend").textContent.includes(text(category)), `the legend has no ${text(category)}`);
  const pixels = pen.getImageData(0, 0, map.width, map.height).data;
  let inked = 0;
  for (let i = 0; i < pixels.length; i += 4) if (pixels[i] + pixels[i + 1] + pixels[i + 2] < 720) inked++;
  expect(inked > 1000, `the map has ${inked} pixels of ink`);

  // The largest symbol is found by its name and shown where it is.
  let largest = -1;
  for (let i = 0; i < count; i++) if ((items.atom[i] >= 0 || !has.graph) && (largest < 0 || items.now[i] > items.now[largest])) largest = i;
  if (largest >= 0) {
    const name = text(items.name[largest]);
    time("search", () => set("search", name.slice(0, 3), "input"));
    time("search", () => set("search", name, "input"));
    expect(view.hits.has(largest), `${name} is not found`);
    time("reveal", () => reveal(largest));
    expect(view.chosen?.item === largest, `${name} is not shown`);
    expect($("panel").textContent.includes(name), `the panel does not tell of ${name}`);
    set("search", "", "input");
    if (has.graph) set("grouping", "dominators", "change");
    for (let i = largest; i < count; i += Math.ceil(count / 9)) {
      if (items.atom[i] < 0) continue;
      reveal(i);
      expect(view.chosen?.atom === items.atom[i], `${text(items.name[i])} is not shown among what keeps what`);
    }
    set("grouping", "module", "change");
  }
  // Each thing that lives has a path from a root; what it retains contains it.
  const { name, own, retained } = data.atoms;
  let without = 0;
  for (let a = 0; a < name.length; a++) {
    if (nearest === null || nearest.from[a] === -1) without += shortest(a) === null ? 1 : 0;
    if (retained[a] < own[a]) expect(false, `${text(name[a])} retains less than itself`);
  }
  expect(without === 0, `${without} atoms have no path`);
  let hub = 0;
  for (let a = 0; a < name.length; a++) if (retained[a] > retained[hub]) hub = a;
  if (name.length > 0) {
    const parts = time("why", () => why(hub));
    expect(parts.some((p) => p.textContent.includes("A shortest path")), "no path is told");
  }
  // Each use of a library stands on both sides.
  let uses = 0;
  for (let a = 0; a < name.length; a++) {
    for (const use of importsOf(a)) {
      uses++;
      expect(data.imports.from[use.row] === a && usersOf(use.import).includes(use.row), `${text(name[a])} does not use what it is said to`);
    }
  }
  expect(uses === data.imports.from.length, `${uses} of ${data.imports.from.length} uses of libraries are told of`);
  expect(libraries().reduce((s, l) => s + l.imports.length, 0) === data.imports.name.length, "a symbol of a library is nobody's");
  const most = data.imports.name.reduce((m, _, i) => (m < 0 || usersOf(i).length > usersOf(m).length ? i : m), -1);
  if (most >= 0) {
    time("import", () => importPanel(most));
    const told = $("panel").querySelectorAll("li").length;
    expect(told === Math.min(usersOf(most).length, SHOWN), `${told} users of ${text(data.imports.name[most])} are shown`);
  }
  result.imports = data.imports.name.length;
  if (has.old) {
    const oldSum = items.old.reduce((s, n) => s + n, 0);
    expect(oldSum === data.old.size, `before adds up to ${oldSum} and not ${data.old.size}`);
    for (const mode of ["before", "change"]) {
      time("group", () => set("mode", mode, "change"));
      expect(view.boxes.length > 0 || view.root.value === 0, `${mode} draws nothing`);
    }
    const changed = items.now.reduce((s, n, i) => s + Math.abs(n - items.old[i]), 0);
    expect(view.root.value === changed, `the areas of changes add up to ${view.root.value} and not ${changed}`);
    expect(view.root.now - view.root.old === data.size - data.old.size, "the change is not that of the files");
    set("mode", "now", "change");
  }
  expect(document.querySelectorAll("[src], link").length === 0, "the page wants another file");
  expect(performance.getEntriesByType("resource").length === 0, "the page loaded another file");
  $("selfcheck").textContent = JSON.stringify(result);
  $("selfcheck").hidden = false;
}

if (location.hash === "#selfcheck") {
  // Before the page counts as loaded: a browser that prints it then has the answer in it. Reading a pixel waits for the drawing.
  try {
    pen.getImageData(0, 0, 1, 1);
    selfcheck(performance.now());
  } catch (error) {
    $("selfcheck").textContent = JSON.stringify({ failures: [String(error.stack)] });
  }
}
