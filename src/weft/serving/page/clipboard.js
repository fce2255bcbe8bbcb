/** Whether the clipboard took a text. Where a page was not loaded securely, browsers only offer the old way. */
export async function copy(text) {
  if (!navigator.clipboard) return copyBySelection(text);
  return navigator.clipboard.writeText(text).then(
    () => true,
    () => false,
  );
}

function copyBySelection(text) {
  const focused = document.activeElement;
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "spoken";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused.focus();
  return done;
}
