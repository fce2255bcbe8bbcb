/**
 * The page of `weft serve`: what people do becomes requests, and answers become views.
 *
 *   texts.js            what the page says, in each language      server.js        the requests
 *   languages.js        from which language to which              failures.js      what is said when a request fails
 *   source_view.js      the text, and what is shaded in it        insight.js       attention, confidence, the search
 *   answer_view.js      the translation, word by word             explanation.js   what an explanation says of words
 *   choices.js          what else could stand in a place          beam_tree.js     the search as a tree
 *   glossary.js, history.js, kept.js                              what the browser keeps
 */

import { AnswerView } from "./answer_view.js";
import { followTheme } from "./appearance.js";
import { Choices } from "./choices.js";
import { copy } from "./clipboard.js";
import { find, icon, make } from "./elements.js";
import { failureText } from "./failures.js";
import { Glossary } from "./glossary.js";
import { History } from "./history.js";
import { Insight } from "./insight.js";
import { keep, kept } from "./kept.js";
import { Languages } from "./languages.js";
import * as server from "./server.js";
import { SourceView } from "./source_view.js";
import { label, language, nameOf, number, put, silence, speak, text } from "./texts.js";

const LONGEST_WHOLE = 160; // characters; a longer text comes sentence by sentence
/** Words behind what may end a sentence; whether it does is the server's to say. */
const PERHAPS_SEVERAL = /(?!\.\w)[\p{Sentence_Terminal}…⋯\n\v\f\x85\u2028\u2029].*[\p{L}\p{N}]/su;
const LONGEST_DETECTED = 500;
const SURE = 50; // confidence from which a language is not called a guess
const OTHERS = 3;

/** What the server allows, what stands on the page, and what is under way. */
let limit = Infinity; // characters
let pause = 500; // milliseconds without a key, before the text is translated
let shown = { q: "", sentences: [], source: "", target: "", isDone: false };
let running = null;
let soon = 0; // the timer of the translation while someone types
let isComposing = false; // an input method's text, which is not yet what its user means
let judged = ""; // the text whose language was detected last
let sayError = null; // what the error that is shown says

const source = new SourceView(find("text"), find("shades"), (...span) => insight.pointAtSource(...span));
const answer = new AnswerView(find("answer"), (word) => insight.pointAtTarget(word), chooseInstead);
const views = { source, answer, readout: find("readout"), confidence: find("confidence"), beam: find("beam") };
const insight = new Insight(views, explain);
const choices = new Choices(find("choices"));
const glossary = new Glossary(find("glossary"));
const history = new History(find("history"), restore);
const languages = new Languages({ from: find("source"), to: find("target"), swap: find("swap") }, languagesChanged);

listen();
followTheme(find("dark"));
source.text = kept("draft", "", "sessionStorage");
window.addEventListener("pagehide", () => keep("draft", source.text || undefined, "sessionStorage"));
speakIn(kept("language", navigator.language.startsWith("zh") ? "zh" : "en"));
start();

async function start() {
  hideError();
  try {
    const [offered, settings] = await Promise.all([server.languages(), server.settings()]);
    limit = settings.charLimit > 0 ? settings.charLimit : Infinity;
    pause = settings.frontendTimeout;
    find("key").hidden = !settings.apiKeys;
    languages.offer(offered);
    showModels(settings.models);
  } catch (error) {
    showError(() => failureText(error), start);
  }
  count();
}

