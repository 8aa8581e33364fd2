// Figures from the statistics database.

import { Chart } from "./charts.js";
import { byId, make, say } from "./dom.js";
import { cacheable, count, hitRatio, percent, short, size, time } from "./format.js";
import { Refused, get } from "./source.js";
import { Table } from "./table.js";

const SHOWN = 10;
const day = (seconds) => new Date(seconds * 1000).toLocaleString("en-GB", { weekday: "short", hour: "2-digit", minute: "2-digit" });
const hour = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });

let charts = [], tables = null, drawn = 0;
let isKept = false, isShown = null;

/** The range that is chosen, in seconds. */
const range = () => Number(document.querySelector("#range input:checked").value);

function draw(since) {
  charts.forEach((chart) => chart.remove());
  const past = byId("past");
  past.replaceChildren();
  const about = since > 3600 ? "by the hour" : "by the minute";
  const [when, least] = [since > 86_400 ? day : hour, since > 3600 ? 3600 : 60];
  charts = [
    new Chart(past, {
      title: "Requests", about, when, least, format: short, stacked: true,
      series: [
        { label: "hits", colour: "hit", bars: true }, { label: "validated", colour: "valid", bars: true },
        { label: "misses", colour: "miss", bars: true }, { label: "others", colour: "pass", bars: true },
      ],
    }),
    new Chart(past, {
      title: "Hit ratio", about, when, least, format: (share) => percent(share), top: 1,
      series: [
        { label: "hit ratio", colour: "hit", fill: true }, { label: "with validated", colour: "valid" }, { label: "of bytes", colour: "byte" },
      ],
    }),
  ];
}

/** Whether there is a database to ask. */
export function keep(kept) {
  isKept = kept;
  byId("range").hidden = byId("past").hidden = byId("groups").hidden = !kept;
  byId("no-history").hidden = kept;
  say(byId("no-history"), "There is no statistics database. Start the server with --stats auto, or with the URL of a database.");
}

/** Whether there is a database without requests of the chosen range, as far as is known. */
export const isEmpty = () => isKept && isShown === false;

/** Asks for the chosen range, and shows it. */
export async function update() {
  if (!isKept) return;
  const since = range();
  try {
    const [points, routes, sites] = await Promise.all([
      get("/history", { since, by: since > 3600 ? "hour" : "minute" }),
      get("/history", { since, by: "route" }),
      get("/history", { since, by: "site" }),
    ]);
    isShown = points.length > 0;
    byId("past").hidden = byId("groups").hidden = !isShown;
    byId("no-history").hidden = isShown;
    say(byId("no-history"), "The statistics database has no requests of this time.");
    if (isShown) show(since, points, routes, sites);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    say(byId("no-history"), error.message);
    byId("no-history").hidden = false;
  }
}

function show(since, points, routes, sites) {
  if (drawn !== since) draw(since);
  drawn = since;
  const column = (value) => points.map(value);
  const times = column((point) => point.time / 1000);
  const share = (part, whole) => (whole > 0 ? part / whole : null);
  charts[0].show([times, ...["hits", "validated", "misses"].map((name) => column((p) => p[name])), column((p) => p.requests - cacheable(p))]);
  charts[1].show([
    times, column((p) => share(p.hits, cacheable(p))), column((p) => share(p.hits + p.validated, cacheable(p))),
    column((p) => share(p.bytes_from_cache, p.bytes_cacheable)),
  ]);
  tables ??= [["Routes", "route"], ["Sites", "site"]].map(([title, name]) => table(title, name));
  tables[0].show(routes.slice(0, SHOWN));
  tables[1].show(sites.slice(0, SHOWN));
}

function table(title, name) {
  const place = make("div");
  byId("groups").append(make("div", { class: "card" }, make("h3", {}, title), place));
  return new Table(place, {
    caption: `${title} with the most requests`,
    key: (row) => row.name,
    columns: [
      { title: title.slice(0, -1), text: (row) => row.name || `(no ${name})`, class: "short" },
      { title: "Requests", text: (row) => count(row.requests), class: "n" },
      { title: "Hit ratio", text: hitRatio, class: "n ratio" },
      { title: "Sent", text: (row) => size(row.bytes), class: "n wide" },
      { title: "Origin time", text: (row) => time(row.origin_requests > 0 ? row.origin_us / row.origin_requests : null), class: "n" },
    ],
  });
}

byId("range").addEventListener("change", update);
