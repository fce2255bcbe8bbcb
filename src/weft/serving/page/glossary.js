/** Terms and how they are to be translated, a table for each pair of languages, kept in the browser. */

import { icon, make } from "./elements.js";
import { keep, kept, whenKeptElsewhere } from "./kept.js";
import { label, nameOf, number, put } from "./texts.js";

export class Glossary {
  #pair = { source: "", target: "" };
  #body;
  #count;
  #twice = make("p", { className: "hint", role: "status" });

  constructor(details) {
    this.#body = details.querySelector(".body");
    this.#count = details.querySelector(".count");
    whenKeptElsewhere(["glossary"], () => this.render());
  }

  /** The terms of these languages with both sides filled in, as the server takes them. */
  terms(pair) {
    const rows = rowsOf(pair).map((row) => row.map((side) => side.trim()));
    return Object.fromEntries(rows.filter((row) => row.every((side) => side)));
  }

  /** Shows the table of these languages. */
  show(pair) {
    if (pair.source === this.#pair.source && pair.target === this.#pair.target) return; // the user may be writing in it
    this.#pair = pair;
    this.render();
  }

  render() {
    this.#renderCount();
    const about = make("p", { className: "hint" });
    put(about, "glossary_is", { source: nameOf(this.#pair.source, ""), target: nameOf(this.#pair.target, "") });
    put(this.#twice, "glossary_twice");
    const words = put(make("span"), "glossary_add");
    const add = make("button", { type: "button", className: "plain" }, icon("add"), words);
    add.addEventListener("click", () => {
      this.#keep([...rowsOf(this.#pair), ["", ""]]);
      this.render();
      this.#body.querySelector("tr:last-child input").focus();
    });
    const rows = rowsOf(this.#pair);
    this.#body.replaceChildren(about, ...(rows.length ? [this.#table(rows), this.#twice] : []), add);
    this.#markTwice();
  }

  #table(rows) {
    const titles = ["glossary_term", "glossary_translation"].map((key) => put(make("th", { scope: "col" }), key));
    const head = make("thead", {}, make("tr", {}, ...titles, make("td")));
    return make("table", {}, head, make("tbody", {}, ...rows.map((row, index) => this.#row(row, index))));
  }

  #row(row, index) {
    const fields = [
      ["glossary_term", this.#pair.source],
      ["glossary_translation", this.#pair.target],
    ].map(([key, lang], side) => label(make("input", { type: "text", value: row[side], lang, dir: "auto" }), key));
    const remove = make("button", { type: "button", className: "quiet" }, icon("close"));
    label(remove, "glossary_remove", { term: row[0] });
    remove.addEventListener("click", () => {
      this.#keep(rowsOf(this.#pair).filter((_, other) => other !== index));
      this.render();
      this.#body.querySelector(":scope > button").focus();
    });
    const element = make("tr", {}, ...[...fields, remove].map((each) => make("td", {}, each)));
    element.addEventListener("input", () => {
      const written = fields.map((field) => field.value);
      this.#keep(rowsOf(this.#pair).with(index, written));
      label(remove, "glossary_remove", { term: written[0] });
      this.#renderCount();
      this.#markTwice();
    });
    return element;
  }

  /** Marks all but the last of the rows with the same term: that one counts. */
  #markTwice() {
    const fields = [...this.#body.querySelectorAll("td:first-child input")];
    const terms = fields.map((field) => field.value.trim());
    for (const [index, field] of fields.entries()) {
      field.ariaInvalid = String(Boolean(terms[index]) && terms.lastIndexOf(terms[index]) !== index);
    }
    this.#twice.hidden = !fields.some((field) => field.ariaInvalid === "true");
  }

  #renderCount() {
    const terms = Object.keys(this.terms(this.#pair)).length;
    this.#count.textContent = terms ? number(terms) : "";
  }

  #keep(rows) {
    keep("glossary", { ...kept("glossary", {}), [nameOfTable(this.#pair)]: rows });
  }
}

/** What another tab may have changed: [[term, translation], ...] */
const rowsOf = (pair) => kept("glossary", {})[nameOfTable(pair)] ?? [];

const nameOfTable = ({ source, target }) => `${source}>${target}`;
