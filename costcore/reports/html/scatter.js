// FLOPs against bytes of every call. All dots of one colour are one path, so that many cost little.

const MARGIN = { left: 64, right: 36, top: 14, bottom: 44 };
const TWO = Math.log10(2);
const MANY = 1500;
const drawn = [];
let current = -1;

function drawScatter(reveal) {
  const svg = find("scatter");
  svg.replaceChildren();
  drawn.length = 0;
  current = -1;
  const numeric = calls.filter((call) => isNumber(call.flops) && isNumber(call.mrw));
  const points = numeric.filter((call) => call.mrw > 0n);
  describe(points.length, numeric.length);
  svg.style.display = points.length ? "" : "none";
  if (!points.length) return;
  const frame = frameOf(svg, points);
  drawAxes(svg, frame);
  const byColour = new Map();
  const size = points.length > MANY ? "dots fine" : "dots";
  for (const call of points) {
    const x = frame.x(Math.log10(Number(call.mrw)));
    const y = call.flops > 0n ? frame.y(Math.log10(Number(call.flops))) : frame.zero;
    drawn.push({ call, x, y });
    const colour = colourOf.get(call.op);
    if (!byColour.has(colour)) byColour.set(colour, new Set());
    byColour.get(colour).add(`M${x.toFixed(1)} ${y.toFixed(1)}h0`);
  }
  for (const [colour, dots] of byColour) {
    svg.append(draw("path", { class: size, d: [...dots].join(""), style: `stroke: ${colour}` }));
  }
  for (let power = -2; power <= 5; power += 1) drawSame(svg, frame, power);
  svg.append(draw("circle", { class: "ring", r: 6, visibility: "hidden" }));
  drawn.sort((a, b) => a.x - b.x || b.y - a.y);
  drawLegend(points);
  svg.onpointermove = (event) => {
    const { left, top } = svg.getBoundingClientRect();
    const nearest = nearestTo(event.clientX - left, event.clientY - top);
    if (nearest < 0) leave(svg);
    else choose(svg, nearest);
  };
  svg.onpointerleave = svg.onblur = () => leave(svg);
  svg.onclick = () => current >= 0 && reveal(drawn[current].call);
  svg.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (step) {
      event.preventDefault();
      choose(svg, (current + step + drawn.length) % drawn.length);
    } else if (event.key === "Enter" && current >= 0) reveal(drawn[current].call);
  };
}

function describe(n, nNumeric) {
  const formulas = counted(calls).length - nNumeric;
  const words = [plural(n, "call")];
  if (nNumeric > n) words.push(`without ${grouped(nNumeric - n)} that move no bytes`);
  if (formulas) words.push(`without ${grouped(formulas)} whose costs are formulas`);
  find("scatter-note").textContent = words.join(", ");
}

