// Sites, how their origins are, and the reasons of requests.

import { bar, byId, make } from "./dom.js";
import { count, hitRatio, percent, size, span } from "./format.js";
import { Table } from "./table.js";

const REASONS = 12;
const RULES = 50;
let sites = null, reasons = null, rules = null;

/** How states of origins look, and what they are called. */
const STATES = { up: ["well", "up"], down: ["ill", "down"], unknown: ["unknown", "not asked yet"] };

function name(cell, { site, origins }) {
  const marks = origins.map(({ address, state, failures, down_seconds: down }) => {
    const [look, word] = STATES[state];
    return make("span", { class: `origin ${look}` }, make("b", {}, word), ` ${address}`, make("span", { class: "quiet" }, fails(failures, down)));
  });
  const shown = make("div", {}, make("div", {}, site || "(no site)"), ...marks);
  if (cell.textContent !== shown.textContent) cell.replaceChildren(shown);
}

/** How long an origin has been down, and how many requests it did not answer. */
function fails(failures, down) {
  const long = down == null ? "" : ` for ${span(down)}`;
  return failures > 0 ? `${long}, ${count(failures)} failed ${failures === 1 ? "request" : "requests"}` : long;
}

/** The origins that are down, and what that means for their sites. */
export const troubles = (stats) => (stats.sites ?? []).flatMap(({ site, origins }) => origins.filter(({ state }) => state === "down").map(({ address, trouble, down_seconds: seconds }) => ({
  about: `${site} ${address}`,
  seconds,
  text: (since) => `Origin ${address} of ${site || "no site"} is down${since}${trouble ? `: ${trouble}` : ""}. ${origins.some(({ state }) => state !== "down")
    ? "The other origins of the site get its requests." : "Its site is answered from the cache, or with 502 without a usable stored response."}`,
})));

/** The certificates that no authority issues, why, and what that means for clients; and those that expire. */
export const certificates = (stats) => (stats.tls?.certificates ?? []).filter(({ trouble }) => trouble).map(({ name, trouble }) => ({
  about: `end ${name}`,
  text: () => `The certificate for ${name} ${trouble}.`,
})).concat(orders(stats));

const orders = (stats) => (stats.acme?.names ?? []).filter(({ trouble }) => trouble).map(({ name, state, trouble, failing_seconds: seconds }) => ({
  about: name,
  seconds,
  text: (since) => `No new certificate for ${name}${since}: ${trouble}. ${state === "valid" ? "The old one is in use." : "Clients cannot reach it over TLS."}`,
}));

/** Shows what `/stats` says of them. */
export function show(stats) {
  sites ??= new Table(byId("sites"), {
    caption: "Sites, their figures and their origins",
    none: "no sites and no requests yet",
    key: (row) => row.site,
    columns: [
      { title: "Site and origins", fill: name, class: "wrap" },
      { title: "Requests", text: (row) => count(row.requests), class: "n" },
      { title: "Hit ratio", text: hitRatio, class: "n ratio" },
      { title: "From cache", text: (row) => size(row.bytes_from_cache), class: "n wide" },
    ],
  });
  sites.show(stats.sites ?? []);
  reasons ??= new Table(byId("reasons"), {
    caption: "Requests by the reason of their outcome",
    none: "no requests yet",
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
  showRules((stats.sites ?? []).flatMap((site) => (site.rules ?? []).map((rule) => ({ ...rule, site: site.site }))));
  const all = Object.entries(stats.reasons ?? {}).sort(([, a], [, b]) => b - a);
  reasons.show(all.slice(0, REASONS).map(([reason, requests]) => ({ reason, requests, share: requests / stats.requests })));
}

/** The rules of all sites, where there are any. */
function showRules(rows) {
  byId("rules-card").hidden = rows.length === 0;
  if (rows.length === 0) return;
  rules ??= new Table(byId("rules"), {
    caption: "Rules and the requests for which they held",
    none: "no rules",
    key: (row) => `${row.site} ${row.place}`,
    columns: [
      { title: "Rule", text: (row) => `${row.site}: ${row.name}`, class: "wrap" },
      { title: "Place", text: (row) => row.place, class: "wide" },
      { title: "Requests", text: (row) => count(row.requests), class: "n" },
      { title: "Hits", text: (row) => count(row.hits), class: "n" },
      { title: "Answered", text: (row) => count(row.answered), class: "n wide" },
      { title: "Refused", text: (row) => count(row.refused), class: "n wide" },
    ],
  });
  rules.show(rows.slice(0, RULES));
}
