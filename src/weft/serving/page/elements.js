/** Making elements. Text goes in as text, never as markup. */

export const find = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

export function icon(name) {
  const svg = makeSvg("svg", { class: "icon", "aria-hidden": "true" });
  svg.append(makeSvg("use", { href: `#icon-${name}` }));
  return svg;
}

export function makeSvg(tag, attributes = {}, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}
