// Functions that find and create elements of the page.

const find = (id) => document.getElementById(id);

/** Creates an HTML element; names that are not properties of the element become attributes. */
function make(tag, { text, children = [], ...properties } = {}) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element && !name.includes("-")) element[name] = value;
    else element.setAttribute(name, value);
  }
  if (text !== undefined) element.textContent = text;
  element.append(...children);
  return element;
}

const SVG_NAMESPACE = find("map").namespaceURI;

/** Creates an SVG element. */
function makeSvg(tag, attributes = {}, text) {
  const element = document.createElementNS(SVG_NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") element.style.cssText = value;
    else element.setAttribute(name, value);
  }
  if (text !== undefined) element.textContent = text;
  return element;
}
