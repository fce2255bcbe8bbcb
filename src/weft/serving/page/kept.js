/**
 * What the browser keeps for the page: for all its tabs (`localStorage`), or for one alone (`sessionStorage`). Where it
 * keeps nothing (private windows, no space), the page works without.
 */

const notKept = new Map();

export function kept(name, otherwise, where = "localStorage") {
  if (notKept.has(name)) return notKept.get(name) ?? otherwise;
  try {
    return JSON.parse(window[where].getItem(`weft.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Keeps a value; undefined is forgotten. */
export function keep(name, value, where = "localStorage") {
  notKept.delete(name);
  try {
    if (value === undefined) window[where].removeItem(`weft.${name}`);
    else window[where].setItem(`weft.${name}`, JSON.stringify(value));
  } catch {
    notKept.set(name, value);
  }
}

/** Calls `work` when another tab has kept one of these values. */
export function whenKeptElsewhere(names, work) {
  window.addEventListener("storage", ({ key }) => {
    if (key === null || names.some((name) => key === `weft.${name}`)) work();
  });
}
