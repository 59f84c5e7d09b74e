// The scatter plot: FLOPs against bytes of every call. All dots of one color are one SVG path, which draws fast.

const MARGIN = { left: 64, right: 36, top: 14, bottom: 44 };
const LOG_2 = Math.log10(2);
const MANY_DOTS = 1500; // more dots are drawn smaller
const dots = [];
let selected = -1;

/** Draws the plot. A click on a dot calls `reveal` with its call. */
function drawScatter(reveal) {
  const svg = find("scatter");
  svg.replaceChildren();
  dots.length = 0;
  selected = -1;
  const numeric = calls.filter((call) => isNumber(call.flops) && isNumber(call.mrw));
  const points = numeric.filter((call) => call.mrw > 0n);
  describeDots(points.length, numeric.length);
  svg.style.display = points.length ? "" : "none";
  if (!points.length) return;
  const frame = frameOf(svg, points);
  drawAxes(svg, frame);
  const pathsByColor = new Map();
  const size = points.length > MANY_DOTS ? "dots fine" : "dots";
  for (const call of points) {
    const x = frame.x(Math.log10(Number(call.mrw)));
    const y = call.flops > 0n ? frame.y(Math.log10(Number(call.flops))) : frame.zero;
    dots.push({ call, x, y });
    const color = colorOf.get(call.op);
    if (!pathsByColor.has(color)) pathsByColor.set(color, new Set());
    pathsByColor.get(color).add(`M${x.toFixed(1)} ${y.toFixed(1)}h0`);
  }
  for (const [color, paths] of pathsByColor) {
    svg.append(makeSvg("path", { class: size, d: [...paths].join(""), style: `stroke: ${color}` }));
  }
  for (let power = -2; power <= 5; power += 1) drawIntensityLine(svg, frame, power);
  svg.append(makeSvg("circle", { class: "ring", r: 6, visibility: "hidden" }));
  dots.sort((a, b) => a.x - b.x || b.y - a.y);
  drawLegend(points);
  svg.onpointermove = (event) => {
    const { left, top } = svg.getBoundingClientRect();
    const nearest = nearestTo(event.clientX - left, event.clientY - top);
    if (nearest < 0) deselectDot(svg);
    else selectDot(svg, nearest);
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

/** States how many calls have a dot, and why other calls have none. */
function describeDots(n, nNumeric) {
  const nSymbolic = counted(calls).length - nNumeric;
  const omitted = [];
  if (nNumeric > n) omitted.push(`${grouped(nNumeric - n)} without memory traffic`);
  if (nSymbolic) omitted.push(`${grouped(nSymbolic)} with symbolic costs`);
  find("scatter-note").textContent = plural(n, "call") + (omitted.length ? `; not shown: ${omitted.join(", ")}` : "");
}

/** Returns the range of both axes, and the functions that map logarithms to positions. */
function frameOf(svg, points) {
  const { clientWidth: width, clientHeight: height } = svg;
  const logs = (key) => points.filter((call) => call[key] > 0n).map((call) => Math.log10(Number(call[key])));
  const [x0, x1] = range(logs("mrw"), LOG_2);
  const [y0, y1] = range(logs("flops"), 1);
  const hasZero = points.some((call) => call.flops === 0n);
  const right = width - MARGIN.right;
  const zero = height - MARGIN.bottom - 12;
  const bottom = hasZero ? zero - 22 : height - MARGIN.bottom;
  return {
    x0,
    x1,
    y0,
    y1,
    right,
    bottom,
    zero,
    hasZero,
    height,
    x: (log) => MARGIN.left + ((log - x0) / (x1 - x0)) * (right - MARGIN.left),
    y: (log) => bottom - ((log - y0) / (y1 - y0)) * (bottom - MARGIN.top),
  };
}

/** Returns a range around all values whose limits are whole multiples of a step. */
function range(logs, step) {
  let [low, high] = [Infinity, -Infinity];
  for (const log of logs) [low, high] = [Math.min(low, log), Math.max(high, log)];
  if (low > high) return [0, 1];
  const [from, to] = [Math.floor(low / step - 0.1), Math.ceil(high / step + 0.1)];
  return [from * step, Math.max(to, from + 1) * step];
}

function drawAxes(svg, frame) {
  const { x0, x1, y0, y1, right, bottom, zero, hasZero, height } = frame;
  const axisY = height - MARGIN.bottom;
  const [first, last] = [Math.round(x0 / LOG_2), Math.round(x1 / LOG_2)];
  const stepX = [1, 2, 5, 10].find((step) => (last - first) / step <= 12) ?? 20;
  const stepY = Math.ceil((y1 - y0) / 10);
  for (let power = Math.max(0, Math.ceil(first / stepX) * stepX); power <= last; power += stepX) {
    const x = frame.x(power * LOG_2);
    svg.append(makeSvg("path", { class: "grid", d: `M${x} ${MARGIN.top}V${axisY}` }));
    svg.append(makeSvg("text", { x, y: axisY + 16, "text-anchor": "middle" }, axisLabel(2n ** BigInt(power), "bytes")));
  }
  for (let power = Math.max(0, y0); power <= y1; power += stepY) {
    const y = frame.y(power);
    svg.append(makeSvg("path", { class: "grid", d: `M${MARGIN.left} ${y}H${right}` }));
    svg.append(
      makeSvg("text", { x: MARGIN.left - 8, y: y + 4, "text-anchor": "end" }, axisLabel(10n ** BigInt(power), "flops")),
    );
  }
  if (hasZero) svg.append(makeSvg("text", { x: MARGIN.left - 8, y: zero + 4, "text-anchor": "end" }, "0"));
  svg.append(
    makeSvg("text", { x: (MARGIN.left + right) / 2, y: axisY + 36, "text-anchor": "middle" }, "bytes read and written"),
  );
  const middle = (MARGIN.top + bottom) / 2;
  svg.append(
    makeSvg("text", { x: 12, y: middle, transform: `rotate(-90 12 ${middle})`, "text-anchor": "middle" }, "FLOPs"),
  );
}

/** Returns `1 G` instead of `1.000 G`. */
const axisLabel = (value, kind) => readable(value, kind).replace(`.${"0".repeat(DIGITS)}`, "");

/** Draws the line of all points with an arithmetic intensity of 10 to the `power` FLOPs per byte. */
function drawIntensityLine(svg, frame, power) {
  const { x0, x1, y0, y1 } = frame;
  const from = Math.max(x0, y0 - power);
  const to = Math.min(x1, y1 - power);
  if (to - from < 0.5) return;
  const [ax, ay, bx, by] = [frame.x(from), frame.y(from + power), frame.x(to), frame.y(to + power)];
  svg.append(makeSvg("path", { class: "intensity", d: `M${ax} ${ay}L${bx} ${by}` }));
  const angle = (Math.atan2(by - ay, bx - ax) * 180) / Math.PI;
  const label = {
    class: "label",
    x: bx - 6,
    y: by - 4,
    "text-anchor": "end",
    transform: `rotate(${angle} ${bx} ${by})`,
  };
  svg.append(makeSvg("text", label, `${power < 0 ? `1/${10 ** -power}` : grouped(10 ** power)} FLOP/B`));
}

function drawLegend(points) {
  const present = new Set(points.map((call) => call.op));
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

/** Returns the index of the dot nearest to a point; -1 if none is near. */
function nearestTo(x, y) {
  let [best, distance] = [-1, 14 ** 2];
  dots.forEach((dot, i) => {
    const squared = (dot.x - x) ** 2 + (dot.y - y) ** 2;
    if (squared < distance) [best, distance] = [i, squared];
  });
  return best;
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
  const amounts = `${readable(call.flops, "flops")} FLOPs, ${readable(call.mrw, "bytes")}`;
  const lines = [`${call.name}, ${call.op}`, call.path, amounts, `${intensityText(call.intensity)} FLOP/B${others}`];
  showTooltip(lines.join("\n"), left + x, top + y);
}

function deselectDot(svg) {
  selected = -1;
  svg.querySelector(".ring").setAttribute("visibility", "hidden");
  hideTooltip();
}
