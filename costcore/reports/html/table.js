// The table of modules and calls. The page contains only the rows that are in view.

const ROW_HEIGHT = 28;
const EXTRA_ROWS = 8; // above and below the rows in view
const IS_PHONE = matchMedia("(max-width: 600px)").matches; // where FLOPs follow the names; details have type and shape
const NUMBER_WIDTH = HAS_FORMULAS ? 190 : IS_PHONE ? 96 : 104;
const CELL_PADDING = 18; // left and right of the text of a cell
const TITLE_LETTER = 8; // the width of a letter of a title, which breaks between words

/** Returns the width of a column for the texts of all modules, so that none of them is cut (pixels). */
function widthFor(key, least, most) {
  const pen = make("canvas").getContext("2d");
  pen.font = `13px ${getComputedStyle(document.body).fontFamily}`;
  const texts = new Set(nodes.map((node) => node[key] ?? ""));
  const longest = Math.max(0, ...[...texts].map((text) => pen.measureText(text).width));
  return Math.min(most, Math.max(least, Math.ceil(longest) + CELL_PADDING));
}

const COLUMNS = [
  { key: "name", title: "Module or call", kind: "text" },
  ...(IS_PHONE
    ? []
    : [
        { key: "type", title: "Type", kind: "text", width: widthFor("type", 80, 250) },
        { key: "shape", title: "Output shape", kind: "text", width: HAS_FORMULAS ? 200 : widthFor("shape", 116, 180) },
        ...report.added.filter(({ kind }) => kind === "text"),
        { key: "n_params", title: "Parameters", kind: "flops" },
      ]),
  { key: "flops", title: UNIT, kind: "flops" },
  { key: "macs", title: "MACs", kind: "flops" },
  { key: "mread", title: "Read", kind: "bytes" },
  { key: "mwrite", title: "Written", kind: "bytes" },
  ...report.added.filter(({ kind }) => kind !== "text"),
  { key: "intensity", title: report.unit.shortPerByte, kind: "intensity", width: 84 },
  { key: "share", title: "Share", kind: "share", width: 130 },
  ...(report.measured ? [{ key: "seconds", title: "Measured", kind: "seconds" }] : []),
];

const state = {
  expanded: initiallyExpanded(), // modules
  hits: null, // result of the search
  isTree: true, // or a list of calls
  column: null, // by which rows are sorted
  descending: true,
  unit: "auto",
  metric: METRICS[0],
  rows: [],
  active: root, // item of the row that receives the keyboard focus
  selected: null, // item of which the details are shown
  powers: {}, // of the unit prefix of each column
  decimals: {}, // of numbers in these units
  drawn: [0, 0], // range of rows in the page
};

const scroller = find("scroller");
const table = find("table");
const body = table.tBodies[0];
const shareColumn = COLUMNS.find((column) => column.key === "share");
shareColumn.value = (item) => ratio(item[state.metric.key], totals[state.metric.key]);
shareColumn.rank = (item) => item[state.metric.key];

function drawHead() {
  let total = 0;
  const cells = COLUMNS.map((column) => {
    const title = titleOf(column);
    const button = make("button", { type: "button", text: title });
    button.addEventListener("click", () => sortBy(column));
    const head = make("th", { scope: "col", className: column.kind === "text" ? "" : "n", children: [button] });
    if (column.key !== "name") {
      const longest = Math.max(...title.split(" ").map((word) => word.length));
      const width = Math.max(column.width ?? NUMBER_WIDTH, TITLE_LETTER * longest + 16);
      head.style.width = `${width}px`;
      total += width;
    }
    if (state.column === column) head.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
    return head;
  });
  const row = table.tHead.rows[0];
  const focused = [...row.cells].findIndex((cell) => cell.contains(document.activeElement));
  row.replaceChildren(...cells);
  table.style.minWidth = `calc(var(--name) + ${total}px)`;
  if (focused >= 0) cells[focused].firstChild.focus();
}

