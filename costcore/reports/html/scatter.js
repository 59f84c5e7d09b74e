// The scatter plot: FLOPs against bytes of every call. All dots of one color are one SVG path, which draws fast.

const MARGIN = { left: 64, right: 36, top: 14, bottom: 44 };
const NARROW = 400; // the width of a plot in which only every other line of an intensity has a label
const ZERO_HEIGHT = 34; // of the row of calls without FLOPs, which a logarithmic axis does not have
const LABEL_WIDTH = 64; // of the axis of bytes
const MANY_DOTS = 1500; // more dots are drawn smaller
const NEAR = 14; // the distance in pixels at which the pointer finds a dot
const dots = [];
let selected = -1;
let places = d3.quadtree();

/** Draws the plot. A click on a dot calls `reveal` with its call. */
function drawScatter(reveal) {
  const svg = find("scatter");
  svg.replaceChildren();
  dots.length = 0;
  selected = -1;
  const ranked = calls.map((call) => ({ call, flops: rankOf(call.flops), mrw: rankOf(call.mrw) }));
  const points = ranked.filter(({ flops, mrw }) => flops !== null && mrw > 0n);
  describeDots(points.map(({ call }) => call));
  svg.style.display = points.length ? "" : "none";
  if (!points.length) return;
  const frame = frameOf(svg, points);
  drawAxes(svg, frame);
  for (let power = -2; power <= 5; power += 1) drawIntensityLine(svg, frame, power);
  drawDots(svg, frame, points);
  svg.append(makeSvg("circle", { class: "ring", r: 6, visibility: "hidden" }));
  dots.sort((a, b) => a.x - b.x || b.y - a.y);
  dots.forEach((dot, i) => {
    dot.i = i;
  });
  places = d3.quadtree(
    dots,
    ({ x }) => x,
    ({ y }) => y,
  );
  drawLegend(points);
  svg.onpointermove = (event) => {
    const { left, top } = svg.getBoundingClientRect();
    const nearest = places.find(event.clientX - left, event.clientY - top, NEAR);
    if (nearest) selectDot(svg, nearest.i);
    else deselectDot(svg);
  };
  svg.onpointerleave = svg.onblur = () => deselectDot(svg);
  svg.onclick = () => selected >= 0 && reveal(dots[selected].call);
  svg.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (step) {
      event.preventDefault();
      selectDot(svg, (selected + step + dots.length) % dots.length);
    } else if (event.key === "Enter" && selected >= 0) reveal(dots[selected].call);
  };
}

/** Draws one path per color, in which every dot is a line of no length with round ends. */
function drawDots(svg, { x, y, zero }, points) {
  const size = points.length > MANY_DOTS ? "dots fine" : "dots";
  const pathsByColor = new Map();
  for (const { call, flops, mrw } of points) {
    const dot = { call, x: x(Number(mrw)), y: flops > 0n ? y(Number(flops)) : zero };
    const color = colorOf.get(call.op);
    if (!pathsByColor.has(color)) pathsByColor.set(color, new Set());
    pathsByColor.get(color).add(`M${dot.x.toFixed(1)} ${dot.y.toFixed(1)}h0`);
    dots.push(dot);
  }
  for (const [color, paths] of pathsByColor) {
    svg.append(makeSvg("path", { class: size, d: [...paths].join(""), style: `stroke: ${color}` }));
  }
}

/** States how many calls have a dot, and why other calls have none. */
function describeDots(shown) {
  const nOmitted = counted(calls).length - shown.length;
  const omitted = nOmitted ? `; not shown: ${grouped(nOmitted)} without memory traffic` : "";
  const isFormula = shown.some((call) => !isNumber(call.flops) || !isNumber(call.mrw));
  find("scatter-note").textContent = plural(shown.length, "call") + omitted + (isFormula ? `; drawn ${AS_IF}` : "");
}

/** Returns the scales of both axes, in powers of 2 and 10, and the height of the calls without FLOPs. */
function frameOf(svg, points) {
  const { clientWidth: width, clientHeight: height } = svg;
  const hasZero = points.some(({ flops }) => flops === 0n);
  const axis = height - MARGIN.bottom;
  const x = scaleOf(points, "mrw", 2, [MARGIN.left, width - MARGIN.right]);
  const y = scaleOf(points, "flops", 10, [hasZero ? axis - ZERO_HEIGHT : axis, MARGIN.top]);
  return { x, y, axis, hasZero, zero: axis - 12 };
}

/** Returns a scale from a power of a base to another, with at least a tenth of a power around all amounts. */
function scaleOf(points, key, base, range) {
  let [low, high] = [Infinity, 0];
  for (const value of points.map((point) => Number(point[key])).filter(Boolean)) {
    [low, high] = [Math.min(low, value), Math.max(high, value)];
  }
  const domain = high ? [low / base ** 0.1, high * base ** 0.1] : [1, base];
  return d3.scaleLog(domain, range).base(base).nice();
}

