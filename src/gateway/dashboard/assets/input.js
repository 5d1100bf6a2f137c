// A person's hands on the agent's page: mouse, wheel, keys, composition, paste and fingers, as events of the live view.

const BUTTONS = ["left", "middle", "right", "back", "forward"];
const MAC = /mac|iphone|ipad/i.test(navigator.platform);
const TEXT_LIMIT = 4000;
/** Keys that stay with the person's own browser. */
const OWN = new Set(["F5", "F11", "F12"]);
const OWN_WITH_CTRL = new Set(["t", "w", "n", "l", "r", "q", "Tab", "PageUp", "PageDown", "+", "-", "0"]);
/** The letter of a shortcut: where the layout has none of ours (Cyrillic, Greek, Hebrew, Arabic), that of the key's place. */
const letter = ({ key, code, shiftKey }) => (key > "\x7f" && /^Key[A-Z]$/.test(code) ? (shiftKey ? code.slice(3) : code.slice(3).toLowerCase()) : key);

export class Hands {
  constructor(view, canvas, keys) {
    Object.assign(this, { view, canvas, keys });
    this.queue = [];
    this.active = false;
    this.fingers = new Map();
    const on = (target, names, run, options) => names.split(" ").forEach((name) => target.addEventListener(name, (event) => this.active && run.call(this, event), options));
    on(canvas, "mousedown", this.down);
    on(window, "mouseup", this.up);
    on(window, "mousemove", this.move);
    on(canvas, "wheel", this.wheel, { passive: false });
    on(canvas, "touchstart touchmove touchend touchcancel", this.touch, { passive: false });
    on(canvas, "contextmenu dragstart auxclick", (event) => event.preventDefault());
    on(keys, "keydown", this.keyDown);
    on(keys, "keyup", this.keyUp);
    on(keys, "compositionstart compositionupdate", this.compose);
    on(keys, "compositionend", this.composed);
    on(keys, "input", this.typed);
    on(keys, "paste", this.paste);
    on(keys, "blur", this.releaseAll);
    on(window, "blur pagehide", this.releaseAll);
    on(document, "visibilitychange", () => { if (document.hidden) this.releaseAll(); });
  }

  start() {
    this.active = true;
    this.keys.tabIndex = 0;
    this.focus();
  }

  stop() {
    this.releaseAll();
    this.active = false;
    this.keys.tabIndex = -1;
    this.keys.value = "";
    this.held = 0;
    this.keys.blur();
  }

  focus() { if (this.active) this.keys.focus({ preventScroll: true }); }

  /* ---- sending: moves wait for the next picture of the screen, everything else goes at once and in order ---- */

  push(event) {
    this.flush();
    this.view.input([event]);
  }

  later() {
    if (this.scheduled) return;
    this.scheduled = requestAnimationFrame(() => { this.scheduled = 0; this.flush(); });
  }

  flush() {
    const events = [this.moved, this.turned, this.dragged].filter(Boolean);
    this.moved = this.turned = this.dragged = null;
    if (events.length > 0) this.view.input(events);
  }

  releaseAll() {
    if (!this.active) return;
    this.flush();
    this.held = 0;
    this.fingers.clear();
    this.view.input([{ kind: "release_all" }]);
  }

  /* ---- mouse ---- */

  at({ clientX, clientY }) {
    const box = this.canvas.getBoundingClientRect();
    const { width, height } = this.view.page;
    const clamp = (value, top) => Math.min(Math.max(value, 0), top);
    return {
      x: clamp(((clientX - box.left) * width) / Math.max(box.width, 1), width - 1),
      y: clamp(((clientY - box.top) * height) / Math.max(box.height, 1), height - 1),
    };
  }

  modifiers(event) {
    const ctrl = event.ctrlKey || (MAC && event.metaKey);
    const windows = event.metaKey && !MAC;
    return (event.altKey ? 1 : 0) | (ctrl ? 2 : 0) | (windows ? 4 : 0) | (event.shiftKey ? 8 : 0);
  }

  mouse(kind, event) {
    return { kind, ...this.at(event), button: BUTTONS[event.button] ?? "left", buttons: event.buttons & 31, count: Math.min(Math.max(event.detail, 1), 3), modifiers: this.modifiers(event) };
  }

  down(event) {
    event.preventDefault();
    this.focus();
    this.held = event.buttons;
    this.push(this.mouse("down", event));
  }

  up(event) {
    // A button that went down elsewhere on the page is not the agent's page's business.
    if (!this.held) return;
    this.held = event.buttons;
    this.push(this.mouse("up", event));
  }

  move(event) {
    if (event.target !== this.canvas && !this.held) return;
    this.moved = { kind: "move", ...this.at(event), buttons: event.buttons & 31, modifiers: this.modifiers(event) };
    this.later();
  }

