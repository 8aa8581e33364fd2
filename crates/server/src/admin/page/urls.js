// The URLs with the most requests, with the most misses, and with the most failed requests, in the last minutes.

import { byId, say } from "./dom.js";
import { fit } from "./fit.js";
import { count, hitRatio, plural, short, size, span, time } from "./format.js";
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
const url = { title: "URL", text: (row) => row.url, fill: (place, row) => fit(place, row.url), hint: (row) => row.url, class: "name" };
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
  draw(report, `last ${span(report.seconds)}, while this page was open${unseen > 0 ? `, without ${plural(unseen, "request", "requests")} to URLs that are not counted` : ""}`);
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

let causes = null, failing = null, earlier = null;

/** How often a cause was counted each second since the last report. */
function rate({ cause, requests }) {
  const before = earlier?.causes.find((row) => row.cause === cause)?.requests ?? 0;
  return earlier ? short(Math.max(0, requests - before) / ((Date.now() - earlier.at) / 1000)) : "–";
}

const cause = (row) => row.cause.replaceAll("-", " ");

/** Fetches which requests failed in the last minutes and why, and shows it. */
export async function updateFailures() {
  const report = await get("/failures");
  byId("failures").hidden = report.requests === 0;
  say(byId("failures-span"), `${plural(report.requests, "request", "requests")} in the last ${span(report.seconds)}`);
  causes ??= new Table(byId("causes"), {
    caption: "Failed requests by cause",
    key: (row) => row.cause,
    columns: [
      { title: "Cause", text: cause, class: "wrap" },
      { title: "Per second", text: rate, class: "n" },
      { title: "Requests", text: (row) => count(row.requests), class: "n" },
    ],
  });
  failing ??= new Table(byId("failing"), {
    caption: "URLs with the most failed requests",
    key: (row) => row.url,
    detail: (row, place) => explain(row.url, place),
    columns: [
      url,
      { title: "Failed", text: (row) => count(row.requests), class: "n" },
      { title: "Status", text: (row) => String(row.status), class: "n" },
      { title: "Cause", text: cause, class: "short" },
      { title: "Last", text: (row) => `${span(row.ago)} ago`, class: "n wide" },
    ],
  });
  causes.show(report.causes.slice(0, SHOWN));
  failing.show(report.urls.slice(0, SHOWN));
  earlier = { causes: report.causes, at: Date.now() };
}
