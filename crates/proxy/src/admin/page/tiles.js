// The figures that matter most, in one row.

import { byId, make, say } from "./dom.js";
import { cacheable, count, percent, short, size, time } from "./format.js";
import { recent } from "./live.js";

const tiles = [
  ["rate", "Requests a second", (stats, now) => [short(now.each("requests")), `${count(stats.requests)} so far`]],
  ["hit-ratio", "Hit ratio", (stats, now) => [
    percent(now.sum("hits"), cacheable(now.sums)),
    `${percent(stats.hits, cacheable(stats))} since start`]],
  ["validated-ratio", "With validated", (stats, now) => [
    percent(now.sum("hits") + now.sum("validated"), cacheable(now.sums)),
    `${percent(stats.hits + stats.validated, cacheable(stats))} since start`]],
  ["byte-hit-ratio", "Byte hit ratio", (stats, now) => [
    percent(now.sum("bytes_from_cache"), now.sum("bytes_cacheable")),
    `${percent(stats.bytes_from_cache, stats.bytes_cacheable)} since start`]],
  ["saved", "Bytes saved", (stats, now) => [
    size(stats.bytes_from_cache), `${size(now.each("bytes_from_cache"))} a second`]],
  ["hit-time", "A hit takes", (stats, now) => times(stats.latency?.hit, now.last("hit"))],
  ["miss-time", "A miss takes", (stats, now) => times(stats.latency?.miss, now.last("miss"))],
];

/** Percentiles of the last second there were any, else since the start. */
function times(all, last) {
  const shown = last ?? all;
  return shown?.count ? [time(shown.p50_us), `p99 ${time(shown.p99_us)}`] : ["–", "none yet"];
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
  }
}

function tile(name, title) {
  const [first, second] = [make("dd", { class: "figure" }), make("dd", { class: "quiet" })];
  byId("tiles").append(make("div", { class: `tile card ${name}`, "data-tile": name }, make("dt", {}, title), first, second));
  return { first, second };
}

/** The tiles in a sentence. */
export const spoken = () => {
  const text = (name) => places.get(name)?.first.textContent ?? "unknown";
  return `${text("rate")} requests a second, hit ratio ${text("hit-ratio")}, a hit takes ${text("hit-time")}, a miss ${text("miss-time")}.`;
};
