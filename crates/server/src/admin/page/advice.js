// What other sizes and policies of the memory would bring: curves with their errors, and a slider to read them by.

import { byId, make, say } from "./dom.js";
import { count, percent, size } from "./format.js";
import { get } from "./source.js";
import { Table } from "./table.js";

const WIDTH = 640, HEIGHT = 220, LEFT = 46, RIGHT = 84, TOP = 10, BOTTOM = 24;
/** Curves that differ by less are one. */
const ALIKE = 0.002;
let report = null, table = null;

/** An element of a drawing. */
function draw(tag, properties, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** The cells of each policy of the memory, by ascending size. */
function policies() {
  const all = new Map();
  for (const cell of report.cells.filter(({ tier }) => tier === "memory")) all.set(cell.policy, [...(all.get(cell.policy) ?? []), cell]);
  return [...all].map(([policy, cells]) => ({ policy, cells, runs: cells.some(({ current }) => current) }));
}

const sized = (amount) => (report.by_entries ? count(amount) : size(amount));

/** Draws the curves: each size is twice as far to the right as half of it is. The running policy has a band of two standard errors. */
function curves(all) {
  const ratios = all.flatMap(({ cells }) => cells.map((cell) => cell.hit_ratio));
  const low = Math.floor(Math.min(...ratios) * 10) / 10, high = Math.max(low + 0.1, Math.ceil(Math.max(...ratios) * 10) / 10);
  const x = (at) => LEFT + ((WIDTH - LEFT - RIGHT) * at) / 4;
  const y = (ratio) => TOP + ((HEIGHT - TOP - BOTTOM) * (high - Math.min(high, Math.max(low, ratio)))) / (high - low);
  const points = (cells, value) => cells.map((cell, at) => `${x(at)},${y(value(cell)).toFixed(1)}`);
  const image = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "curves" });
  for (const ratio of [low, (low + high) / 2, high]) {
    image.append(draw("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(ratio), y2: y(ratio), class: "grid" }));
    image.append(draw("text", { x: LEFT - 6, y: y(ratio) + 4, "text-anchor": "end" }, percent(ratio)));
  }
  all[0].cells.forEach((cell, at) => image.append(draw("text", { x: x(at), y: HEIGHT - 6, "text-anchor": "middle" }, sized(cell.size))));
  for (const { policy, cells, runs } of all.toSorted((one, other) => one.runs - other.runs)) {
    const above = points(cells, (cell) => cell.hit_ratio + 2 * cell.hit_ratio_error);
    const below = points(cells, (cell) => cell.hit_ratio - 2 * cell.hit_ratio_error).reverse();
    if (runs) image.append(draw("polygon", { points: [...above, ...below].join(" "), class: "band" }));
    const title = draw("title", {}, policy);
    image.append(draw("polyline", { points: points(cells, (cell) => cell.hit_ratio).join(" "), class: runs ? "curve runs" : "curve" }, title));
    if (runs) image.append(draw("text", { x: WIDTH - RIGHT + 6, y: y(cells[4].hit_ratio) + 4 }, policy));
  }
  return image;
}

/** Shows what each policy would have done at the size of the slider. */
function read() {
  const at = Number(byId("what-if").value), all = policies();
  say(byId("what-if-size"), sized(all[0].cells[at].size));
  table ??= new Table(byId("what-if-policies"), {
    caption: "What policies would have done at this size",
    none: "no figures yet",
    key: (row) => row.policy,
    columns: [
      { title: "Policy", text: (row) => (row.current ? `${row.policy} (runs)` : row.policy), class: "short" },
      { title: "Hit ratio", text: (row) => `${percent(row.hit_ratio)} ± ${(100 * row.hit_ratio_error).toFixed(1)}`, class: "n" },
      { title: "Byte hit ratio", text: (row) => `${percent(row.byte_hit_ratio)} ± ${(100 * row.byte_hit_ratio_error).toFixed(1)}`, class: "n wide" },
      { title: "To origins", text: (row) => count(Math.round(report.window.requests * (1 - row.hit_ratio))), class: "n", hint: () => "requests" },
    ],
  });
  table.show(all.map(({ cells }) => cells[at]).toSorted((one, other) => other.hit_ratio - one.hit_ratio));
}

/** Fetches the table, and shows it once sizes make a difference. */
export async function update() {
  report = await get("/advise");
  const all = policies(), running = all.find(({ runs }) => runs);
  const ends = running && [running.cells[0].hit_ratio, running.cells[4].hit_ratio];
  byId("advice").hidden = !ends || Math.abs(ends[1] - ends[0]) < ALIKE;
  if (byId("advice").hidden) return;
  const { advice, doubt, check } = report;
  const gain = advice && `${advice.policy} would hit ${(100 * advice.gain).toFixed(1)} ± ${(100 * advice.error).toFixed(1)} points more`;
  say(byId("advised"), doubt ? `No advice: ${doubt}.` : `${gain ?? "Keep the policy; no other one is clearly better at this size"}.`);
  say(byId("advice-span"), `${count(report.window.requests)} requests; predicted ${percent(check.predicted)}, measured ${percent(check.measured)}`);
  const words = running.cells.map((cell) => `${sized(cell.size)} ${percent(cell.hit_ratio)}`).join(", ");
  byId("curves").setAttribute("aria-label", `Hit ratio under ${running.policy} by size: ${words}`);
  byId("curves").replaceChildren(curves(all));
  read();
}

byId("what-if").addEventListener("input", read);
