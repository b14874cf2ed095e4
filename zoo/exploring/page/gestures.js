// Pointing at a map: mouse, fingers and keys become places of the plane.
import { WIDTH } from "./map.js";

export class Gestures {
  constructor(panel) {
    this.panel = panel;
    this.pointers = new Map();
    this.gesture = this.box = null;
    const on = (type, work, options) => panel.svg.addEventListener(type, (event) => panel.map && work(event), options);
    on("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(Math.sign(event.deltaY) * 0.15), this.place(event));
    }, { passive: false });
    on("pointerdown", (event) => this.down(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.up(event, true));
    on("pointercancel", (event) => this.up(event, false));
    on("keydown", (event) => this.key(event));
    on("blur", () => panel.draw(panel.state));
  }

  place(event) { // in units of the picture
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.panel.svg.getScreenCTM().inverse());
    return [point.x, point.y];
  }

  zoom(factor, centre) {
    const [x, y, w, h] = this.panel.view, [u, v] = centre || [x + w / 2, y + h / 2];
    const size = Math.min(Math.max(w * factor, WIDTH / 40), WIDTH * 1.5), f = size / w;
    this.panel.actions.view([u - (u - x) * f, v - (v - y) * f, size, h * f]);
  }

  spread() { // of two fingers
    const [[a, b], [c, d]] = [...this.pointers.values()];
    return Math.hypot(a - c, b - d);
  }

  down(event) {
    if (event.button) return;
    const { panel } = this, at = this.place(event);
    panel.svg.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
    const near = (goal) => goal && Math.hypot(...panel.at(goal).map((v, i) => v - at[i])) < 13 * panel.pixel;
    const what = ["start", "goal"].find((name) => near(panel.state[name]));
    const kind = panel.state.tool === "block" || event.shiftKey ? "block" : what ? "move" : "pan";
    this.gesture = { kind, what, at, moved: false, view: panel.view, client: [event.clientX, event.clientY] };
  }

  move(event) {
    const { panel, gesture } = this, plane = panel.toPlane(this.place(event));
    if (!this.pointers.has(event.pointerId) || !gesture) {
      panel.cursor = null;
      panel.hover(plane);
      return;
    }
    const before = this.pointers.size === 2 && this.spread();
    this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
    const drift = [event.clientX - gesture.client[0], event.clientY - gesture.client[1]];
    if (!before && !gesture.moved && Math.hypot(...drift) < 5) return; // a click may tremble
    gesture.moved = true;
    if (before) {
      [gesture.kind, this.box] = ["zoom", null];
      this.zoom(before / this.spread());
    } else if (gesture.kind === "pan") {
      const [x, y, w, h] = gesture.view;
      panel.actions.view([x - drift[0] * panel.pixel, y - drift[1] * panel.pixel, w, h]);
    } else if (gesture.kind === "move") panel.actions.move(gesture.what, plane);
    else if (gesture.kind === "block") {
      this.box = [panel.toPlane(gesture.at), plane];
      panel.draw(panel.state);
    }
  }

  up(event, meant) {
    const { panel, gesture, box } = this;
    this.pointers.delete(event.pointerId);
    if (!gesture || this.pointers.size) return;
    this.gesture = this.box = null;
    if (meant && box) panel.actions.block(...box);
    else if (meant && !gesture.moved) panel.actions.point(panel.toPlane(gesture.at));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { panel } = this, step = (event.shiftKey ? 60 : 12) * panel.pixel, [x, y, w, h] = panel.view;
    const arrow = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
    const at = panel.cursor ? panel.onPage(panel.cursor) : [x + w / 2, y + h / 2];
    if (arrow) panel.cursor = panel.toPlane(at.map((v, i) => v + arrow[i]));
    else if (event.key === "Enter") panel.actions.point(panel.toPlane(at));
    else if (event.key.toLowerCase() === "n") {
      const n = panel.map.keypoints.length, turn = event.shiftKey ? -1 : 1;
      panel.cursor = panel.inPlane(panel.map.keypoints[((panel.hovered ?? (turn > 0 ? -1 : 0)) + turn + n) % n]);
    } else if ("+=".includes(event.key)) this.zoom(0.8, at);
    else if (event.key === "-") this.zoom(1.25, at);
    else if (event.key === "0") panel.actions.view(null);
    else return;
    event.preventDefault();
    if (panel.cursor) panel.hover(panel.cursor);
    panel.draw(panel.state);
  }
}