function titleOf(column) {
  const arrow = state.column === column ? (state.descending ? " ▼" : " ▲") : "";
  if (column === shareColumn) return `Share of ${state.metric.key === "mrw" ? "bytes" : state.metric.title}${arrow}`;
  const unit = unitInHead(column);
  return `${column.title}${unit && ` (${unit})`}${arrow}`;
}

function unitInHead({ key, kind }) {
  if (kind === "seconds") return "ms";
  if (!BASE[kind] || state.unit === "auto") return "";
  return unitOf(state.unit === "aligned" ? state.powers[key] : 0, kind);
}

/** Sorts by a column, largest number first or text alphabetically; again: in reverse; again: in the model's order. */
function sortBy(column) {
  const initial = column.kind !== "text";
  if (state.column !== column) [state.column, state.descending] = [column, initial];
  else if (state.descending === initial) state.descending = !initial;
  else state.column = null;
  refresh();
}

/** Computes the visible rows, and draws those in view. */
function refresh() {
  const order = orderBy(state.column, state.descending);
  state.rows = state.isTree ? treeRows(state.expanded, state.hits, order) : listRows(state.hits, order);
  if (!state.rows.includes(state.active)) state.active = state.rows[0] || null;
  for (const { key, kind } of COLUMNS) {
    if (BASE[kind]) state.powers[key] = powerOf(root[key], kind);
    state.decimals[key] = decimalsOf(root[key], state.powers[key], kind);
  }
  table.setAttribute("aria-rowcount", state.rows.length + 1);
  drawHead();
  drawRows();
}

/** Returns the range of rows that the page should contain: index of the first, and of the one after the last. */
function rangeInView() {
  const first = Math.max(0, Math.floor(scroller.scrollTop / ROW_HEIGHT) - EXTRA_ROWS);
  const count = Math.ceil(scroller.clientHeight / ROW_HEIGHT) + 2 * EXTRA_ROWS;
  return [first, Math.min(state.rows.length, first + count)];
}

function drawRows() {
  const [first, last] = (state.drawn = rangeInView());
  const hadFocus = body.contains(document.activeElement);
  const rows = state.rows.slice(first, last).map((item, i) => makeRow(item, first + i));
  body.replaceChildren(spacer(first), ...rows, spacer(state.rows.length - last));
  if (!body.querySelector('[tabindex="0"]') && rows.length) rows[0].tabIndex = 0;
  if (hadFocus) body.querySelector('[tabindex="0"]')?.focus({ preventScroll: true });
}

/** Draws the rows only if the view has moved: a click is lost if its element is replaced while the button is down. */
function updateView() {
  if (String(rangeInView()) !== String(state.drawn)) drawRows();
}

function spacer(n) {
  const cell = make("td", { colSpan: COLUMNS.length });
  cell.style.height = `${n * ROW_HEIGHT}px`;
  return make("tr", { className: "space", hidden: n === 0, "aria-hidden": "true", children: [cell] });
}

function makeRow(item, index) {
  const isExpandable = state.isTree && item.children.length > 0;
  const classes = [item.isCall ? "call" : "module", item === state.selected ? "selected" : ""];
  const element = make("tr", {
    className: classes.join(" ").trim(),
    tabIndex: item === state.active ? 0 : -1,
    "aria-rowindex": index + 2,
    "aria-level": state.isTree ? item.depth + 1 : 1,
    children: COLUMNS.map((column) => makeCell(item, column)),
  });
  if (isExpandable) element.setAttribute("aria-expanded", isExpanded(item, state.expanded, state.hits));
  element.item = item;
  return element;
}

function makeCell(item, column) {
  if (column.key === "name") return nameCell(item);
  const value = column.value ? column.value(item) : item[column.key];
  if (column.kind === "text") return make("td", { text: value ?? "", title: value ?? "" });
  if (column.kind === "intensity") return make("td", { className: "n", text: significant(value) });
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
  const result = make("td", { className: "n", text: scaled(value, power, column.kind, isAligned ? state.decimals[column.key] : undefined), title });
  if (!isAligned) result.append(" ", make("span", { className: "unit", text: unitOf(power, column.kind) }));
  return result;
}

