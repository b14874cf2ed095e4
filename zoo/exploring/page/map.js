// One map: draws what the server says of an agent as SVG, and says in words what is under the pointer.
import { Gestures } from "./gestures.js";

export const WIDTH = 1000; // of the whole map, in units of the picture
const number = (value, digits = 0) => (value === null || value === undefined ? "?" : value.toFixed(digits));

export class MapPanel {
  constructor(name, style, actions) {
    this.name = name;
    this.style = style;
    this.actions = actions; // what to do when something was pointed at: point, move, block, view
    this.plan = this.field = this.density = this.walk = this.hovered = null;
    this.root = document.createElement("article");
    this.root.className = "panel";
    this.root.innerHTML = `<h2></h2>
      <svg xmlns="http://www.w3.org/2000/svg" tabindex="0" role="application" font-family="sans-serif"
        aria-label="Map. Arrows move the cursor, Enter uses the tool there, N goes to the next keypoint."></svg>
      <div class="under"><p class="here" aria-live="polite"></p><span class="legend"></span></div><dl class="facts"></dl><p class="says" aria-live="polite"></p>`;
    this.part("h2").textContent = name;
    this.svg = this.part("svg");
    this.cursor = null; // where the keys point to
    this.gestures = new Gestures(this);
  }

  part(selector) { return this.root.querySelector(selector); }

  setMap(map) {
    this.map = map;
    const [left, right, bottom, top] = map.bounds;
    const ratio = (top - bottom) / (right - left);
    this.height = WIDTH * (ratio > 0.1 && ratio < 10 ? ratio : 0.6);
    this.scale = [WIDTH / (right - left), this.height / (top - bottom)];
    this.pictures = {};
    this.hovered = null;
  }

  get full() { return [0, 0, WIDTH, this.height]; }
  inPlane(goal) { return this.map.goal_dim === 1 ? [goal[0], 0] : this.map.axes.map((axis) => goal[axis]); }
  onPage([x, y]) {
    const [left, , , top] = this.map.bounds;
    return [(x - left) * this.scale[0], (top - y) * this.scale[1]];
  }
  at(goal) { return this.onPage(this.inPlane(goal)); }
  toPlane([x, y]) {
    const [left, , , top] = this.map.bounds;
    return [left + x / this.scale[0], top - y / this.scale[1]];
  }
  get pixel() { // of the screen, in units of the picture
    const box = this.svg.getBoundingClientRect();
    return Math.max(this.view[2] / (box.width || 1), this.view[3] / (box.height || 1));
  }

