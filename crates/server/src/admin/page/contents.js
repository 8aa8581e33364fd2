// How full the cache is, of what, and a search through it.

import { bar, byId, make, say } from "./dom.js";
import { fit } from "./fit.js";
import { count, percent, plural, size, span } from "./format.js";
import { ask, listen } from "./purge.js";
import { Refused, get } from "./source.js";
import { Table } from "./table.js";

const SHOWN = 15;
/** Looking through so many objects takes the server next to no time. */
const SMALL = 10_000;
let table = null, stored = null, words = "";

/** What it means that a disk is not ready. */
const SICK = {
  off: ["is not in use", "It is neither read nor written; Larder tries every second to open it."],
  paused: ["cannot be written", "No new responses are stored on it, and the stored ones are still used; Larder tries again every 5 seconds."],
  full: ["has no space left", "Most stored responses stay; new ones are stored on it when there is space again."],
};

/** Shows how full each tier is, as `/stats` says. */
export function room(stats) {
  const used = { bytes: stats.bytes_stored, content: stats.bytes_content, entries: stats.objects }[stats.by];
  const memory = [used, stats.capacity, stats.by === "entries" ? count : size];
  const tiers = [["Memory", stats.policy, "", stats.objects, memory],
    ...(stats.disks ?? []).map((disk) => [disk.path, disk.policy, disk.state, disk.objects, [disk.bytes_occupied, disk.size, size]])];
  const lines = tiers.map(([name, about, state, objects, [used, of, written]]) =>
    [name, about, state, of > 0 ? `${written(used)} of ${written(of)}, ${plural(objects, "object", "objects")}` : "not in use", of > 0 ? used / of : 0]);
  const text = JSON.stringify(lines);
  if (room.text === text) return;
  room.text = text;
  byId("room").replaceChildren(...lines.map(([name, about, state, figures, share]) =>
    make("p", {}, make("b", {}, name), make("span", { class: "quiet" }, ` ${about}${state && ", "}`),
      make("span", { class: SICK[state] ? "sick" : "quiet" }, state), make("span", { class: "right" }, figures), bar(share))));
}

/** The disks that fail, why, and what that means. */
export const troubles = (stats) => (stats.disks ?? []).filter(({ state }) => SICK[state]).map(({ path, state, trouble }) => {
  const [words, now] = SICK[state];
  return { about: `${path} ${state}`, text: () => `Disk ${path} ${words}${trouble ? `: ${trouble}` : ""}. ${now}` };
});

/** A table of the parts of the cache, `title` says by what, and how much of it each is. */
function shares(title, groups) {
  const whole = groups.reduce((sum, { bytes }) => sum + bytes, 0);
  const rows = groups.map(({ name, objects, bytes }) => make("tr", {}, make("th", { scope: "row" }, name),
    make("td", { class: "n" }, count(objects)), make("td", { class: "n" }, size(bytes)),
    make("td", { class: "share" }, bar(whole > 0 ? bytes / whole : 0), percent(bytes, whole))));
  const heads = [title, "Objects", "Bytes", "Share"].map((text, at) => make("th", { scope: "col", class: at > 0 && at < 3 ? "n" : false }, text));
  return make("div", { class: "scroll" }, make("table", {}, make("caption", { class: "hidden" }, `Stored responses by ${title.toLowerCase()}`),
    make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)));
}

/** Shows what was found: how it is made up, and the first ones. */
function show(found) {
  const { by_size: sizes, by_age: ages, by_host: hosts, matches, bytes, looked, of } = found;
  stored = of;
  byId("shares").replaceChildren(...(of > 0 ? [shares("Size", sizes), shares("Age", ages), shares("Host", hosts)] : []));
  const all = looked < of ? `found among the first ${count(looked)} of ${count(of)}` : "in the cache";
  say(byId("found"), of > 0 ? `${plural(matches, "object", "objects")}, ${size(bytes)}, ${all}` : "");
  table.show(found.objects);
}

/** Whether little is stored, as far as is known. */
export const isSmall = () => stored !== null && stored < SMALL;

/** Searches as the form said last. */
export async function search() {
  table ??= new Table(byId("objects"), {
    caption: "Stored responses",
    none: "no stored response",
    key: (row) => [row.url, row.role, row.tier, row.stored, row.bytes].join(" "),
    columns: [
      { title: "URL", text: (row) => row.url, fill: (place, row) => fit(place, row.url), hint: (row) => row.url, class: "name" },
      { title: "Size", text: (row) => size(row.bytes), class: "n" },
      { title: "Age", text: (row) => ago(row.stored), class: "n" },
      { title: "Fresh for", text: left, class: "n wide" },
      { title: "Hits", text: (row) => (row.hits == null ? "–" : count(row.hits)), class: "n wide" },
      { title: "Tier", text: (row) => row.tier, class: "wide" },
    ],
    actions: [{ title: "Purge", act: (row) => ask({ url: row.url }, search) }],
  });
  const parameters = { sort: byId("order").value, limit: SHOWN };
  if (words) parameters.search = words;
  try {
    show(await get("/objects", parameters));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    say(byId("found"), error.message);
  }
}

const ago = (moment) => span(Math.max(0, Date.now() / 1000 - moment));
const left = ({ expires, fresh }) => {
  const seconds = expires - Date.now() / 1000;
  return seconds <= 0 ? "stale" : fresh ? span(seconds) : "validate";
};

byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  words = byId("words").value.trim();
  search();
});
byId("order").addEventListener("change", search);
listen(search);
