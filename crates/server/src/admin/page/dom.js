// Creates and fills elements. Text is only ever set as text, never as HTML.

/** Text without characters that hide, or change the order of others. */
const visible = (text) => text.replace(/[\p{Cf}\p{Zl}\p{Zp}]|(?!\n)\p{Cc}/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

export const byId = (id) => document.getElementById(id);

/** An element: `make("td", { class: "n" }, "text", child)`. Functions are listeners; false leaves a property out. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : visible(String(value)));
  }
  const shown = (child) => (typeof child === "string" ? visible(child) : child);
  element.append(...children.filter((child) => child != null).map(shown));
  return element;
}

/** Changes an element's text, if it is another one. */
export function say(element, words) {
  const text = typeof words === "string" ? visible(words) : words;
  if (element.textContent !== text) element.textContent = text;
}

/** A bar that is full to `share` of 1. Not read aloud: its figure stands beside it. */
export function bar(share, kind = "") {
  const fill = make("span", { class: `fill ${kind}` });
  fill.style.width = `${Math.min(100, Math.max(0, 100 * share))}%`;
  return make("span", { class: "meter", "aria-hidden": "true" }, fill);
}

/** Tells something once, in the corner and aloud. */
export function tell(text) {
  const said = byId("said");
  said.textContent = text;
  said.classList.add("shown");
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => said.classList.remove("shown"), 6000);
}
