// The cluster: who is in it, which part of the keys each has, and how its engine is. Not there without one.

import { bar, byId, make, say } from "./dom.js";
import { count, percent, span, time } from "./format.js";
import { get } from "./source.js";
import { Table } from "./table.js";

/** What standings mean, and how they look. */
const STANDINGS = {
  member: ["a member", "live"],
  joining: ["joining", "waiting"],
  alone: ["by itself: the engine does not answer", "lost"],
  "name taken": ["left out: another node has this name", "lost"],
};

let nodes = null;

function share(cell, row) {
  const text = percent(row.share);
  if (cell.textContent !== text) cell.replaceChildren(bar(row.share), text);
}

/** A node's name, how it is, and where. */
function name(cell, row) {
  const state = row.draining ? "drains" : row.reachable === false ? "down" : "up";
  const shown = make("div", {},
    make("div", {}, row.is_self ? `${row.name} (this node)` : row.name),
    make("span", { class: `origin ${state === "up" ? "well" : "ill"}` }, make("b", {}, state), ` ${row.advertise}`));
  if (cell.textContent !== shown.textContent) cell.replaceChildren(shown);
}

const table = () => new Table(byId("nodes"), {
  caption: "Nodes, their parts of the keys and how they are",
  none: "no nodes known yet",
  key: (row) => row.name,
  columns: [
    { title: "Node", fill: name, class: "wrap" },
    { title: "Owns", fill: share, class: "share" },
    { title: "Weight", text: (row) => count(row.weight), class: "n wide" },
    { title: "Asked now", text: (row) => (row.is_self ? "–" : count(row.in_flight)), class: "n", hint: () => "requests of this node under way there" },
    { title: "Version", text: (row) => row.version, class: "n wide" },
  ],
});

/** How the engine is. */
function engine({ place, up, seconds, trouble, round_trip_micros }) {
  return up ? `${place} up for ${span(seconds)}, ${time(round_trip_micros)} away` : `${place} down for ${span(seconds)}: ${trouble ?? "no answer"}`;
}

/** How a node stands with what is purged. */
function news({ trusted, lag_seconds, waiting }) {
  const lag = lag_seconds == null ? "" : `, as of ${lag_seconds.toFixed(1)} s ago`;
  const known = trusted ? `knows what the others purged${lag}` : "does not know what the others purged, and has all that is stored validated";
  return waiting > 0 ? `${known}; ${count(waiting)} purges wait to be told` : known;
}

/** What the engine keeps of responses, and whether it is asked. */
function tier({ reads, writes, asked, hits, failed, written, dropped }) {
  const state = reads === "closed" && writes === "closed" ? "" : `; left alone for a while: reads ${reads}, writes ${writes}`;
  return `second tier: ${count(asked)} requests, ${percent(hits, asked)} of them found there; ${count(failed)} failed, ${count(written)} responses kept, ${count(dropped)} dropped${state}`;
}

/** Fetches how the cluster is, and shows it. */
export async function update() {
  const cluster = await get("/cluster");
  nodes ??= table();
  const [words, look] = STANDINGS[cluster.standing] ?? [cluster.standing, "waiting"];
  byId("standing").dataset.state = look;
  say(byId("standing"), `${cluster.node} is ${words}`);
  say(byId("engine"), engine(cluster.engine));
  nodes.show(cluster.nodes);
  const { asked, hits, failed, spilled } = cluster.peers;
  say(byId("peers"), `${count(asked)} requests to other nodes, ${percent(hits, asked)} of them hits there; ${count(failed)} failed, ${count(spilled)} went past a busy owner`);
  say(byId("news"), cluster.invalidations ? `${cluster.node} ${news(cluster.invalidations)}` : "");
  say(byId("tier"), cluster.tier ? tier(cluster.tier) : "");
  byId("cluster").hidden = false;
}
