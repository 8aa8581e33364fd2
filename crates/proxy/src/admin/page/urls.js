// What is asked for most of late, and what misses most.

import { byId, say } from "./dom.js";
import { brief, count, hitRatio, size, span, time } from "./format.js";
import { ask } from "./purge.js";
import { Table } from "./table.js";
import { explain } from "./why.js";

const SHOWN = 10;
const shared = {
  key: (row) => row.url,
  detail: (row, place) => explain(row.url, place),
  actions: [{ title: "Purge", act: (row) => ask({ url: row.url }) }],
};
const url = { title: "URL", text: (row) => brief(row.url), hint: (row) => row.url, class: "name" };
const requests = { title: "Requests", text: (row) => count(row.requests), class: "n" };

let top = null, misses = null;

/** Shows what `/top` says. */
export function show(report) {
  top ??= new Table(byId("top"), {
    ...shared,
    caption: "URLs with the most requests",
    columns: [
      url, requests,
      { title: "Hit ratio", text: hitRatio, class: "n wide" },
      { title: "Sent", text: (row) => size(row.bytes), class: "n wide" },
    ],
  });
  misses ??= new Table(byId("misses"), {
    ...shared,
    caption: "URLs with the most misses",
    columns: [
      url,
      { title: "Misses", text: (row) => count(row.misses), class: "n" },
      { title: "Why", text: (row) => row.why.replaceAll("-", " "), class: "short" },
      { title: "Origin", text: (row) => time(row.misses > 0 ? row.origin_us / (row.misses + row.validated) : null), class: "n wide" },
    ],
  });
  top.show(report.urls.slice(0, SHOWN));
  misses.show(report.misses.slice(0, SHOWN));
  const unseen = report.dropped + report.others;
  say(byId("top-span"), `the last ${span(report.seconds)}${unseen > 0 ? `, without ${count(unseen)} requests that found no place` : ""}`);
}
