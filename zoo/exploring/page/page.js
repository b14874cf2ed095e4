// The page: what is looked at (all of it in the address), the questions to the server, and the controls.
import { MapPanel } from "./map.js";

const $ = (id) => document.getElementById(id);
const BACKGROUNDS = ["psi", "data", "from", "to", "none"], LAYERS = "walls,keypoints,chance,plan";
const state = { agent: "", compare: "", axes: [0, 1], start: null, goal: null, blocks: [], tool: "start", view: null,
  background: "psi", layers: new Set(), task: null, seed: 0, corner: null };
let about, panels = [], walking = null;

// ---------------------------------------------------------------------------------------------------- the server
async function post(name, body, signal) {
  const response = await fetch(`api/${name}`, { method: "POST", signal, body: JSON.stringify(body),
    headers: { "Content-Type": "application/json" } }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer: is zoo.explore still running?");
  });
  if (response.ok) return response;
  throw new Error((await response.json()).error);
}
const ask = async (name, body) => (await post(name, body)).json();

function status(words, bad = false) {
  $("status").textContent = words;
  $("status").className = bad ? "bad" : "";
}

async function trying(work) {
  try { return await work(); } catch (error) {
    if (error.name !== "AbortError") status(error.message, true);
    return null;
  }
}

// Run again after the present run if asked meanwhile, so that the last word counts and nothing piles up.
function latest(work) {
  let running = false, again = false;
  return async () => {
    if (running) { again = true; return; }
    running = true;
    do { again = false; await trying(work); } while (again);
    running = false;
  };
}

// ---------------------------------------------------------------------------------------------------- the address
function writeAddress() {
  const words = new URLSearchParams(), put = (name, value) => value && words.set(name, value);
  const numbers = (list) => list && list.map((v) => Number(v.toPrecision(6))).join(",");
  put("agent", state.agent);
  put("compare", state.compare);
  put("axes", state.axes.join() !== "0,1" && state.axes.join());
  put("start", numbers(state.start));
  put("goal", numbers(state.goal));
  put("blocks", state.blocks.map(numbers).join(";"));
  put("background", state.background !== "psi" && state.background);
  put("layers", [...state.layers].join() || "none");
  put("view", numbers(state.view));
  put("task", state.task !== null && String(state.task));
  put("seed", state.seed && String(state.seed));
  history.replaceState(null, "", `#${words}`);
}

function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  const numbers = (text, counts) => {
    const list = (text || "").split(",").map(Number);
    return text && list.every(Number.isFinite) && (!counts || counts.includes(list.length)) ? list : null;
  };
  const known = about.agents.map((agent) => agent.name);
  state.agent = known.includes(words.get("agent")) ? words.get("agent") : known[0];
  state.compare = known.includes(words.get("compare")) ? words.get("compare") : "";
  state.axes = numbers(words.get("axes"), [2]) || [0, 1];
  [state.start, state.goal] = [numbers(words.get("start")), numbers(words.get("goal"))];
  state.blocks = (words.get("blocks") || "").split(";").map((text) => numbers(text, [6])).filter(Boolean);
  state.background = BACKGROUNDS.includes(words.get("background")) ? words.get("background") : "psi";
  state.layers = new Set((words.get("layers") ?? LAYERS).split(","));
  state.view = numbers(words.get("view"), [4]);
  state.task = numbers(words.get("task"), [1])?.[0] ?? null;
  state.seed = Math.abs(Math.trunc(numbers(words.get("seed"), [1])?.[0] ?? 0)) % 2 ** 31;
}

// ---------------------------------------------------------------------------------------------------- what is shown
const draw = () => { panels.forEach((panel) => panel.map && panel.draw(state)); writeAddress(); };
const where = (panel) => ({ agent: panel.name, axes: state.axes });

async function open() {
  stop();
  status("Loading…");
  const opened = panels = [state.agent, state.compare].filter(Boolean).map((name) => new MapPanel(name, about, actions));
  await Promise.all(panels.map(async (panel) => panel.setMap(await ask("map", where(panel)))));
  if (panels !== opened) return; // somebody could not wait
  $("panels").replaceChildren(...panels.map((panel) => panel.root));
  const { goal_dim: dim, tasks, acts } = panels[0].map;
  if (state.start && ![2, dim].includes(state.start.length)) state.start = state.goal = null;
  fill($("task"), [["", "free"], ...(tasks.length ? tasks.map((k) => [k, `task ${k}`]) : acts ? [[0, "random"]] : [])], state.task ?? "");
  const names = Array.from({ length: dim }, (_, i) => [i, i]);
  fill($("across"), names, state.axes[0]);
  fill($("up"), names, state.axes[1]);
  $("plane").hidden = dim <= 2;
  $("play").disabled = !acts;
  status(acts ? "" : "Nothing tells in which world this agent acts: start with --env ID to let it walk.");
  if (!state.start && acts) await takeTask(state.task ?? tasks[0] ?? 0);
  show();
  await Promise.all([plan(), background()]);
}

