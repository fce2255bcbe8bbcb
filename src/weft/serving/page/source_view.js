/**
 * The text that is to be translated, and what is shaded in it.
 *
 * A text area cannot shade words. A copy of its text lies behind it, in the same place and type, and is shaded; it also
 * gives the text area its height, since both fill one cell of a grid.
 */

import { overlapping } from "./explanation.js";

export class SourceView {
  #area;
  #shades;
  #spans = [];
  #told = null;

  /** `onWord(span, isPointer)` is called with the word under the pointer or at the caret, or null, when it changes. */
  constructor(area, shades, onWord) {
    this.#area = area;
    this.#shades = shades;
    const tell = (span, isPointer) => {
      if (span === this.#told) return;
      this.#told = span;
      onWord(span, isPointer);
    };
    area.addEventListener("mousemove", (event) => tell(this.#spanAt(event), true));
    area.addEventListener("mouseleave", () => tell(null, true));
    area.addEventListener("blur", () => tell(null, false));
    document.addEventListener("selectionchange", () => {
      if (document.activeElement === area) tell(this.#spanAtCaret(), false);
    });
    this.divide([]);
  }

  get text() {
    return this.#area.value;
  }

  set text(text) {
    this.#area.value = text;
    this.divide([]);
  }

  /** Takes the text apart at these spans, which do not overlap; they are what can be shaded and pointed at. */
  divide(spans) {
    this.#spans = spans.filter((span) => span).sort((one, other) => one.begin - other.begin);
    const parts = [];
    let end = 0;
    for (const span of this.#spans) {
      parts.push(this.text.slice(end, span.begin), shadeOf(this.text.slice(span.begin, span.end)));
      end = span.end;
    }
    this.#shades.replaceChildren(...parts, `${this.text.slice(end)}\n`); // a line of its own, where the caret may stand
  }

  /** Shades the words within these spans, each {span, share}; everything else is as it was. */
  shade(weights) {
    for (const mark of this.#marks()) mark.style.setProperty("--share", 0);
    for (const { span, share } of weights) {
      for (const index of overlapping(this.#spans, span)) this.#marks()[index].style.setProperty("--share", share);
    }
  }

  #marks() {
    return this.#shades.children;
  }

  #spanAt(event) {
    const found = document.elementsFromPoint(event.clientX, event.clientY);
    return this.#spans[[...this.#marks()].findIndex((mark) => found.includes(mark))] ?? null;
  }

  #spanAtCaret() {
    const place = this.#area.selectionStart;
    return this.#spans[overlapping(this.#spans, { begin: place, end: place + 1 })[0]] ?? null;
  }
}

function shadeOf(text) {
  const mark = document.createElement("span");
  mark.className = "shade";
  mark.textContent = text;
  return mark;
}
