/** What the browser keeps for the page. Where it keeps nothing (private windows, no space), the page works without. */

export function kept(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`weft.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Keeps a value; undefined is forgotten. */
export function keep(name, value) {
  try {
    if (value === undefined) localStorage.removeItem(`weft.${name}`);
    else localStorage.setItem(`weft.${name}`, JSON.stringify(value));
  } catch {
    // See above.
  }
}