function show() { // controls follow the state
  document.querySelectorAll("[name=tool]").forEach((input) => { input.checked = input.value === state.tool; });
  document.querySelectorAll("[name=background]").forEach((input) => { input.checked = input.value === state.background; });
  document.querySelectorAll("[name=layer]").forEach((input) => { input.checked = state.layers.has(input.value); });
  const world = about.agents.find((agent) => agent.name === state.agent).world;
  const others = about.agents.filter((agent) => agent.world === world && agent.name !== state.agent);
  if (!others.some((agent) => agent.name === state.compare)) state.compare = "";
  fill($("agent"), about.agents.map((agent) => [agent.name, agent.name]), state.agent);
  fill($("compare"), [["", "none"], ...others.map((agent) => [agent.name, agent.name])], state.compare);
  $("task").value = state.task ?? "";
  $("again").disabled = state.task === null;
  $("undo").disabled = $("clear").disabled = !state.blocks.length;
  draw();
}

function fill(select, options, value) {
  const before = [...select.options].map((option) => option.value);
  if (!before.length || before.join() !== options.map(([name]) => name).join()) {
    select.replaceChildren(...options.map(([name, words]) => new Option(words, name)));
  }
  select.value = String(value);
}

const plan = latest(async () => {
  if (!state.start || !state.goal) return draw();
  const { start, goal, blocks } = state, begun = performance.now();
  await Promise.all(panels.map(async (panel) => {
    const found = await ask("plan", { ...where(panel), start, goal, blocks });
    panel.plan = found;
    panel.tell(found);
    if (walking) return;
    const strange = ["start", "goal"].filter((_, i) => !found.reachable[i]);
    panel.walk = null;
    panel.say(found.arrived ? "It is there already." : found.fallback ?
      `There is no way by hops of at most ${panel.map.max_hop} steps: it would need a longer one.` :
      strange.length ? `ψ says that the data were never at the ${strange.join(" and the ")}: do not trust this plan.` :
      found.legs.length > 1 ? "It goes by chance: dotted is what it plans after each exit." : "",
    found.fallback || strange.length ? "bad" : "");
  }));
  if (panels[0].plan && start === state.start) {
    [state.start, state.goal] = [panels[0].plan.start, panels[0].plan.goal];
    if (!walking) status(`Planned in ${Math.round(performance.now() - begun)} ms.`);
  }
  draw();
});

const background = latest(async () => {
  const kind = state.background, towards = kind === "to", place = towards ? state.goal : state.start;
  await Promise.all(panels.map(async (panel) => {
    if (kind === "data" && !panel.density) {
      status("Reading the data…");
      panel.density = await ask("density", where(panel));
      status("");
    }
    panel.field = (kind === "from" || towards) && place ? await ask("field", { ...where(panel), place, towards }) : null;
  }));
  draw();
});

async function takeTask(task) {
  const found = await trying(() => ask("task", { agent: state.agent, task: task || null, seed: state.seed }));
  if (found) [state.start, state.goal, state.task] = [found.start, found.goal, task];
}

function replan() { stop(); show(); plan(); background(); }

const actions = {
  point(place) {
    if (state.tool === "block" && state.corner) actions.block(state.corner, place);
    else if (state.tool === "block") {
      state.corner = place;
      status("One corner is set: Enter or a click sets the other, Esc forgets it.");
    } else {
      actions.move(state.tool, place);
      if (state.tool === "start") state.tool = "goal"; // what one wants to set next
      show();
    }
  },
  move(what, place) {
    state[what] = place;
    state.start ??= place;
    state.goal ??= place;
    state.task = null;
    replan();
  },
  block(one, other) {
    state.corner = null;
    state.blocks.push([...state.axes, Math.min(one[0], other[0]), Math.min(one[1], other[1]),
      Math.max(one[0], other[0]), Math.max(one[1], other[1])]);
    replan();
  },
  view(view) { state.view = view; draw(); },
};

// ---------------------------------------------------------------------------------------------------- walking
async function play() {
  if (walking) return stop();
  if (!state.start || !state.goal) return status("Set a start and a goal first.", true);
  walking = new AbortController();
  $("play").textContent = "Stop";
  status("Walking…");
  const { signal } = walking;
  await Promise.all(panels.map((panel) => trying(() => follow(panel, signal))));
  if (walking?.signal === signal) stop();
}

async function follow(panel, signal) {
  const response = await post("walk", { ...where(panel), start: state.start, goal: state.goal, blocks: state.blocks,
    task: state.task || null, seed: state.seed, deterministic: $("acting").value === "deterministic",
    rate: Number($("speed").value) }, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader(), events = [];
  panel.walk = { points: [], plan: null };
  panel.say("");
  for (let rest = ""; ;) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines.map(JSON.parse)) {
      if (line.kind === "begin") {
        const apart = ["start", "goal"].filter((end) => line[end].some((v, i) => Math.abs(v - state[end][i]) > 0.01));
        if (apart.length) events.push(`This world has a ${apart.join(" and a ")} of its own.`);
        panel.walk.points.push(line.start);
      } else if (line.kind === "frame") {
        panel.walk.points.push(...line.points);
        panel.walk.plan = [line.points.at(-1), ...line.plan];
        events.push(...line.happened);
        panel.say([`Step ${line.steps}.`, ...events.slice(-3)].join(" "));
      } else {
        panel.walk.plan = null;
        panel.say([line.says, ...events.slice(0, 6)].join(" "), line.success ? "good" : "bad");
        status("");
      }
    }
    panel.draw(state);
  }
}

