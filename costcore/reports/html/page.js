// The controls of the page, and its first drawing.

const search = find("search");
const metricChoice = find("metric");

/** Shows only the rows that contain the search text, and states the sum of their calls. */
function runSearch() {
  state.hits = searchItems(search.value);
  const note = find("found");
  note.hidden = state.hits === null;
  if (state.hits) {
    const { modules, calls } = state.hits;
    const { key, title, kind } = state.metric;
    const total = sum(counted(calls), key);
    const share = percent(ratio(total, totals[key]));
    const amounts = total === null ? "" : `: ${readable(total, kind)} ${title}, ${share} of the total`;
    note.textContent = `${plural(modules.length, "module")}, ${plural(calls.length, "call")}${amounts}`;
  }
  scroller.scrollTop = 0;
  refresh();
}

/** Lists the calls of an operator. */
function searchFor(op) {
  search.value = op;
  setTree(false);
  runSearch();
  search.focus();
}

function setTree(isTree) {
  state.isTree = isTree;
  find("as-tree").setAttribute("aria-pressed", isTree);
  find("as-list").setAttribute("aria-pressed", !isTree);
  for (const id of ["expand", "collapse"]) find(id).disabled = !isTree;
  scroller.scrollTop = 0;
  refresh();
}

function drawCharts() {
  drawMap(state.metric, reveal);
  drawBars(state.metric, searchFor);
}

metricChoice.append(...METRICS.map(({ key, title }) => make("option", { value: key, text: title })));
metricChoice.addEventListener("change", () => {
  state.metric = METRICS.find(({ key }) => key === metricChoice.value);
  drawCharts();
  runSearch();
});
search.addEventListener("input", runSearch);
find("as-tree").addEventListener("click", () => setTree(true));
find("as-list").addEventListener("click", () => setTree(false));
find("expand").addEventListener("click", () => {
  state.expanded = new Set([...nodes, ...folds.values()]);
  refresh();
});
find("collapse").addEventListener("click", () => {
  state.expanded = new Set();
  if (state.hits) for (const node of nodes) state.hits.collapsed.add(node);
  scroller.scrollTop = 0;
  refresh();
});
find("free").hidden = !calls.some(isFree);
find("with-free").addEventListener("change", (event) => {
  setFree(event.target.checked);
  refresh();
});
find("unit").addEventListener("change", (event) => {
  state.unit = event.target.value;
  refresh();
});
addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  hideTooltip();
  if (!detail.hidden) closeDetail();
});

find("app").hidden = false;
refresh();
drawCharts();
if (report.flow) watchGraph(reveal);
if (memoryMap) watchMemory(reveal);
let width = innerWidth;
new ResizeObserver(() => {
  updateView();
  if (innerWidth === width) return;
  width = innerWidth;
  drawCharts();
  drawScatter(reveal);
}).observe(document.body);
// The scatter plot is below the first screen: it is drawn after that screen has been painted.
requestAnimationFrame(() => setTimeout(() => drawScatter(reveal)));
