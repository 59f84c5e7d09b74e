/* Folds the sections of the sidebar, but for that of the page that is shown; the home page shows the first. */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const captions = [...document.querySelectorAll(".sidebar-tree > p.caption")];
  const isHere = captions.map((caption) => caption.nextElementSibling?.querySelector(".current"));
  captions.forEach((caption, i) => {
    const pages = caption.nextElementSibling, section = document.createElement("details"), summary = document.createElement("summary");
    section.open = isHere.some(Boolean) ? Boolean(isHere[i]) : i === 0;
    caption.before(section);
    summary.append(caption);
    section.append(summary, pages);
  });
});
