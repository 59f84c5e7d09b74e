// What the controls do.

const THEMES = { auto: "◐ System theme", light: "☀ Light", dark: "☾ Dark" };
const theme = find("theme");
const search = find("search");
const metricChoice = find("metric");

function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  theme.dataset.now = name;
  theme.textContent = THEMES[name];
  theme.setAttribute("aria-label", `Theme: ${name}. Change`);
}

theme.addEventListener("click", () => {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const order = isDark ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
  setTheme(order[(order.indexOf(theme.dataset.now) + 1) % order.length]);
});

function runSearch() {
  state.found = foundBy(search.value);
  const note = find("found");
  note.hidden = state.found === null;
  if (state.found) {
    const { key, title, kind } = state.metric;
    const total = sum(counted(state.found.calls), key);
    const share = percent(ratio(total, totals[key]));
    const amounts = total === null ? "" : `: ${readable(total, kind)} ${title}, ${share} of the total`;
    const hits = [plural(state.found.modules.length, "module"), plural(state.found.calls.length, "call")];
    note.textContent = hits.join(", ") + amounts;
  }
  scroller.scrollTop = 0;
  refresh();
}

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
  state.open = new Set(nodes);
  refresh();
});
find("collapse").addEventListener("click", () => {
  state.open = new Set();
  if (state.found) for (const node of nodes) state.found.closed.add(node);
  scroller.scrollTop = 0;
  refresh();
});
find("unit").addEventListener("change", (event) => {
  state.unit = event.target.value;
  refresh();
});
addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  hideTip();
  if (!detail.hidden) closeDetail();
});

theme.hidden = false;
find("app").hidden = false;
setTheme("auto");
refresh();
drawCharts();
let width = innerWidth;
new ResizeObserver(() => {
  followSight();
  if (innerWidth === width) return;
  width = innerWidth;
  drawCharts();
  drawScatter(reveal);
}).observe(document.body);
// The last chart is below the first screen: it may wait until that is painted.
requestAnimationFrame(() => setTimeout(() => drawScatter(reveal)));
