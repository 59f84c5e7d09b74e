// The graph of the network: modules as boxes that open, tensors as edges with their shapes. A container is laid out by
// itself, and contains the boxes of its children, so that a large network costs no more than what is open.

const BOX = { height: 38, letter: 7, padding: 22, least: 96, most: 300 };
const GROUP = 60; // a container with more children has them in groups
const FIRST_BOXES = 40; // modules are open at first as long as there are so few boxes
const MOST_EDGES = 5; // from one box
const HEAT = 75; // percent of the color of a box with the whole cost
const graph = { parts: null, open: new Set(), zoom: 1, metric: METRICS[0], reveal: null };

/**
 * Returns the root of the graph: a tree of boxes, with the edges between the children of each. A module has a box for
 * each time that it runs. A module with one call is a box without content, and a box with one box in it is one box.
 */
function graphParts() {
  const { sources, inputs, returned } = report.flow;
  const part = (kind, item, parent, name = item.name) => {
    const made = { kind, item, parent, name, children: [], edges: new Map(), amounts: new Map() };
    if (parent) parent.children.push(made);
    return made;
  };
  const top = part("module", root, null);
  const inputParts = inputs.map((shape) => part("input", { name: "input", shape }, top));
  const modulesOf = (node) => {
    if (node.parent && node.path === node.parent.path) return modulesOf(node.parent); // a module's own calls
    return node.parent ? [...modulesOf(node.parent), node] : [];
  };
  const made = new Map(); // the calls with a box
  const through = new Map(); // of a call without one: the values that it passes on
  const links = [];
  const resolved = (source) => {
    if (typeof source === "number" && source < 0) return [{ from: inputParts[-1 - source], shape: inputs[-1 - source] }];
    const [index, output] = typeof source === "number" ? [source, 0] : source;
    if (through.has(index)) return through.get(index);
    return made.has(index) ? [{ from: made.get(index), shape: calls[index].outputs.split(", ")[output] ?? "" }] : [];
  };
  let open = []; // the boxes around the last call
  sources.forEach((values, index) => {
    const call = calls[index];
    const found = values.flatMap(resolved);
    const costsNothing = call.flops === 0n && call.mread === 0n && call.mwrite === 0n;
    if (costsNothing || call.phase !== "forward") return through.set(index, found);
    const modules = modulesOf(call.parent);
    let depth = 0;
    while (open[depth] && open[depth].item === modules[depth]) depth += 1;
    open = open.slice(0, depth);
    for (const node of modules.slice(depth)) open.push(part("module", node, open.at(-1) ?? top));
    const box = part("call", call, open.at(-1) ?? top, call.op || call.type);
    made.set(index, box);
    for (const each of found) links.push({ ...each, to: box });
    return undefined;
  });
  const end = part("output", { name: "output" }, top);
  for (const each of returned.flatMap(resolved)) links.push({ ...each, to: end });
  const used = new Set(links.flatMap(({ from, to }) => [from, to]));
  top.children = top.children.filter((box) => !["input", "output"].includes(box.kind) || used.has(box));
  simplify(top);
  split(top);
  for (const link of links) connect(link);
  return top;
}

/** Makes boxes with one child one with it: a module with one call, or a list of modules of which one runs. */
function simplify(box) {
  for (const child of box.children) simplify(child);
  box.children = box.children.map((child) => {
    if (child.kind !== "module" || child.children.length !== 1) return child;
    const [only] = child.children;
    only.name = only.kind === "call" ? child.name : `${child.name}.${only.name}`;
    only.type ??= child.item.type;
    only.parent = box;
    return only;
  });
}

/** Puts the children of a container with many of them into groups, in order of execution. */
function split(container) {
  for (const child of container.children) split(child);
  while (container.children.length > GROUP) {
    const size = Math.min(GROUP, Math.ceil(Math.sqrt(container.children.length)));
    const groups = [];
    for (let start = 0; start < container.children.length; start += size) {
      const children = container.children.slice(start, start + size);
      const named = ({ kind, item, name }) => (kind === "call" ? item.name : name);
      const name = `${named(children[0]).split(" … ")[0]} … ${named(children.at(-1)).split(" … ").at(-1)}`;
      const group = { kind: "group", item: { name }, parent: container, name, children, edges: new Map(), amounts: new Map() };
      for (const child of children) child.parent = group;
      groups.push(group);
    }
    container.children = groups;
  }
}

/** Returns the sum of a metric over the calls in a box; null if it is unknown. */
function amountOf(box, key) {
  if (!box.amounts.has(key)) {
    const parts = box.children.length ? box.children.map((child) => amountOf(child, key)) : [box.item[key] ?? 0n];
    box.amounts.set(key, parts.every(isNumber) ? parts.reduce((total, part) => total + part, 0n) : null);
  }
  return box.amounts.get(key);
}

