// The URLs with the most requests in the last minutes, and those with the most misses.

import { byId, say } from "./dom.js";
import { brief, count, hitRatio, plural, size, span, time } from "./format.js";
import { ask } from "./purge.js";
import { get } from "./source.js";
import { Table } from "./table.js";
import { explain } from "./why.js";

const SHOWN = 10;
const shared = {
  key: (row) => row.url,
  detail: (row, place) => explain(row.url, place),
  actions: [{ title: "Purge", act: (row) => ask({ url: row.url }) }],
};
const url = { title: "URL", text: (row) => brief(row.url, 34), hint: (row) => row.url, class: "name" };
const requests = { title: "Requests", text: (row) => count(row.requests), class: "n" };

let top = null, misses = null;
let isCounted = false;

/** Shows the stored responses that were used most, until requests have been counted here. */
export async function begin() {
  const { objects } = await get("/objects", { sort: "hits", limit: SHOWN });
  const used = objects.filter((row) => row.hits > 0);
  if (used.length > 0) draw({ urls: used.map(row), misses: [] }, "hits of stored responses since they were stored");
}

const row = ({ url, hits, bytes }) => ({ url, requests: hits, hits, validated: 0, misses: 0, bytes: hits * bytes });

/** Shows what `/top` says. */
export function show(report) {
  isCounted ||= report.urls.length > 0;
  if (top && !isCounted) return;
  const unseen = report.dropped + report.others;
  draw(report, `last ${span(report.seconds)}${unseen > 0 ? `, without ${plural(unseen, "request", "requests")} to URLs that are not counted` : ""}`);
}

function draw(report, about) {
  top ??= new Table(byId("top"), {
    ...shared,
    caption: "URLs with the most requests",
    none: "no requests since this page was opened",
    columns: [
      url, requests,
      { title: "Hit ratio", text: hitRatio, class: "n wide" },
      { title: "Sent", text: (row) => size(row.bytes), class: "n wide" },
    ],
  });
  misses ??= new Table(byId("misses"), {
    ...shared,
    caption: "URLs with the most misses",
    none: "no misses since this page was opened",
    columns: [
      url,
      { title: "Misses", text: (row) => count(row.misses), class: "n" },
      { title: "Why", text: (row) => row.why.replaceAll("-", " "), class: "short" },
      { title: "Origin time", text: (row) => time(row.misses > 0 ? row.origin_us / (row.misses + row.validated) : null), class: "n wide" },
    ],
  });
  top.show(report.urls.slice(0, SHOWN));
  misses.show(report.misses.slice(0, SHOWN));
  say(byId("top-span"), report.urls.length > 0 ? about : "");
}
