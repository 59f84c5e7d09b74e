// Sums by operator, as a table with a bar in every row.

const MOST_BARS = 12;

function drawBars(metric, search) {
  const groups = operators
    .map((operator) => ({ op: operator.op, calls: operator.n_layers, value: operator[metric.key] }))
    .sort((a, b) => compare(a.value, b.value, true));
  const shown = groups.slice(0, MOST_BARS);
  const rest = groups.slice(MOST_BARS);
  const largest = isNumber(totals[metric.key]) && groups.length ? groups[0].value : null;
  const rows = shown.map(({ op, calls: count, value }) => {
    const button = make("button", { type: "button", text: op, title: `${op}: show ${plural(count, "call")}` });
    button.addEventListener("click", () => search(op));
    return bar([button], value, largest, metric, colourOf.get(op));
  });
  if (rest.length) {
    const others = make("span", { className: "note", text: `${rest.length} others` });
    rows.push(bar([others], sum(rest, "value"), largest, metric, GREY));
  }
  find("bars").tBodies[0].replaceChildren(...rows);
  find("bars-note").textContent = `${metric.title}, share of the total`;
}

function bar(title, value, largest, metric, colour) {
  const length = ratio(value, largest);
  const fill = make("span", { className: "fill", hidden: length === null || value === 0n });
  fill.style.width = `${Math.min(100, 100 * (length || 0))}%`;
  fill.style.background = colour;
  const exactly = isNumber(value) ? grouped(value) : (value ?? "");
  const share = percent(ratio(value, totals[metric.key]));
  return make("tr", {
    children: [
      make("th", { scope: "row", children: title }),
      make("td", { children: [fill] }),
      make("td", { className: "n", text: readable(value, metric.kind), title: exactly }),
      make("td", { className: "n", text: share }),
    ],
  });
}
