// Pictures that are drawn without a script: the arrow keys select a mark and show its title, as the pointer does.

for (const picture of document.querySelectorAll("svg[role='img']")) watchMarks(picture);

/** Makes the marks of a picture that have a title reachable by the arrow keys, from left to right. */
function watchMarks(picture) {
  const marks = [...picture.querySelectorAll("title")].map((title) => title.parentNode);
  const left = new Map(marks.map((mark) => [mark, mark.getBoundingClientRect().left]));
  marks.sort((a, b) => left.get(a) - left.get(b));
  if (!marks.length) return;
  let selected = -1;
  const select = (i) => {
    marks[selected]?.classList.remove("selected");
    selected = i;
    if (i < 0) return hideTooltip();
    marks[i].classList.add("selected");
    const { x, y, width, height } = marks[i].getBoundingClientRect();
    showTooltip(marks[i].querySelector("title").textContent, x + width / 2, y + height / 2);
  };
  picture.tabIndex = 0;
  picture.addEventListener("blur", () => select(-1));
  picture.addEventListener("keydown", (event) => {
    const n = marks.length;
    const [before, after] = [selected > 0 ? selected - 1 : n - 1, (selected + 1) % n];
    const places = { ArrowRight: after, ArrowUp: after, ArrowLeft: before, ArrowDown: before, Home: 0, End: n - 1 };
    if (!(event.key in places)) return;
    event.preventDefault();
    select(places[event.key]);
  });
}
