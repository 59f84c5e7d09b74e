// The picture of live memory: the pointer or the arrow keys select a call, whose bytes by kind are shown.

const memoryMap = find("memory-map");
let memoryColumn = -1;

/** Makes the picture react. A click or Enter calls `reveal` with the selected call. */
function watchMemory(reveal) {
  const { kinds, rows } = report.memory;
  const margin = parseFloat(getComputedStyle(memoryMap).paddingLeft); // of the labels of its scale
  const frameOf = () => {
    const { left, top, width } = memoryMap.getBoundingClientRect();
    return { left: left + margin, top, width: width - margin };
  };
  const cursor = memoryMap.querySelector(".cursor");
  const clear = () => {
    memoryColumn = -1;
    cursor.setAttribute("visibility", "hidden");
    hideTooltip();
  };
  const select = (column, x, y) => {
    memoryColumn = column;
    const at = `${(100 * (column + 0.5)) / rows.length}%`;
    for (const [name, value] of Object.entries({ x1: at, x2: at, visibility: "visible" })) {
      cursor.setAttribute(name, value);
    }
    showTooltip(memoryText(rows[column], kinds), x, y);
  };
  memoryMap.addEventListener("pointermove", (event) => {
    const { left, width } = frameOf();
    const column = Math.floor(((event.clientX - left) / width) * rows.length);
    select(Math.max(0, Math.min(column, rows.length - 1)), event.clientX, event.clientY);
  });
  memoryMap.addEventListener("keydown", (event) => {
    const last = rows.length - 1;
    const next = { ArrowRight: memoryColumn + 1, ArrowLeft: memoryColumn - 1, Home: 0, End: last }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      const column = memoryColumn < 0 && event.key.startsWith("Arrow") ? highestColumn(rows) : next;
      const { left, top, width } = frameOf();
      const shown = Math.max(0, Math.min(column, last));
      select(shown, left + (width * (shown + 0.5)) / rows.length, top);
    } else if (event.key === "Enter") open();
  });
  const open = () => {
    const call = memoryColumn < 0 ? undefined : calls[rows[memoryColumn][0]];
    if (call) reveal(call);
  };
  memoryMap.addEventListener("click", open);
  memoryMap.addEventListener("pointerleave", clear);
  memoryMap.addEventListener("blur", clear);
}

/** Returns the column of the peak, where the arrow keys start. */
function highestColumn(rows) {
  const live = rows.map((row) => BigInt(row[1]));
  return live.reduce((best, value, i) => (value > live[best] ? i : best), 0);
}

/** Returns the name of a call, its module, and the live bytes by kind, the largest first. */
function memoryText([index, live, ...amounts], kinds) {
  const call = calls[index];
  const place = call ? [`${call.name}, ${call.phase}`, call.path] : [index < 0 ? "before the run" : "after the last call"];
  const parts = kinds
    .map((kind, i) => ({ kind, bytes: BigInt(amounts[i]) }))
    .filter(({ bytes }) => bytes > 0n)
    .sort((a, b) => compare(a.bytes, b.bytes, true))
    .map(({ kind, bytes }) => `${kind} ${readable(bytes, "bytes")}`);
  return [...place, `${readableAndExact(BigInt(live), "bytes")} alive`, ...parts].filter(Boolean).join("\n");
}
