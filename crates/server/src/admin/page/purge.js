// Purges the URL of a row or what the form names, after a question.

import { byId, say, tell } from "./dom.js";
import { plural, size } from "./format.js";
import { purge } from "./source.js";

/** What stands in the empty field of the form. */
const EXAMPLES = { tag: "tag", prefix: "http://host/path", host: "host", group: "group" };

let pending = null;

/** Asks for confirmation and the kind of the purge that `words` name, and sends it; then calls `done`. */
export function ask(words, done = () => {}) {
  pending = { words, done };
  say(byId("purge-what"), Object.entries(words).map(([name, value]) => (name === "url" ? value : `${name} ${value}`)).join(", "));
  byId("purge").showModal();
}

/** What a purge came to, in a sentence. */
function outcome({ effect, objects, bytes, disk }) {
  if (objects === undefined) return effect === "removed" ? "Purged" : "Marked stale";
  const rest = disk === "under-way" ? "; objects on disks are not counted" : "";
  if (objects === 0) return `Nothing was stored${rest ? " in memory" : ""}${rest}`;
  const responses = `${plural(objects, "response", "responses")}, ${size(bytes)}`;
  return `${effect === "removed" ? "Purged" : "Marked stale:"} ${responses}${rest}`;
}

async function go() {
  const { words, done } = pending;
  const effect = document.querySelector("[name=effect]:checked").value;
  byId("purge").close();
  try {
    tell(`${outcome(await purge({ ...words, [effect]: "", count: "" }))}: ${byId("purge-what").textContent}`);
    done();
  } catch (error) {
    tell(`Not purged: ${error.message}`);
  }
}

/** Lets the form that names more than one URL purge; then calls `done`. */
export function listen(done) {
  const kind = byId("purge-kind"), host = byId("purge-host");
  const show = () => {
    host.hidden = kind.value !== "group";
    host.required = !host.hidden;
    byId("purge-value").placeholder = EXAMPLES[kind.value];
  };
  kind.addEventListener("change", show);
  show();
  byId("purge-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const words = { [kind.value]: byId("purge-value").value.trim() };
    if (!host.hidden) words.host = host.value.trim();
    ask(words, done);
  });
}

byId("purge-yes").addEventListener("click", go);
byId("purge-no").addEventListener("click", () => byId("purge").close());
