// The rows of the table: which ones are visible, and in which order.

const FIRST_ROWS = 40;
const HAS_FORMULAS = Object.keys(ranks).length > 0; // which are longer than numbers, and cannot be added here

/** Returns the modules that are expanded at first: as many levels as fit into FIRST_ROWS rows. */
function initiallyExpanded() {
  const perLevel = [];
  for (const node of [...nodes.filter((each) => !isInFold(each)), ...folds.values()]) {
    perLevel[node.depth] = (perLevel[node.depth] || 0) + 1;
  }
  let depth = firstBranching(root).depth + 1;
  let shown = perLevel.slice(0, depth + 1).reduce((sum, n) => sum + n, 0);
  while (depth < perLevel.length - 1 && shown + perLevel[depth + 1] <= FIRST_ROWS) {
    depth += 1;
    shown += perLevel[depth];
  }
  return new Set(nodes.filter((node) => node === root || (node.depth < depth && node.modules.length > 0)));
}

/** Returns the items that contain every word of the text, and the modules around them; null for no text. */
function searchItems(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  const matches = (item) => words.every((word) => item.searchText.includes(word));
  const hits = { modules: nodes.filter(matches), calls: calls.filter(matches) };
  const parents = new Set();
  for (const item of [...hits.modules, ...hits.calls]) {
    for (let node = item.parent; node && !parents.has(node); node = node.parent) parents.add(node);
  }
  return { ...hits, items: new Set([...hits.modules, ...hits.calls]), parents, collapsed: new Set() };
}

/** Returns the visible rows of the tree, parents before children. */
function treeRows(expanded, hits, order) {
  const rows = [];
  const stack = [root];
  while (stack.length) {
    const item = stack.pop();
    rows.push(item);
    if (!isExpanded(item, expanded, hits)) continue;
    const found = item.children.filter((child) => !hits || hits.items.has(child) || hits.parents.has(child));
    const shown = hits ? found : found.filter((child) => !isFree(child));
    const sorted = order ? [...shown].sort(order) : hits || item.isFold ? shown : folded(item, shown);
    for (let i = sorted.length - 1; i >= 0; i -= 1) stack.push(sorted[i]);
  }
  return rows;
}

/** Returns whether a module is expanded; the modules around search hits are, until the user collapses them. */
const isExpanded = (item, expanded, hits) =>
  expanded.has(item) || Boolean(hits?.parents.has(item) && !hits.collapsed.has(item));

// Calls that compute nothing and move nothing, such as views and constants, are shown on request or if searched for.
const free = { isShown: false };
const isFree = (item) => !free.isShown && item.isCall && item.flops === 0n && item.mread === 0n && item.mwrite === 0n;

const FOLDED_FROM = 3; // so many equal modules in a row become one row
const SAME = ["type", "shape", "n_layers", "n_unknown", "n_params", "flops", "macs", "mread", "mwrite"];
const folds = new Map(); // by their parent and first module

/** Returns the items with one row for equal modules that follow each other, such as the layers of a network. */
function folded(parent, items) {
  const runs = [];
  for (const item of items) {
    const last = runs.at(-1);
    if (last && !item.isCall && SAME.every((key) => last[0][key] === item[key])) last.push(item);
    else runs.push([item]);
  }
  return runs.flatMap((run) => (run.length < FOLDED_FROM || HAS_FORMULAS ? run : [foldOf(parent, run)]));
}

function setFree(isShown) {
  free.isShown = isShown;
  find("with-free").checked = isShown;
}

function foldOf(parent, run) {
  const [first, last] = [run[0], run.at(-1)];
  if (!folds.has(first)) {
    const sums = Object.fromEntries(
      AMOUNTS.map((key) => [key, first[key] === undefined ? null : sum(run, key)]),
    );
    for (const key of ["n_layers", "n_unknown"]) sums[key] = run.length * first[key];
    const name = `${run.length} × ${first.type || `${first.name} … ${last.name}`}`;
    const path = `${first.path} to ${last.name}`;
    const texts = { name, type: first.type, shape: first.shape, path, same_as: "", searchText: "" };
    const seconds = run.every(({ seconds }) => seconds !== null) ? run.reduce((all, each) => all + each.seconds, 0) : null;
    const place = { isCall: false, isFold: true, order: first.order, parent, depth: first.depth };
    const parts = { children: run, modules: run, calls: [] };
    const fold = { ...first, ...sums, ...texts, ...place, ...parts, seconds };
    for (const each of run) each.fold = fold;
    folds.set(first, fold);
  }
  return folds.get(first);
}

/** Returns whether a module is, or is in, one of several that have one row. */
function isInFold(node) {
  while (node && !node.fold) node = node.parent;
  return Boolean(node);
}

for (const node of nodes) folded(node, node.modules);

function listRows(hits, order) {
  const rows = [...(hits ? hits.calls : calls.filter((call) => !isFree(call)))];
  return order ? rows.sort(order) : rows;
}

/** Returns a function that compares two rows by a column; null for the order of the model. */
function orderBy(column, descending) {
  if (!column) return null;
  const value = column.rank ?? column.value ?? ((item) => item[column.key]);
  const isText = column.kind === "text";
  const key = isText ? (item) => String(value(item)).toLowerCase() : value;
  const keys = new Map();
  const keyOf = (item) => {
    if (!keys.has(item)) keys.set(item, key(item));
    return keys.get(item);
  };
  const order = isText ? compareText : compare;
  return (a, b) => order(keyOf(a), keyOf(b), descending) || a.isCall - b.isCall || a.order - b.order;
}

const collator = new Intl.Collator("en", { numeric: true });

function compareText(a, b, descending) {
  const order = collator.compare(a, b);
  return descending ? -order : order;
}
