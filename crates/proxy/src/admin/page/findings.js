// What the validator and the search for couplings found out. Not there until they have something to tell.

import { byId, say } from "./dom.js";
import { count, percent, span } from "./format.js";
import { get } from "./source.js";
import { Table } from "./table.js";

let stale = null, couplings = null;

const compared = (row) => row.ok + row.stale + row.changed_meanwhile;

/** How long answers of a route might live. */
function lifetime({ lifetime }) {
  if (!lifetime) return "–";
  if (lifetime.seconds === 0) return "none";
  return span(lifetime.seconds) + (lifetime.at_least ? " or more" : "");
}

function tables() {
  stale ??= new Table(byId("stale"), {
    caption: "Hits that were fetched again, by route",
    none: "no hit was fetched again; set sample in [validate] to have some",
    key: (row) => `${row.site}/${row.route}`,
    columns: [
      { title: "Route", text: (row) => `${row.site}/${row.route}`, class: "wrap" },
      { title: "Checked", text: (row) => count(row.checked), class: "n" },
      { title: "Stale", text: (row) => percent(row.stale, compared(row)), class: "n", hint: (row) => `${count(row.stale)} of ${count(compared(row))}` },
      { title: "for", text: (row) => (row.staleness ? span(row.staleness.p50) : "–"), class: "n wide", hint: () => "half of them no longer" },
      { title: "Lifetime", text: lifetime, class: "n", hint: () => "with less than 1% stale hits" },
    ],
  });
  couplings ??= new Table(byId("couplings"), {
    caption: "Writes, and what changed after them",
    none: "no write seems to change what other paths answer",
    key: (row) => `${row.site} ${row.written} ${row.read}`,
    columns: [
      { title: "After a write to", text: (row) => `${row.site}/${row.written}`, class: "wrap" },
      { title: "changes", text: (row) => `/${row.read}`, class: "wrap" },
      { title: "of looks", text: (row) => percent(row.confidence), class: "n", hint: (row) => row.text },
      { title: "else", text: (row) => percent(row.otherwise), class: "n" },
    ],
  });
}

/** Fetches what was found out, and shows it. */
export async function update() {
  const [validated, coupled] = await Promise.all([get("/validator"), get("/couplings")]);
  byId("findings").hidden = validated.checked === 0 && coupled.couplings.length === 0;
  tables();
  say(byId("validated"), `${count(validated.checked)} ${validated.checked === 1 ? "hit" : "hits"} fetched again, ${percent(validated.sample)} of all are picked`);
  stale.show(validated.routes);
  couplings.show(coupled.couplings);
  byId("couple").hidden = coupled.config.length === 0;
  say(byId("couple"), coupled.config.map(({ site, line }) => `# for a gateway (role = "tags") before ${site}\n${line}`).join("\n"));
}