/** Returns the powers of the base of a scale that have a label: at most `most`, at a round distance. */
function ticksOf(scale, most) {
  const log = scale.base() === 2 ? Math.log2 : Math.log10;
  const [first, last] = scale.domain().map((value) => Math.round(log(value)));
  const step = [1, 2, 5, 10, 20].find((each) => (last - first) / each <= most) ?? last;
  const powers = Array.from({ length: last + 1 }, (_, power) => power);
  return powers.filter((power) => power >= first && power % step === 0);
}

function drawAxes(svg, { x, y, axis, hasZero, zero }) {
  const [left, right] = x.range();
  const label = (text, at) => svg.append(makeSvg("text", at, text));
  for (const power of ticksOf(x, Math.min(12, Math.floor((right - left) / LABEL_WIDTH)))) {
    const at = x(2 ** power);
    svg.append(makeSvg("path", { class: "grid", d: `M${at} ${MARGIN.top}V${axis}` }));
    label(readable(2n ** BigInt(power), "bytes"), { x: at, y: axis + 16, "text-anchor": "middle" });
  }
  for (const power of ticksOf(y, 10)) {
    const at = y(10 ** power);
    svg.append(makeSvg("path", { class: "grid", d: `M${left} ${at}H${right}` }));
    label(readable(10n ** BigInt(power), "flops"), { x: left - 8, y: at + 4, "text-anchor": "end" });
  }
  if (hasZero) label("0", { x: left - 8, y: zero + 4, "text-anchor": "end" });
  label("bytes read and written", { x: (left + right) / 2, y: axis + 36, "text-anchor": "middle" });
  const middle = (MARGIN.top + y.range()[0]) / 2;
  label(UNIT, { x: 12, y: middle, transform: `rotate(-90 12 ${middle})`, "text-anchor": "middle" });
}

/** Draws the line of all points with an arithmetic intensity of 10 to the `power` FLOPs per byte. */
function drawIntensityLine(svg, { x, y }, power) {
  const [[x0, x1], [y0, y1]] = [x.domain(), y.domain()];
  const intensity = 10 ** power;
  const [from, to] = [Math.max(x0, y0 / intensity), Math.min(x1, y1 / intensity)];
  if (to < 3 * from) return;
  const [ax, ay, bx, by] = [x(from), y(from * intensity), x(to), y(to * intensity)];
  svg.append(makeSvg("path", { class: "intensity", d: `M${ax} ${ay}L${bx} ${by}` }));
  const isNarrow = x.range()[1] - x.range()[0] < NARROW;
  if (isNarrow && power % 2) return; // the labels of steep lines would cover each other and the dots
  const angle = (Math.atan2(by - ay, bx - ax) * 180) / Math.PI;
  const transform = `rotate(${angle} ${bx} ${by})`;
  const at = { class: "label", x: bx - 6, y: by - 4, "text-anchor": "end", transform };
  svg.append(makeSvg("text", at, `${power < 0 ? `1/${10 ** -power}` : grouped(intensity)} ${report.unit.shortPerByte}`));
}

function drawLegend(points) {
  const present = new Set(points.map(({ call }) => call.op));
  const entries = [...colorOf].filter(([op, color]) => color !== GRAY && present.has(op));
  if ([...present].some((op) => colorOf.get(op) === GRAY)) entries.push(["others", GRAY]);
  find("legend").replaceChildren(
    ...entries.map(([op, color]) => {
      const dot = make("span", { className: "dot" });
      dot.style.background = color;
      return make("span", { children: [dot, make("span", { text: op })] });
    }),
  );
}

function selectDot(svg, i) {
  selected = i;
  const { call, x, y } = dots[i];
  const ring = svg.querySelector(".ring");
  for (const [name, value] of [
    ["cx", x],
    ["cy", y],
    ["visibility", "visible"],
  ])
    ring.setAttribute(name, value);
  const n = dots.filter((dot) => dot.x === x && dot.y === y).length;
  const others = n > 1 ? `\nand ${grouped(n - 1)} more at this point` : "";
  const { left, top } = svg.getBoundingClientRect();
  const amounts = `${readable(call.flops, "flops")} ${UNIT}, ${readable(call.mrw, "bytes")}`;
  const intensity = `${significant(call.intensity)} ${report.unit.shortPerByte}`;
  const lines = [`${call.name}, ${call.op}`, call.path, amounts, intensity + others];
  showTooltip(lines.join("\n"), left + x, top + y);
}

function deselectDot(svg) {
  selected = -1;
  svg.querySelector(".ring").setAttribute("visibility", "hidden");
  hideTooltip();
}
