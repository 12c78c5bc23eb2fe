// What comes from libraries: who uses it, by library, and what of it a thing of the map uses.

// The rows of the users of an import, and of the imports that an atom uses: made when they are first asked for.
const users = (i) => data.imports.start[i + 1] - data.imports.start[i];
const usersOf = (i) => Array.from({ length: users(i) }, (_, n) => data.imports.start[i] + n);
let used = null;
function importsOf(atom) {
  if (!used) {
    used = new Map();
    for (let i = 0; i < data.imports.name.length; i++) {
      for (const row of usersOf(i)) {
        const of = data.imports.from[row];
        if (!used.has(of)) used.set(of, []);
        used.get(of).push({ row, import: i });
      }
    }
  }
  return used.get(atom) ?? [];
}

// Imports by who defines them: the most first.
function libraries() {
  const found = new Map();
  data.imports.by.forEach((by, i) => found.set(by, [...(found.get(by) ?? []), i]));
  return [...found].map(([by, imports]) => ({ by, imports })).sort((a, b) => b.imports.length - a.imports.length);
}

// Names with `part`, lower case, in them.
const importsWith = (part) => data.imports.name.flatMap((n, i) => (text(n).toLowerCase().includes(part) ? [i] : []));

const times = (n, what) => `${number(n)} ${what}${n === 1 ? "" : "s"}`;
const importLink = (i) => button(text(data.imports.name[i]), () => importPanel(i));
const importRow = (i) => [importLink(i), " ", make("span", `${times(users(i), "user")}, ${text(data.imports.by[i])}`, "place")];

function importPanel(i) {
  const { from, by } = data.imports;
  const parts = [make("h2", text(data.imports.name[i]))];
  parts.push(make("p", `No module of the link defines it. Defined by: ${text(by[i])}`));
  parts.push(...listOf("What refers to it", usersOf(i), (row) => step(...referenceOf(row, from[row], data.imports), link(from[row]))));
  parts.push(cutOf(text(data.imports.name[i])));
  $("panel").replaceChildren(...parts);
}

function libraryPanel({ by, imports }) {
  const few = [...imports].sort((a, b) => users(a) - users(b) || (text(data.imports.name[a]) < text(data.imports.name[b]) ? -1 : 1));
  const shown = listOf("Those that the fewest things refer to come first", few, importRow, "ul", LISTED);
  $("panel").replaceChildren(make("h2", text(by)), make("p", `${times(imports.length, "symbol")} of it`), ...shown);
}

// Beside the whole: who defines what the program only uses.
const librariesList = () => listOf("What it uses of others", libraries(), (l) => [`${times(l.imports.length, "symbol")}, defined by `, button(text(l.by), () => libraryPanel(l))]);