/** Adds an edge between two boxes: one in the container of both, and one to its border in each container between. */
function connect({ from, to, shape }) {
  const path = (box) => (box ? [...path(box.parent), box] : []);
  const [a, b] = [path(from), path(to)];
  let depth = 0;
  while (a[depth + 1] && a[depth + 1] === b[depth + 1]) depth += 1;
  const add = (container, source, target) => {
    const key = `${container.children.indexOf(source)} ${container.children.indexOf(target)}`;
    if (!container.edges.has(key)) container.edges.set(key, { source, target, shapes: new Set() });
    container.edges.get(key).shapes.add(shape);
  };
  add(a[depth], a[depth + 1], b[depth + 1]);
  for (let i = depth + 1; i < a.length - 1; i += 1) add(a[i], a[i + 1], null);
  for (let i = depth + 1; i < b.length - 1; i += 1) add(b[i], null, b[i + 1]);
}

const canOpen = (box) => box.children.length > 0;
const shareIn = (box) => ratio(amountOf(box, graph.metric.key), amountOf(graph.parts, graph.metric.key));

/** Returns the lines of a closed box: its name, and its class and share. */
function linesOf(box) {
  if (box.kind === "input" || box.kind === "output") return [box.name, box.item.shape ?? ""];
  const share = shareIn(box);
  const kind = { module: box.item.type, call: box.type ?? box.item.name, group: "in order" }[box.kind];
  return [box.name, [kind, share === null ? "" : percent(share)].filter(Boolean).join(" · ")];
}

/** Returns the layout of a box: its size, and for an open one the places of its children and the lines of its edges. */
function layoutOf(box) {
  if (!graph.open.has(box)) {
    const longest = Math.max(...linesOf(box).map((line) => line.length));
    const width = Math.min(BOX.most, Math.max(BOX.least, longest * BOX.letter + BOX.padding));
    return { box, width, height: BOX.height };
  }
  const inner = new dagre.Graph();
  inner.setGraph({ rankdir: "TB", nodesep: 22, ranksep: 30, edgesep: 12, marginx: 12, marginy: 12 });
  inner.setDefaultEdgeLabel(() => ({}));
  const places = box.children.map((child, i) => {
    const place = layoutOf(child);
    inner.setNode(i, place);
    return place;
  });
  const edges = [...box.edges.values()];
  for (const end of ["in", "out"]) {
    const isUsed = edges.some(({ source, target }) => (end === "in" ? !source : !target));
    if (isUsed) inner.setNode(end, { width: 8, height: 8, end });
  }
  const many = new Set(); // targets of a tensor that many boxes read, as positions are: only the first has an edge
  for (const [source, all] of Map.groupBy(edges, (edge) => edge.source)) {
    if (all.length > MOST_EDGES) for (const edge of all.slice(1)) many.add(edge);
    if (all.length > MOST_EDGES && source) many.delete(all.find(({ target }) => !target));
  }
  for (const { target } of many) places[box.children.indexOf(target)].hasStub = true;
  for (const { source, target, shapes } of edges.filter((edge) => !many.has(edge))) {
    const shown = shapes.size > 1 ? `${shapes.size} tensors` : [...shapes][0];
    const label = source && target ? shown : ""; // at the border, the edge outside has it
    const [from, to] = [source ? box.children.indexOf(source) : "in", target ? box.children.indexOf(target) : "out"];
    inner.setEdge(from, to, { label, width: label.length * 5.6, height: label ? 14 : 0, labelpos: "r" });
  }
  dagre.layout(inner);
  const { width, height } = inner.graph();
  const title = linesOf(box).filter(Boolean).join(" · ");
  const wide = Math.max(width, (title.length + 2) * BOX.letter + BOX.padding);
  const lines = inner.edges().map((edge) => inner.edge(edge));
  const ends = ["in", "out"].filter((end) => inner.hasNode(end)).map((end) => inner.node(end));
  return { box, width: wide, height: height + 22, title, places, lines, ends, shift: (wide - width) / 2 };
}

