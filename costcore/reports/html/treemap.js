// The treemap: modules as areas inside each other. The innermost areas are operators. A click zooms into a module.

const TITLE_HEIGHT = 16;
const CHARACTER_WIDTH = 6.6;
const MIN_NESTED = { width: 60, height: 44 }; // smaller modules show operators instead of modules
const MIN_SPLIT_AREA = 1600; // smaller modules show only their largest operator
const MAX_DEPTH = 4;

let zoomedModule = firstBranching(root);

/** Draws the map. A click on a module without children calls `reveal` with it. */
function drawMap(metric, reveal) {
  const svg = find("map");
  const note = find("map-note");
  svg.replaceChildren();
  const value = zoomedModule[metric.key];
  const isDrawn = rankOf(value) > 0n;
  note.hidden = isDrawn && isNumber(value);
  note.textContent = isDrawn
    ? `This cost is a formula: areas are drawn ${AS_IF}.`
    : `Nothing to draw: the cost is zero${isNumber(value) ? "" : ` ${AS_IF}`}.`;
  svg.style.display = isDrawn ? "" : "none";
  drawPath(metric, reveal);
  if (!isDrawn) return;
  const { clientWidth: width, clientHeight: height } = svg;
  const map = { metric, zoom: (node) => zoom(node, metric, reveal) };
  const segments = segmentsOf(zoomedModule, metric.key, MAX_DEPTH);
  drawSegments(svg, zoomedModule, segments, { x: 0, y: 0, width, height }, MAX_DEPTH, map);
}

function zoom(node, metric, reveal) {
  if (node.modules.length) {
    zoomedModule = node;
    hideTooltip();
    drawMap(metric, reveal);
  } else reveal(node);
}

/** Draws the path from the model to the zoomed module; a click on a module zooms out to it. */
function drawPath(metric, reveal) {
  const path = [];
  for (let node = zoomedModule; node; node = node.parent) path.unshift(node);
  const crumbs = path.flatMap((node) => {
    if (node === zoomedModule) return [make("span", { text: node.name, "aria-current": "location" })];
    const button = make("button", { type: "button", text: node.name });
    button.addEventListener("click", () => zoom(node, metric, reveal));
    return [button, make("span", { text: "›", "aria-hidden": "true" })];
  });
  const row = make("button", { type: "button", text: "show row" });
  row.addEventListener("click", () => reveal(zoomedModule));
  const value = zoomedModule[metric.key];
  const amounts = `${readable(value, metric.kind)}, ${percent(ratio(value, totals[metric.key]))}`;
  find("crumbs").replaceChildren(...crumbs, make("span", { className: "note", text: amounts }), row);
}

/** Returns what an area is divided into, largest first: child modules, or operators if there are no children. */
function segmentsOf(node, key, depth) {
  const modules = depth > 0 ? node.modules.map((module) => ({ module, value: module[key], rank: rankOf(module[key]) })) : [];
  const segments = modules.length
    ? [...modules, ...byOperator(counted(node.calls), key)]
    : byOperator(callsIn(node), key);
  return segments
    .filter(({ rank }) => rank > 0n)
    .map((segment) => ({ ...segment, weight: Number(segment.rank) }))
    .sort((a, b) => b.weight - a.weight);
}

/** Returns one segment for an area that is too small to be divided: it has the color of the largest operator. */
function largestOperator(node, key) {
  return segmentsOf(node, key, 0)
    .slice(0, 1)
    .map((segment) => ({ ...segment, value: node[key], isWhole: true }));
}

/** Draws the segments of a node; `depth` is the number of levels of modules that may follow. */
function drawSegments(parent, node, segments, area, depth, map) {
  for (const { segment, ...rectangle } of squarified(segments, area)) {
    if (rectangle.width < 1 || rectangle.height < 1) continue;
    if (segment.module) drawModule(parent, segment.module, rectangle, depth, map);
    else drawOperator(parent, node, segment, rectangle, map.metric);
  }
}

