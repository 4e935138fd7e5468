
/** A figure: its tabs, legend and zoom buttons, and its views. */
class Chart {
  constructor(host, name, specs, looks) {
    Object.assign(this, { host, name, looks });
    this.label = host.getAttribute("aria-label");
    this.hidden = new Set();
    host.replaceChildren();
    if (specs.length > 1) this.tabs(specs);
    const bar = html("div", { class: "bar" }, host);
    this.legend(bar, specs);
    html("span", { class: "space" }, bar);
    this.zoomBar(bar);
    this.stage = html("div", { class: specs.length > 1 ? "pictures several" : "pictures" }, host);
    this.tip = html("div", { class: "tip" }, host);
    this.tip.hidden = true;
    this.announced = html("div", { class: "announced", role: "status", "aria-live": "polite" }, host);
    html("p", { class: "hint fine" }, host,
      "Point at the picture to read values, drag over a part of it to zoom, double-click to see all again.");
    html("p", { class: "hint coarse" }, host, "Touch the picture to read values; + and \u2212 zoom.");
    this.views = specs.map((spec, index) => new View(this, spec, index));
    this.choose(0);
    let before = 0;
    new ResizeObserver(() => {
      const width = host.clientWidth;
      if (width && Math.abs(width - before) > 1 && !matchMedia("print").matches) {
        before = width;
        this.redraw();
      }
    }).observe(host);
    this.redraw();
  }

  tabs(specs) {
    const bar = html("div", { class: "bar" }, this.host);
    const list = html("div", { class: "tabs", role: "tablist", "aria-label": "Which picture" }, bar);
    this.tabButtons = specs.map((spec, index) => {
      const made = html("button", { type: "button", role: "tab", "aria-controls": `${this.name}-${index}` }, list, spec.tab || spec.label);
      made.addEventListener("click", () => this.choose(index));
      made.addEventListener("keydown", (event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!by) return;
        const to = (index + by + specs.length) % specs.length;
        this.choose(to);
        this.tabButtons[to].focus();
      });
      return made;
    });
  }

  legend(parent, specs) {
    const list = html("div", { class: "bar legend", role: "group", "aria-label": "Show or hide" }, parent);
    const used = new Set(specs.flatMap((spec) => spec.series.map((each) => each.s)));
    for (const s of [...used].sort((a, b) => a - b)) {
      const looks = this.looks[s];
      const button = html("button", { type: "button", class: `c${s}`, "aria-pressed": "true", title: "Show or hide" }, list);
      const sample = svg("svg", { viewBox: "0 0 36 16", "aria-hidden": "true" }, button);
      svg("path", { class: "line", d: "M2,8H34", ...(looks.dash ? { "stroke-dasharray": looks.dash } : {}) }, sample);
      svg("path", { class: "mark", d: shape(looks.marker), transform: "translate(18,8)" }, sample);
      button.append(looks.name);
      button.addEventListener("click", () => {
        if (!this.hidden.delete(s)) this.hidden.add(s);
        button.setAttribute("aria-pressed", String(!this.hidden.has(s)));
        this.redraw();
      });
    }
  }

  zoomBar(parent) {
    const group = html("div", { class: "zoom bar", role: "group", "aria-label": "Zoom" }, parent);
    const make = (text, label, does) => {
      const made = html("button", { type: "button", "aria-label": label, title: label }, group, text);
      made.addEventListener("click", does);
      return made;
    };
    this.outButtons = [
      make("\u2212", "Zoom out", () => this.current.scale(2)),
      make("All", "Show all", () => this.current.zoom(...this.current.full)),
    ];
    make("+", "Zoom in", () => this.current.scale(0.5));
  }

  get current() { return this.views[this.chosen]; }

  choose(index) {
    this.tip.hidden = true;
    this.chosen = index;
    this.views.forEach((view, k) => { view.box.hidden = k !== index; });
    this.tabButtons?.forEach((button, k) => {
      button.setAttribute("aria-selected", String(k === index));
      button.tabIndex = k === index ? 0 : -1;
    });
    this.buttons();
  }

  buttons() {
    const [low, high] = this.current.full, [from, to] = this.current.shown;
    for (const button of this.outButtons) button.disabled = to - from >= high - low - 1e-9;
  }

  redraw(width = Math.max(280, this.host.clientWidth)) {
    this.tip.hidden = true;
    for (const view of this.views) { view.cursor = null; view.draw(width); }
  }

  /** On paper all views stand side by side. */
  print() { this.redraw(this.views.length > 1 ? 340 : 620); }
}

/** The button says what it switches to; until it is used, the system decides. */
function theme() {
  const root = document.documentElement, button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const stored = (value) => {
    try {
      if (value) localStorage.setItem("tuneup-theme", value);
      return localStorage.getItem("tuneup-theme");
    } catch { return null; }  // a browser that keeps nothing for pages from files
  };
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(dark()));
    button.setAttribute("aria-label", "Dark colours");
  };
  const chosen = stored();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; stored(root.dataset.theme); show(); });
  system.addEventListener("change", show);
  show();
}

/** Paper cannot be clicked: everything is open while printing. */
function printing(charts) {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open]):not(.long)")];
    for (const each of opened) each.open = true;
    for (const chart of charts) chart.print();
  });
  addEventListener("afterprint", () => {
    for (const each of opened) each.open = false;
    for (const chart of charts) chart.redraw();
  });
}

/** Copies a command; pages from files may lack the clipboard, and then it is selected instead. */
function copying() {
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(source);
        button.textContent = "Selected";
      }
    });
  }
}

{
  const drawn = JSON.parse(document.getElementById("drawn").textContent);
  theme();
  copying();
  printing([...document.querySelectorAll("[data-chart]")].map(
    (host) => new Chart(host, host.dataset.chart, drawn.charts[host.dataset.chart], drawn.series)));
}