  wheel(event) {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 40 : event.deltaMode === 2 ? this.view.page.height : 1;
    const limit = (value) => Math.min(Math.max(value, -20_000), 20_000);
    this.turned = {
      kind: "wheel", ...this.at(event), modifiers: this.modifiers(event),
      delta_x: limit((this.turned?.delta_x ?? 0) + event.deltaX * unit), delta_y: limit((this.turned?.delta_y ?? 0) + event.deltaY * unit),
    };
    this.later();
  }

  /* ---- fingers ---- */

  touch(event) {
    event.preventDefault();
    const phase = event.type.slice(5);
    for (const touch of event.changedTouches) {
      if (phase === "start" && !this.fingers.has(touch.identifier)) {
        const used = new Set(this.fingers.values());
        this.fingers.set(touch.identifier, [...Array(10).keys()].find((id) => !used.has(id)) ?? 9);
      }
    }
    // A finger that went down before these hands took over, or were taken off, is not the agent's page's business.
    if (![...event.changedTouches].some((touch) => this.fingers.has(touch.identifier))) return;
    const points = [...event.touches].filter((touch) => this.fingers.has(touch.identifier)).slice(0, 10)
      .map((touch) => ({ id: this.fingers.get(touch.identifier), ...this.at(touch) }));
    // Only the last finger ends a touch; one that leaves the others is missing from the next move.
    const sent = { kind: "touch", phase: points.length > 0 && phase !== "start" ? "move" : phase, points, modifiers: this.modifiers(event) };
    if (phase === "move") { this.dragged = sent; this.later(); return; }
    this.push(sent);
    if (phase !== "start") for (const touch of event.changedTouches) this.fingers.delete(touch.identifier);
  }

  /* ---- keys ---- */

  key(kind, event) {
    const key = MAC && event.key === "Meta" ? "Control" : event.key;
    const code = MAC && event.code.startsWith("Meta") ? event.code.replace("Meta", "Control") : event.code;
    const base = { kind, key: key.slice(0, 32), code: code.slice(0, 32), location: event.location & 3, modifiers: this.modifiers(event) };
    return kind === "key_down" ? { ...base, repeat: event.repeat, alt_graph: event.getModifierState("AltGraph") } : base;
  }

  keyDown(event) {
    // What an input method is still working on comes as a composition.
    if (event.isComposing || event.keyCode === 229 || event.key === "Dead" || event.key === "Unidentified") return;
    if (event.key === "Escape" && !event.repeat) {
      const soon = event.timeStamp - (this.escaped ?? -1000) < 600;
      this.escaped = event.timeStamp;
      if (soon) { event.preventDefault(); this.view.letGo(); return; }
    }
    const ctrl = event.ctrlKey || (MAC && event.metaKey);
    if (OWN.has(event.key) || (ctrl && !event.altKey && OWN_WITH_CTRL.has(letter(event)))) return;
    // The paste itself follows as an event with the text.
    if (ctrl && !event.altKey && letter(event).toLowerCase() === "v") return;
    if (event.key === "Insert" && event.shiftKey && !ctrl && !event.altKey) return;
    event.preventDefault();
    this.push(this.key("key_down", event));
  }

  keyUp(event) {
    if (event.isComposing || event.keyCode === 229 || event.key === "Dead") return;
    event.preventDefault();
    // While Command is held, macOS never says that the other keys went up.
    if (MAC && event.key === "Meta") { this.releaseAll(); return; }
    this.push(this.key("key_up", event));
  }

  text(text) {
    const letters = [...text];
    for (let at = 0; at < letters.length; at += TEXT_LIMIT / 4) this.push({ kind: "text", text: letters.slice(at, at + TEXT_LIMIT / 4).join("") });
  }

  compose(event) {
    this.composing = true;
    this.push({ kind: "compose", text: event.data.slice(0, TEXT_LIMIT) });
  }

  composed(event) {
    this.composing = false;
    if (event.data) this.text(event.data); else this.push({ kind: "compose", text: "" });
    this.keys.value = "";
  }

  /** Text that came without keys: a phone's keyboard, an emoji picker, dictation. */
  typed(event) {
    if (this.composing || event.isComposing) return;
    this.keys.value = "";
    const tap = (key, code) => { for (const kind of ["key_down", "key_up"]) this.push({ kind, key, code, location: 0, modifiers: 0, ...(kind === "key_down" ? { repeat: false, alt_graph: false } : {}) }); };
    if (event.inputType === "insertText" && event.data) this.text(event.data);
    else if (event.inputType === "deleteContentBackward") tap("Backspace", "Backspace");
    else if (event.inputType === "insertLineBreak" || event.inputType === "insertParagraph") tap("Enter", "Enter");
  }

  paste(event) {
    event.preventDefault();
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (!text) return;
    // The page hears of it as a paste where it fits into one message; more than that is typed.
    const fits = [...text].length <= 4096 && new TextEncoder().encode(JSON.stringify(text)).length <= 12_000;
    if (fits) this.push({ kind: "paste", text }); else this.text(text);
  }
}
