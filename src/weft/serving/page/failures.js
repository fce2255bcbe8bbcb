/** What the page says when the server refuses or fails. */

import { ServerError } from "./server.js";
import { language, text } from "./texts.js";

const REFUSALS = {
  0: "error_offline",
  400: "error_refused",
  401: "error_key",
  403: "error_refused",
  413: "error_large",
  422: "error_refused",
  429: "error_often",
  503: "error_busy",
};

/** One line: what happened, what the server says to it in English, when to try again. */
export function failureText(error) {
  if (!(error instanceof ServerError)) throw error;
  const happened = REFUSALS[error.status] ?? (error.status === 200 ? "error_broken" : "error_failed");
  const wait = error.wait ? text("error_wait", { seconds: error.wait }) : "";
  const message = language() === "en" ? error.message : "";
  return [text(happened, { status: error.status }), message, wait].filter((part) => part).join(" ");
}
