// The panel with all details of one row.

const detail = find("detail");
let previousFocus = null;

/** Shows all details of a module or a call, with exact numbers. */
function showDetail(item) {
  if (!detail.contains(document.activeElement)) previousFocus = document.activeElement;
  find("detail-title").textContent = item.name;
  const list = detail.querySelector("dl");
  list.replaceChildren();
  for (const [title, value] of item.isCall ? callDetails(item) : moduleDetails(item)) {
    if (value !== "" && value !== null) list.append(make("dt", { text: title }), make("dd", { text: value }));
  }
  detail.hidden = false;
  detail.focus({ preventScroll: true });
}

function closeDetail() {
  detail.hidden = true;
  if (previousFocus && previousFocus.isConnected) previousFocus.focus({ preventScroll: true });
}

function costDetails(item) {
  return [
    [UNIT, readableAndExact(item.flops, "flops")],
    ["MACs", readableAndExact(item.macs, "flops")],
    ["Read", readableAndExact(item.mread, "bytes")],
    ["Written", readableAndExact(item.mwrite, "bytes")],
    [report.unit.perByte, significant(item.intensity)],
    ["Measured time", item.seconds === null ? null : `${milliseconds(item.seconds)} ms`],
  ];
}

function moduleDetails(node) {
  return [
    ["Path", node.path],
    ["Type", node.type],
    ["Same as", node.same_as],
    ["Output", node.shape],
    ["Calls", grouped(node.n_layers) + (node.n_unknown ? `, and ${grouped(node.n_unknown)} not counted` : "")],
    ...costDetails(node),
    ["Activations", readableAndExact(node.activations, "bytes")],
    ["First called at", firstSite(node)],
    ["Parameters", readableAndExact(node.n_params, "flops")],
    ...["trainable", "frozen", "shared", "buffers"].map((key) => {
      const value = node[`n_${key}`];
      return [`… ${key}`, value === 0n || value === null ? null : readableAndExact(value, "flops")];
    }),
  ];
}

/** Returns the line of the user's code of the first call in a module that has one; empty if lines are unknown. */
function firstSite(node) {
  const found = calls.filter(({ where }) => where).find((call) => isInside(call, node));
  return found ? found.where : "";
}

function isInside(item, node) {
  while (item && item !== node) item = item.parent;
  return item === node;
}

function callDetails(call) {
  const costs = call.isUncounted ? [["Not counted", call.reason]] : costDetails(call);
  return [
    ["Module", call.path],
    ["Operator", call.op],
    ["Framework operator", call.native || call.type],
    ["Phase", call.phase],
    ["Executions", call.times === "1" ? null : call.times],
    ["dtype", call.dtype],
    ["Inputs", call.inputs],
    ["Outputs", call.outputs],
    ["Attributes", call.settings],
    ...costs,
    ["Operations", call.operations],
    ["Parameters", call.n_params === 0n || call.n_params === null ? null : readableAndExact(call.n_params, "flops")],
    ["Called at", call.where],
  ];
}

find("close").addEventListener("click", closeDetail);
