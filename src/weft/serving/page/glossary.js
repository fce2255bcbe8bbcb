/** Terms and how they are to be translated, a table for each pair of languages, kept in the browser. */

import { icon, make } from "./elements.js";
import { keep, kept } from "./kept.js";
import { label, nameOf, number, put } from "./texts.js";

export class Glossary {
  #tables = kept("glossary", {}); // "zh>en" -> [[term, translation], ...]
  #pair = { source: "", target: "" };
  #body;
  #count;

  constructor(details) {
    this.#body = details.querySelector(".body");
    this.#count = details.querySelector(".count");
  }

  /** The terms of these languages with both sides filled in, as the server takes them. */
  terms({ source, target }) {
    const rows = this.#tables[`${source}>${target}`] ?? [];
    return Object.fromEntries(
      rows.map((row) => row.map((side) => side.trim())).filter((row) => row.every((side) => side)),
    );
  }

  /** Shows the table of these languages. */
  show(pair) {
    if (pair.source === this.#pair.source && pair.target === this.#pair.target) return; // somebody may be writing in it
    this.#pair = pair;
    this.render();
  }

  render() {
    this.#renderCount();
    const about = make("p", { className: "hint" });
    put(about, "glossary_is", { source: nameOf(this.#pair.source, ""), target: nameOf(this.#pair.target, "") });
    const add = make("button", { type: "button", className: "plain" }, icon("add"), make("span"));
    put(add.lastChild, "glossary_add");
    add.addEventListener("click", () => {
      this.#keep([...this.#rows, ["", ""]]);
      this.#body.querySelector("tr:last-child input").focus();
    });
    this.#body.replaceChildren(about, ...(this.#rows.length ? [this.#table()] : []), add);
  }

  get #rows() {
    return this.#tables[`${this.#pair.source}>${this.#pair.target}`] ?? [];
  }

  #table() {
    const titles = ["glossary_term", "glossary_translation"].map((key) => {
      const title = make("th", { scope: "col" });
      put(title, key);
      return title;
    });
    const head = make("thead", {}, make("tr", {}, ...titles, make("td")));
    return make("table", {}, head, make("tbody", {}, ...this.#rows.map((row, index) => this.#row(row, index))));
  }

  #row(row, index) {
    const fields = [
      ["glossary_term", this.#pair.source],
      ["glossary_translation", this.#pair.target],
    ].map(([key, lang], side) => {
      const field = make("input", { type: "text", value: row[side], lang });
      label(field, key);
      field.addEventListener("input", () => {
        this.#rows[index][side] = field.value;
        keep("glossary", this.#tables);
        this.#renderCount();
      });
      return make("td", {}, field);
    });
    const remove = make("button", { type: "button", className: "quiet" }, icon("close"));
    label(remove, "glossary_remove", { term: row[0] });
    remove.addEventListener("click", () => {
      this.#keep(this.#rows.filter((_, other) => other !== index));
      this.#body.querySelector(":scope > button").focus();
    });
    return make("tr", {}, ...fields, make("td", {}, remove));
  }

  #renderCount() {
    const terms = Object.keys(this.terms(this.#pair)).length;
    this.#count.textContent = terms ? number(terms) : "";
  }

  #keep(rows) {
    this.#tables[`${this.#pair.source}>${this.#pair.target}`] = rows;
    keep("glossary", this.#tables);
    this.render();
  }
}
