// The sum of a metric per operator, as a table with a bar in each row.

const MAX_BARS = 12;

/** Draws the bars. A click on an operator calls `search` with its name. */
function drawBars(metric, search) {
  const sums = operators
    .map((operator) => ({ op: operator.op, calls: operator.n_layers, value: operator[metric.key] }))
    .sort((a, b) => compare(a.value, b.value, true));
  const positive = sums.filter(({ value }) => rankOf(value) !== 0n).length;
  const shown = sums.slice(0, Math.min(MAX_BARS, positive)); // those without cost are among the others
  const hidden = sums.slice(shown.length);
  const largest = sums.length ? sums[0].value : null;
  const rows = shown.map(({ op, calls: count, value }) => {
    const parts = op.split(/(?<=_)/).flatMap((part) => [part, make("wbr")]); // where it may go on in the next line
    const button = make("button", { type: "button", children: parts, title: `${op}: show ${plural(count, "call")}` });
    button.addEventListener("click", () => search(op));
    return barRow([button], value, largest, metric, colorOf.get(op));
  });
  if (hidden.length) {
    const label = make("span", { className: "note", text: `${hidden.length} other${hidden.length > 1 ? "s" : ""}` });
    rows.push(barRow([label], sum(hidden, "value"), largest, metric, GRAY));
  }
  find("bars").tBodies[0].replaceChildren(...rows);
  const isFormula = sums.some(({ value }) => typeof value === "string");
  find("bars").className = isFormula ? "formulas" : "";
  find("bars-note").textContent = `${metric.title}, ${isFormula ? `drawn ${AS_IF}` : "share of the total"}`;
}

function barRow(title, value, largest, metric, color) {
  const length = ratio(rankOf(value), rankOf(largest));
  const fill = make("span", { className: "fill", hidden: length === null || value === 0n });
  fill.style.width = `${Math.min(100, 100 * (length || 0))}%`;
  fill.style.background = color;
  const exact = isNumber(value) ? grouped(value) : (value ?? "");
  const share = percent(ratio(value, totals[metric.key]));
  return make("tr", {
    children: [
      make("th", { scope: "row", children: title }),
      make("td", { children: [fill] }),
      make("td", { className: "n", text: readable(value, metric.kind), title: exact }),
      make("td", { className: "n", text: share }),
    ],
  });
}