function nameCell(item) {
  const name = make("span", { className: "name", text: item.name });
  const title = item.isCall ? `${item.path}\n${item.name}` : item.path || item.name;
  const result = make("td", { role: "rowheader", title });
  result.style.setProperty("--depth", state.isTree ? item.depth : 0);
  if (state.isTree && item.children.length) {
    const expanded = isExpanded(item, state.expanded, state.hits);
    const button = make("button", { type: "button", className: "toggle", tabIndex: -1, text: expanded ? "▼" : "▶" });
    button.setAttribute("aria-label", `${expanded ? "Collapse" : "Expand"} ${item.name}`);
    result.append(button);
  } else if (state.isTree) result.append(make("span", { className: "leaf" }));
  result.append(name);
  if (!state.isTree && item.path) result.append(make("span", { className: "secondary", text: item.path }));
  if (item.same_as) result.append(make("span", { className: "secondary", text: `same as ${item.same_as}` }));
  if (item.isUncounted || item.n_unknown > 0) {
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
  const wasExpanded = isExpanded(item, state.expanded, state.hits);
  if (wasExpanded) state.expanded.delete(item);
  else state.expanded.add(item);
  state.hits?.collapsed[wasExpanded ? "add" : "delete"](item);
  state.active = item;
  refresh();
}

/** Makes the row of an item the one that receives the keyboard focus, and scrolls to it. */
function activate(item, focus = true) {
  state.active = item;
  const index = state.rows.indexOf(item);
  const head = table.tHead.offsetHeight;
  if (index * ROW_HEIGHT < scroller.scrollTop) scroller.scrollTop = index * ROW_HEIGHT;
  const bottom = (index + 1) * ROW_HEIGHT + head - scroller.clientHeight;
  if (bottom > scroller.scrollTop) scroller.scrollTop = bottom;
  drawRows();
  if (focus) body.querySelector('[tabindex="0"]')?.focus({ preventScroll: true });
}

/** Expands the modules around an item, scrolls to its row, and shows its details. */
function reveal(item) {
  if (isFree(item)) setFree(true);
  for (let node = item; node; node = node.parent) {
    if (node !== item) state.expanded.add(node);
    if (node.fold) state.expanded.add(node.fold);
  }
  state.selected = item;
  refresh();
  if (state.rows.includes(item)) activate(item, false);
  scroller.scrollIntoView({ block: "nearest" });
  showDetail(item);
}

body.addEventListener("click", (event) => {
  const { item } = event.target.closest("tr");
  if (!item) return;
  if (event.target.closest(".toggle")) return toggle(item);
  state.active = state.selected = item;
  drawRows();
  showDetail(item);
});

body.addEventListener("keydown", (event) => {
  if (handleKey(event.key, state.active)) event.preventDefault();
});

/** Handles a key pressed in a row; returns whether the key has a function. */
function handleKey(key, item) {
  const index = state.rows.indexOf(item);
  const last = state.rows.length - 1;
  const page = Math.floor(scroller.clientHeight / ROW_HEIGHT) - 2;
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -index, End: last - index }[key];
  const isExpandable = state.isTree && item.children.length > 0;
  const expanded = isExpandable && isExpanded(item, state.expanded, state.hits);
  if (step !== undefined) activate(state.rows[Math.max(0, Math.min(index + step, last))]);
  else if (key === " " && isExpandable) toggle(item);
  else if (key === "ArrowRight" && isExpandable) expanded ? activate(state.rows[index + 1]) : toggle(item);
  else if (key === "ArrowLeft" && expanded) toggle(item);
  else if (key === "ArrowLeft" && state.isTree && item.parent) activate(item.parent);
  else if (key === "Enter") {
    state.selected = item;
    showDetail(item);
  } else return false;
  return true;
}

scroller.addEventListener("scroll", updateView, { passive: true });