  // ------------------------------------------------------------------------------------------------- drawing
  picture(kind, data, ramp, bands) {
    if (!data) return "";
    const known = this.pictures[kind];
    if (known && known.data === data) return known.tag;
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [data.columns, data.rows];
    const context = canvas.getContext("2d");
    const image = context.createImageData(data.columns, data.rows);
    data.bytes = Uint8Array.from(atob(data.pixels), (c) => c.charCodeAt(0));
    const last = ramp.length - 1, rgb = ramp.map((hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16)));
    data.bytes.forEach((value, i) => {
      if (!value) return; // nothing is known there
      const row = data.rows - 1 - Math.floor(i / data.columns), share = (value - 1) / 254;
      const shade = bands ? Math.floor(share * bands) / bands : share; // bands are contours
      image.data.set([...rgb[Math.round(shade * last)], 255], 4 * (row * data.columns + (i % data.columns)));
    });
    context.putImageData(image, 0, 0);
    const tag = `<image href="${canvas.toDataURL()}" width="${WIDTH}" height="${this.height}" preserveAspectRatio="none"/>`;
    this.pictures[kind] = { data, tag };
    return tag;
  }

  valueAt(data, plane) {
    if (!data || !data.bytes) return null;
    const [x, y] = this.onPage(plane);
    const column = Math.floor((x / WIDTH) * data.columns);
    const row = data.rows - 1 - Math.floor((y / this.height) * data.rows);
    if (column < 0 || row < 0 || column >= data.columns || row >= data.rows) return null;
    const value = data.bytes[row * data.columns + column];
    return value ? data.low + ((value - 1) / 254) * (data.high - data.low) : null;
  }

  draw(state) {
    this.state = state;
    this.view = state.view && state.view[2] > 0 ? state.view : this.full;
    this.svg.setAttribute("viewBox", this.view.join(" "));
    const { map, style: { colours, ramps } } = this, p = this.pixel, layers = state.layers, parts = [];
    const line = (points) => "M" + points.map((point) => point.map((v) => v.toFixed(1)).join(" ")).join("L");
    const text = (x, y, words, colour, size = 12, more = "") =>
      `<text x="${x}" y="${y}" fill="${colour}" font-size="${size * p}" stroke="#fff" stroke-width="${3 * p}"
        paint-order="stroke" ${more}>${words}</text>`;
    parts.push(`<defs><pattern id="hatch" width="${8 * p}" height="${8 * p}" patternUnits="userSpaceOnUse"
      patternTransform="rotate(45)"><rect width="${8 * p}" height="${8 * p}" fill="#fff" fill-opacity=".55"/>
      <rect width="${3 * p}" height="${8 * p}" fill="#222"/></pattern>
      <marker id="tip" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="5" markerHeight="5" orient="auto">
      <path d="M0 0L10 5L0 10z" fill="${colours.keypoint}"/></marker></defs>
      <rect x="-9999" y="-9999" width="29999" height="29999" fill="#fff"/>`);
    this.picture("psi", map.psi, ramps.psi); // so that its values are known
    const background = { psi: ["psi", map.psi, ramps.psi], data: ["data", this.density, ramps.amount],
      from: ["field", this.field, ramps.amount, 20], to: ["field", this.field, ramps.amount, 20] }[state.background];
    if (background) parts.push(this.picture(...background));
    this.legend(state.background, background && background[1], background && background[2]);
    if (layers.has("walls")) {
      const [w, h] = [map.unit * this.scale[0], map.unit * this.scale[1]];
      const cells = map.walls.map((centre) => this.onPage(centre)).map(([x, y]) => `M${x - w / 2} ${y - h / 2}h${w}v${h}h${-w}z`);
      const solid = state.background !== "psi";
      parts.push(`<path d="${cells.join("")}" fill="${colours.wall}" fill-opacity="${solid ? 1 : 0.35}"/>
        <path d="${map.outline.map((ends) => line(ends.map((end) => this.onPage(end)))).join("")}" fill="none"
        stroke="${colours.outline}" stroke-width="${1.4 * p}"/>`);
    }
    const spots = map.keypoints.map((keypoint) => this.at(keypoint));
    if (layers.has("hops")) {
      const ends = map.hops.map(([i, j]) => line([spots[i], spots[j]])).join("");
      parts.push(`<path d="${ends}" stroke="${colours.hop}" stroke-width="${0.9 * p}" stroke-opacity=".5"/>`);
    }
    if (layers.has("chance")) map.chance.forEach((edge, k) => {
      const colour = colours.chance[(k + 3) % colours.chance.length], [x, y] = this.at(edge.entrance);
      const ring = `<ellipse cx="${x}" cy="${y}" rx="${edge.radius * this.scale[0]}" ry="${edge.radius * this.scale[1]}"`;
      parts.push(`${ring} class="casing" fill="none" stroke="#fff" stroke-width="${5 * p}" stroke-opacity=".8"/>
        ${ring} class="portal" fill="${colour}" fill-opacity=".18" stroke="${colour}" stroke-width="${2.2 * p}"/>`);
      edge.exits.forEach((exit, i) => {
        const [u, v] = this.at(exit), past = u + 60 * p > this.view[0] + this.view[2]; // the rim of what is shown
        const [mx, my] = [(x + u) / 2 + (v - y) * 0.12, (y + v) / 2 - (u - x) * 0.12];
        parts.push(`<path d="M${x} ${y}Q${mx} ${my} ${u} ${v}" fill="none" stroke="${colour}" stroke-opacity=".75"
          stroke-width="${1.3 * p}" stroke-dasharray="${6 * p} ${4 * p}"/><circle cx="${u}" cy="${v}" r="${5 * p}"
          fill="#fff" stroke="${colour}" stroke-width="${2 * p}"/>`,
          text(u + (past ? -9 : 9) * p, v + (13 * k - 4) * p, `<tspan fill="${colour}">●</tspan> ${Math.round(100 * edge.odds[i])} %`,
            colours.outline, 12, `class="odds" font-weight="bold" text-anchor="${past ? "end" : "start"}"`));
      });
    });
    for (const block of state.blocks) parts.push(this.blockTag(block, p));
    if (this.gestures.box) parts.push(this.boxTag(...this.gestures.box.map((corner) => this.onPage(corner)), p));
    if (layers.has("keypoints")) {
      const dots = spots.map(([x, y], i) => `<circle cx="${x}" cy="${y}" r="${3.4 * p}" ${map.barred[i] ? `fill="#fff"` : ""}/>`);
      parts.push(`<g fill="${colours.keypoint}" stroke="#222" stroke-width="${0.7 * p}">${dots.join("")}</g>`);
    }
    const way = this.walk && this.walk.plan ? [{ points: this.walk.plan }] : this.plan ? this.plan.legs : [];
    if (layers.has("plan")) way.slice().reverse().forEach((leg) => {
      const first = leg === way[0], d = line(leg.points.map((point) => this.at(point)));
      parts.push(`<path class="casing" d="${d}" fill="none" stroke="#fff" stroke-width="${(first ? 6 : 4) * p}" stroke-opacity=".8"/>
        <path class="${first ? "plan" : "after"}" d="${d}" fill="none" stroke="${colours.keypoint}" marker-end="url(#tip)"
        stroke-width="${(first ? 2.8 : 1.6) * p}" ${first ? "" : `stroke-dasharray="${3 * p} ${4 * p}"`}/>`);
    });
    if (this.walk) parts.push(this.trailTag(p, line));
    if (this.hovered !== null && spots[this.hovered]) parts.push(this.hoverTag(spots, p, line, text));
    for (const [what, colour, letter] of [["goal", "#00785a", "G"], ["start", colours.start, "S"]]) {
      if (!state[what]) continue;
      const [x, y] = this.at(state[what]), r = 9 * p;
      const shape = what === "goal" ? `<rect x="${x - r}" y="${y - r}" width="${2 * r}" height="${2 * r}" rx="${2 * p}"`
        : `<circle cx="${x}" cy="${y}" r="${r}"`;
      parts.push(`${shape} class="${what}" fill="${colour}" stroke="#fff" stroke-width="${2 * p}"/><text x="${x}"
        y="${y + 4.2 * p}" text-anchor="middle" font-size="${12 * p}" font-weight="bold" fill="#fff">${letter}</text>`);
    }
    if (this.walk && this.walk.points.length) {
      const [x, y] = this.at(this.walk.points.at(-1));
      parts.push(`<circle class="walker" cx="${x}" cy="${y}" r="${7 * p}" fill="#e69f00" stroke="#000" stroke-width="${1.6 * p}"/>`);
    }
    if (this.cursor && document.activeElement === this.svg) {
      const [x, y] = this.onPage(this.cursor), r = 11 * p;
      parts.push(`<path class="cursor" d="M${x - r} ${y}h${2 * r}M${x} ${y - r}v${2 * r}" stroke="#000" stroke-width="${2.4 * p}"/>
        <circle cx="${x}" cy="${y}" r="${r * 0.7}" fill="none" stroke="#000" stroke-width="${1.6 * p}"/>`);
    }
    this.svg.innerHTML = parts.join("");
  }

  blockTag(block, p) { // of other goal dimensions than those on view a block is a band, or everything
    const [left, right, bottom, top] = this.map.bounds, [i, j, ...corners] = block;
    const [low, high] = [[left - 99, bottom - 99], [right + 99, top + 99]];
    this.map.axes.forEach((axis, k) => {
      const own = axis === i ? 0 : axis === j ? 1 : null;
      if (own !== null) [low[k], high[k]] = [corners[own], corners[own + 2]];
    });
    return this.boxTag(this.onPage(low), this.onPage(high), p);
  }

  boxTag([x, y], [u, v], p) {
    return `<rect class="block" x="${Math.min(x, u)}" y="${Math.min(y, v)}" width="${Math.abs(u - x)}"
      height="${Math.abs(v - y)}" fill="url(#hatch)" stroke="#222" stroke-width="${1.6 * p}"/>`;
  }

  trailTag(p, line) {
    const points = this.walk.points.map((point) => this.at(point)), pieces = [[]];
    points.forEach((point, i) => { // a jump is no way that was walked
      const before = points[i - 1];
      if (before && Math.hypot(point[0] - before[0], point[1] - before[1]) > 0.06 * WIDTH) pieces.push([]);
      pieces.at(-1).push(point);
    });
    return pieces.map((piece) => `<path class="casing" d="${line(piece)}" fill="none" stroke="#fff" stroke-width="${5 * p}"
      stroke-opacity=".8"/><path class="trail" d="${line(piece)}" fill="none" stroke="${this.style.colours.start}"
      stroke-width="${2.2 * p}" stroke-linejoin="round"/>`).join("");
  }

  hoverTag(spots, p, line, text) {
    const [x, y] = spots[this.hovered];
    const out = this.map.hops.filter(([i]) => i === this.hovered);
    return `<path d="${out.map(([, j]) => line([[x, y], spots[j]])).join("")}" stroke="#000" stroke-width="${2 * p}"/>
      <circle cx="${x}" cy="${y}" r="${7 * p}" fill="none" stroke="#000" stroke-width="${2.4 * p}"/>` +
      out.map(([, j, d]) => text(spots[j][0] + 6 * p, spots[j][1] - 5 * p, number(d), "#000", 11)).join("");
  }

  legend(kind, data, ramp) {
    const words = { psi: "ψ", data: "states", from: "d from S", to: "d to G" }[kind], root = this.part(".legend");
    const key = data ? `${kind} ${data.low} ${data.high}` : "";
    if (root.dataset.key === key) return;
    root.dataset.key = key;
    root.innerHTML = "";
    if (!data) return;
    const ends = kind === "data" ? [1, Math.round(10 ** data.high)] : [data.low, data.high].map((v) => number(v, v && v < 10 ? 1 : 0));
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [ramp.length, 1];
    ramp.forEach((colour, i) => { const c = canvas.getContext("2d"); c.fillStyle = colour; c.fillRect(i, 0, 1, 1); });
    root.append(`${words}  ${ends[0]}`, canvas, `${ends[1]}${kind === "from" || kind === "to" ? " steps" : ""}`);
  }

  // ------------------------------------------------------------------------------------------------- words
  tell(plan) {
    const facts = this.part(".facts");
    facts.innerHTML = "";
    if (!plan) return;
    const rows = { cost: plan.fallback ? "–" : number(plan.cost), "expected steps": number(plan.steps),
      odds: plan.fallback ? "no trusted way" : `${Number((100 * plan.odds).toFixed(1))} %`,
      hops: plan.hops, "d(s, g)": number(plan.direct) };
    for (const [name, value] of Object.entries(rows)) {
      facts.insertAdjacentHTML("beforeend", `<div><dt>${name}</dt><dd>${value}</dd></div>`);
    }
  }

  say(words, mood = "") {
    const says = this.part(".says");
    says.textContent = words;
    says.className = `says ${mood}`;
  }

  describe(plane) {
    const k = this.hovered, here = this.part(".here"), plan = this.plan;
    if (k !== null) {
      const out = this.map.hops.filter(([i]) => i === k).map(([, j, d]) => `${j} (${number(d)})`);
      const where = this.map.keypoints[k].map((v) => number(v, 1)).join(", ");
      here.textContent = `Keypoint ${k} at (${where})` +
        (plan ? `, ${number(plan.from_start[k])} steps from S, ${number(plan.to_goal[k])} to G` : "") +
        (this.map.barred[k] ? "; ψ takes it for unreachable, no plan uses it" : `; hops to ${out.slice(0, 8).join(", ") || "none"}`);
      return;
    }
    const portal = this.map.chance.find((edge) => Math.hypot(...this.inPlane(edge.entrance).map((v, i) => v - plane[i])) < edge.radius);
    if (portal) {
      here.textContent = `Here chance decides, in ${number(100 * portal.rate)} % of the steps: ` + portal.exits.map((exit, i) =>
        `${number(100 * portal.odds[i])} % to (${exit.map((v) => number(v, 1)).join(", ")})`).join(", ");
      return;
    }
    const psi = this.valueAt(this.map.psi, plane), d = this.valueAt(this.field, plane);
    const kind = { from: "d from S", to: "d to G" }[this.state.background];
    here.textContent = `(${plane.map((v) => number(v, 1)).join(", ")})` + (psi === null ? "" : `  ψ ${number(psi, 2)}`) +
      (kind && d !== null ? `  ${kind} ${number(d)} steps` : "");
  }

  hover(plane) {
    const [x, y] = this.onPage(plane);
    const near = this.map.keypoints.map((keypoint, i) => {
      const [u, v] = this.at(keypoint);
      return [Math.hypot(u - x, v - y), i];
    }).reduce((a, b) => (b[0] < a[0] ? b : a), [12 * this.pixel, null]);
    const changed = this.hovered !== near[1];
    this.hovered = near[1];
    this.describe(plane);
    if (changed) this.draw(this.state);
  }
}
