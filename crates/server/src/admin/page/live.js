// The charts of the last ten minutes, a point each second.

import { Chart } from "./charts.js";
import { byId } from "./dom.js";
import { percent, short, time } from "./format.js";
import { get } from "./source.js";

const KEPT = 600;
/** Seconds that ratios are taken over: single seconds of few requests jump between 0 and 1. */
const SMOOTH = 10;

let rows = [];
let busy = false;

const charts = () => {
  const plots = byId("plots");
  return [
    [new Chart(plots, {
      title: "Requests per second", about: "by outcome", format: short, stacked: true,
      series: [
        { label: "hits", colour: "hit" }, { label: "validated", colour: "valid" }, { label: "misses", colour: "miss" },
        { label: "passed", colour: "pass" }, { label: "refused", colour: "byte" }, { label: "failed", colour: "bad" },
      ],
    }), (row) => {
      const each = (n) => n / row.seconds;
      return [row.hits, row.validated, row.misses, row.passes, row.refused, row.errors].map(each);
    }],
    [new Chart(plots, {
      title: "Hit ratio", about: "average of ten seconds", format: (share) => percent(share), top: 1,
      series: [
        { label: "of requests", colour: "hit", fill: true }, { label: "with validated", colour: "valid" }, { label: "of bytes", colour: "byte" },
      ],
    }), (_, at) => {
      const sum = (name) => rows.slice(Math.max(0, at + 1 - SMOOTH), at + 1).reduce((sum, row) => sum + row[name], 0);
      const share = (part, whole) => (whole > 0 ? part / whole : null);
      const [hits, validated] = [sum("hits"), sum("validated")];
      const all = hits + validated + sum("misses");
      return [share(hits, all), share(hits + validated, all), share(sum("bytes_from_cache"), sum("bytes_cacheable"))];
    }],
    [new Chart(plots, {
      title: "Latency", about: "of hits and misses; logarithmic axis", format: time, log: true,
      series: [
        { label: "hit p50", colour: "hit" }, { label: "hit p99", colour: "hit", dash: [4, 4] },
        { label: "miss p50", colour: "miss" }, { label: "miss p99", colour: "miss", dash: [4, 4] },
      ],
    }), ({ latency: { hit, miss } }) => {
      const of = (kind, name) => (kind.count > 0 ? Math.max(1, kind[name]) : null);
      return [of(hit, "p50_us"), of(hit, "p99_us"), of(miss, "p50_us"), of(miss, "p99_us")];
    }],
    [new Chart(plots, {
      title: "Memory", about: "objects per second", format: short,
      series: [{ label: "admitted", colour: "valid", fill: true }, { label: "evicted", colour: "miss" }, { label: "refused", colour: "pass" }],
    }), (row) => [row.admissions, row.evictions, row.rejections].map((n) => n / row.seconds)],
  ];
};

let drawn = null;

/** Fetches the seconds since the last one that is shown, and shows them. */
export async function update() {
  if (busy) return;
  busy = true;
  try {
    const after = rows.at(-1)?.time ?? 0;
    const more = await get("/recent", { after });
    if (more.length === 0 && drawn) return;
    rows = [...rows, ...more].slice(-KEPT);
    drawn ??= charts();
    const times = rows.map((row) => row.time / 1000);
    for (const [chart, values] of drawn) {
      const points = rows.map(values);
      chart.show([times, ...chart.series.map((_, n) => points.map((point) => point[n]))]);
    }
  } finally {
    busy = false;
  }
}

/** The last seconds, newest last. */
export const recent = (seconds) => rows.slice(-seconds);
