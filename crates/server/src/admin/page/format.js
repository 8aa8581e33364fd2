// Figures as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A count in full: 12,345. */
export const count = (n) => whole.format(n ?? 0);

/** A count with its noun: 1 request, 2 requests. */
export const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many}`;

/** A count in little room: 12.3k. */
export function short(n) {
  if (n == null) return "–";
  const steps = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [unit, letter] = steps.find(([unit]) => n >= unit) ?? [1, ""];
  const value = n / unit;
  // Marks of a scale are quarters where there is little.
  if (value < 1) return Number(value.toFixed(2)).toString();
  return `${value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)}${letter}`;
}

/** Bytes: 1.5 MiB. */
export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = bytes ?? 0, unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toPrecision(3)} ${units[unit]}`;
}

/** A share as a percentage; a dash where there is nothing to have a share of. */
export const percent = (part, of = 1) => (part == null || !of ? "–" : `${((100 * part) / of).toFixed(1)}%`);

/** Requests that the cache might have answered: what ratios are taken of. */
export const cacheable = (row) => row.hits + row.validated + row.misses;

/** The hit ratio; where it differs, the one with what was validated in brackets. */
export const hitRatio = (row) => {
  const without = percent(row.hits, cacheable(row));
  return row.validated > 0 ? `${without} (${percent(row.hits + row.validated, cacheable(row))})` : without;
};

/** Microseconds: 1.2 ms. */
export function time(us) {
  if (us == null) return "–";
  if (us < 1e3) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${trim(us / 1e3)} ms`;
  return `${trim(us / 1e6)} s`;
}

const trim = (n) => (n >= 100 ? Math.round(n).toString() : Number(n.toPrecision(2)).toString());

/** Seconds as a span: 3 min. */
export function span(seconds) {
  const steps = [[86400, "d"], [3600, "h"], [60, "min"]];
  const [unit, name] = steps.find(([unit]) => seconds >= unit) ?? [1, "s"];
  return `${Math.round(seconds / unit)} ${name}`;
}

/** Seconds since 1970 as a time of day. */
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");

/** A text without its middle, in at most `room` letters. */
function withoutMiddle(text, room) {
  const begin = Math.ceil((room - 1) / 2), end = Math.max(0, room - 1 - begin);
  return `${text.slice(0, begin)}…${end > 0 ? text.slice(-end) : ""}`;
}

/**
 * A URL in at most `room` letters: it loses its scheme first, then the middle of its query, then the middle of its path.
 * What distinguishes it from others is the name of its file. The commands have the same rule.
 */
export function brief(url, room) {
  if (url.length <= room) return url;
  const text = url.replace(/^https?:\/\//, "");
  const [path] = text.split("?", 1);
  const query = text.slice(path.length);
  if (text.length <= room) return text;
  if (path.length <= room) return room - path.length > 2 ? path + withoutMiddle(query, room - path.length) : path;
  const file = path.match(/\/[^/]+\/*$/)?.[0] ?? "";
  const begin = room - file.length - 1;
  return begin > 0 ? `${path.slice(0, begin)}…${file}` : withoutMiddle(path, room);
}
