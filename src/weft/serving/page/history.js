/** What was translated, newest first, kept in the browser if the user wants that. */

import { make } from "./elements.js";
import { keep, kept, whenKeptElsewhere } from "./kept.js";
import { number, put } from "./texts.js";

const LONGEST = 50;

export class History {
  #body;
  #count;
  #onChoice;

  /** `onChoice(entry)` is called with an entry, {q, text, sentences, source, target}, as one is clicked. */
  constructor(details, onChoice) {
    this.#body = details.querySelector(".body");
    this.#count = details.querySelector(".count");
    this.#onChoice = onChoice;
    // The text keeps the focus: if it were left, its entry would be added, and the pressed button would move away.
    this.#body.addEventListener("mousedown", (event) => event.preventDefault());
    this.render();
    whenKeptElsewhere(["history", "history.on"], () => this.render());
  }

  get #entries() {
    return kept("history", []);
  }

  get #isOn() {
    return kept("history.on", true);
  }

  /** Puts an entry first, in place of one about the same text. */
  add(entry) {
    if (!this.#isOn) return;
    const same = (other) => other.q === entry.q && other.source === entry.source && other.target === entry.target;
    this.#keep([entry, ...this.#entries.filter((other) => !same(other))].slice(0, LONGEST));
  }

  render() {
    const entries = this.#entries;
    this.#count.textContent = entries.length ? number(entries.length) : "";
    const list = make("ul", { className: "past" }, ...entries.map((entry) => this.#row(entry)));
    const hint = put(make("p", { className: "hint" }), this.#isOn ? "history_empty" : "history_off");
    this.#body.replaceChildren(this.#controls(!entries.length), entries.length ? list : hint);
  }

  #controls(isEmpty) {
    const box = make("input", { type: "checkbox", checked: this.#isOn });
    box.addEventListener("change", () => {
      keep("history.on", box.checked);
      this.render();
      this.#body.querySelector("input").focus();
    });
    const keeping = put(make("span"), "history_keep");
    const clear = put(make("button", { type: "button", className: "plain", disabled: isEmpty }), "history_clear");
    clear.addEventListener("click", () => {
      this.#keep([]);
      this.#body.querySelector("input").focus();
    });
    return make("p", { className: "controls" }, make("label", {}, box, keeping), clear);
  }

  #row(entry) {
    const from = make("span", { textContent: entry.q, lang: entry.source, dir: "auto" });
    const to = make("span", { textContent: entry.text, lang: entry.target, dir: "auto" });
    const button = make(
      "button",
      { type: "button", className: "plain", onclick: () => this.#onChoice(entry) },
      from,
      to,
    );
    return make("li", {}, button);
  }

  #keep(entries) {
    keep("history", entries);
    this.render();
  }
}
