// How full the cache is, of what, and a search through it.

import { bar, byId, make, say } from "./dom.js";
import { brief, count, percent, size, span } from "./format.js";
import { ask, listen } from "./purge.js";
import { Refused, get } from "./source.js";
import { Table } from "./table.js";

const SHOWN = 15;
let table = null;

/** Shows how full each tier is, as `/stats` says. */
export function room(stats) {
  const byBytes = stats.by === "bytes";
  const memory = byBytes ? [stats.bytes_stored, stats.capacity, size] : [stats.objects, stats.capacity, count];
  const tiers = [["Memory", stats.policy, stats.objects, memory],
    ...(stats.disks ?? []).map((disk) => [disk.path, `${disk.policy}, ${disk.state}`, disk.objects, [disk.bytes_occupied, disk.size, size]])];
  const lines = tiers.map(([name, about, objects, [used, of, written]]) =>
    [name, about, `${written(used)} of ${written(of)}, ${count(objects)} objects`, of > 0 ? used / of : 0]);
  const text = JSON.stringify(lines);
  if (room.text === text) return;
  room.text = text;
  byId("room").replaceChildren(...lines.map(([name, about, figures, share]) =>
    make("p", {}, make("b", {}, name), make("span", { class: "quiet" }, ` ${about}`), make("span", { class: "right" }, figures), bar(share))));
}

/** How a share of the cache is called, and how much of it that is. */
function shares(title, groups) {
  const whole = groups.reduce((sum, { bytes }) => sum + bytes, 0);
  const rows = groups.map(({ name, objects, bytes }) => make("tr", {}, make("th", { scope: "row" }, name),
    make("td", { class: "n" }, count(objects)), make("td", { class: "n" }, size(bytes)),
    make("td", { class: "share" }, bar(whole > 0 ? bytes / whole : 0), percent(bytes, whole))));
  const heads = [title, "Objects", "Bytes", "Share"].map((text, at) => make("th", { scope: "col", class: at > 0 && at < 3 ? "n" : false }, text));
  return make("div", { class: "scroll" }, make("table", {}, make("caption", { class: "hidden" }, `What is stored, by ${title.toLowerCase()}`),
    make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)));
}

/** Shows what was found: how it is made up, and the first ones. */
function show(found) {
  const { by_size: sizes, by_age: ages, by_host: hosts, matches, bytes, looked, of } = found;
  byId("shares").replaceChildren(shares("Size", sizes), shares("Age", ages), shares("Host", hosts));
  const all = looked < of ? `of the ${count(looked)} that were looked at, of ${count(of)}` : "in memory and on disks";
  say(byId("found"), `${count(matches)} objects, ${size(bytes)}, ${all}`);
  table.show(found.objects);
}

/** Searches as the form says. */
export async function search() {
  table ??= new Table(byId("objects"), {
    caption: "What is stored",
    none: "nothing that is stored has this in its URL",
    key: (row) => [row.url, row.role, row.tier, row.stored, row.bytes].join(" "),
    columns: [
      { title: "URL", text: (row) => brief(row.url, 110), hint: (row) => row.url, class: "name" },
      { title: "Size", text: (row) => size(row.bytes), class: "n" },
      { title: "Age", text: (row) => ago(row.stored), class: "n" },
      { title: "Fresh for", text: left, class: "n wide" },
      { title: "Hits", text: (row) => (row.hits == null ? "–" : count(row.hits)), class: "n wide" },
      { title: "Tier", text: (row) => row.tier, class: "wide" },
    ],
    actions: [{ title: "Purge", act: (row) => ask({ url: row.url }, search) }],
  });
  const parameters = { sort: byId("order").value, limit: SHOWN };
  const words = byId("words").value.trim();
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
  return seconds <= 0 ? "stale" : fresh ? span(seconds) : "validated";
};

byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
byId("order").addEventListener("change", search);
listen(search);
