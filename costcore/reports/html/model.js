// The report, read once: modules and calls as one tree of items.

const report = JSON.parse(document.getElementById("data").textContent);

const METRICS = [
  { key: "flops", title: "FLOPs", kind: "flops" },
  { key: "macs", title: "MACs", kind: "flops" },
  { key: "mrw", title: "bytes read and written", kind: "bytes" },
  { key: "n_own", title: "parameters", kind: "flops" },
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
];

const totals = Object.fromEntries(Object.entries(report.totals).map(([key, text]) => [key, amount(text)]));
const ranks = Object.fromEntries(Object.entries(report.ranks).map(([formula, number]) => [formula, BigInt(number)]));
const nodes = records(report.nodes);
const layers = records(report.layers);
const calls = records(report.calls);
const root = nodes[0];

function records({ columns, rows }) {
  return rows.map((row) => {
    const item = {};
    columns.forEach((column, i) => {
      item[column] = AMOUNTS.includes(column) ? amount(row[i]) : row[i];
    });
    return item;
  });
}

const branch = [];
nodes.forEach((node, order) => {
  branch.length = node.depth;
  const parent = branch[node.depth - 1] || null;
  Object.assign(node, { isCall: false, order, parent, children: [], calls: [], modules: [] });
  node.intensity = ratioOf(node);
  node.text = `${node.path} ${node.name} ${node.type}`.toLowerCase();
  if (parent) parent.modules.push(node);
  branch.push(node);
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
  call.isUnknown = call.flops === null;
  call.intensity = ratioOf(call);
  call.path = parent.path;
  call.text = `${call.name} ${call.path} ${call.type} ${call.op} ${call.native} ${call.phase}`.toLowerCase();
  parent.calls.push(call);
});
for (const node of nodes) node.children = [...node.modules, ...node.calls];

const operators = records(report.operators);

function ratioOf(item) {
  return item.mrw === 0n ? null : ratio(item.flops, item.mrw);
}

/** The first module that has anything to compare in it. */
function startOf(node) {
  while (node.modules.length === 1 && node.calls.length === 0) node = node.modules[0];
  return node;
}

/** Every counted call in a module, at any depth. */
function* callsIn(node) {
  const stack = [node];
  while (stack.length) {
    const next = stack.pop();
    for (const call of next.calls) if (!call.isUnknown) yield call;
    stack.push(...next.modules);
  }
}

const counted = (items) => items.filter((call) => !call.isUnknown);

/** Sums of a metric over calls by operator, largest first. */
function byOperator(items, key) {
  const groups = new Map();
  for (const call of items) {
    if (!groups.has(call.op)) groups.set(call.op, []);
    groups.get(call.op).push(call);
  }
  const found = [...groups].map(([op, members]) => ({
    op,
    calls: members.length,
    value: sum(members, key),
    rank: members.reduce((total, call) => total + (rankOf(call[key]) ?? 0n), 0n),
  }));
  return found.sort((a, b) => compare(a.rank, b.rank, true));
}

/** The number that an amount is sorted by: a formula has one for all its symbols at one size. */
function rankOf(value) {
  return typeof value === "string" ? (value in ranks ? ranks[value] : null) : value;
}

/** Order of two cells: numbers, and what is not known behind them. */
function compare(first, second, descending) {
  const [a, b] = [rankOf(first), rankOf(second)];
  if (a === null || b === null) return (a === null) - (b === null);
  const order = a < b ? -1 : a > b ? 1 : 0;
  return descending ? -order : order;
}

// Operators keep one colour everywhere: those of most FLOPs, then of most bytes, have their own, the rest is grey.
const COLOURS = [0, 1, 2, 3, 4, 5, 6].map((i) => `var(--c${i})`);
const GREY = "var(--c7)";
const colourOf = new Map();
{
  const order = ["flops", "mrw"].map((key) => byOperator(callsIn(root), key));
  const candidates = [...order[0].slice(0, 4), ...order[1], ...order[0]];
  for (const { op } of candidates) if (!colourOf.has(op)) colourOf.set(op, COLOURS[colourOf.size] ?? GREY);
}