function listen() {
  find("request").addEventListener("input", () => languages.areOffered && hideError());
  find("request").addEventListener("submit", (event) => {
    event.preventDefault();
    translate();
  });
  document.addEventListener("keydown", (event) => {
    if (event.isComposing) return; // the key is the input method's
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
    else if (event.key === "Escape") choices.isOpen ? choices.close() : running?.abort();
    else return;
    event.preventDefault();
  });
  find("text").addEventListener("input", changed);
  find("text").addEventListener("compositionstart", () => (isComposing = true));
  find("text").addEventListener("compositionend", () => ((isComposing = false), translateSoon()));
  find("text").addEventListener("blur", () => shown.isKept || remember());
  acceptFiles(document.querySelector(".boxes"));
  find("clear").addEventListener("click", clear);
  find("swap").addEventListener("click", swap);
  find("stop").addEventListener("click", () => running?.abort());
  find("copy").addEventListener("click", () => copyAnswer());
  find("curl").addEventListener("click", () => copyAsCurl());
  find("api_key").addEventListener("input", () => server.useKey(find("api_key").value));
  find("interface").addEventListener("click", () => speakIn(find("interface").lang));
}

// ---- the text -----------------------------------------------------------------------------------------------------

function changed() {
  insight.divideSource();
  markStale();
  count();
  translateSoon();
}

function rewrite(q) {
  source.text = q;
  find("text").dispatchEvent(new InputEvent("input", { bubbles: true }));
  find("text").focus();
}

/** As a key would, so that the browser can undo it; to insert many lines like this takes it minutes. */
function clear() {
  find("text").focus();
  find("text").select();
  document.execCommand("delete");
}

function count() {
  const size = sizeOf(source.text);
  put(find("counter"), limit < Infinity ? "count_of" : "count", { count: number(size), limit: number(limit) });
  find("counter").classList.toggle("over", size > limit);
  find("text").ariaInvalid = String(size > limit);
  find("clear").hidden = !size;
}

/** Characters as the server counts them: one outside the first plane is one. */
function sizeOf(q) {
  return [...q].length;
}

// ---- languages ----------------------------------------------------------------------------------------------------

function languagesChanged() {
  find("text").lang = languages.source;
  glossary.show({ source: languages.source, target: languages.target });
  markStale();
  translateSoon();
}

/** The translation becomes the text, and the text its translation, where they belong together. */
function swap() {
  const moves = shown.isDone && isAsked(shown.q, shown);
  const [q, translation] = moves ? [answer.text, shown.q] : [source.text, ""];
  languages.swap();
  rewrite(q);
  if (!moves) return;
  begin(q, languages);
  shown.sentences.push({ source: q, text: translation, before: "", begin: 0 });
  shown.isDone = shown.isKept = true;
  showAnswer();
  markStale();
}

/** Whether this text stands there, between these languages. */
function isAsked(q, pair) {
  return source.text === q && languages.source === pair.source && languages.target === pair.target;
}

/** Translates when no key has come for a while; first the language is detected, which may change. */
function translateSoon() {
  clearTimeout(soon);
  const again = () => (hideError(), translateSoon());
  soon = setTimeout(() => translateTyped().catch((error) => showError(() => failureText(error), again)), pause);
}

async function translateTyped() {
  if (isComposing || running?.isFile) return;
  if (!languages.areOffered) await start();
  if (!languages.areOffered) return;
  if (languages.isAuto) await detect();
  const q = source.text;
  const isNew = !isAsked(shown.q, shown) && running?.q !== q;
  if (!q.trim() || !isNew || running?.isFile || sizeOf(q) > limit) return;
  if (languages.fit) await translate({ isTyped: true });
  else if (languages.areOffered) put(find("note"), "no_model", namesOf(languages));
}

async function detect(signal) {
  const begin = source.text.slice(0, LONGEST_DETECTED).toWellFormed(); // no half of a character
  const q = [...begin].slice(0, limit).join(""); // the server refuses more
  clearTimeout(soon);
  if (q === judged) return;
  const [best] = q.trim() ? await server.detect({ q }, signal) : [];
  judged = q;
  if (best?.confidence === 0) languages.showNoneDetected();
  else languages.showDetected(best?.language ?? null, !best || best.confidence >= SURE);
}

// ---- translating --------------------------------------------------------------------------------------------------

