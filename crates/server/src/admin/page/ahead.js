// Work ahead of requests: refreshes, early hints, prefetches of clients.

import { byId, say } from "./dom.js";
import { count, percent, size } from "./format.js";

/** A number of things, in words. */
const several = (number, one, many) => `${count(number)} ${number === 1 ? one : many}`;

function refreshes({ started, skipped, measured, used }) {
  const precision = measured > 0 ? `; ${percent(used, measured)} of ${count(measured)} measured ones were of use` : "";
  const beyond = skipped > 0 ? `; ${count(skipped)} skipped, since the budget was used up` : "";
  return `${several(started, "refresh", "refreshes")} of popular responses before their expiry${precision}${beyond}`;
}

const hints = ({ sent, kept, bytes }) => `${several(sent, "response 103", "responses 103")} with links of stored responses; links of ${several(kept, "URL", "URLs")} are kept, ${size(bytes)}`;

function prefetches(number, declined) {
  const not = declined > 0 ? `; ${count(declined)} of them declined, since no stored response fitted` : "";
  return `${several(number, "prefetch", "prefetches")} of clients${not}`;
}

/** Shows what `/stats` says of it, where there is anything. */
export function show({ refreshes_ahead: ahead, early_hints: early, client_prefetches: number, reasons }) {
  const lines = {
    "ahead-refreshes": ahead?.started + ahead?.skipped > 0 ? refreshes(ahead) : "",
    "ahead-hints": early?.sent > 0 ? hints(early) : "",
    "ahead-prefetches": number > 0 ? prefetches(number, reasons?.["prefetch-not-stored"] ?? 0) : "",
  };
  for (const [id, text] of Object.entries(lines)) {
    byId(id).hidden = text === "";
    say(byId(id), text);
  }
  byId("ahead-card").hidden = Object.values(lines).every((text) => text === "");
}