function stop() {
  walking?.abort();
  walking = null;
  $("play").textContent = "Play";
  if ($("status").textContent === "Walking…") status("Stopped.");
}

// ---------------------------------------------------------------------------------------------------- saving
function asSvg() { // all panels side by side, with their names
  const width = 800, height = Math.round(width * panels[0].view[3] / panels[0].view[2]), title = 28;
  const parts = panels.map((panel, i) => {
    const copy = panel.svg.cloneNode(true);
    Object.entries({ x: i * width, y: title, width, height }).forEach(([name, value]) => copy.setAttribute(name, value));
    ["tabindex", "role", "aria-label", "style"].forEach((name) => copy.removeAttribute(name));
    const name = new XMLSerializer().serializeToString(document.createTextNode(panel.name));
    return `<text x="${i * width + 8}" y="19" font-family="sans-serif" font-size="15">${name}</text>` +
      new XMLSerializer().serializeToString(copy);
  });
  const size = [panels.length * width, height + title];
  return [`<svg xmlns="http://www.w3.org/2000/svg" width="${size[0]}" height="${size[1]}" viewBox="0 0 ${size.join(" ")}">
    <rect width="100%" height="100%" fill="#fff"/>${parts.join("")}</svg>`, ...size];
}

function save(blob, suffix) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: `map.${suffix}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

async function savePng() {
  const [svg, width, height] = asSvg(), picture = new Image(), canvas = document.createElement("canvas");
  picture.src = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  await picture.decode();
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(picture.src);
  canvas.toBlob((blob) => save(blob, "png"));
}

// ---------------------------------------------------------------------------------------------------- controls
function listen() {
  const on = (id, type, work) => $(id).addEventListener(type, () => trying(work));
  const forget = () => { state.start = state.goal = state.view = state.task = null; state.blocks = []; state.axes = [0, 1]; };
  on("agent", "change", () => {
    const world = (name) => about.agents.find((agent) => agent.name === name).world;
    if (world($("agent").value) !== world(state.agent)) forget();
    state.agent = $("agent").value;
    if (state.compare === state.agent || world(state.compare || state.agent) !== world(state.agent)) state.compare = "";
    return open();
  });
  on("compare", "change", () => { state.compare = $("compare").value; return open(); });
  on("task", "change", async () => {
    if ($("task").value === "") state.task = null;
    else await takeTask(Number($("task").value));
    replan();
  });
  on("again", "click", async () => { state.seed += 1; await takeTask(state.task); replan(); });
  on("play", "click", play);
  on("undo", "click", () => { state.blocks.pop(); replan(); });
  on("clear", "click", () => { state.blocks = []; replan(); });
  on("in", "click", () => panels[0].gestures.zoom(0.7));
  on("out", "click", () => panels[0].gestures.zoom(1 / 0.7));
  on("fit", "click", () => actions.view(null));
  on("svg", "click", () => save(new Blob([asSvg()[0]], { type: "image/svg+xml" }), "svg"));
  on("png", "click", savePng);
  on("copy", "click", async () => { await navigator.clipboard.writeText(location.href); status("The address is copied."); });
  for (const id of ["across", "up"]) on(id, "change", () => {
    const axes = [Number($("across").value), Number($("up").value)];
    if (axes[0] === axes[1]) axes[id === "across" ? 1 : 0] = state.axes[id === "across" ? 0 : 1];
    [state.axes, state.view] = [axes, null];
    return open();
  });
  const group = (name, work) => document.querySelectorAll(`[name=${name}]`).forEach((input) =>
    input.addEventListener("change", () => work(input)));
  group("tool", (input) => { state.tool = input.value; state.corner = null; draw(); });
  group("background", (input) => {
    state.background = input.value;
    if ($("status").className) status(""); // what was wrong with the one before
    background();
  });
  group("layer", (input) => { state.layers[input.checked ? "add" : "delete"](input.value); draw(); });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const tools = { s: "start", g: "goal", b: "block" }, key = event.key.toLowerCase();
    if (tools[key]) { state.tool = tools[key]; state.corner = null; show(); }
    else if (key === "u" && state.blocks.length) $("undo").click();
    else if (key === "p" && !$("play").disabled) $("play").click();
    else if (key === "escape") { state.corner = null; stop(); }
  });
  addEventListener("resize", draw);
  addEventListener("hashchange", () => { readAddress(); trying(open); });
}

trying(async () => {
  about = await ask("agents", {});
  readAddress();
  listen();
  await open();
});
