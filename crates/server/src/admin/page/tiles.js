// The figures that matter most, in one row.

import { byId, make, say } from "./dom.js";
import { cacheable, count, percent, short, size, time } from "./format.js";
import { recent } from "./live.js";

const tiles = [
  ["rate", "Requests per second", (stats, now) => [short(now.each("requests")), `${count(stats.requests)} since start`]],
  ["hit-ratio", "Hit ratio", (stats, now) => [
    percent(now.sum("hits"), cacheable(now.sums)),
    since(stats.hits, cacheable(stats))]],
  ["validated-ratio", "With validated", (stats, now) => [
    percent(now.sum("hits") + now.sum("validated"), cacheable(now.sums)),
    since(stats.hits + stats.validated, cacheable(stats))]],
  ["byte-hit-ratio", "Byte hit ratio", (stats, now) => [
    percent(now.sum("bytes_from_cache"), now.sum("bytes_cacheable")),
    since(stats.bytes_from_cache, stats.bytes_cacheable)]],
  ["errors", "Errors", (stats, now) => [
    percent(now.errors, now.sum("requests")),
    now.errors > 0 ? `${short(now.errors / now.seconds)} per second` : `${count(stats.statuses["5xx"])} since start`]],
  ["saved", "Bytes saved", (stats, now) => [
    size(stats.bytes_from_cache), `${size(now.each("bytes_from_cache"))} per second`]],
  ["hit-time", "Hit latency", (stats, now) => times(stats.latency?.hit, now.last("hit"))],
  ["miss-time", "Miss latency", (stats, now) => times(stats.latency?.miss, now.last("miss"))],
];

/** A share since the start, where there is anything to have a share of. */
const since = (part, of) => (of > 0 ? `${percent(part, of)} since start` : "none yet");

/** Percentiles of the last second there were any, else since the start. */
function times(all, last) {
  const shown = last ?? all;
  return shown?.count ? [time(shown.p50_us), `median; p99 ${time(shown.p99_us)}`] : ["–", "none yet"];
}

/** Seconds that "now" is. */
const NOW = 5;
const places = new Map();

/** Shows what `/stats` says. */
export function show(stats) {
  const rows = recent(NOW);
  const seconds = rows.reduce((sum, row) => sum + row.seconds, 0);
  const sum = (name) => rows.reduce((sum, row) => sum + row[name], 0);
  const now = {
    sum,
    seconds,
    errors: rows.reduce((sum, row) => sum + row.statuses["5xx"], 0),
    sums: { hits: sum("hits"), validated: sum("validated"), misses: sum("misses") },
    each: (name) => (seconds > 0 ? sum(name) / seconds : 0),
    last: (kind) => recent(60).findLast((row) => row.latency[kind].count > 0)?.latency[kind],
  };
  for (const [name, title, figures] of tiles) {
    if (!places.has(name)) places.set(name, tile(name, title));
    const [first, second] = figures(stats, now);
    const place = places.get(name);
    say(place.first, first);
    say(place.second, second);
    if (name === "errors") place.card.classList.toggle("failing", now.errors > 0);
  }
}

function tile(name, title) {
  const [first, second] = [make("dd", { class: "figure" }), make("dd", { class: "quiet" })];
  const card = make("div", { class: `tile card ${name}`, "data-tile": name, title: name === "errors" ? "responses 5xx, of this proxy and of origins" : false }, make("dt", {}, title), first, second);
  byId("tiles").append(card);
  return { card, first, second };
}

/** The tiles in a sentence. */
export const spoken = () => {
  const text = (name) => places.get(name)?.first.textContent ?? "unknown";
  return `${text("rate")} requests per second, hit ratio ${text("hit-ratio")}, errors ${text("errors")}, median latency of a hit ${text("hit-time")}, of a miss ${text("miss-time")}.`;
};
