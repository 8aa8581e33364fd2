// Sites, how their origins are, and the reasons of requests.

import { bar, byId, make } from "./dom.js";
import { count, hitRatio, percent, size } from "./format.js";
import { Table } from "./table.js";

const REASONS = 12;
let sites = null, reasons = null;

function name(cell, { site, origins }) {
  const marks = origins.map(({ address, healthy, failures }) => make("span", { class: `origin ${healthy ? "well" : "ill"}` },
    make("b", {}, healthy ? "up" : "down"), ` ${address}`, failures > 0 ? make("span", { class: "quiet" }, ` ${count(failures)} failed`) : null));
  const shown = make("div", {}, make("div", {}, site || "(no site)"), ...marks);
  if (cell.textContent !== shown.textContent) cell.replaceChildren(shown);
}

/** Shows what `/stats` says of them. */
export function show(stats) {
  sites ??= new Table(byId("sites"), {
    caption: "Sites, their figures and their origins",
    none: "no requests for any site yet",
    key: (row) => row.site,
    columns: [
      { title: "Site and origins", fill: name, class: "wrap" },
      { title: "Requests", text: (row) => count(row.requests), class: "n" },
      { title: "Hit ratio", text: hitRatio, class: "n ratio" },
      { title: "Saved", text: (row) => size(row.bytes_from_cache), class: "n wide" },
    ],
  });
  sites.show(stats.sites ?? []);
  reasons ??= new Table(byId("reasons"), {
    caption: "Requests by the reason of their outcome",
    key: (row) => row.reason,
    columns: [
      { title: "Reason", text: (row) => row.reason.replaceAll("-", " "), class: "short" },
      { title: "Requests", text: (row) => count(row.requests), class: "n" },
      { title: "Share", class: "share", fill: (cell, row) => {
        const text = percent(row.share);
        if (cell.textContent !== text) cell.replaceChildren(bar(row.share), text);
      } },
    ],
  });
  const all = Object.entries(stats.reasons ?? {}).sort(([, a], [, b]) => b - a);
  reasons.show(all.slice(0, REASONS).map(([reason, requests]) => ({ reason, requests, share: requests / stats.requests })));
}
