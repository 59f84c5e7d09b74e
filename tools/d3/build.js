// Writes costcore/reports/html/d3.min.js, which starts with its versions and its license, and d3.LICENSE beside it.
import { copyFileSync, readFileSync } from "node:fs";
import { buildSync } from "esbuild";

const PAGE = "../../costcore/reports/html";
const LICENSE = "node_modules/d3-scale/LICENSE";
const { dependencies } = JSON.parse(readFileSync("package.json", "utf8"));
const versions = Object.entries(dependencies).map(([name, version]) => `${name} ${version}`);
copyFileSync(LICENSE, `${PAGE}/d3.LICENSE`);
buildSync({
  entryPoints: ["index.js"],
  outfile: `${PAGE}/d3.min.js`,
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "d3",
  target: "es2020",
  charset: "ascii",
  legalComments: "none",
  banner: { js: `/*! d3: ${versions.join(", ")}\n\n${readFileSync(LICENSE, "utf8")}*/` },
});
