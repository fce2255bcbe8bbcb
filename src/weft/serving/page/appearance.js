/** Light or dark, as the system has it or as it is switched. */

import { keep, kept } from "./kept.js";

const night = matchMedia("(prefers-color-scheme: dark)");

/** Follows the system or what was chosen, and lets `button` switch. */
export function followTheme(button) {
  night.addEventListener("change", () => show(button));
  button.addEventListener("click", () => {
    const wanted = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    keep("theme", wanted === ofSystem() ? undefined : wanted); // once both agree, the system is followed again
    show(button);
  });
  show(button);
}

const ofSystem = () => (night.matches ? "dark" : "light");

function show(button) {
  const theme = kept("theme", ofSystem());
  document.documentElement.dataset.theme = theme;
  button.ariaPressed = String(theme === "dark");
}
