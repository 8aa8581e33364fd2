// A chart: title, legend with figures, canvas by uPlot, and the same in words and as a table for people who cannot see it.

import { make, say } from "./dom.js";
import { clock } from "./format.js";

const all = new Set();
const HEIGHT = 200;
/** Seconds on either side of a single time. */
const ALONE = 300;
/** Seconds between the times below a chart. */
const STEPS = [1, 2, 5, 10, 15, 30, ...[1, 2, 5, 10, 30, 60, 180, 360, 720, 1440, 2880].map((minutes) => 60 * minutes)];
const probe = document.body.appendChild(make("i", { hidden: true }));

/** A colour of the style sheet, as the canvas understands it. */
function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

/**
 * A chart in `host`. `series` are `{ label, colour, dash, fill, bars }`; values are drawn as they are, or on top of each
 * other if `stacked`; `format` writes them. `log` is for values that differ by orders of magnitude, `top` is a
 * fixed end of the scale. Times are `least` seconds apart, at least, and so are the marks of their axis.
 */
export class Chart {
  constructor(host, { title, about, series, format, stacked = false, log = false, top, when = clock, least = 1 }) {
    Object.assign(this, { series, format, stacked, log, top, when, least, columns: [[], ...series.map(() => [])] });
    this.figures = series.map(() => make("b"));
    const items = series.map(({ label, colour, dash }, at) =>
      make("li", {}, make("i", { class: `key ${colour} ${dash ? "dash" : ""}` }), label, " ", this.figures[at]));
    this.at = make("span", { class: "quiet" });
    this.canvas = make("div", { class: "canvas", role: "img" });
    this.table = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title}, as a table` });
    this.details = make("details", { toggle: () => this.tabulate() }, make("summary", {}, "As a table"), this.table);
    host.append(make("figure", { class: "card plot" },
      make("figcaption", {}, make("h3", {}, title), this.at, make("p", { class: "quiet" }, about)),
      make("ul", { class: "legend" }, ...items), this.canvas, this.details));
    this.title = title;
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.canvas);
    this.draw();
    all.add(this);
  }

  /** Shows columns: times in seconds since 1970, then the values of each series; null where there is none. */
  show(columns) {
    this.columns = columns;
    this.plot.setData(this.drawn());
    this.tell(this.plot.cursor.idx);
    if (this.details.open) this.tabulate();
  }

  drawn() {
    const [times, ...values] = this.columns;
    if (!this.stacked) return [times, ...values];
    const sums = times.map(() => 0);
    const layers = values.map((column) => column.map((value, at) => (value == null ? null : (sums[at] += value))));
    // The highest layer is drawn first, so that the lower ones lie before it.
    return [times, ...layers.reverse()];
  }

  draw() {
    this.plot?.destroy();
    const grid = { stroke: colour("line"), width: 1 };
    const axis = { stroke: colour("quiet"), font: "12px system-ui", grid, ticks: { show: false } };
    const order = this.stacked ? this.series.toReversed() : this.series;
    this.plot = new uPlot({
      width: this.canvas.clientWidth || 400,
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, points: { size: 6 } },
      padding: [8, 28, 0, 0],
      scales: { x: { range: (_, first, last) => this.ends(first, last) }, y: this.log ? { distr: 3, range: decades } : { range: (_, low, high) => [0, this.top ?? headroom(high)] } },
      axes: [
        { ...axis, grid: { show: false }, size: 26, space: 70, incrs: STEPS.filter((step) => step >= this.least), values: (_, times, axis, room, step) => times.map((time) => this.label(time, step)) },
        {
          ...axis, ...(this.log && { filter: powers, grid: { ...grid, filter: powers } }), size: 64, space: this.log ? 1 : 36,
          values: (_, values) => values.map((value) => (value == null ? "" : this.format(value))),
        },
      ],
      series: [{}, ...order.map((one) => this.line(one))],
      hooks: { setCursor: [(plot) => this.tell(plot.cursor.idx)] },
    }, this.drawn(), this.canvas);
  }

  /** The ends of the time axis: bars stand in the middle of their times, and so does whatever has a single time. */
  ends(first, last) {
    const [times] = this.columns;
    if (times.length === 1) return [times[0] - ALONE, times[0] + ALONE];
    if (!this.series.some(({ bars }) => bars) || times.length === 0) return [first, last];
    const steps = times.slice(1).map((time, at) => time - times[at]);
    const half = Math.min(...steps, 3600) / 2;
    return [first - half, last + half];
  }

  line({ colour: name, dash, fill, bars }) {
    const stroke = colour(name);
    const shaded = this.stacked ? colour(`${name}-soft`) : fill && `color-mix(in srgb, ${stroke} 14%, transparent)`;
    return {
      stroke, dash, width: this.stacked ? 1 : 1.75, points: { show: bars ? false : isAlone, size: 6, fill: stroke }, spanGaps: false, fill: shaded,
      ...(bars && { paths: uPlot.paths.bars({ size: [0.8, 60] }), fill: colour(`${name}-soft`) }),
    };
  }

  /** A mark of the time axis: the day where a day begins, or else the time of day. */
  label(time, step) {
    const text = clock(time);
    if (step >= 3600 && text === "00:00:00") return new Date(time * 1000).toLocaleDateString("en-GB", { weekday: "short", day: "numeric" });
    return text.slice(0, step < 60 ? 8 : 5);
  }

  /** Puts the figures of one moment into the legend: of the one pointed at, else the last one. */
  tell(index) {
    const [times, ...values] = this.columns;
    const at = index ?? times.length - 1;
    const texts = values.map((column) => (column[at] == null ? "–" : this.format(column[at])));
    texts.forEach((text, n) => say(this.figures[n], text));
    say(this.at, times[at] == null ? "no figures yet" : this.when(times[at]));
    const words = this.series.map(({ label }, n) => `${label} ${texts[n]}`).join(", ");
    this.canvas.setAttribute("aria-label", `${this.title}: ${words}`);
  }

  tabulate() {
    const [times, ...values] = this.columns;
    const step = Math.max(1, Math.ceil(times.length / 30));
    const rows = times.map((_, at) => at).filter((at) => (times.length - 1 - at) % step === 0).reverse();
    const cell = (column, at) => (column[at] == null ? "–" : this.format(column[at]));
    this.table.replaceChildren(make("table", {},
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Time"),
        ...this.series.map(({ label }) => make("th", { scope: "col", class: "n" }, label)))),
      make("tbody", {}, ...rows.map((at) => make("tr", {}, make("th", { scope: "row" }, this.when(times[at])),
        ...values.map((column) => make("td", { class: "n" }, cell(column, at))))))));
  }

  fit() {
    const width = this.canvas.clientWidth;
    if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  /** Takes it off the page. */
  remove() {
    this.observer.disconnect();
    this.plot.destroy();
    all.delete(this);
  }
}

/** Whether a series has one value: no line can be drawn of it. */
const isAlone = (plot, series) => plot.data[series].filter((value) => value != null).length === 1;

/** Of the marks of a scale, the powers of ten. */
const powers = (_, marks) => marks.map((mark) => (Number.isInteger(Math.log10(mark)) ? mark : null));

/** Room above the highest value. */
const headroom = (high) => (high > 0 ? high * 1.1 : 4);

/** Whole powers of ten around all values, two at least. */
function decades(_, low, high) {
  if (low == null || high == null || high <= 0) return [10, 100_000];
  const from = Math.floor(Math.log10(Math.max(low, 1)));
  return [10 ** from, 10 ** Math.max(from + 2, Math.ceil(Math.log10(high) + 0.01))];
}

// Colours are drawn into the canvas: other colours, another drawing.
document.addEventListener("theme", () => all.forEach((chart) => chart.draw()));
