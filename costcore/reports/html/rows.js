// Which rows the table has: those that are open, found and in order.

const FIRST_ROWS = 40;

/** Opens as many levels of modules as fit a first look. */
function openedAtFirst() {
  const perLevel = [];
  for (const node of nodes) perLevel[node.depth] = (perLevel[node.depth] || 0) + 1;
  let depth = startOf(root).depth + 1;
  let shown = perLevel.slice(0, depth + 1).reduce((sum, n) => sum + n, 0);
  while (depth < perLevel.length - 1 && shown + perLevel[depth + 1] <= FIRST_ROWS) {
    depth += 1;
    shown += perLevel[depth];
  }
  return new Set(nodes.filter((node) => node === root || (node.depth < depth && node.modules.length > 0)));
}

/** The items that every word of the text stands in, and the modules around them; null for no text. */
function foundBy(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  const matches = (item) => words.every((word) => item.text.includes(word));
  const hits = { modules: nodes.filter(matches), calls: calls.filter(matches) };
  const around = new Set();
  for (const item of [...hits.modules, ...hits.calls]) {
    for (let node = item.parent; node && !around.has(node); node = node.parent) around.add(node);
  }
  return { ...hits, items: new Set([...hits.modules, ...hits.calls]), around, closed: new Set() };
}

/** The visible rows of the tree, parents before children. */
function treeRows(open, found, order) {
  const rows = [];
  const stack = [root];
  while (stack.length) {
    const item = stack.pop();
    rows.push(item);
    if (!isOpen(item, open, found)) continue;
    const shown = item.children.filter((child) => !found || found.items.has(child) || found.around.has(child));
    const sorted = order ? [...shown].sort(order) : shown;
    for (let i = sorted.length - 1; i >= 0; i -= 1) stack.push(sorted[i]);
  }
  return rows;
}

/** What is around a hit is open until it is closed by hand. */
const isOpen = (item, open, found) => open.has(item) || Boolean(found?.around.has(item) && !found.closed.has(item));

function listRows(found, order) {
  const rows = [...(found ? found.calls : calls)];
  return order ? rows.sort(order) : rows;
}

/** How two rows compare by a column, or null for the order of the model. */
function orderBy(column, descending) {
  if (!column) return null;
  const cell = column.rank ?? column.value ?? ((item) => item[column.key]);
  const text = column.kind === "text";
  const key = text ? (item) => String(cell(item)).toLowerCase() : cell;
  const keys = new Map();
  const keyOf = (item) => {
    if (!keys.has(item)) keys.set(item, key(item));
    return keys.get(item);
  };
  const order = text ? compareText : compare;
  return (a, b) => order(keyOf(a), keyOf(b), descending) || a.isCall - b.isCall || a.order - b.order;
}

const collator = new Intl.Collator("en", { numeric: true });

function compareText(a, b, descending) {
  const order = collator.compare(a, b);
  return descending ? -order : order;
}