/** What is typed is kept in the history when the text is left, and what is asked for at once. */
async function translate({ isTyped = false } = {}) {
  const q = source.text;
  if (!q.trim()) return put(find("note"), "nothing_written");
  if (!languages.areOffered) await start();
  if (!languages.areOffered) return;
  const over = sizeOf(q) - limit;
  if (over > 0) return showError(() => text("too_long", { over: number(over), limit: number(limit) }));
  running?.abort();
  clearTimeout(soon);
  const run = (running = Object.assign(new AbortController(), { q }));
  hideError();
  work(true);
  const began = performance.now();
  try {
    if (languages.isAuto) await detect(run.signal);
    const pair = { source: languages.source, target: languages.target }; // others may be chosen before the answer comes
    if (!languages.fit) return showError(() => text("no_model", namesOf(pair)));
    await translateText(q, pair, run.signal);
    shown.isDone = true;
    const seconds = number((performance.now() - began) / 1000, { maximumFractionDigits: 1 });
    put(find("note"), isAsked(q, pair) ? "done" : "stale", { seconds });
    put(find("spoken"), "translation_is", { text: answer.text });
    if (!isTyped) remember();
  } catch (error) {
    if (running !== run) return; // another one has begun
    insight.show(shown.q, shown.sentences); // of what has come, too
    warn();
    if (error.name === "AbortError") put(find("note"), "stopped");
    else showError(() => failureText(error), translate);
  } finally {
    if (running === run) work(false);
  }
}

/** A short text of one sentence has other translations too. */
async function translateText(q, pair, signal) {
  const isShort = sizeOf(q) <= LONGEST_WHOLE;
  if (isShort && !PERHAPS_SEVERAL.test(q)) return translateWhole(q, pair, signal);
  await translateLong(q, pair, signal);
  if (isShort && shown.sentences.length === 1) await translateWhole(q, pair, signal);
}

function namesOf({ source, target }) {
  return { source: nameOf(source, source), target: nameOf(target, target) };
}

async function translateWhole(q, pair, signal) {
  const found = await server.translate({ ...requestFor(q, pair), alternatives: OTHERS }, signal);
  begin(q, pair);
  shown.sentences.push({ source: q, text: found.translatedText, before: "", begin: 0, flags: found.flags });
  showAnswer();
  showOthers(found.alternatives);
  warn();
}

async function translateLong(q, pair, signal) {
  let end = 0; // of the sentence before, in the whole text
  for await (const found of server.stream(requestFor(q, pair), signal)) {
    if (found.index === 0) begin(q, pair);
    const place = q.indexOf(found.source, end);
    const { index, ...told } = found;
    const sentence = { ...told, begin: place < 0 ? null : place };
    end = place < 0 ? end : place + found.source.length;
    shown.sentences.push(sentence);
    answer.append(sentence);
    put(find("note"), "sentences", { count: number(shown.sentences.length) });
  }
  insight.show(q, shown.sentences);
  warn();
}

function requestFor(q, { source, target }) {
  const terms = glossary.terms({ source, target });
  return { q, source, target, ...(Object.keys(terms).length ? { glossary: terms } : {}) };
}

/** Makes room for a new answer. */
function begin(q, { source, target }) {
  choices.close({ refocus: false });
  shown = { q, sentences: [], source, target, isDone: false };
  markStale();
  showAnswer();
  showOthers([]);
  warn();
}

function showAnswer() {
  answer.show(shown.sentences, shown.target);
  insight.show(shown.q, shown.sentences);
}

function showOthers(others = []) {
  const list = find("others").querySelector("ol");
  list.replaceChildren(...others.map((other) => make("li", {}, otherButton(other))));
  find("others").hidden = !others.length;
}

/** Another translation; a click exchanges it with the one above. */
function otherButton(other) {
  const said = { textContent: other, lang: shown.target, dir: "auto" };
  const button = make("button", { type: "button", className: "plain", ...said });
  button.addEventListener("click", () => {
    const [sentence] = shown.sentences;
    const chosen = button.textContent;
    button.textContent = sentence.text;
    replaceSentence(sentence, chosen);
  });
  return button;
}

