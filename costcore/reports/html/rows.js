// The rows of the table: which ones are visible, and in which order.

const FIRST_ROWS = 40;

/** Returns the modules that are expanded at first: as many levels as fit into FIRST_ROWS rows. */
function initiallyExpanded() {
  const perLevel = [];
  for (const node of nodes) perLevel[node.depth] = (perLevel[node.depth] || 0) + 1;
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
    const shown = item.children.filter((child) => !hits || hits.items.has(child) || hits.parents.has(child));
    const sorted = order ? [...shown].sort(order) : shown;
    for (let i = sorted.length - 1; i >= 0; i -= 1) stack.push(sorted[i]);
  }
  return rows;
}

/** Returns whether a module is expanded; the modules around search hits are, until the user collapses them. */
const isExpanded = (item, expanded, hits) =>
  expanded.has(item) || Boolean(hits?.parents.has(item) && !hits.collapsed.has(item));

function listRows(hits, order) {
  const rows = [...(hits ? hits.calls : calls)];
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