function drawModule(parent, module, area, depth, map) {
  const { metric } = map;
  const amounts = amountAndShare(module[metric.key], metric);
  const group = makeSvg("g", { tabindex: "0", role: "button", "aria-label": `${module.path}, ${amounts}` });
  const [width, height] = [Math.max(0, area.width - 2), Math.max(0, area.height - 2)];
  const inset = { x: area.x + 1, y: area.y + 1, width, height };
  group.append(makeSvg("rect", { class: "box", ...inset }));
  parent.append(group);
  const zoomIn = (event) => {
    event.stopPropagation();
    map.zoom(module);
  };
  group.addEventListener("click", zoomIn);
  group.addEventListener("keydown", (event) => event.key === "Enter" && zoomIn(event));
  addTooltip(group, `${module.path}\n${module.type}\n${amounts}`);

  let [inner, name] = [module, module.name];
  while (inner.modules.length === 1 && !inner.calls.length) {
    [inner] = inner.modules;
    name += `.${inner.name}`;
  }
  const isNested = inset.width > MIN_NESTED.width && inset.height > MIN_NESTED.height;
  const isSmall = inset.width * inset.height < MIN_SPLIT_AREA;
  const segments = isSmall
    ? largestOperator(inner, metric.key)
    : segmentsOf(inner, metric.key, isNested ? depth - 1 : 0);
  const isLeaf = !segments.some((segment) => segment.module);
  const hasTitle = inset.width > 24 && inset.height > TITLE_HEIGHT;
  const top = hasTitle && !isLeaf ? TITLE_HEIGHT : 0;
  const content = { ...inset, y: inset.y + top, height: inset.height - top };
  drawSegments(group, inner, segments, content, depth - 1, map);
  const ink = isLeaf && segments.length ? inkOn(segments[0].op) : "var(--ink)";
  const share = percent(ratio(module[metric.key], totals[metric.key]));
  const known = [module.type, share === "–" ? "" : share].filter(Boolean);
  const joined = (...parts) => parts.filter(Boolean).join(" · ");
  const last = known.at(-1);
  if (hasTitle && isLeaf && inset.height > 2 * TITLE_HEIGHT + 4) {
    drawTitle(group, [name, module.name], inset, ink);
    drawTitle(group, [joined(...known), last], { ...inset, y: inset.y + TITLE_HEIGHT - 2 }, ink, false);
  } else if (hasTitle) {
    drawTitle(group, [joined(name, ...known), joined(name, last), joined(module.name, last), module.name], inset, ink);
  }
}

function drawOperator(parent, node, segment, area, metric) {
  const rect = makeSvg("rect", { class: "tile", ...area, style: `fill: ${colorOf.get(segment.op)}` });
  const content = segment.isWhole ? `mostly ${segment.op}` : `${segment.op}, ${plural(segment.calls, "call")}`;
  const amounts = segment.value === null ? [] : [amountAndShare(segment.value, metric)];
  addTooltip(rect, [node.path, content, ...amounts].join("\n"));
  parent.append(rect);
}

const inkOn = (op) => (colorOf.get(op) === "var(--c0)" ? "var(--on-c0)" : "#10151b");

/** Writes the first name that fits, or the last name truncated; nothing if there is too little space. */
function drawTitle(group, names, area, ink, mayTruncate = true) {
  const maxLength = Math.floor((area.width - 6) / CHARACTER_WIDTH);
  const truncated = mayTruncate && maxLength > 4 ? `${names.at(-1).slice(0, maxLength - 1)}…` : "";
  const text = names.find((name) => name.length <= maxLength) ?? truncated;
  const position = { x: area.x + 4, y: area.y + 12 };
  if (text) group.append(makeSvg("text", { class: "title", ...position, style: `fill: ${ink}` }, text));
}

/** Shows a tooltip while the pointer is over an element, or while the element has the keyboard focus. */
function addTooltip(element, text) {
  element.addEventListener("pointermove", (event) => {
    event.stopPropagation();
    showTooltip(text, event.clientX, event.clientY);
  });
  element.addEventListener("pointerleave", hideTooltip);
  element.addEventListener("focus", () => {
    const { left, bottom } = element.getBoundingClientRect();
    if (element.matches(":focus-visible")) showTooltip(text, left, bottom - 12);
  });
  element.addEventListener("blur", hideTooltip);
}

/** Divides an area in proportion to the weights of the segments, into rectangles as square as possible. */
function squarified(segments, { x, y, width, height }) {
  const area = d3.hierarchy({ children: segments }).sum(({ weight = 0 }) => weight);
  const rectangles = d3.treemap().size([width, height])(area).children ?? [];
  return rectangles.map(({ data: segment, x0, x1, y0, y1 }) => ({
    segment,
    x: x + x0,
    y: y + y0,
    width: x1 - x0,
    height: y1 - y0,
  }));
}
