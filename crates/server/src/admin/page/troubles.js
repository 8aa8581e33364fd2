// What needs attention, above all figures: origins and disks that fail, and nodes that are gone. Not there without any.

import { byId, make } from "./dom.js";
import { clock } from "./format.js";

/** At most so many are shown. */
const SHOWN = 8;
/** By what it is about: its kind, its text, and when it began. */
const known = new Map();

/** Shows the troubles of a kind: `{ about, text, seconds }`, where `seconds` is how long ago each began, if that is known. */
export function show(kind, troubles) {
  const names = new Set(troubles.map(({ about }) => `${kind} ${about}`));
  for (const [name, trouble] of known) if (trouble.kind === kind && !names.has(name)) known.delete(name);
  for (const { about, text, seconds } of troubles) {
    const name = `${kind} ${about}`;
    // Figures of later seconds would move the moment back and forth.
    const since = known.get(name)?.since ?? (seconds == null ? null : Date.now() / 1000 - seconds);
    known.set(name, { kind, since, text: text(since == null ? "" : ` since ${clock(since)}`) });
  }
  draw();
}

function draw() {
  const texts = [...known.values()].map(({ text }) => text);
  const shown = texts.slice(0, SHOWN);
  if (texts.length > SHOWN) shown.push(`${texts.length - SHOWN} more: see below.`);
  const all = shown.join("\n");
  if (draw.all === all) return;
  draw.all = all;
  byId("troubles").hidden = shown.length === 0;
  byId("troubles").replaceChildren(...shown.map((text) => make("li", {}, text)));
}
