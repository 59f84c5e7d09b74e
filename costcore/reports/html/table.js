// The table of modules and calls. Only the rows in sight are in the page.

const ROW = 28;
const AHEAD = 8;
const INDENT = 16;
const DEEPEST_INDENT = 24;
const NUMBER_WIDTH = 118;

const COLUMNS = [
  { key: "name", title: "Module or call", kind: "text" },
  { key: "type", title: "Type", kind: "text", width: 160 },
  { key: "shape", title: "Output shape", kind: "text", width: 150 },
  { key: "n_params", title: "Parameters", kind: "flops" },
  { key: "flops", title: "FLOPs", kind: "flops" },
  { key: "macs", title: "MACs", kind: "flops" },
  { key: "mread", title: "Read", kind: "bytes" },
  { key: "mwrite", title: "Written", kind: "bytes" },
  { key: "intensity", title: "FLOP/B", kind: "intensity", width: 74 },
  { key: "share", title: "Share", kind: "share", width: 150 },
  ...(report.measured ? [{ key: "seconds", title: "Measured", kind: "seconds" }] : []),
];

const state = {
  open: openedAtFirst(),
  found: null,
  isTree: true,
  column: null,
  descending: true,
  unit: "auto",
  metric: METRICS[0],
  rows: [],
  active: root,
  chosen: null,
  powers: {},
  drawn: [0, 0],
};

const scroller = find("scroller");
const table = find("table");
const body = table.tBodies[0];
const share = COLUMNS.find((column) => column.key === "share");
share.value = (item) => ratio(item[state.metric.key], totals[state.metric.key]);
share.rank = (item) => item[state.metric.key];

function drawHead() {
  const cells = COLUMNS.map((column) => {
    const button = make("button", { type: "button", text: titleOf(column) });
    button.addEventListener("click", () => sortBy(column));
    const head = make("th", { scope: "col", className: column.kind === "text" ? "" : "n", children: [button] });
    if (column.key !== "name") head.style.width = `${column.width ?? NUMBER_WIDTH}px`;
    if (state.column === column) head.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
    return head;
  });
  const row = table.tHead.rows[0];
  const focused = [...row.cells].findIndex((cell) => cell.contains(document.activeElement));
  row.replaceChildren(...cells);
  if (focused >= 0) cells[focused].firstChild.focus();
}

function titleOf(column) {
  const arrow = state.column === column ? (state.descending ? " ▼" : " ▲") : "";
  if (column === share) return `Share of ${state.metric.key === "mrw" ? "bytes" : state.metric.title}${arrow}`;
  const unit = unitInHead(column);
  return `${column.title}${unit && ` (${unit})`}${arrow}`;
}

function unitInHead({ key, kind }) {
  if (kind === "seconds") return "ms";
  if (!BASE[kind] || state.unit === "auto") return "";
  return unitOf(state.unit === "aligned" ? state.powers[key] : 0, kind);
}

/** First click: the largest (texts: the alphabet); second: the other way round; third: the order of the model. */
function sortBy(column) {
  const first = column.kind !== "text";
  if (state.column !== column) [state.column, state.descending] = [column, first];
  else if (state.descending === first) state.descending = !first;
  else state.column = null;
  refresh();
}

/** Works out the rows anew and draws those in sight. */
function refresh() {
  const order = orderBy(state.column, state.descending);
  state.rows = state.isTree ? treeRows(state.open, state.found, order) : listRows(state.found, order);
  if (!state.rows.includes(state.active)) state.active = state.rows[0] || null;
  for (const { key, kind } of COLUMNS) {
    if (BASE[kind]) state.powers[key] = powerOf(root[key], kind);
  }
  table.setAttribute("aria-rowcount", state.rows.length + 1);
  drawHead();
  drawRows();
}

/** The first row that is to be in the page, and the one after the last. */
function inSight() {
  const first = Math.max(0, Math.floor(scroller.scrollTop / ROW) - AHEAD);
  return [first, Math.min(state.rows.length, first + Math.ceil(scroller.clientHeight / ROW) + 2 * AHEAD)];
}

function drawRows() {
  const [first, last] = (state.drawn = inSight());
  const hadFocus = body.contains(document.activeElement);
  const rows = state.rows.slice(first, last).map((item, i) => row(item, first + i));
  body.replaceChildren(space(first), ...rows, space(state.rows.length - last));
  if (!body.querySelector('[tabindex="0"]') && rows.length) rows[0].tabIndex = 0;
  if (hadFocus) body.querySelector('[tabindex="0"]')?.focus({ preventScroll: true });
}

/** After scrolling or resizing: rows that stay in sight stay the same elements, so that a click on one is not lost. */
function followSight() {
  if (String(inSight()) !== String(state.drawn)) drawRows();
}

function space(n) {
  const cell = make("td", { colSpan: COLUMNS.length });
  cell.style.height = `${n * ROW}px`;
  return make("tr", { className: "space", hidden: n === 0, "aria-hidden": "true", children: [cell] });
}

function row(item, index) {
  const hasMore = state.isTree && item.children.length > 0;
  const classes = [item.isCall ? "call" : "module", item === state.chosen ? "chosen" : ""];
  const element = make("tr", {
    className: classes.join(" ").trim(),
    tabIndex: item === state.active ? 0 : -1,
    "aria-rowindex": index + 2,
    "aria-level": state.isTree ? item.depth + 1 : 1,
    children: COLUMNS.map((column) => cell(item, column)),
  });
  if (hasMore) element.setAttribute("aria-expanded", isOpen(item, state.open, state.found));
  element.item = item;
  return element;
}

