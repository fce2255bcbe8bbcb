/** The two languages: which can be chosen, which was detected, and how they are swapped. */

import { make } from "./elements.js";
import { keep, kept } from "./kept.js";
import { nameOf, put } from "./texts.js";

const AUTO = "auto";

export class Languages {
  #from;
  #to;
  #swap;
  #onChange;
  #offered = [];
  #detected = null;
  #isRecognized = true;
  #isSure = true;

  /** Two select elements and the button between them; `onChange()` is called when the languages are others. */
  constructor({ from, to, swap }, onChange) {
    [this.#from, this.#to, this.#swap, this.#onChange] = [from, to, swap, onChange];
    from.addEventListener("change", () => this.#offerTargets(to.value));
    to.addEventListener("change", () => this.#changed());
  }

  /** Offers what the server has, [{code, name, targets}], with what was chosen last time in this browser. */
  offer(languages) {
    this.#offered = languages.map((one) => ({ ...one, targets: one.targets.filter((code) => code !== one.code) }));
    this.choose(kept("source", AUTO), kept("target", ""));
  }

  /** Chooses two languages, or what comes nearest to them among those that are offered. */
  choose(from, to) {
    const sources = this.#offered.filter((one) => one.targets.length);
    this.#from.replaceChildren(make("option", { value: AUTO }), ...sources.map(optionOf));
    this.#nameAuto();
    this.#from.value = from;
    if (this.#from.selectedIndex < 0) this.#from.value = AUTO;
    this.#offerTargets(to);
  }

  /** The same choice, in the language that the page speaks now. */
  render() {
    this.choose(this.#from.value, this.#to.value);
  }

  /** Whether the server has said what it translates. */
  get areOffered() {
    return this.#offered.length > 0;
  }

  get isAuto() {
    return this.#from.value === AUTO;
  }

  /** As the server takes it: a code, or "auto". */
  get asked() {
    return this.#from.value;
  }

  /** The language of the text: the chosen one; else that which was detected, or else the first that fits. */
  get source() {
    if (!this.isAuto) return this.#from.value;
    return this.#detected ?? this.#offered.find((one) => one.targets.includes(this.target))?.code ?? "";
  }

  get target() {
    return this.#to.value;
  }

  /** Whether the server translates between them. */
  get fit() {
    return this.#targetsOf(this.source).includes(this.target);
  }

  /** Says that no language was recognized in the text; the two stay what they are, if they fit. */
  showNoneDetected() {
    this.#isRecognized = false;
    if (!this.fit) this.#detected = null;
    this.#nameAuto();
    this.#changed();
  }

  /** Says which language was found in the text, null where there is none, and chooses a target that it has. */
  showDetected(code, isSure = true) {
    if (this.#detected === code && this.#isRecognized && this.#isSure === isSure) return;
    this.#isRecognized = true;
    this.#isSure = isSure;
    this.#detected = code;
    this.#nameAuto();
    const targets = this.#targetsOf(code);
    if (this.isAuto) this.#offerTargets(targets.length && !targets.includes(this.target) ? targets[0] : this.target);
  }

  swap() {
    this.choose(this.target, this.source);
  }

  #nameAuto() {
    const [auto] = this.#from.options;
    if (!this.#isRecognized) put(auto, "not_detected");
    else if (this.#detected) put(auto, this.#isSure ? "detected" : "guessed", { language: nameOf(this.#detected, this.#detected) });
    else put(auto, "detect");
  }

  /** The languages into which the chosen one can be translated; any target where the language is to be detected. */
  #offerTargets(wanted) {
    const sources = this.#offered.filter((one) => this.isAuto || one.code === this.#from.value);
    const codes = new Set(sources.flatMap((one) => one.targets));
    this.#to.replaceChildren(...this.#offered.filter((one) => codes.has(one.code)).map(optionOf));
    this.#to.value = wanted;
    if (this.#to.selectedIndex < 0) this.#to.selectedIndex = 0;
    this.#changed();
  }

  #changed() {
    if (!this.#offered.length) return;
    keep("source", this.#from.value);
    keep("target", this.target);
    this.#swap.disabled = !this.#targetsOf(this.target).includes(this.source);
    this.#onChange();
  }

  #targetsOf(code) {
    return this.#offered.find((one) => one.code === code)?.targets ?? [];
  }
}

const optionOf = ({ code, name }) => make("option", { value: code, textContent: nameOf(code, name) });
