// The cluster: who is in it, which part of the keys each has, and how its engine is. Not there without one.

import { bar, byId, make, say } from "./dom.js";
import { count, percent, plural, span, time } from "./format.js";
import { get } from "./source.js";
import { Table } from "./table.js";
import * as troubles from "./troubles.js";

/** What standings mean, and how they look. */
const STANDINGS = {
  member: ["is a member of the cluster", "live"],
  joining: ["is joining the cluster", "waiting"],
  alone: ["works alone: the engine does not answer", "lost"],
  "name taken": ["is not in the cluster: another node has its name", "lost"],
};

let nodes = null;

function share(cell, row) {
  const text = percent(row.share);
  if (cell.textContent !== text) cell.replaceChildren(bar(row.share), text);
}

/** A node's name, how it is, and where. */
function name(cell, row) {
  const state = row.reachable === false ? "down" : row.draining ? "draining" : "up";
  const down = row.unreachable_seconds == null ? "" : `, no answer for ${span(row.unreachable_seconds)}`;
  const shown = make("div", {},
    make("div", {}, row.is_self ? `${row.name} (this node)` : row.name),
    make("span", { class: `origin ${state === "up" ? "well" : "ill"}` }, make("b", {}, state), ` ${row.advertise}${down}`));
  if (cell.textContent !== shown.textContent) cell.replaceChildren(shown);
}

const table = () => new Table(byId("nodes"), {
  caption: "Nodes, their shares of the keys and their states",
  none: "no nodes known yet",
  key: (row) => row.name,
  columns: [
    { title: "Node", fill: name, class: "wrap" },
    { title: "Owns", fill: share, class: "share" },
    { title: "Weight", text: (row) => count(row.weight), class: "n wide" },
    { title: "In flight", text: (row) => (row.is_self ? "–" : count(row.in_flight)), class: "n", hint: () => "requests of this node to that node in progress" },
    { title: "Version", text: (row) => row.version, class: "n wide" },
  ],
});

/** How the engine is. */
function engine({ place, up, seconds, trouble, round_trip_micros }) {
  return up ? `engine ${place} up for ${span(seconds)}, round trip ${time(round_trip_micros)}` : `engine ${place} down for ${span(seconds)}: ${trouble ?? "no answer"}`;
}

/** Whether a node knows the purges of the others. */
function news({ trusted, lag_seconds, waiting }) {
  const lag = lag_seconds == null ? "" : `, last checked ${lag_seconds.toFixed(1)} s ago`;
  const known = trusted ? `has applied the purges of the other nodes${lag}` : "may have missed purges of the other nodes, and validates every stored response before it is used";
  return waiting > 0 ? `${known}; ${plural(waiting, "own purge is", "own purges are")} not sent yet` : known;
}

/** What became of the requests that this node sent to others. */
function sentTo({ asked, hits, failed, spilled }) {
  if (asked === 0) return "No requests sent to other nodes yet";
  const rest = [[failed, "failed"], [spilled, "sent to the next node because the owner was busy"]].filter(([n]) => n > 0).map(([n, words]) => `, ${count(n)} ${words}`);
  return `${plural(asked, "request", "requests")} sent to other nodes: ${percent(hits, asked)} hits${rest.join("")}`;
}

/** What the engine keeps of responses, and whether it is asked. */
function tier({ reads, writes, asked, hits, failed, written, dropped }) {
  const off = [["reads", reads], ["writes", writes]].filter(([, breaker]) => breaker !== "closed").map(([name]) => name);
  const state = off.length === 0 ? "" : `; after failures, ${off.join(" and ")} are off for a while`;
  return `Second tier: ${plural(asked, "lookup", "lookups")}, ${percent(hits, asked)} found, ${count(failed)} failed; ${plural(written, "response", "responses")} written, ${count(dropped)} dropped${state}`;
}

/** The engine or nodes that are gone or do not answer, and what that means. */
function* lost({ engine, trouble, nodes, gone = [] }) {
  if (!engine.up) yield { about: "engine", seconds: engine.seconds, text: (since) => `The engine of the cluster is down${since}: ${engine.trouble ?? "no answer"}. This node works alone until the engine answers.` };
  else if (trouble) yield { about: "alone", text: () => `This node works alone, since the engine refuses its commands: ${trouble}.` };
  for (const { name, advertise, unreachable_seconds: seconds } of nodes.filter(({ reachable }) => !reachable))
    yield { about: `down ${name}`, seconds, text: (since) => `Node ${name} (${advertise}) does not answer${since}. For its keys, this node asks the origin itself.` };
  for (const { name, advertise, seconds } of gone)
    yield { about: `gone ${name}`, seconds, text: (since) => `Node ${name} (${advertise}) left the cluster or was lost: not a member${since}. The other nodes own its keys.` };
}

/** Fetches how the cluster is, and shows it. */
export async function update() {
  const cluster = await get("/cluster");
  nodes ??= table();
  const refused = cluster.trouble && cluster.engine.up ? [`works alone: the engine refuses its commands: ${cluster.trouble}`, "lost"] : null;
  const [words, look] = refused ?? STANDINGS[cluster.standing] ?? [`is ${cluster.standing}`, "waiting"];
  byId("standing").dataset.state = look;
  say(byId("standing"), `${cluster.node} ${words}`);
  say(byId("engine"), engine(cluster.engine));
  nodes.show(cluster.nodes);
  say(byId("peers"), sentTo(cluster.peers));
  say(byId("news"), cluster.invalidations ? `${cluster.node} ${news(cluster.invalidations)}` : "");
  say(byId("tier"), cluster.tier ? tier(cluster.tier) : "");
  troubles.show("cluster", [...lost(cluster)]);
  byId("cluster").hidden = false;
}