function cell(item, column) {
  if (column.key === "name") return nameCell(item);
  const value = column.value ? column.value(item) : item[column.key];
  if (column.kind === "text") return make("td", { text: value, title: value });
  if (column.kind === "intensity") return make("td", { className: "n", text: intensityText(value) });
  if (column.kind === "seconds") return make("td", { className: "n", text: milliseconds(value) });
  if (column.kind === "share") return make("td", { children: [shareBar(value)] });
  return amountCell(value, column);
}

function amountCell(value, column) {
  if (!isNumber(value)) return make("td", { className: "n", text: value === null ? "–" : value, title: value || "" });
  const title = `${grouped(value)}${column.kind === "bytes" ? " B" : ""}`;
  if (state.unit === "exact") return make("td", { className: "n", text: grouped(value), title });
  const isAligned = state.unit === "aligned";
  const power = isAligned ? state.powers[column.key] : powerOf(value, column.kind);
  const result = make("td", { className: "n", text: scaled(value, power, column.kind), title });
  if (!isAligned) result.append(" ", make("span", { className: "unit", text: unitOf(power, column.kind) }));
  return result;
}

function nameCell(item) {
  const depth = state.isTree ? Math.min(item.depth, DEEPEST_INDENT) : 0;
  const name = make("span", { className: "name", text: item.name });
  const title = item.isCall ? `${item.path}\n${item.name}` : item.path || item.name;
  const result = make("td", { role: "rowheader", title });
  result.style.paddingLeft = `${8 + depth * INDENT}px`;
  if (state.isTree && item.children.length) {
    const open = isOpen(item, state.open, state.found);
    const button = make("button", { type: "button", className: "toggle", tabIndex: -1, text: open ? "▼" : "▶" });
    button.setAttribute("aria-label", `${open ? "Collapse" : "Expand"} ${item.name}`);
    result.append(button);
  } else if (state.isTree) result.append(make("span", { className: "leaf" }));
  result.append(name);
  if (!state.isTree && item.path) result.append(make("span", { className: "more", text: item.path }));
  if (item.same_as) result.append(make("span", { className: "more", text: `same as ${item.same_as}` }));
  if (item.isUnknown || item.n_unknown > 0) {
    result.append(
      make("span", { className: "tag", text: item.isCall ? "not counted" : `${item.n_unknown} not counted` }),
    );
  }
  return result;
}

function shareBar(value) {
  const text = make("span", { className: "percent", text: percent(value) });
  const track = make("span", { className: "track", "aria-hidden": "true" });
  if (value !== null) {
    const fill = make("span");
    fill.style.width = `${100 * value}%`;
    track.append(fill);
  }
  return make("span", { className: value === null ? "share none" : "share", children: [track, text] });
}

function toggle(item) {
  const open = isOpen(item, state.open, state.found);
  if (open) state.open.delete(item);
  else state.open.add(item);
  state.found?.closed[open ? "add" : "delete"](item);
  state.active = item;
  refresh();
}

function activate(item, focus = true) {
  state.active = item;
  const at = state.rows.indexOf(item);
  const head = table.tHead.offsetHeight;
  if (at * ROW < scroller.scrollTop) scroller.scrollTop = at * ROW;
  const bottom = (at + 1) * ROW + head - scroller.clientHeight;
  if (bottom > scroller.scrollTop) scroller.scrollTop = bottom;
  drawRows();
  if (focus) body.querySelector('[tabindex="0"]')?.focus({ preventScroll: true });
}

/** Opens what is around an item, goes to its row, and shows everything about it. */
function reveal(item) {
  for (let node = item.parent; node; node = node.parent) state.open.add(node);
  state.chosen = item;
  refresh();
  if (state.rows.includes(item)) activate(item, false);
  showDetail(item);
}

body.addEventListener("click", (event) => {
  const { item } = event.target.closest("tr");
  if (!item) return;
  if (event.target.closest(".toggle")) return toggle(item);
  state.active = state.chosen = item;
  drawRows();
  showDetail(item);
});

body.addEventListener("keydown", (event) => {
  if (pressed(event.key, state.active)) event.preventDefault();
});

/** What a key does in a row; whether it does anything. */
function pressed(key, item) {
  const at = state.rows.indexOf(item);
  const last = state.rows.length - 1;
  const page = Math.floor(scroller.clientHeight / ROW) - 2;
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: last }[key];
  const canOpen = state.isTree && item.children.length > 0;
  const open = canOpen && isOpen(item, state.open, state.found);
  if (to !== undefined) activate(state.rows[Math.max(0, Math.min(to, last))]);
  else if (key === " " && canOpen) toggle(item);
  else if (key === "ArrowRight" && canOpen) open ? activate(state.rows[at + 1]) : toggle(item);
  else if (key === "ArrowLeft" && open) toggle(item);
  else if (key === "ArrowLeft" && state.isTree && item.parent) activate(item.parent);
  else if (key === "Enter") {
    state.chosen = item;
    showDetail(item);
  } else return false;
  return true;
}

scroller.addEventListener("scroll", followSight, { passive: true });
