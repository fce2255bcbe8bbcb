/**
 * The translation, word by word: it can be walked with the arrow keys, pointed at and shaded.
 *
 * A sentence is {source, text, before, begin, first}: its two texts, what stands between it and the sentence before,
 * where its source begins in the whole text, and, if another text was chosen, what the model wrote itself. A
 * word is {element, sentence, span, text}, its span in the sentence's text. The browser finds the words, so that they
 * are there before any explanation is.
 */

import { make } from "./elements.js";
import { overlapping } from "./explanation.js";

export class AnswerView {
  #container;
  #segmenter = new Intl.Segmenter("en", { granularity: "word" });
  #words = [];

  /** `onWord(word or null)` is called as words are pointed at or focused, `onChoice(word)` as one is clicked. */
  constructor(container, onWord, onChoice) {
    this.#container = container;
    const pointed = (event) => onWord(this.#wordOf(event.target));
    container.addEventListener("pointerover", pointed);
    container.addEventListener("focusin", pointed);
    container.addEventListener("focusin", (event) => this.#makeReachable(event.target));
    container.addEventListener("pointerleave", () => onWord(this.#wordOf(document.activeElement)));
    container.addEventListener("focusout", () => onWord(null));
    container.addEventListener("keydown", (event) => this.#walk(event, onChoice));
    container.addEventListener("click", (event) => {
      const word = this.#wordOf(event.target);
      if (word && document.getSelection().isCollapsed) onChoice(word);
    });
  }

  get text() {
    return this.#container.textContent;
  }

  /** Shows these sentences, in a language given by its code, in place of what was shown. */
  show(sentences, language) {
    this.#segmenter = new Intl.Segmenter(language, { granularity: "word" });
    this.#container.lang = language;
    this.#container.replaceChildren();
    this.#words = [];
    for (const sentence of sentences) this.append(sentence);
  }

  append(sentence) {
    const parts = [...this.#segmenter.segment(sentence.text)].map((segment) =>
      segment.isWordLike ? this.#addWord(sentence, segment) : segment.segment,
    );
    this.#container.append(sentence.before, make("span", { className: "sentence" }, ...parts));
  }

  /** The word of a sentence that holds this place of its text. */
  wordAt(sentence, place) {
    return this.#words.find((word) => word.sentence === sentence && place < word.span.end);
  }

  focus(word) {
    word?.element.focus();
  }

  /** Shades the words of a sentence within these spans, each {span, share}; everything else is as it was. */
  shade(sentence, weights) {
    for (const word of this.#words) word.element.style.setProperty("--share", 0);
    const words = this.#words.filter((word) => word.sentence === sentence);
    const spans = words.map((word) => word.span);
    for (const { span, share } of weights) {
      for (const index of overlapping(spans, span)) words[index].element.style.setProperty("--share", share);
    }
  }

  /** Underlines words by how sure the model was: `probability(word)`, or null where that is not known. */
  shadeDoubt(probability) {
    for (const word of this.#words) {
      const sure = probability(word);
      word.element.dataset.doubt = sure === null ? "unknown" : DOUBTS.findIndex((least) => sure >= least);
    }
  }

  clearDoubt() {
    for (const word of this.#words) word.element.dataset.doubt = "";
  }

  #addWord(sentence, { segment, index }) {
    const element = make("span", { className: "word", role: "button", tabIndex: this.#words.length ? -1 : 0 }, segment);
    element.setAttribute("aria-haspopup", "dialog");
    const span = { begin: index, end: index + segment.length };
    this.#words.push({ element, sentence, span, text: segment });
    return element;
  }

  /** The tab key reaches one word, that which had the focus last; the arrow keys reach the others from there. */
  #makeReachable(element) {
    for (const word of this.#words) word.element.tabIndex = word.element === element ? 0 : -1;
  }

  #wordOf(element) {
    return this.#words.find((word) => word.element === element) ?? null;
  }

  #walk(event, onChoice) {
    const word = this.#wordOf(event.target);
    const place = this.#words.indexOf(word);
    const last = this.#words.length - 1;
    const step = getComputedStyle(this.#container).direction === "rtl" ? -1 : 1;
    const places = { ArrowLeft: place - step, ArrowRight: place + step, Home: 0, End: last };
    if (!word || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") onChoice(word);
    else if (event.key in places) this.focus(this.#words[Math.min(last, Math.max(0, places[event.key]))]);
    else return;
    event.preventDefault();
  }
}

/** The least probability of a word of doubt 0 (none), 1, 2 and 3 (most). */
const DOUBTS = [0.8, 0.5, 0.2, 0];
