// Modules as areas inside each other, the innermost split by operator. A click goes into a module.

const HEADER = 16;
const ROOMY = { width: 60, height: 44 };
const DEEPEST = 4;
const SPLIT = 1600;
const LETTER = 6.6;

let place = startOf(root);

function drawMap(metric, reveal) {
  const svg = find("map");
  const note = find("map-note");
  svg.replaceChildren();
  const value = place[metric.key];
  const missing = value === 0n ? "Nothing to draw: it is zero." : "Areas need numbers, and this is a formula.";
  const isDrawn = isNumber(value) && value > 0n;
  note.hidden = isDrawn;
  note.textContent = missing;
  svg.style.display = isDrawn ? "" : "none";
  drawCrumbs(metric, reveal);
  if (!isDrawn) return;
  const { clientWidth: width, clientHeight: height } = svg;
  const map = { metric, reveal, enter: (node) => enter(node, metric, reveal) };
  fill(svg, place, partsOf(place, metric.key, DEEPEST), { x: 0, y: 0, width, height }, DEEPEST, map);
}

function enter(node, metric, reveal) {
  if (node.modules.length) {
    place = node;
    hideTip();
    drawMap(metric, reveal);
  } else reveal(node);
}

function drawCrumbs(metric, reveal) {
  const trail = [];
  for (let node = place; node; node = node.parent) trail.unshift(node);
  const crumbs = trail.flatMap((node) => {
    if (node === place) return [make("span", { text: node.name, "aria-current": "location" })];
    const button = make("button", { type: "button", text: node.name });
    button.addEventListener("click", () => enter(node, metric, reveal));
    return [button, make("span", { text: "›", "aria-hidden": "true" })];
  });
  const value = `${readable(place[metric.key], metric.kind)}, ${percent(ratio(place[metric.key], totals[metric.key]))}`;
  find("crumbs").replaceChildren(...crumbs, make("span", { className: "note", text: value }));
}

/** What a box is made of: the modules inside, or operators where there are none; largest first. */
function partsOf(node, key, depth) {
  const modules = depth > 0 ? node.modules.map((module) => ({ module, value: module[key] })) : [];
  const parts = modules.length ? [...modules, ...byOperator(counted(node.calls), key)] : byOperator(callsIn(node), key);
  return parts
    .filter(({ value }) => isNumber(value) && value > 0n)
    .map((part) => ({ ...part, weight: Number(part.value) }))
    .sort((a, b) => b.weight - a.weight);
}

/** A box too small to be split has the colour of its largest operator. */
function largestOf(node, key) {
  return partsOf(node, key, 0)
    .slice(0, 1)
    .map((part) => ({ ...part, value: node[key], isAll: true }));
}

/** Draws what is inside a node; `depth` is how many levels of modules may follow. */
function fill(parent, node, parts, area, depth, map) {
  for (const { part, ...place } of squarified(parts, area)) {
    if (place.width < 1 || place.height < 1) continue;
    if (part.module) box(parent, part.module, place, depth, map);
    else tile(parent, node, part, place, map.metric);
  }
}

function box(parent, module, area, depth, map) {
  const { metric } = map;
  const amounts = amountAndShare(module[metric.key], metric);
  const group = draw("g", { tabindex: "0", role: "button", "aria-label": `${module.path}, ${amounts}` });
  const [width, height] = [Math.max(0, area.width - 2), Math.max(0, area.height - 2)];
  const inset = { x: area.x + 1, y: area.y + 1, width, height };
  group.append(draw("rect", { class: "box", ...inset }));
  parent.append(group);
  const open = (event) => {
    event.stopPropagation();
    map.enter(module);
  };
  group.addEventListener("click", open);
  group.addEventListener("keydown", (event) => event.key === "Enter" && open(event));
  follow(group, `${module.path}\n${module.type}\n${amounts}`);

  let [inner, name] = [module, module.name];
  while (inner.modules.length === 1 && !inner.calls.length) {
    [inner] = inner.modules;
    name += `.${inner.name}`;
  }
  const isRoomy = inset.width > ROOMY.width && inset.height > ROOMY.height;
  const isSmall = inset.width * inset.height < SPLIT;
  const parts = isSmall ? largestOf(inner, metric.key) : partsOf(inner, metric.key, isRoomy ? depth - 1 : 0);
  const isLeaf = !parts.some((part) => part.module);
  const hasTitle = inset.width > 24 && inset.height > HEADER;
  const top = hasTitle && !isLeaf ? HEADER : 0;
  fill(group, inner, parts, { ...inset, y: inset.y + top, height: inset.height - top }, depth - 1, map);
  if (hasTitle) titled(group, [name, module.name], inset, isLeaf && parts.length ? inkOn(parts[0].op) : "var(--ink)");
}

function tile(parent, node, part, area, metric) {
  const rect = draw("rect", { class: "tile", ...area, style: `fill: ${colourOf.get(part.op)}` });
  const what = part.isAll ? `mostly ${part.op}` : `${part.op}, ${plural(part.calls, "call")}`;
  follow(rect, `${node.path}\n${what}\n${amountAndShare(part.value, metric)}`);
  parent.append(rect);
}

const inkOn = (op) => (colourOf.get(op) === "var(--c0)" ? "var(--on-c0)" : "#10151b");

/** Writes the first of the names that fits, the last of them cut where none does, and nothing where little is left. */
function titled(group, names, area, ink) {
  const room = Math.floor((area.width - 6) / LETTER);
  const last = names.at(-1);
  const text = names.find((name) => name.length <= room) ?? (room > 4 ? `${last.slice(0, room - 1)}…` : "");
  if (text) group.append(draw("text", { class: "title", x: area.x + 4, y: area.y + 12, style: `fill: ${ink}` }, text));
}

function follow(element, text) {
  element.addEventListener("pointermove", (event) => {
    event.stopPropagation();
    showTip(text, event.clientX, event.clientY);
  });
  element.addEventListener("pointerleave", hideTip);
  element.addEventListener("focus", () => {
    const { left, bottom } = element.getBoundingClientRect();
    if (element.matches(":focus-visible")) showTip(text, left, bottom - 12);
  });
  element.addEventListener("blur", hideTip);
}

/** Areas in proportion to the weights, as square as they get (Bruls, Huizing, van Wijk: Squarified Treemaps, 2000). */
function squarified(parts, area) {
  const whole = parts.reduce((total, part) => total + part.weight, 0);
  const scale = (area.width * area.height) / (whole || 1);
  const placed = [];
  let { x, y, width, height } = area;
  let start = 0;
  while (start < parts.length) {
    const short = Math.min(width, height);
    let size = 0;
    let worst = Infinity;
    let end = start;
    while (end < parts.length) {
      const more = size + parts[end].weight * scale;
      const side = more / short;
      const ratios = [parts[start], parts[end]].map((part) => (part.weight * scale) / side / side);
      const next = Math.max(...ratios.map((r) => Math.max(r, 1 / r)));
      if (!(next <= worst)) break;
      [size, worst, end] = [more, next, end + 1];
    }
    if (end === start) break;
    const side = size / short;
    let offset = 0;
    for (const part of parts.slice(start, end)) {
      const length = (part.weight * scale) / side;
      placed.push(
        width >= height
          ? { part, x, y: y + offset, width: side, height: length }
          : { part, x: x + offset, y, width: length, height: side },
      );
      offset += length;
    }
    if (width >= height) [x, width] = [x + side, width - side];
    else [y, height] = [y + side, height - side];
    start = end;
  }
  return placed;
}
