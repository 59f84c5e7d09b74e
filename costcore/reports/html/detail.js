// The panel with all the details of one row.

const detail = find("detail");
let opener = null;

/** Everything about a module or a call, exact. */
function showDetail(item) {
  if (!detail.contains(document.activeElement)) opener = document.activeElement;
  find("detail-title").textContent = item.name;
  const list = detail.querySelector("dl");
  list.replaceChildren();
  for (const [title, value] of item.isCall ? aboutCall(item) : aboutModule(item)) {
    if (value !== "" && value !== null) list.append(make("dt", { text: title }), make("dd", { text: value }));
  }
  detail.hidden = false;
  detail.focus({ preventScroll: true });
}

function closeDetail() {
  detail.hidden = true;
  if (opener && opener.isConnected) opener.focus({ preventScroll: true });
}

function costs(item) {
  return [
    ["FLOPs", readableAndExact(item.flops, "flops")],
    ["MACs", readableAndExact(item.macs, "flops")],
    ["Read", readableAndExact(item.mread, "bytes")],
    ["Written", readableAndExact(item.mwrite, "bytes")],
    ["FLOPs per byte", intensityText(item.intensity)],
    ["Measured time", item.seconds === null ? null : `${milliseconds(item.seconds)} ms`],
  ];
}

function aboutModule(node) {
  return [
    ["Path", node.path],
    ["Type", node.type],
    ["Same as", node.same_as],
    ["Output", node.shape],
    ["Calls", grouped(node.n_layers) + (node.n_unknown ? `, and ${grouped(node.n_unknown)} not counted` : "")],
    ...costs(node),
    ["Activations", readableAndExact(node.activations, "bytes")],
    ["Parameters", readableAndExact(node.n_params, "flops")],
    ...["trainable", "frozen", "shared", "buffers"].map((key) => {
      const value = node[`n_${key}`];
      return [`… ${key}`, value === 0n || value === null ? null : readableAndExact(value, "flops")];
    }),
  ];
}

function aboutCall(call) {
  const known = call.isUnknown ? [["Not counted", call.reason]] : costs(call);
  return [
    ["Module", call.path],
    ["Operator", call.op],
    ["Framework's name", call.native || call.type],
    ["Phase", call.phase],
    ["Times", call.times === "1" ? null : call.times],
    ["Element type", call.dtype],
    ["Inputs", call.inputs],
    ["Outputs", call.outputs],
    ["Settings", call.settings],
    ...known,
    ["Operations", call.operations],
    ["Parameters", call.n_params === 0n || call.n_params === null ? null : readableAndExact(call.n_params, "flops")],
    ["Called at", call.where],
  ];
}

find("close").addEventListener("click", closeDetail);
