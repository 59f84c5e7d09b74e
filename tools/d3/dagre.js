// What the page takes of dagre: a graph, and its layout in layers.
export { Graph, layout } from "@dagrejs/dagre";
