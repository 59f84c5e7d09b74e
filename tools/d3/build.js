// Writes d3.min.js and dagre.min.js to costcore/reports/html, which start with their versions and their license, and
// d3.LICENSE and dagre.LICENSE beside them.
import { copyFileSync, readFileSync } from "node:fs";
import { buildSync } from "esbuild";

const PAGE = "../../costcore/reports/html";
const { dependencies } = JSON.parse(readFileSync("package.json", "utf8"));
const of = (isOwn) => Object.entries(dependencies).filter(([name]) => isOwn(name));
const isDagre = (name) => name.startsWith("@dagrejs/");

function bundle(name, versions, license) {
  copyFileSync(license, `${PAGE}/${name}.LICENSE`);
  buildSync({
    entryPoints: [`${name}.js`],
    outfile: `${PAGE}/${name}.min.js`,
    bundle: true,
    minify: true,
    format: "iife",
    globalName: name,
    target: "es2020",
    charset: "ascii",
    legalComments: "none",
    banner: {
      js: `/*! ${name}: ${versions.map((each) => each.join(" ")).join(", ")}\n\n${readFileSync(license, "utf8")}*/`,
    },
  });
}

bundle("d3", of((name) => !isDagre(name)), "node_modules/d3-scale/LICENSE");
bundle("dagre", of(isDagre), "node_modules/@dagrejs/dagre/LICENSE");