/** Draws a box with its middle at a place. */
function drawBox(parent, layout, x, y) {
  const { box, width, height } = layout;
  const heat = Math.sqrt(shareIn(box) ?? 0) * HEAT;
  const [left, top] = [x - width / 2, y - height / 2];
  const group = makeSvg("g", { tabindex: "0", role: "button", class: box.kind, "aria-label": linesOf(box).join(", ") });
  const isOpen = Boolean(layout.places);
  const fill = isOpen ? "var(--page)" : `color-mix(in srgb, var(--c3) ${heat.toFixed(1)}%, var(--card))`;
  const rect = makeSvg("rect", { x: left, y: top, width, height, rx: 5, style: `fill: ${fill}` });
  group.append(rect);
  parent.append(group);
  if (canOpen(box)) group.setAttribute("aria-expanded", isOpen);
  const act = (event) => {
    event.stopPropagation();
    if (canOpen(box)) openBox(box);
    else if (box.kind === "call") graph.reveal(box.item);
  };
  group.addEventListener("click", act);
  group.addEventListener("keydown", (event) => event.key === "Enter" && act(event));
  addTooltip(group, tooltipOf(box));
  const write = (text, at, name) => {
    const most = Math.floor((width - 14) / BOX.letter);
    const shown = text.length > most ? `${text.slice(0, most - 1)}…` : text;
    group.append(makeSvg("text", { x, y: at, "text-anchor": "middle", class: name }, shown));
  };
  if (!isOpen) {
    const [name, facts] = linesOf(box);
    write(`${canOpen(box) ? "▸ " : ""}${name}`, facts ? y - 3 : y + 4, "name");
    if (facts) write(facts, y + 12, "facts");
    return;
  }
  write(`▾ ${layout.title}`, top + 15, "name");
  const [dx, dy] = [left + layout.shift, top + 22];
  const curve = ({ points }) => points.map((point, i) => `${i ? "L" : "M"}${point.x + dx} ${point.y + dy}`).join("");
  for (const line of layout.lines) group.append(makeSvg("path", { class: "edge", d: curve(line) }));
  for (const line of layout.lines) {
    if (line.label) {
      const at = { x: line.x + dx, y: line.y + dy + 4, "text-anchor": "middle", class: "shape" };
      group.append(makeSvg("text", at, line.label));
    }
  }
  for (const end of layout.ends) group.append(makeSvg("circle", { cx: end.x + dx, cy: end.y + dy, r: 3, class: "end" }));
  for (const { x: at, y: middle, height: high } of layout.places.filter(({ hasStub }) => hasStub)) {
    group.append(makeSvg("path", { class: "edge stub", d: `M${at + dx} ${middle + dy - high / 2 - 12}v12` }));
  }
  for (const place of layout.places) drawBox(group, place, place.x + dx, place.y + dy);
}

function tooltipOf(box) {
  const { item } = box;
  if (box.kind === "input" || box.kind === "output") return [box.name, item.shape].filter(Boolean).join("\n");
  const names = box.kind === "group" ? [box.name] : [item.path, item.isCall ? `${item.name}, ${item.op}` : item.type];
  const amounts = METRICS.map(({ key, title, kind }) => `${readable(amountOf(box, key), kind)} ${title}`);
  const shapes = item.isCall ? [`${item.inputs} → ${item.outputs}`, item.where] : [item.shape];
  return [...names, ...shapes, ...amounts].filter(Boolean).join("\n");
}

function openBox(box) {
  if (graph.open.has(box)) graph.open.delete(box);
  else graph.open.add(box);
  hideTooltip();
  drawGraph();
}

/** Opens modules level by level as long as there are few boxes. */
function openFirst(top) {
  graph.open = new Set([top]);
  let shown = top.children;
  for (;;) {
    const next = shown.filter((box) => box.children.some(canOpen) && !graph.open.has(box));
    const count = shown.length + next.reduce((total, box) => total + box.children.length, 0);
    if (!next.length || count > FIRST_BOXES) return;
    for (const box of next) graph.open.add(box);
    shown = [...shown.filter((box) => !next.includes(box)), ...next.flatMap((box) => box.children)];
  }
}

function drawGraph() {
  const svg = find("graph");
  const layout = layoutOf(graph.parts);
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${layout.width + 4} ${layout.height + 4}`);
  svg.style.width = `${(layout.width + 4) * graph.zoom}px`;
  svg.style.height = `${(layout.height + 4) * graph.zoom}px`;
  drawBox(svg, layout, layout.width / 2 + 2, layout.height / 2 + 2);
}

function zoomGraph(factor) {
  graph.zoom = Math.min(2, Math.max(0.2, factor ? graph.zoom * factor : 1));
  drawGraph();
}

/** Draws the graph when it scrolls into view. A click on a call calls `reveal` with it. */
function watchGraph(reveal) {
  graph.reveal = reveal;
  const section = find("graph-section");
  const choice = find("heat");
  choice.append(...METRICS.map(({ key, title }) => make("option", { value: key, text: title })));
  choice.addEventListener("change", () => {
    graph.metric = METRICS.find(({ key }) => key === choice.value);
    drawGraph();
  });
  for (const [id, factor] of [["zoom-in", 1.25], ["zoom-out", 0.8], ["zoom-reset", 0]]) {
    find(id).addEventListener("click", () => zoomGraph(factor));
  }
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    graph.parts = graphParts();
    openFirst(graph.parts);
    const frame = find("graph-frame");
    graph.zoom = Math.max(0.6, Math.min(1, frame.clientWidth / (layoutOf(graph.parts).width + 4)));
    drawGraph();
    frame.scrollLeft = (frame.scrollWidth - frame.clientWidth) / 2;
  });
  section.hidden = false;
  observer.observe(section);
}
