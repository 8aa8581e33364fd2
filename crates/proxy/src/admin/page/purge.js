// Purging, which asks first.

import { byId, say, tell } from "./dom.js";
import { count, size } from "./format.js";
import { purge } from "./source.js";

let pending = null;

/** Asks whether to forget `url`, and does so; then calls `done`. */
export function ask(url, done = () => {}) {
  pending = { url, done };
  say(byId("purge-url"), url);
  byId("purge").showModal();
}

async function go() {
  const { url, done } = pending;
  byId("purge").close();
  try {
    const { objects, bytes } = await purge(url);
    tell(objects > 0 ? `Purged ${count(objects)} ${objects === 1 ? "response" : "responses"}, ${size(bytes)}: ${url}` : `Nothing was stored for ${url}`);
    done();
  } catch (error) {
    tell(`Not purged: ${error.message}`);
  }
}

byId("purge-yes").addEventListener("click", go);
byId("purge-no").addEventListener("click", () => byId("purge").close());
