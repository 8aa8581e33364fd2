// Tables whose rows may be expanded, and keep their place while their figures change.

import { make, say } from "./dom.js";

/**
 * A table in `host`. `columns` are `{ title, text(row), hint(row), class, fill(cell, row) }`; the first names the row. `key` tells
 * rows apart. `detail(row, place)` fills what is below an expanded row; `actions` are `{ title, act(row) }`.
 */
export class Table {
  constructor(host, { caption, columns, key, detail, actions = [], none = "nothing yet" }) {
    Object.assign(this, { columns, key, detail, actions, none, rows: new Map() });
    const heads = columns.map(({ title, class: kind }) => make("th", { scope: "col", class: kind }, title));
    if (actions.length > 0) heads.push(make("th", { scope: "col", class: "act" }, make("span", { class: "hidden" }, "Actions")));
    this.width = heads.length;
    this.body = make("tbody");
    host.replaceChildren(make("div", { class: "scroll" }, make("table", {},
      make("caption", { class: "hidden" }, caption), make("thead", {}, make("tr", {}, ...heads)), this.body)));
    this.show([]);
    new ResizeObserver(() => this.name()).observe(host);
  }

  /** Fills the first cells, whose texts depend on the room that the others leave. */
  name() {
    this.rows.forEach(({ cells, row }) => fill(this.columns[0], cells[0], row));
  }

  /** Shows `rows` in their order. Those that were there keep focus; those that are open stay, whatever comes. */
  show(rows) {
    const gone = new Set(this.rows.keys());
    let before = null;
    for (const row of rows) {
      const key = this.key(row);
      gone.delete(key);
      const shown = this.rows.get(key) ?? this.add(key, row);
      shown.row = row;
      const next = before ? before.nextSibling : this.body.firstChild;
      if (next !== shown.line) this.body.insertBefore(shown.line, next);
      if (shown.below) shown.line.after(shown.below);
      this.columns.forEach((column, at) => at > 0 && fill(column, shown.cells[at], row));
      before = shown.below ?? shown.line;
    }
    for (const key of gone) {
      const { line, below } = this.rows.get(key);
      if (below) this.body.append(line, below);
      else {
        line.remove();
        this.rows.delete(key);
      }
    }
    this.name();
    if (this.rows.size > 0) this.empty?.remove();
    else this.body.append((this.empty ??= make("tr", {}, make("td", { colspan: this.width, class: "quiet none" }, this.none))));
  }

  add(key, row) {
    const shown = { below: null };
    shown.cells = this.columns.map(({ class: kind }, at) => make(at === 0 ? "th" : "td", { class: kind, scope: at === 0 && "row" }));
    shown.line = make("tr", {}, ...shown.cells);
    if (this.columns[0].class === "name" && !this.detail) {
      const inner = make("span", { class: "name" });
      shown.cells[0].append(inner);
      shown.cells[0] = inner;
    } else if (this.detail) {
      const inner = make("span", { class: "name" });
      shown.button = make("button", { type: "button", class: "open", "aria-expanded": "false", click: () => this.toggle(shown) }, inner);
      shown.cells[0].append(shown.button);
      shown.cells[0] = inner;
    }
    if (this.actions.length > 0) {
      const button = ({ title, act }) => make("button", { type: "button", class: "small", click: () => act(shown.row) },
        title, make("span", { class: "hidden" }, ` ${this.columns[0].text(row)}`));
      shown.line.append(make("td", { class: "act" }, ...this.actions.map(button)));
    }
    this.rows.set(key, shown);
    return shown;
  }

  toggle(shown) {
    const open = !shown.below;
    shown.button.setAttribute("aria-expanded", String(open));
    if (!open) {
      shown.below.remove();
      shown.below = null;
      return;
    }
    const place = make("td", { colspan: this.width, class: "below" });
    shown.below = make("tr", {}, place);
    shown.line.after(shown.below);
    this.detail(shown.row, place);
  }
}

function fill({ text, hint, fill }, cell, row) {
  if (fill) fill(cell, row);
  else say(cell, text(row));
  if (hint) cell.title = hint(row);
}
