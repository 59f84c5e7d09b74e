// The data of the report as a tree. Its items are modules (nodes) and calls.

const report = JSON.parse(document.getElementById("data").textContent);

const UNIT = report.unit.name; // what the report counts: FLOPs, or what another convention counts
const METRICS = [
  { key: "flops", title: UNIT, kind: "flops" },
  { key: "macs", title: "MACs", kind: "flops" },
  { key: "mrw", title: "bytes read and written", kind: "bytes" },
  { key: "n_own", title: "parameters", kind: "flops" },
  ...report.added.filter(({ adds }) => adds),
];
const AMOUNTS = [
  "flops",
  "macs",
  "mread",
  "mwrite",
  "mrw",
  "n_own",
  "n_params",
  "n_trainable",
  "n_frozen",
  "n_shared",
  "n_buffers",
  "activations",
  ...report.added.filter(({ kind }) => kind in BASE).map(({ key }) => key),
];

const totals = Object.fromEntries(Object.entries(report.totals).map(([key, text]) => [key, parseAmount(text)]));
const ranks = Object.fromEntries(Object.entries(report.ranks).map(([formula, number]) => [formula, BigInt(number)]));
const nodes = records(report.nodes);
const layers = records(report.layers);
const calls = records(report.calls);
const root = nodes[0];

/** Returns the rows of a table of the report as objects. */
function records({ columns, rows }) {
  return rows.map((row) => {
    const record = {};
    columns.forEach((column, i) => {
      record[column] = AMOUNTS.includes(column) ? parseAmount(row[i]) : row[i];
    });
    return record;
  });
}

const ancestors = [];
nodes.forEach((node, order) => {
  ancestors.length = node.depth;
  const parent = ancestors[node.depth - 1] || null;
  Object.assign(node, { isCall: false, order, parent, children: [], calls: [], modules: [] });
  node.searchText = `${node.path} ${node.name} ${node.type}`.toLowerCase();
  if (parent) parent.modules.push(node);
  ancestors.push(node);
});
calls.forEach((call, order) => {
  const parent = nodes[call.node];
  const layer = layers[call.layer];
  Object.assign(call, layer, {
    isCall: true,
    order,
    parent,
    children: [],
    depth: parent.depth + 1,
    shape: layer.outputs,
  });
  call.where = report.sites[call.where];
  call.isUncounted = call.flops === null;
  call.path = parent.path;
  call.searchText = `${call.name} ${call.path} ${call.type} ${call.op} ${call.native} ${call.phase}`.toLowerCase();
  parent.calls.push(call);
});
for (const node of nodes) node.children = [...node.modules, ...node.calls];

const operators = records(report.operators);

/** Returns the first module from here downwards that has calls of its own or several children. */
function firstBranching(node) {
  while (node.modules.length === 1 && node.calls.length === 0) node = node.modules[0];
  return node;
}

/** Yields every counted call in a module, at any depth. */
function* callsIn(node) {
  const stack = [node];
  while (stack.length) {
    const next = stack.pop();
    for (const call of next.calls) if (!call.isUncounted) yield call;
    stack.push(...next.modules);
  }
}

const AS_IF = `as if every name were ${report.drawn_at}`; // how formulas are drawn

const counted = (items) => items.filter((call) => !call.isUncounted);

/** Returns the sums of a metric over calls by operator, largest first. */
function byOperator(items, key) {
  const groups = new Map();
  for (const call of items) {
    if (!groups.has(call.op)) groups.set(call.op, []);
    groups.get(call.op).push(call);
  }
  const sums = [...groups].map(([op, members]) => ({
    op,
    calls: members.length,
    value: sum(members, key),
    rank: members.reduce((total, call) => total + (rankOf(call[key]) ?? 0n), 0n),
  }));
  return sums.sort((a, b) => compare(a.rank, b.rank, true));
}

/** Returns the number by which an amount is sorted and drawn; the report has that of every symbolic expression. */
function rankOf(value) {
  return typeof value === "string" ? (value in ranks ? ranks[value] : null) : value;
}

/** Compares two amounts for sorting; missing amounts come last. */
function compare(first, second, descending) {
  const [a, b] = [rankOf(first), rankOf(second)];
  if (a === null || b === null) return (a === null) - (b === null);
  const order = a < b ? -1 : a > b ? 1 : 0;
  return descending ? -order : order;
}

// An operator has the same color in all charts. The operators with the most FLOPs and those with the most bytes have
// colors of their own; all others are gray.
const COLORS = [0, 1, 2, 3, 4, 5, 6].map((i) => `var(--c${i})`);
const GRAY = "var(--c7)";
const colorOf = new Map();
{
  const [byFlops, byBytes] = ["flops", "mrw"].map((key) => byOperator(callsIn(root), key));
  const candidates = [...byFlops.slice(0, 4), ...byBytes, ...byFlops];
  for (const { op } of candidates) if (!colorOf.has(op)) colorOf.set(op, COLORS[colorOf.size] ?? GRAY);
}