function frameOf(svg, points) {
  const { clientWidth: width, clientHeight: height } = svg;
  const logs = (key) => points.filter((call) => call[key] > 0n).map((call) => Math.log10(Number(call[key])));
  const [x0, x1] = range(logs("mrw"), TWO);
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

/** From and to, both at whole multiples of a step. */
function range(logs, step) {
  let [low, high] = [Infinity, -Infinity];
  for (const log of logs) [low, high] = [Math.min(low, log), Math.max(high, log)];
  if (low > high) return [0, 1];
  const [from, to] = [Math.floor(low / step - 0.1), Math.ceil(high / step + 0.1)];
  return [from * step, Math.max(to, from + 1) * step];
}

function drawAxes(svg, frame) {
  const { x0, x1, y0, y1, right, bottom, zero, hasZero, height } = frame;
  const foot = height - MARGIN.bottom;
  const [first, last] = [Math.round(x0 / TWO), Math.round(x1 / TWO)];
  const everyX = [1, 2, 5, 10].find((step) => (last - first) / step <= 12) ?? 20;
  const everyY = Math.ceil((y1 - y0) / 10);
  for (let power = Math.ceil(first / everyX) * everyX; power <= last; power += everyX) {
    const x = frame.x(power * TWO);
    svg.append(draw("path", { class: "grid", d: `M${x} ${MARGIN.top}V${foot}` }));
    svg.append(draw("text", { x, y: foot + 16, "text-anchor": "middle" }, round(2n ** BigInt(power), "bytes")));
  }
  for (let power = y0; power <= y1; power += everyY) {
    const y = frame.y(power);
    svg.append(draw("path", { class: "grid", d: `M${MARGIN.left} ${y}H${right}` }));
    svg.append(
      draw("text", { x: MARGIN.left - 8, y: y + 4, "text-anchor": "end" }, round(10n ** BigInt(power), "flops")),
    );
  }
  if (hasZero) svg.append(draw("text", { x: MARGIN.left - 8, y: zero + 4, "text-anchor": "end" }, "0"));
  svg.append(
    draw("text", { x: (MARGIN.left + right) / 2, y: foot + 36, "text-anchor": "middle" }, "bytes read and written"),
  );
  const middle = (MARGIN.top + bottom) / 2;
  svg.append(
    draw("text", { x: 12, y: middle, transform: `rotate(-90 12 ${middle})`, "text-anchor": "middle" }, "FLOPs"),
  );
}

const round = (value, kind) => readable(value, kind).replace(`.${"0".repeat(DIGITS)}`, "");

/** The line of equal intensity, 10 to `power` FLOPs a byte, where it crosses the frame. */
function drawSame(svg, frame, power) {
  const { x0, x1, y0, y1 } = frame;
  const from = Math.max(x0, y0 - power);
  const to = Math.min(x1, y1 - power);
  if (to - from < 0.5) return;
  const [ax, ay, bx, by] = [frame.x(from), frame.y(from + power), frame.x(to), frame.y(to + power)];
  svg.append(draw("path", { class: "same", d: `M${ax} ${ay}L${bx} ${by}` }));
  const angle = (Math.atan2(by - ay, bx - ax) * 180) / Math.PI;
  const label = {
    class: "over",
    x: bx - 6,
    y: by - 4,
    "text-anchor": "end",
    transform: `rotate(${angle} ${bx} ${by})`,
  };
  svg.append(draw("text", label, `${power < 0 ? `1/${10 ** -power}` : grouped(10 ** power)} FLOP/B`));
}

function drawLegend(points) {
  const present = new Set(points.map((call) => call.op));
  const entries = [...colourOf].filter(([op, colour]) => colour !== GREY && present.has(op));
  if ([...present].some((op) => colourOf.get(op) === GREY)) entries.push(["others", GREY]);
  find("legend").replaceChildren(
    ...entries.map(([op, colour]) => {
      const dot = make("span", { className: "dot" });
      dot.style.background = colour;
      return make("span", { children: [dot, make("span", { text: op })] });
    }),
  );
}

function nearestTo(x, y) {
  let [best, distance] = [-1, 14 ** 2];
  drawn.forEach((dot, i) => {
    const squared = (dot.x - x) ** 2 + (dot.y - y) ** 2;
    if (squared < distance) [best, distance] = [i, squared];
  });
  return best;
}

function choose(svg, i) {
  current = i;
  const { call, x, y } = drawn[i];
  const ring = svg.querySelector(".ring");
  for (const [name, value] of [
    ["cx", x],
    ["cy", y],
    ["visibility", "visible"],
  ])
    ring.setAttribute(name, value);
  const alike = drawn.filter((dot) => dot.x === x && dot.y === y).length;
  const more = alike > 1 ? `\nand ${grouped(alike - 1)} more at this place` : "";
  const { left, top } = svg.getBoundingClientRect();
  const amounts = `${readable(call.flops, "flops")} FLOPs, ${readable(call.mrw, "bytes")}`;
  const about = [`${call.name}, ${call.op}`, call.path, amounts, `${intensityText(call.intensity)} FLOP/B${more}`];
  showTip(about.join("\n"), left + x, top + y);
}

function leave(svg) {
  current = -1;
  svg.querySelector(".ring").setAttribute("visibility", "hidden");
  hideTip();
}