function work(isWorking) {
  if (!isWorking) running = null;
  find("stop").hidden = !isWorking;
  find("answer").ariaBusy = String(isWorking);
  if (isWorking) put(find("note"), "translating");
}

/** Says whether the answer is to another text or between other languages; what is under way has the note for itself. */
function markStale() {
  const isStale = Boolean(shown.q) && !isAsked(shown.q, shown);
  find("answer").classList.toggle("stale", isStale);
  if (running) return;
  if (isStale) put(find("note"), "stale");
  else if (find("note").dataset.text === "stale") silence(find("note"));
}

/** Says what looks wrong with a translation. */
function warn() {
  const lost = shown.sentences.flatMap(lostTerms);
  const flags = new Set(shown.sentences.flatMap(flagsOf));
  const warnings = [...flags].map((flag) => [`flag_${flag}`]);
  if (lost.length) warnings.push(["terms_lost", { terms: lost.join(text("separator")) }]);
  find("flags").hidden = !warnings.length;
  find("flags").replaceChildren(...warnings.map((warning) => put(make("span"), ...warning)));
}

/** What the server said of the model's own translation of a sentence, which may not be the chosen one. */
function flagsOf({ text, first = text, flags }) {
  return text === first ? flags ?? [] : [];
}

/** What the model's own translation of a sentence held of the glossary, and the chosen one does not. */
function lostTerms({ source, text, first = text }) {
  const terms = Object.entries(glossary.terms(shown)).filter(([term]) => has(source, term));
  return terms.map(([, translation]) => translation).filter((one) => has(first, one) && !has(text, one));
}

/** As the server looks for terms: in any letter case. */
const has = (text, term) => text.toLowerCase().includes(term.toLowerCase());

// ---- looking inside and choosing ----------------------------------------------------------------------------------

/** The explanation of a sentence as it stands there; of the model's own translation, with the search that found it. */
async function explain(sentence, signal) {
  const body = { q: sentence.source, source: shown.source, target: shown.target };
  const told = "first" in sentence ? null : await server.explain(body, signal);
  return told?.text === sentence.text ? told : server.explain({ ...body, translation: sentence.text }, signal);
}

function chooseInstead(word) {
  const { sentence, span } = word;
  const ask = async (prefix, signal) => {
    const body = { q: sentence.source, source: shown.source, target: shown.target, prefix };
    return (await server.alternatives(body, signal)).alternatives;
  };
  choices.open(word, ask, (chosen) => {
    choices.close({ refocus: false });
    const next = replaceSentence(sentence, chosen);
    answer.focus(answer.wordAt(next, span.begin));
  });
}

function replaceSentence(sentence, chosen) {
  const { source, before, begin, flags, first = sentence.text } = sentence;
  const next = { source, text: chosen, before, begin, flags, first };
  shown.sentences = shown.sentences.map((other) => (other === sentence ? next : other));
  showAnswer();
  warn();
  put(find("spoken"), "translation_is", { text: answer.text });
  remember();
  return next;
}

// ---- keeping and copying ------------------------------------------------------------------------------------------

function remember() {
  if (!shown.isDone) return;
  shown.isKept = true;
  const { q, source, target } = shown;
  const sentences = shown.sentences.map(({ explained, explanation, ...sentence }) => sentence);
  history.add({ q, text: answer.text, sentences, source, target });
}

/** Puts an entry of the history back, without asking the server. */
function restore(entry) {
  if (!shown.isKept) remember();
  running?.abort();
  hideError();
  languages.choose(entry.source, entry.target);
  rewrite(entry.q);
  begin(entry.q, entry);
  shown.sentences.push(...entry.sentences.map((sentence) => ({ ...sentence })));
  shown.isDone = shown.isKept = true;
  showAnswer();
  warn();
}

async function copyAnswer() {
  if (!answer.text) return put(find("note"), "nothing_to_copy");
  put(find("note"), (await copy(answer.text)) ? "copied" : "not_copied");
}

