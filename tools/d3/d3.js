// What the page takes of d3; esbuild leaves out the rest.
export { hierarchy, treemap } from "d3-hierarchy";
export { quadtree } from "d3-quadtree";
export { scaleLog } from "d3-scale";
