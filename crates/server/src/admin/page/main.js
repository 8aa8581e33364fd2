// The page: follows the server's figures, and passes them to the modules that show them.

import * as advice from "./advice.js";
import * as ahead from "./ahead.js";
import * as cluster from "./cluster.js";
import * as contents from "./contents.js";
import { byId, say, tell } from "./dom.js";
import * as findings from "./findings.js";
import { count } from "./format.js";
import * as past from "./history.js";
import * as live from "./live.js";
import * as sites from "./sites.js";
import { Unauthorized, follow, get, hasToken, useToken } from "./source.js";
import * as tiles from "./tiles.js";
import * as troubles from "./troubles.js";
import * as urls from "./urls.js";

/** How often what is costly is asked again, in milliseconds. */
const SELDOM = 60_000;
/** How often it is asked again while there is little of it, and it costs little. */
const WHILE_LITTLE = 5000;
/** Milliseconds between two requests for failures, and for the nodes of a cluster. */
const OFTEN = 2000;
/** How often figures are read aloud. */
const ALOUD = 30_000;

/** Does it, and says in the corner why it could not be done. */
async function attempt(work) {
  try {
    await work();
  } catch (error) {
    if (error instanceof Unauthorized) login(error);
    // That the server does not answer is told once, with the time.
    else if (!lostAt) tell(error.message);
  }
}

/** Asks for the token, in place of figures that nobody can have without it. */
function login(error) {
  byId("login").hidden = false;
  byId("refused").hidden = !hasToken();
  say(byId("refused"), hasToken() ? `Not accepted: ${error.message}.` : "");
  document.body.classList.add("locked");
  say(byId("state"), "token needed");
}

let spokenAt = 0;
let requests = null;
let lostAt = null;
let hasFailed = false;
let hasShadows = false;

function show(stats) {
  attempt(live.update).then(() => tiles.show(stats));
  sites.show(stats);
  ahead.show(stats);
  contents.room(stats);
  troubles.show("origin", sites.troubles(stats));
  troubles.show("disk", contents.troubles(stats));
  troubles.show("certificate", sites.certificates(stats));
  byId("empty").hidden = stats.requests > 0;
  document.body.classList.toggle("unused", stats.requests === 0);
  say(byId("about"), `${stats.policy} · ${stats.connections} ${stats.connections === 1 ? "connection" : "connections"} · ${stats.in_flight} in flight to origins · ${stats.queued} queued${handshakes(stats)}`);
  // The first requests show at once, not when somebody looks again.
  if (requests === 0 && stats.requests > 0) seldom();
  requests = stats.requests;
  hasFailed = stats.statuses["5xx"] > 0;
  if (Date.now() - spokenAt > ALOUD && stats.requests > 0) {
    spokenAt = Date.now();
    setTimeout(() => say(byId("spoken"), tiles.spoken()), 500);
  }
}

/** The TLS handshakes with clients, if there are listeners for TLS. */
function handshakes({ tls }) {
  if (!tls) return "";
  const { full, resumed, ...failed } = tls.handshakes;
  const failures = Object.values(failed).reduce((sum, number) => sum + number, 0);
  return ` · ${count(full + resumed)} TLS ${full + resumed === 1 ? "handshake" : "handshakes"}, ${count(resumed)} resumed, ${count(failures)} failed`;
}

function state(word, error) {
  const place = byId("state");
  place.dataset.state = word;
  say(place, { live: "live", lost: "no answer", paused: "paused", waiting: "connecting" }[word]);
  if (error instanceof Unauthorized) login(error);
  else lost(word);
}

/** Says that the server does not answer, and since when. */
function lost(word) {
  lostAt = word === "lost" ? (lostAt ?? new Date()) : null;
  byId("lost").hidden = !lostAt;
  if (lostAt) say(byId("lost"), `No answer from ${location.host} since ${lostAt.toLocaleTimeString("en-GB")}: the figures below are older. This page tries again every 2 seconds.`);
}

function seldom() {
  attempt(past.update);
  attempt(contents.search);
  attempt(findings.update);
  if (hasShadows) attempt(advice.update);
}

/** Asks what fails, once anything has failed. */
async function failures() {
  if (hasFailed) await urls.updateFailures();
}

/** What a new server shows grows quickly. */
function whileLittle() {
  if (past.isEmpty()) attempt(past.update);
  if (contents.isSmall()) attempt(contents.search);
}

/** Does it now, and again and again while the page is looked at. */
function every(milliseconds, work) {
  work();
  setInterval(() => {
    if (!document.hidden && byId("pause").ariaPressed !== "true") work();
  }, milliseconds);
}

/** What asks a listener for something. One of all addresses is reached by the one that this page came from. */
function command({ role, tls, address, host }) {
  if (address.startsWith("unix:")) {
    return `curl -i --unix-socket ${address.slice(5)} http://${host ?? "localhost"}/`;
  }
  const place = address.replace(/^(0\.0\.0\.0|\[::\])/, location.hostname);
  const url = `${tls ? "https" : "http"}://${place}`;
  if (role === "forward") return `curl -x ${url} http://example.com/`;
  return host ? `curl -i -H 'Host: ${host}' ${url}/` : `curl -i ${url}/`;
}

async function begin() {
  const { version, listeners, statistics, clustered, shadows } = await get("/about");
  hasShadows = shadows;
  document.title = `Larder ${version} · ${location.host}`;
  say(byId("try"), listeners.map(command).join("\n"));
  past.keep(statistics);
  attempt(urls.begin);
  const follows = [follow("/live", show, state), follow("/top?minutes=10", urls.show)];
  every(SELDOM, seldom);
  every(WHILE_LITTLE, whileLittle);
  every(OFTEN, () => attempt(failures));
  if (clustered) every(OFTEN, () => attempt(cluster.update));
  byId("pause").addEventListener("click", () => {
    const paused = byId("pause").ariaPressed !== "true";
    byId("pause").ariaPressed = String(paused);
    say(byId("pause"), paused ? "Resume" : "Pause");
    follows.forEach((follow) => follow(!paused));
  });
}

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(byId("token").value);
  location.reload();
});
attempt(begin);