async function copyAsCurl() {
  if (!source.text.trim()) return put(find("note"), "nothing_written");
  try {
    if (languages.isAuto) await detect();
  } catch (error) {
    return showError(() => failureText(error));
  }
  const hasKey = Boolean(find("api_key").value);
  const body = { ...requestFor(source.text, languages), ...(hasKey ? { api_key: "YOUR_KEY" } : {}) };
  const said = hasKey ? "copied_without_key" : "copied";
  put(find("note"), (await copy(server.asCurl(body))) ? said : "not_copied");
}

// ---- files and models ---------------------------------------------------------------------------------------------

/** Translates a file that is dropped here, or chosen by the button. */
function acceptFiles(element) {
  find("pick").addEventListener("click", () => find("picked").click());
  find("picked").addEventListener("change", ({ target }) => {
    const [file] = target.files;
    target.value = ""; // so that the same file can be chosen again
    if (file) translateFile(file);
  });
  const mark = (event, isTarget) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    element.classList.toggle("target", isTarget);
  };
  element.addEventListener("dragover", (event) => mark(event, true));
  element.addEventListener("dragleave", (event) => mark(event, false));
  element.addEventListener("drop", (event) => {
    mark(event, false);
    const [file] = event.dataTransfer?.files ?? [];
    if (file) translateFile(file);
  });
}

async function translateFile(file) {
  if (!languages.areOffered) await start();
  if (!languages.areOffered) return;
  running?.abort();
  clearTimeout(soon);
  const run = (running = Object.assign(new AbortController(), { isFile: true })); // what is typed waits for it
  hideError();
  work(true);
  put(find("note"), "file_running", { name: file.name });
  find("file").replaceChildren();
  const again = () => translateFile(file);
  try {
    const pair = { source: languages.asked, target: languages.target };
    const { translatedFileUrl, segments } = await server.translateFile(file, pair, run.signal);
    const done = put(make("span"), "file_done", segments); // the link stays where the page's language changes
    const href = `download_file/${translatedFileUrl.split("/").at(-1)}`;
    const link = put(make("a", { href, download: file.name }), "file_get", { name: file.name });
    silence(find("note"));
    find("file").replaceChildren(done, " ", link);
  } catch (error) {
    if (running !== run) return;
    if (error.name === "AbortError") put(find("note"), "stopped");
    else showError(() => failureText(error), again);
  } finally {
    if (running === run) {
      work(false);
      translateSoon();
    }
  }
}

/** Names the models with their licenses; their cards say what they were made from. */
function showModels(models = []) {
  const links = models.map(({ id, license }) =>
    make("a", { href: `weft/card/${encodeURIComponent(id)}`, textContent: license ? `${id} (${license})` : id }),
  );
  const intro = put(make("span"), "models_are");
  find("models").replaceChildren(...(links.length ? [intro] : []), ...links.flatMap((link) => [link, " "]));
}

// ---- what the page says -------------------------------------------------------------------------------------------

/** Changes the language of the page. The button that does it stands in the other one. */
function speakIn(code) {
  speak(code);
  keep("language", code);
  find("interface").lang = language() === "en" ? "zh" : "en";
  languages.render();
  glossary.render();
  history.render();
  count();
  if (!find("error").hidden) find("error").querySelector("p").textContent = sayError();
}

/** `say()` is what is shown, in the language of the page; `again`, if anything, is offered to be tried. */
function showError(say, again) {
  const close = make("button", { type: "button", className: "quiet", onclick: hideError }, icon("close"));
  label(close, "close");
  const retry = put(make("button", { type: "button", className: "plain", onclick: () => again() }), "again");
  find("error").replaceChildren(make("p", { textContent: say() }), ...(again ? [retry] : []), close);
  find("error").hidden = false;
  sayError = say;
  silence(find("note"));
}

function hideError() {
  if (find("error").contains(document.activeElement)) find("go").focus();
  find("error").hidden = true;
}
