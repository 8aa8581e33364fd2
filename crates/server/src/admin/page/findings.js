// Findings of the validator and of the search for couplings. Hidden until there are any.

import { byId, say } from "./dom.js";
import { count, percent, plural, span } from "./format.js";
import { get } from "./source.js";
import { Table } from "./table.js";

let stale = null, couplings = null;

const compared = (row) => row.ok + row.stale + row.changed_meanwhile;

/** How long responses of a route could be kept. */
function lifetime({ lifetime }) {
  if (!lifetime) return "–";
  if (lifetime.seconds === 0) return "none";
  return span(lifetime.seconds) + (lifetime.at_least ? " or more" : "");
}

function tables() {
  stale ??= new Table(byId("stale"), {
    caption: "Hits that were checked at the origin, by route",
    none: "no hits have been checked; [validate] sample sets the share",
    key: (row) => `${row.site}/${row.route}`,
    columns: [
      { title: "Route", text: (row) => `${row.site}/${row.route}`, class: "wrap" },
      { title: "Checked", text: (row) => count(row.checked), class: "n" },
      { title: "Stale", text: (row) => percent(row.stale, compared(row)), class: "n", hint: (row) => `${count(row.stale)} of ${count(compared(row))}` },
      { title: "Stale for", text: (row) => (row.staleness ? span(row.staleness.p50) : "–"), class: "n wide", hint: () => "the median" },
      { title: "Lifetime", text: lifetime, class: "n", hint: () => "with less than 1% stale hits" },
    ],
  });
  couplings ??= new Table(byId("couplings"), {
    caption: "Writes, and the paths that changed after them",
    none: "no couplings found",
    key: (row) => `${row.site} ${row.written} ${row.read}`,
    columns: [
      { title: "Written path", text: (row) => `${row.site}/${row.written}`, class: "wrap" },
      { title: "Path that changes", text: (row) => `/${row.read}`, class: "wrap" },
      { title: "After writes", text: (row) => percent(row.confidence), class: "n", hint: (row) => row.text },
      { title: "Otherwise", text: (row) => percent(row.otherwise), class: "n" },
    ],
  });
}

/** Fetches the findings, and shows them. */
export async function update() {
  const [validated, coupled] = await Promise.all([get("/validator"), get("/couplings")]);
  byId("findings").hidden = validated.checked === 0 && coupled.couplings.length === 0;
  tables();
  say(byId("validated"), `${plural(validated.checked, "hit", "hits")} checked at the origin, a sample of ${percent(validated.sample)}`);
  stale.show(validated.routes);
  couplings.show(coupled.couplings);
  byId("couple").hidden = coupled.config.length === 0;
  say(byId("couple"), coupled.config.map(({ site, line }) => `# for a gateway (role = "tags") before ${site}\n${line}`).join("\n"));
}
