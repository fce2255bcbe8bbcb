/** The small window below a word of the translation: what else could stand there. */

import { failureText } from "./failures.js";
import { icon, make } from "./elements.js";
import { label, put, text } from "./texts.js";

export class Choices {
  #window;
  #element = null;
  #question = null;

  constructor(element) {
    this.#window = element;
    element.addEventListener("keydown", (event) => this.#walk(event));
    document.addEventListener("pointerdown", (event) => {
      if (this.isOpen && !element.contains(event.target)) this.close();
    });
    element.addEventListener("focusout", (event) => {
      if (event.relatedTarget && !element.contains(event.relatedTarget)) this.close({ refocus: false });
    });
    window.addEventListener("resize", () => {
      if (this.isOpen) this.#place(); // a keyboard on the screen also changes the size
    });
  }

  get isOpen() {
    return !this.#window.hidden;
  }

  /**
   * Opens below a word. `ask(prefix, signal)` answers with alternatives, each {word, text}, to what follows the prefix
   * of the sentence; `onChoice(text)` is called with the sentence that was chosen.
   */
  async open(word, ask, onChoice) {
    this.close({ refocus: false });
    this.#element = word.element;
    this.#question = new AbortController();
    const { signal } = this.#question;
    const prefix = word.sentence.text.slice(0, word.span.begin).trimEnd();
    const close = make("button", { type: "button", className: "quiet", onclick: () => this.close() }, icon("close"));
    label(close, "close");
    const list = make("ul");
    const note = make("p", { className: "hint", textContent: text("translating") });
    label(this.#window, "instead_of", { word: word.text });
    this.#window.replaceChildren(
      make("div", { className: "top" }, make("p", { textContent: text("instead_of", { word: word.text }) }), close),
      list,
      note,
      this.#ownWord(prefix, word, async (own) => {
        const [best] = await ask(own, signal);
        if (best) onChoice(best.text);
      }),
    );
    this.#window.hidden = false;
    this.#place();
    close.focus();
    await this.#answer(note, async () => {
      const found = await ask(prefix, signal);
      const others = found.filter((choice) => choice.text !== word.sentence.text);
      list.append(...others.map((choice) => choiceOf(choice, prefix, onChoice)));
      put(note, "no_choice");
      note.hidden = others.length > 0;
      if (document.activeElement === close) list.querySelector("button")?.focus(); // unless the user is writing a word
      this.#place();
    });
  }

  close({ refocus = true } = {}) {
    if (!this.isOpen) return;
    this.#question.abort();
    this.#window.hidden = true;
    if (refocus) this.#element.focus();
  }

  /** A field for a word of the user, from which the translation continues. */
  #ownWord(prefix, word, onWord) {
    const field = make("input", {
      type: "text",
      placeholder: text("own_word"),
      lang: word.element.closest("[lang]").lang,
      dir: "auto",
    });
    label(field, "own_word");
    const form = make("form", {}, field);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const note = this.#window.querySelector(".hint");
      const before = word.sentence.text.slice(prefix.length, word.span.begin);
      if (field.value.trim()) this.#answer(note, () => onWord(prefix + before + field.value.trim()));
    });
    return form;
  }

  async #answer(note, work) {
    note.hidden = false;
    note.classList.remove("failure");
    put(note, "translating");
    try {
      await work();
    } catch (error) {
      if (error.name === "AbortError") return;
      note.removeAttribute("data-text");
      note.classList.add("failure");
      note.textContent = failureText(error);
    }
  }

  #walk(event) {
    const buttons = [...this.#window.querySelectorAll("li button")];
    const place = buttons.indexOf(document.activeElement);
    const next = { ArrowDown: place + 1, ArrowUp: place - 1 }[event.key];
    if (next === undefined || !buttons.length) return;
    event.preventDefault();
    buttons[(next + buttons.length) % buttons.length].focus();
  }

  /** Below the word, within the width of the page. */
  #place() {
    const word = this.#element.getBoundingClientRect();
    const room = document.documentElement.clientWidth - this.#window.offsetWidth - 8;
    this.#window.style.setProperty("left", `${Math.max(8, Math.min(word.left, room)) + window.scrollX}px`);
    this.#window.style.setProperty("top", `${word.bottom + window.scrollY + 6}px`);
  }
}

/** One choice: what the translations share is left out, the rest is shown. */
function choiceOf(choice, prefix, onChoice) {
  const rest = choice.text.startsWith(prefix) ? choice.text.slice(prefix.length).trimStart() : choice.text;
  const word = rest.startsWith(choice.word) ? choice.word : "";
  const choose = () => onChoice(choice.text);
  const button = make("button", { type: "button", className: "plain", dir: "auto", onclick: choose });
  button.append(make("b", { textContent: word }), rest.slice(word.length) || text("ends_here"));
  return make("li", {}, button);
}
