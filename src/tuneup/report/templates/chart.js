"use strict";
// Line charts as SVG, from plain data: tabs, a legend that hides and shows, a cursor that reads
// values out, zoom by dragging, by buttons and from the keyboard. Nothing here is ever parsed as
// HTML: text arrives through textContent.

const SVG = "http://www.w3.org/2000/svg";

/** An element of SVG, with attributes, put into its parent. */
function svg(name, attributes = {}, parent = null, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

/** An element of HTML. */
function html(name, attributes = {}, parent = null, text = null) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

/** Round numbers between two ends, about `count` of them. */
function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough - 1e-12);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
    found.push(Number((k * step).toPrecision(12)));
  }
  return found;
}

const SHAPES = {
  o: (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
  s: (r) => `M${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  "^": (r) => `M0,${-1.2 * r}L${1.2 * r},${r}H${-1.2 * r}z`,
  v: (r) => `M0,${1.2 * r}L${1.2 * r},${-r}H${-1.2 * r}z`,
  D: (r) => `M0,${-1.3 * r}L${1.3 * r},0L0,${1.3 * r}L${-1.3 * r},0z`,
};
/** Path of a marker around the origin; what has no shape of its own is a diamond. */
const shape = (marker, r = 4) => (SHAPES[marker] || SHAPES.D)(r);

const number = (value, suffix = "") =>
  (Math.abs(value) >= 10 || suffix ? value.toFixed(1) : value.toPrecision(3)) + suffix;

/** One picture: draws itself at the width of its chart, and again whenever something changes. */
class View {
  constructor(chart, spec, index) {
    Object.assign(this, { chart, spec, index });
    this.box = html("div", { class: "view", id: `${chart.name}-${index}` }, chart.stage);
    html("h4", {}, this.box, spec.label);
    this.full = this.domain();
    this.shown = [...this.full];
    this.cursor = null;
  }

  domain() {
    const { x, series } = this.spec;
    if (x.kind === "band") return [-0.5, x.labels.length - 0.5];
    const all = series.flatMap((each) => each.lines.flat().map((point) => point[0]));
    const low = x.min ?? Math.min(...all), high = x.max ?? Math.max(...all);
    const pad = 0.02 * (high - low || 1);
    return [low - pad, high + pad];
  }

  get visible() {
    return this.spec.series.filter((each) => !this.chart.hidden.has(each.s));
  }

  /** The vertical range of what can be seen, bands included, with some air. */
  range() {
    const values = [];
    for (const each of this.visible) {
      for (const line of each.lines) {
        for (const [x, ...rest] of line) {
          if (x < this.shown[0] || x > this.shown[1]) continue;
          values.push(...rest.slice(0, 3).filter((v) => typeof v === "number"));
        }
      }
    }
    if (!values.length) return [0, 1];
    const low = Math.min(...values), high = Math.max(...values);
    const pad = 0.07 * (high - low) || 1;
    return [low >= 0 ? Math.max(0, low - pad) : low - pad, high + pad];
  }

  draw(width) {
    const { spec } = this;
    const narrow = width < 520;
    const tilted = spec.x.kind === "band" && (width - 70) / this.span() < 44;
    const counts = spec.counts ? 62 : 0;
    const top = spec.tail || spec.stages ? 44 : 28, left = 50, right = 14, low = (tilted ? 48 : 26) + 26;
    const tall = narrow ? 220 : 290;
    const height = top + tall + (counts ? counts + 14 : 0) + low;
    this.at = { left, right: width - right, top, bottom: top + tall, width, height };
    this.svg?.remove();
    this.svg = svg("svg", {
      viewBox: `0 0 ${width} ${height}`, tabindex: "0", role: "application",
      "aria-label": `${this.chart.label}, ${spec.label}. Arrow keys read values, plus and minus zoom, 0 shows all.`,
      "data-from": this.shown[0].toFixed(3), "data-to": this.shown[1].toFixed(3),
    }, this.box);
    this.y = this.range();
    this.svg.dataset.low = this.y[0].toFixed(3);
    this.svg.dataset.high = this.y[1].toFixed(3);
    const clip = `clip-${this.chart.name}-${this.index}`;
    const cut = svg("clipPath", { id: clip }, svg("defs", {}, this.svg));
    svg("rect", { x: left, y: 0, width: width - left - right, height }, cut);
    this.ground(clip, counts);
    this.axes(tilted, counts);
    const drawn = svg("g", { "clip-path": `url(#${clip})` }, this.svg);
    for (const each of this.visible) this.series(each, drawn);
    for (const pick of spec.picks || []) this.pick(pick, drawn);
    if (!this.visible.length) {
      svg("text", { x: width / 2, y: top + tall / 2, "text-anchor": "middle" }, this.svg,
        "Everything is hidden: choose a line above.");
    }
    this.line = svg("line", { class: "cursor", y1: top, y2: height - low, visibility: "hidden" }, this.svg);
    this.listen();
    if (this.cursor !== null) this.read(this.cursor, false);
  }

  span() { return this.shown[1] - this.shown[0]; }
  px(x) { return this.at.left + ((x - this.shown[0]) / this.span()) * (this.at.right - this.at.left); }
  py(y) { return this.at.bottom - ((y - this.y[0]) / (this.y[1] - this.y[0])) * (this.at.bottom - this.at.top); }

  /** What stands behind the curves: the tail's shade, counts, where a stage begins. */
  ground(clip, counts) {
    const { spec, at } = this;
    const behind = svg("g", { "clip-path": `url(#${clip})` }, this.svg);
    if (spec.tail) {
      const from = this.px(-0.5), to = this.px(spec.tail - 0.5);
      svg("rect", { class: "tail", x: from, y: at.top, width: to - from,
        height: at.bottom - at.top + (counts ? counts + 14 : 0) }, behind);
      if (to > at.left + 20) svg("text", { x: at.left + 6, y: at.top - 8 }, this.svg, spec.tailLabel);
    }
    for (const [k, stage] of (spec.stages || []).entries()) {
      const x = this.px(stage.start);
      if (k) svg("line", { class: "stage", x1: x, x2: x, y1: at.top - 14, y2: at.bottom }, behind);
      const from = Math.max(x, at.left);
      const next = spec.stages[k + 1] ? this.px(spec.stages[k + 1].start) : at.right;
      if (next - from > 50 && from < at.right - 40) {
        svg("text", { x: from + 6, y: at.top - 8 }, behind, stage.label);
      }
    }
    if (counts) this.counts(behind, at.bottom + 14, counts);
  }

  /** Bars as long as their counts, but never too short to be seen. */
  counts(parent, top, height) {
    const { counts, countsColoured, countsTitle } = this.spec;
    const shown = counts.filter((each) => !countsColoured || !this.chart.hidden.has(each.s));
    const most = Math.max(1, ...counts.flatMap((each) => each.values));
    const room = (this.px(1) - this.px(0)) * 0.78, wide = room / Math.max(1, shown.length);
    shown.forEach((each, k) => each.values.forEach((n, i) => {
      const tall = n ? Math.max(1.5, (n / most) * (height - 16)) : 0;
      const x = this.px(i) - room / 2 + k * wide;
      svg("rect", { class: countsColoured ? `count own c${each.s}` : "count", x,
        y: top + height - tall, width: Math.max(1, wide - (shown.length > 1 ? 1 : 0)), height: tall }, parent);
      if (shown.length === 1 && room > 30) {
        const short = n >= 10000 ? `${Math.round(n / 1000)}k` : n.toLocaleString("en");
        svg("text", { x: this.px(i), y: top + height - tall - 3, "text-anchor": "middle" }, parent, short);
      }
    }));
    svg("text", { x: this.at.left - 8, y: top + height - 3, "text-anchor": "end" }, this.svg, countsTitle);
  }

  axes(tilted, counts) {
    const { spec, at } = this;
    for (const tick of ticks(this.y[0], this.y[1], 7)) {
      const y = this.py(tick);
      svg("line", { class: "grid", x1: at.left, x2: at.right, y1: y, y2: y }, this.svg);
      svg("text", { class: "ytick", x: at.left - 8, y: y + 4, "text-anchor": "end" }, this.svg, String(tick));
    }
    const base = at.bottom + (counts ? counts + 14 : 0);
    svg("line", { class: "axis", x1: at.left, x2: at.right, y1: base, y2: base }, this.svg);
    for (const [x, label] of this.xticks()) {
      const place = tilted
        ? { x: 0, y: 0, transform: `translate(${this.px(x) + 4},${base + 15}) rotate(-40)`, "text-anchor": "end" }
        : { x: this.px(x), y: base + 18, "text-anchor": "middle" };
      svg("text", { class: "xtick", ...place }, this.svg, label);
    }
    svg("text", { class: "title", x: at.width / 2, y: at.height - 6, "text-anchor": "middle" }, this.svg, spec.x.title);
    svg("text", { class: "title", x: 4, y: 14 }, this.svg, spec.y.title);
  }

  xticks() {
    const { x, stages } = this.spec, [low, high] = this.shown;
    if (x.kind === "band") {
      return x.labels.map((label, i) => [i, label]).filter(([i]) => i >= low && i <= high);
    }
    if (x.ticks) return x.ticks.filter((t) => t >= low && t <= high).map((t) => [t, t + (x.suffix || "")]);
    if (!stages) return ticks(low, high, 6).map((t) => [t, String(t)]);
    const found = [];
    const apart = (this.span() / (this.at.right - this.at.left)) * 34;
    stages.forEach((stage, k) => {  // epochs are counted from 1 in every stage
      const end = stages[k + 1]?.start ?? this.full[1];
      const from = Math.max(0, low - stage.start), to = Math.min(end, high) - stage.start;
      const count = Math.max(2, Math.min(6, (to - from) / apart / 1.6));
      if (to <= from) return;
      for (const t of ticks(from, to, count)) {
        const x = stage.start + t;
        if (t > 0 && Number.isInteger(t) && (!found.length || x - found.at(-1)[0] > apart)) found.push([x, String(t)]);
      }
    });
    return found;
  }

  series(each, parent) {
    const looks = this.chart.looks[each.s];
    const thin = each.lines.length > 2 || this.spec.series.length > 4;
    const group = svg("g", { class: `series c${each.s}`, "data-series": looks.name }, parent);
    for (const line of each.lines) {
      const band = line.filter((p) => typeof p[2] === "number" && typeof p[3] === "number");
      if (band.length > 1) {
        const there = band.map((p) => `${this.px(p[0]).toFixed(1)},${this.py(p[3]).toFixed(1)}`);
        const back = band.toReversed().map((p) => `${this.px(p[0]).toFixed(1)},${this.py(p[2]).toFixed(1)}`);
        svg("path", { class: "band", d: `M${there.join("L")}L${back.join("L")}z` }, group);
      }
      const path = line.map((p) => `${this.px(p[0]).toFixed(1)},${this.py(p[1]).toFixed(1)}`);
      if (path.length) {
        const dash = looks.dash ? { "stroke-dasharray": looks.dash } : {};
        svg("path", { class: thin && !this.spec.markers ? "line thin" : "line", d: `M${path.join("L")}`, ...dash }, group);
      }
      if (!this.spec.markers) continue;
      for (const p of line) {
        svg("path", { class: p[4] ? "mark few" : "mark", d: shape(looks.marker),
          transform: `translate(${this.px(p[0]).toFixed(1)},${this.py(p[1]).toFixed(1)})` }, group);
      }
    }
  }

  pick(pick, parent) {
    if (this.chart.hidden.has(pick.s)) return;
    svg("circle", { class: `pick c${pick.s}`, cx: this.px(pick.x), cy: this.py(pick.y), r: 7 }, parent);
  }

  /** All places that have a value, from left to right. */
  places() {
    const all = this.visible.flatMap((each) => each.lines.flat().map((p) => p[0]));
    return [...new Set(all)].filter((x) => x >= this.shown[0] && x <= this.shown[1]).sort((a, b) => a - b);
  }

  name(x) {
    const { x: axis, stages } = this.spec;
    if (axis.kind === "band") return `${axis.word} ${axis.labels[x]}`;
    if (!stages) return `${axis.word || ""} ${x}${axis.suffix || ""}`.trim();
    const k = stages.findLastIndex((stage) => x > stage.start);
    const stage = stages[Math.max(0, k)];
    return `${stage.label}, epoch ${x - stage.start}`;
  }

  /** Show and say the values at a place. */
  read(x, aloud) {
    const { spec, chart } = this;
    const tip = chart.tip, lines = [this.name(x)];
    tip.replaceChildren(html("b", {}, null, lines[0]));
    for (const each of this.visible) {
      const found = each.lines.flatMap((line) => line.filter((p) => p[0] === x));
      if (!found.length) continue;
      const values = found.map((p) => p[1]), suffix = spec.y.suffix;
      const mean = values.reduce((a, b) => a + b) / values.length;
      const ends = found.length > 1 ? [Math.min(...values), Math.max(...values)] : found[0].slice(2, 4);
      const interval = typeof ends[0] === "number" && ends[0] !== ends[1] ? ` (${number(ends[0])} to ${number(ends[1])})` : "";
      const row = html("div", { class: `c${each.s}` }, tip);
      html("i", {}, row);
      row.append(`${chart.looks[each.s].name} ${number(mean, suffix)}`);
      html("small", {}, row, interval);
      lines.push(`${chart.looks[each.s].name} ${number(mean, suffix)}${interval}`);
    }
    if (spec.counts) {
      const several = spec.counts.length > 1;
      for (const each of spec.counts) {
        const who = several ? `${chart.looks[each.s].name.split(" · ")[0]}: ` : "";
        const text = `${who}${each.values[x].toLocaleString("en")} ${spec.countsTitle}`;
        html("small", {}, html("div", {}, tip), text);
        lines.push(text);
      }
    }
    this.cursor = x;
    const place = this.px(x);
    this.line.setAttribute("x1", place);
    this.line.setAttribute("x2", place);
    this.line.setAttribute("visibility", "visible");
    tip.hidden = false;
    const scale = this.svg.getBoundingClientRect().width / this.at.width;
    const room = chart.host.clientWidth, left = place * scale;
    const beside = left + 14 + tip.offsetWidth <= room ? left + 14 : left - 14 - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(beside, room - tip.offsetWidth))}px`;
    tip.style.top = `${this.box.offsetTop + chart.stage.offsetTop + this.at.top * scale + 8}px`;
    if (aloud) chart.announced.textContent = lines.join(", ");
  }

  leave() {
    this.cursor = null;
    this.line?.setAttribute("visibility", "hidden");
    this.chart.tip.hidden = true;
  }

  zoom(from, to) {
    const [low, high] = this.full, least = this.spec.x.kind === "band" ? 1.5 : (high - low) / 200;
    if (to - from < least) { const mid = (from + to) / 2; from = mid - least / 2; to = mid + least / 2; }
    if (to - from >= high - low) { from = low; to = high; }
    if (from < low) { to += low - from; from = low; }
    if (to > high) { from -= to - high; to = high; }
    this.shown = [from, to];
    this.leave();
    const focused = document.activeElement === this.svg;
    this.draw(this.at.width);
    if (focused) this.svg.focus({ preventScroll: true });
    this.chart.buttons();
  }

  /** Around the cursor, or the middle: a factor below 1 shows less and larger. */
  scale(factor) {
    const middle = this.cursor ?? (this.shown[0] + this.shown[1]) / 2, half = (this.span() * factor) / 2;
    this.zoom(middle - half, middle + half);
  }

  listen() {
    const where = (event) => {
      const box = this.svg.getBoundingClientRect();
      const px = ((event.clientX - box.left) / box.width) * this.at.width;
      return this.shown[0] + ((px - this.at.left) / (this.at.right - this.at.left)) * this.span();
    };
    const nearest = (x) => this.places().reduce((a, b) => (Math.abs(b - x) < Math.abs(a - x) ? b : a), Infinity);
    let start = null, rectangle = null;
    this.svg.addEventListener("pointermove", (event) => {
      const x = where(event), close = nearest(x);
      if (Number.isFinite(close)) this.read(close, false);
      if (start === null) return;
      rectangle ??= svg("rect", { class: "drag", y: this.at.top, height: this.at.bottom - this.at.top }, this.svg);
      rectangle.setAttribute("x", Math.min(this.px(start), this.px(x)));
      rectangle.setAttribute("width", Math.abs(this.px(x) - this.px(start)));
    });
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse") { const close = nearest(where(event)); if (Number.isFinite(close)) this.read(close, true); return; }
      if (event.button !== 0) return;
      start = where(event);
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointerup", (event) => {
      if (start === null) return;
      const end = where(event), from = start;
      start = null;
      rectangle?.remove();
      rectangle = null;
      if (Math.abs(this.px(end) - this.px(from)) > 12) this.zoom(Math.min(from, end), Math.max(from, end));
    });
    this.svg.addEventListener("pointercancel", () => { start = null; rectangle?.remove(); rectangle = null; });
    this.svg.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse" && start === null) this.leave(); });
    this.svg.addEventListener("dblclick", () => this.zoom(...this.full));
    this.svg.addEventListener("blur", () => this.leave());
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const places = this.places(), at = places.indexOf(this.cursor);
    const go = (k) => { if (places.length) this.read(places[Math.max(0, Math.min(places.length - 1, k))], true); };
    const pan = (by) => this.zoom(this.shown[0] + by * this.span(), this.shown[1] + by * this.span());
    const does = {
      ArrowRight: () => (event.shiftKey ? pan(0.25) : go(at + 1)),
      ArrowLeft: () => (event.shiftKey ? pan(-0.25) : go(at < 0 ? places.length - 1 : at - 1)),
      Home: () => go(0), End: () => go(places.length - 1),
      "+": () => this.scale(0.5), "=": () => this.scale(0.5), "-": () => this.scale(2),
      0: () => this.zoom(...this.full), Escape: () => (this.cursor === null ? this.zoom(...this.full) : this.leave()),
    }[event.key];
    if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    does();
  }
}
