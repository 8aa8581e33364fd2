// What the cache would do with a URL, and why: the answer of `/why` in sentences.

import { make } from "./dom.js";
import { plural, size, span } from "./format.js";
import { get } from "./source.js";

/** Requests that are shown. */
const LAST = 5;

/** The standards that sections are of, as they are named. */
const section = (text) => (text ? make("span", { class: "quiet" }, ` ${text.replace(/^(RFC \d+) (?=\d)/, "$1, section ")}`) : null);

/** A reason: what it means, where that is written, and what to do about it. */
const because = ({ explanation, section: place, help }) => [
  make("p", {}, sentence(explanation), section(place)), help ? make("p", { class: "help" }, sentence(help)) : null];

/** A text as a sentence of its own. */
const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

function stored({ stored, variants }) {
  if (!stored) return variants > 0 ? `${plural(variants, "response", "responses")}, none for this request` : "nothing";
  const { tier, status, bytes, age, lifetime, lifetime_from: from, ttl, fresh, only_by_rules: ruled } = stored;
  const good = fresh ? `fresh for ${span(ttl)} more` : ttl > 0 ? "validated at each use" : `stale for ${span(-ttl)}`;
  return `${status}, ${size(bytes)}, in ${tier === "disk" ? "a disk" : tier}; ${span(age)} old, ${good}: lifetime ${span(lifetime)} by ${from}${ruled ? "; stored only because of rules" : ""}`;
}

function kept({ result, explanation, kept }) {
  const about = kept ? `${kept.status}, ${size(kept.bytes)}, ${span(kept.age)} old of ${span(kept.lifetime)}; ` : "";
  return `${result}: ${about}${explanation}`;
}

function answered({ answer }) {
  if (!answer) return "not known";
  const { status, storable, why_not: not, fields, notes } = answer;
  const first = `${status ?? "no answer"}, ${storable ? "may be stored" : "may not be stored"}`;
  const lines = fields.map(([name, value]) => make("code", {}, `${name}: ${value}`));
  return make("div", {}, make("p", {}, first), ...(not ? because(not) : []), ...lines.map((line) => make("p", {}, line)),
    ...notes.map(([thing, note]) => make("p", {}, make("code", {}, thing), ` ${note}`)));
}

function ended({ last }) {
  const line = ({ ago, method, http_version: version, status, outcome, reason }) =>
    make("li", {}, `${span(ago)} ago: ${method}${version ? ` (HTTP/${version})` : ""} ${status}, ${outcome.replaceAll("-", " ")}, ${reason.replaceAll("-", " ")}`);
  return last.length > 0 ? make("ul", {}, ...last.slice(0, LAST).map(line)) : "not known";
}

/** Whether the help for a decision is of no use: the response it is about may not be stored. */
const contradicted = ({ answer, stored }) => !stored && answer && !answer.storable;

function shown(said) {
  const { decision, key, site, origins, failing = [], second_tier: tier } = said;
  const named = origins.map((origin) => (failing.includes(origin) ? `${origin} (did not answer its last request)` : origin));
  const then = decision.asks_origin ? (decision.validates ? "would validate the stored response at the origin" : "would ask the origin") : "would not ask the origin";
  const facts = [
    ["stored", stored(said)], ...(tier ? [["second tier", kept(tier)]] : []), ["last answer", answered(said)], ["last requests", ended(said)], ["site", site || "none"],
    ["origins", named.join(", ") || "the host of the URL"], ["key", key ?? "none"],
  ];
  return make("div", {},
    make("p", {}, make("b", { class: `outcome ${decision.outcome}` }, decision.outcome.replaceAll("-", " ")), ` A request now ${then}.`),
    ...because(contradicted(said) ? { ...decision, help: null } : decision),
    make("dl", { class: "why" }, ...facts.map(([name, fact]) => make("div", {}, make("dt", {}, name), make("dd", {}, fact)))));
}

/** Fills `place` with the decision on a request for `url`. */
export async function explain(url, place) {
  place.replaceChildren(make("span", { class: "quiet" }, "loading…"));
  try {
    place.replaceChildren(shown(await get("/why", { url })));
  } catch (error) {
    place.replaceChildren(make("span", { class: "quiet" }, error.message));
  }
}
