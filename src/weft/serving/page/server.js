/** What the page asks of the server. Addresses are relative, so that the page also works below a path of a proxy. */

/** A refusal of the server, or none at all (status 0). `message` is what it says; `wait` in seconds, or null. */
export class ServerError extends Error {
  constructor(status, message, wait = null) {
    super(message);
    this.status = status;
    this.wait = wait;
  }
}

let key = "";

/** The API key that goes with every request, empty for none. */
export function useKey(value) {
  key = value;
}

export const languages = () => answerOf("languages").then(read);
export const settings = () => answerOf("frontend/settings").then(read);
export const detect = (body, signal) => post("detect", body, signal);
export const translate = (body, signal) => post("translate", body, signal);
/** Translates a file; {translatedFileUrl, segments}. */
export async function translateFile(file, { source, target }, signal) {
  const body = new FormData();
  for (const [name, value] of Object.entries({ source, target, file })) body.append(name, value);
  return read(await answerOf("translate_file", { method: "POST", headers: authorization(), body, signal }));
}
export const explain = (body, signal) => post("weft/explain", body, signal);
export const alternatives = (body, signal) => post("weft/alternatives", body, signal);

/** Yields {index, source, before, text} for each sentence as it comes; `before` stands between it and the last one. */
export async function* stream(body, signal) {
  const answer = await answerOf("weft/stream", request(body, signal));
  for await (const line of linesOf(answer)) {
    const sentence = parsed(line, answer);
    if (sentence.error) throw new ServerError(answer.status, messageOf(sentence));
    yield sentence;
  }
}

/** The command that asks for the same in a terminal. */
export function asCurl(body) {
  const quoted = JSON.stringify(body).replaceAll("'", String.raw`'\''`);
  const address = new URL("translate", document.baseURI).href;
  return `curl -X POST '${address}' -H 'Content-Type: application/json' -d '${quoted}'`;
}

async function post(path, body, signal) {
  return read(await answerOf(path, request(body, signal)));
}

/** What an answer holds. What is not JSON, as where something between page and server answers, is a refusal too. */
async function read(answer) {
  try {
    return await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(answer.status, "");
  }
}

function parsed(line, answer) {
  try {
    return JSON.parse(line);
  } catch {
    throw new ServerError(answer.status, "");
  }
}

const authorization = () => (key ? { Authorization: `Bearer ${key}` } : {});

const request = (body, signal) => ({
  method: "POST",
  headers: { "Content-Type": "application/json", ...authorization() },
  body: JSON.stringify(body),
  signal,
});

async function answerOf(path, options = {}) {
  if (/[^\x20-\x7e]/.test(key)) throw new ServerError(401, ""); // no header can carry it
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(0, "");
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new ServerError(answer.status, messageOf(said), Number(answer.headers.get("Retry-After")) || null);
}

function messageOf(said) {
  const message = said.error ?? said.detail ?? "";
  return typeof message === "string" ? message : (message.message ?? JSON.stringify(message));
}

async function* linesOf(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new ServerError(answer.status, "");
    });
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop();
    yield* lines.filter((line) => line.trim());
    if (done) return;
  }
}
