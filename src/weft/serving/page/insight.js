/**
 * Looking inside a translation: attention, confidence, and the tree of the search.
 *
 * An explanation costs the server more than a translation. It is requested for a sentence when the user rests on one
 * of its words, wants to see the confidence or opens the tree.
 */

import { BeamTree } from "./beam_tree.js";
import { make } from "./elements.js";
import { Explanation, overlapping } from "./explanation.js";
import { failureText } from "./failures.js";
import { percent, put, silence, text } from "./texts.js";

const REST = 120; // milliseconds on a word
const LEAST_NAMED = 0.1; // of attention
const MOST_NAMED = 3;
const CONCERN_ALL = [0, 401, 403]; // statuses that the next sentence would meet with too

export class Insight {
  #source;
  #answer;
  #readout;
  #confidence;
  #beam;
  #ask;
  #text = "";
  #sentences = [];
  #asking = new AbortController();
  #pointed = 0;
  #failure = null; // why some sentences have no explanation

  /**
   * Two views, and three elements: where words are described, the button for confidence, what holds the tree.
   * `ask(sentence, signal)` asks the server to explain a sentence of answer_view.js.
   */
  constructor({ source, answer, readout, confidence, beam }, ask) {
    [this.#source, this.#answer, this.#readout] = [source, answer, readout];
    [this.#confidence, this.#beam, this.#ask] = [confidence, beam, ask];
    confidence.addEventListener("click", () => this.#toggleConfidence());
    beam.addEventListener("toggle", () => this.#showBeam());
  }

  /** Looks into these sentences of a text from now on, and forgets what came before. */
  show(text, sentences) {
    this.#asking.abort();
    this.#asking = new AbortController();
    [this.#text, this.#sentences] = [text, sentences];
    for (const one of sentences) if (!one.explanation) one.explained = null; // what was asked for is called off
    this.#pointed++;
    this.#failure = null;
    this.#clearReadout();
    this.divideSource();
    this.#showBeam();
    if (this.#isConfidenceShown) this.#explainAll();
  }

  /** Shades the source by what a word of the translation looked at; null shades nothing. */
  async pointAtTarget(word) {
    const mine = this.#nothingShaded();
    if (!word) return;
    const { sentence, span } = word;
    if (!(await this.#rest(sentence, mine))) return;
    const attended = sentence.explanation.attendedBy(span);
    if (sentence.begin !== null)
      this.#source.shade(attended.map(({ span, share }) => ({ span: moved(span, sentence.begin), share })));
    const sure = sentence.explanation.probability(span);
    const probability = sure === null ? "–" : percent(sure);
    const sources = named(attended);
    const needed = sentence.explanation.neededBy(span);
    const said = text(sources ? "attended" : "attended_none", { word: word.text, probability, sources });
    this.#tell(said + (needed ? text("needed", { source: needed }) : ""));
  }

  /**
   * Shades the words of the translation that looked at a word of the source, a span of the whole text. The caret, which
   * people also move to write, never makes the server explain.
   */
  async pointAtSource(span, isPointer) {
    const mine = this.#nothingShaded();
    const sentence = span && this.#sentences.find((one) => overlapping([spanOf(one)], span).length);
    if (!sentence || !(sentence.explanation || isPointer)) return;
    if (!sentence.explanation) {
      if (await this.#rest(sentence, mine)) this.#clearReadout(); // from now on it has words to point at
      return;
    }
    const attending = sentence.explanation.attendersOf(moved(span, -sentence.begin));
    this.#source.shade([{ span, share: 1 }]);
    this.#answer.shade(sentence, attending);
    const values = { source: this.#source.text.slice(span.begin, span.end), words: named(attending) };
    this.#tell(text(values.words ? "written_by" : "written_by_none", values));
  }

  #nothingShaded() {
    this.#answer.shade(null, []);
    this.#source.shade([]);
    this.#clearReadout();
    return ++this.#pointed;
  }

  /** Whether the sentence is explained and still pointed at, after a short rest. */
  async #rest(sentence, mine) {
    if (sentence.explanation) return true;
    await new Promise((done) => setTimeout(done, REST));
    if (mine !== this.#pointed) return false;
    this.#tell(text("explaining"));
    try {
      await this.#explained(sentence);
    } catch (error) {
      if (error.name !== "AbortError" && mine === this.#pointed) this.#tell(notExplained(error));
      return false;
    }
    return mine === this.#pointed;
  }

  /** The explanation of a sentence, requested once, again if that failed. */
  #explained(sentence) {
    if (!sentence.explained) {
      const asked = this.#explain(sentence).catch((error) => {
        if (sentence.explained === asked) sentence.explained = null;
        throw error;
      });
      sentence.explained = asked;
    }
    return sentence.explained;
  }

  async #explain(sentence) {
    const told = await this.#ask(sentence, this.#asking.signal);
    sentence.explanation = new Explanation(told, sentence.source, sentence.text);
    this.divideSource();
    this.#shadeDoubt();
    return sentence.explanation;
  }

  /** Takes the source apart into the words of explained sentences and the others whole, unless it was changed. */
  divideSource() {
    const sentences = this.#source.text === this.#text ? this.#sentences : [];
    this.#source.divide(
      sentences.flatMap((sentence) => {
        const { begin, explanation } = sentence;
        if (begin === null || !explanation) return [spanOf(sentence)];
        return explanation.sourceSpans.map((span) => span && moved(span, begin));
      }),
    );
  }

  get #isConfidenceShown() {
    return this.#confidence.ariaPressed === "true";
  }

  #toggleConfidence() {
    this.#confidence.ariaPressed = String(!this.#isConfidenceShown);
    this.#failure = null;
    this.#shadeDoubt();
    this.#clearReadout();
    if (this.#isConfidenceShown) this.#explainAll();
  }

  #tell(words) {
    silence(this.#readout);
    this.#readout.textContent = words;
  }

  /** Where no word is pointed at, what the underlines mean, if there are any. */
  #clearReadout() {
    if (!this.#isConfidenceShown || !this.#sentences.length) silence(this.#readout);
    else if (this.#failure) this.#tell(`${text("confidence_is")} ${notExplained(this.#failure)}`);
    else put(this.#readout, "confidence_is");
  }

  /** One sentence after the other, since the server has others to serve. */
  async #explainAll() {
    const { signal } = this.#asking;
    const waiting = [...this.#sentences];
    while (waiting.length && this.#isConfidenceShown && !signal.aborted) {
      try {
        await this.#explained(waiting[0]);
        waiting.shift();
      } catch (error) {
        if (error.name === "AbortError") return;
        if (error.wait) {
          this.#tell(notExplained(error));
          await new Promise((done) => setTimeout(done, error.wait * 1000));
        } else {
          this.#failure = error;
          waiting.splice(0, CONCERN_ALL.includes(error.status) ? Infinity : 1);
        }
        if (!signal.aborted) this.#clearReadout();
      }
    }
  }

  #shadeDoubt() {
    if (this.#isConfidenceShown)
      this.#answer.shadeDoubt(({ sentence, span }) => sentence.explanation?.probability(span) ?? null);
    else this.#answer.clearDoubt();
  }

  /** The tree of the first sentence, or of another that is chosen. */
  async #showBeam(sentence = this.#sentences[0]) {
    if (!this.#beam.open) return;
    const body = this.#beam.querySelector(".body");
    const hint = put(make("p", { className: "hint" }), sentence ? "explaining" : "beam_empty");
    body.replaceChildren(...this.#sentenceChoice(sentence), hint);
    if (!sentence) return;
    try {
      const { told } = await this.#explained(sentence);
      if (!hint.isConnected) return;
      if (told.beam.nodes.length) hint.replaceWith(...new BeamTree(told.beam.nodes).elements);
      else put(hint, "beam_given");
    } catch (error) {
      if (error.name !== "AbortError") put(hint, "not_explained", { reason: failureText(error) });
    }
  }

  /** Of several sentences, which one's tree is shown. */
  #sentenceChoice(chosen) {
    if (this.#sentences.length < 2) return [];
    const options = this.#sentences.map((one, index) =>
      make("option", { value: index, textContent: one.source.trim() }),
    );
    const select = make("select", {}, ...options);
    select.ariaLabel = text("beam_sentence");
    select.value = this.#sentences.indexOf(chosen);
    select.addEventListener("change", async () => {
      await this.#showBeam(this.#sentences[select.value]);
      this.#beam.querySelector("select").focus();
    });
    return [select];
  }
}

const moved = (span, by) => ({ begin: span.begin + by, end: span.end + by });

/** Where the source of a sentence stands in the whole text, if that is known. */
const spanOf = ({ source, begin }) => (begin === null ? null : { begin, end: begin + source.length });

const notExplained = (error) => text("not_explained", { reason: failureText(error) });

/** The words with the greatest shares. */
function named(weights) {
  const most = weights.filter(({ share }) => share >= LEAST_NAMED).slice(0, MOST_NAMED);
  return most
    .map(({ text: word, share }) => text("with_share", { word, share: percent(share) }))
    .join(text("separator"));
}
