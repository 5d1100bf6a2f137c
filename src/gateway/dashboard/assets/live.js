// The live view: the newest frame of the agent's page, and who has the hands.
import { api, busy, element, me, now, signedOut, toast } from "./core.js";
import { Asked } from "./asked.js";
import { Hands } from "./input.js";

const MAGIC = 0x42463031; // BF01
const HEAD = 20;
const CURSORS = new Set(["auto", "default", "none", "context-menu", "help", "pointer", "progress", "wait", "cell", "crosshair", "text", "vertical-text",
  "alias", "copy", "move", "no-drop", "not-allowed", "grab", "grabbing", "all-scroll", "col-resize", "row-resize", "n-resize", "e-resize", "s-resize",
  "w-resize", "ne-resize", "nw-resize", "se-resize", "sw-resize", "ew-resize", "ns-resize", "nesw-resize", "nwse-resize", "zoom-in", "zoom-out"]);
const NO_PICTURE = {
  starting: ["The browser is starting", "Its picture comes as soon as there is one."],
  crashed: ["This tab crashed", "Whoever drives can reload it; the agent can navigate."],
  busy: ["The page is busy", "It has not answered for a while; what you do arrives when it does."],
};
const PHONE = matchMedia("(max-width: 960px)");
/** Without keys there is no Escape. */
const TOUCH = matchMedia("(pointer: coarse)");
const pause = (millis) => new Promise((done) => setTimeout(done, millis));
const clock = (millis) => { const s = Math.max(0, Math.ceil(millis / 1000)); return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}`; };

export class LiveView {
  constructor(root) {
    this.root = root;
    this.path = `/${root.dataset.ns}/${root.dataset.session}`;
    this.request = root.dataset.request || null;
    const find = (selector) => root.querySelector(selector);
    this.canvas = find("canvas");
    this.screen = find(".screen");
    this.stage = find(".stage");
    this.over = find(".over");
    this.pill = find(".pill [data-text]");
    this.age = find(".pill [data-age]");
    this.tabs = find(".tabs");
    this.address = find(".address");
    this.countdown = find(".countdown");
    this.takeButton = find("[data-act=take]");
    this.letGoButton = find("[data-act=let-go]");
    this.keepButton = find("[data-act=keep]");
    this.keysButton = find("[data-act=keys]");
    this.page = { width: 1280, height: 800 };
    this.control = {};
    this.lease = null;
    this.connected = false;
    this.ended = false;
    this.lastFrame = 0;
    this.ways = find(".ways");
    this.hands = new Hands(this, this.canvas, find(".keys"));
    this.asked = new Asked(this);
    this.ways?.addEventListener("click", ({ target }) => {
      if (target.dataset.go && this.lease) { this.send({ type: "go", lease: this.lease, to: target.dataset.go }); this.hands.focus(); }
    });
    this.takeButton?.addEventListener("click", () => busy(this.takeButton, () => this.take()));
    this.letGoButton?.addEventListener("click", () => this.letGo());
    this.keepButton?.addEventListener("click", () => this.keep());
    this.keysButton?.addEventListener("click", () => this.hands.focus());
    find("[data-act=resize]")?.addEventListener("click", () => this.resize());
    new ResizeObserver(() => this.fit()).observe(this.stage);
    document.addEventListener("visibilitychange", () => this.send({ type: "visible", visible: !document.hidden }));
    setInterval(() => this.show(), 1000);
    this.show();
    this.run();
  }

  /* ---- connection ---- */

  async run() {
    let wait = 500;
    while (!this.ended) {
      const began = Date.now();
      try {
        await this.connect();
      } catch (problem) {
        if ([401, 403, 404, 409, 410].includes(problem.status)) { this.stop(problem.message); return; }
      }
      this.connected = false;
      if (this.ended) return;
      if (!this.lastFrame) this.plate("Waiting for the browser", "It has not answered yet. This page keeps trying.");
      this.show();
      if (Date.now() - began > 10_000) wait = 500;
      await pause(wait + Math.random() * 250);
      wait = Math.min(wait * 1.8, 10_000);
    }
  }

  async connect() {
    const { ticket } = await api("POST", `/sessions${this.path}/live-ticket`, {});
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/live${this.path}?ticket=${encodeURIComponent(ticket)}`);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    await new Promise((done) => {
      socket.addEventListener("open", () => {
        this.connected = true;
        if (document.hidden) this.send({ type: "visible", visible: false });
        if (this.lease) {
          this.returned = Date.now();
          this.send({ type: "hold", lease: this.lease });
        }
        this.show();
      });
      socket.addEventListener("message", ({ data }) => (typeof data === "string" ? this.hear(JSON.parse(data)) : this.frame(data)));
      socket.addEventListener("close", ({ code, reason }) => {
        if (code === 4401) signedOut();
        if (code >= 4400 && code < 4500) this.stop(reason);
        done();
      });
    });
  }

  send(command) {
    if (this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(command));
    return true;
  }

  stop(why) {
    this.ended = true;
    this.connected = false;
    this.drop();
    // "What happened. What that means."
    const [title, ...rest] = (why || "This view has ended.").split(/(?<=\.) /);
    this.plate(title.replace(/\.$/, ""), rest.join(" "));
    this.root.querySelector("[data-act=resize]")?.remove();
    this.show();
  }

  sessionEnded(why) {
    if (!this.ended) this.stop(why || "The session has ended. Its browser is gone.");
    this.socket?.close();
  }

  /* ---- picture ---- */

  frame(buffer) {
    if (buffer.byteLength <= HEAD) return;
    const head = new DataView(buffer, 0, HEAD);
    if (head.getUint32(0) !== MAGIC) return;
    // Only the newest waits: a slow machine skips frames.
    this.waiting = { sequence: head.getUint32(4), width: head.getUint16(8), height: head.getUint16(10), jpeg: new Uint8Array(buffer, HEAD) };
    if (!this.drawing) this.draw();
  }

  async draw() {
    this.drawing = true;
    while (this.waiting) {
      const { sequence, width, height, jpeg } = this.waiting;
      this.waiting = null;
      try {
        const bitmap = await createImageBitmap(new Blob([jpeg], { type: "image/jpeg" }));
        if (this.canvas.width !== bitmap.width || this.canvas.height !== bitmap.height) Object.assign(this.canvas, { width: bitmap.width, height: bitmap.height });
        this.canvas.getContext("2d", { alpha: false }).drawImage(bitmap, 0, 0);
        bitmap.close();
        if (width !== this.page.width || height !== this.page.height || !this.lastFrame) { this.page = { width, height }; this.fit(); }
        this.lastFrame = Date.now();
        this.root.dataset.sequence = sequence;
        if (this.noPicture) this.clearOver();
      } catch { /* A frame that can't be decoded is skipped; the next one replaces it. */ }
      this.send({ type: "drawn", sequence });
    }
    this.drawing = false;
  }

  fit() {
    const { width, height } = this.page;
    const room = this.stage.getBoundingClientRect();
    const scale = PHONE.matches ? room.width / width : Math.min(room.width / width, room.height / height, 2);
    this.screen.style.width = `${Math.floor(width * scale)}px`;
    this.screen.style.height = `${Math.floor(height * scale)}px`;
  }

  /* ---- what the driver says ---- */

  hear(event) {
    switch (event.type) {
      case "control": this.controlIs(event.control); break;
      case "page": this.pageIs(event.page, event.tabs); break;
      case "dialog": this.dialogIs(event.dialog); break;
      case "picker": this.asked.picker(event.picker); break;
      case "chooser": this.asked.chooser(event.chooser); break;
      case "notice": toast(event.message); break;
      case "pointer":
        this.canvas.style.cursor = this.lease && CURSORS.has(event.cursor) ? event.cursor : "";
        this.keysButton?.classList.toggle("main", Boolean(event.editable));
        break;
      case "refused": this.refused(event); break;
      case "no_picture": {
        const [title, text] = NO_PICTURE[event.why] ?? ["No picture", event.why];
        this.plate(title, text);
        break;
      }
      default:
    }
  }

  controlIs(control) {
    const mine = control.holder === me;
    this.control = control;
    if (this.lease && (!mine || control.epoch !== this.epoch) && !this.taking) this.drop("Control was handed back.");
    if (this.lease && control.dead && !this.settled) this.takeAgain();
    this.show();
    if (this.dialog) this.dialogIs(this.dialog);
  }

  pageIs(page, tabs) {
    this.address.replaceChildren(element("b", {}, page.origin || "about:blank"), page.path === "/" ? "" : page.path, page.title ? "  ·  " : "", element("bdi", {}, page.title));
    this.address.title = `${page.origin}${page.path}`;
    if (tabs.length < 2) { this.tabs.replaceChildren(); return; }
    this.tabs.replaceChildren(...tabs.map((tab) => {
      const name = `${tab.crashed ? "✕ " : ""}${tab.page.title || tab.page.origin || "New tab"}`;
      const button = element("button", { type: "button", role: "tab", "aria-selected": String(tab.active), title: tab.page.origin, disabled: !this.lease && !tab.active }, element("span", {}, name));
      button.addEventListener("click", () => { if (this.lease && !tab.active) this.send({ type: "tab", lease: this.lease, id: tab.id }); });
      return button;
    }));
  }

  dialogIs(dialog) {
    this.dialog = dialog;
    if (!dialog) { this.clearOver(); return; }
    const driving = Boolean(this.lease);
    const made = JSON.stringify([dialog, driving]);
    if (this.over.firstChild?.made === made) return; // Somebody may be typing into it.
    const said = dialog.kind === "beforeunload" ? "The page asks whether to leave it. What was entered may be lost." : dialog.message;
    const box = Object.assign(element("div", { class: "page-dialog", role: "dialog", "aria-label": "Dialog of the page" },
      element("b", {}, "The page says"), element("p", { class: "said" }, said)), { made });
    const prompt = dialog.kind === "prompt" ? element("input", { type: "text", value: dialog.default_value, "aria-label": "Answer to the page", maxlength: "4096", disabled: !driving }) : null;
    if (prompt) box.append(prompt);
    const reply = (accept) => this.send({ type: "dialog", lease: this.lease, id: dialog.id, accept, text: accept && prompt ? prompt.value : null });
    const ok = element("button", { type: "button", class: "main", disabled: !driving }, dialog.kind === "beforeunload" ? "Leave" : "OK");
    ok.addEventListener("click", () => reply(true));
    const buttons = [ok];
    if (dialog.kind !== "alert") {
      const no = element("button", { type: "button", disabled: !driving }, dialog.kind === "beforeunload" ? "Stay" : "Cancel");
      no.addEventListener("click", () => reply(false));
      buttons.unshift(no);
    }
    box.append(element("div", { class: "actions" }, ...buttons));
    if (!driving) box.append(element("p", { class: "hint" }, "Take over to answer it."));
    this.over.replaceChildren(box);
    if (driving) (prompt ?? ok).focus();
  }

  refused({ code, message }) {
    const ended = code === "LEASE_ENDED" || code === "NO_LEASE";
    // After a lost connection the old lease may be dead, but control waits for its holder: take it again.
    if (ended && this.lease && !this.settled && Date.now() - (this.returned ?? 0) < 5000) {
      this.returned = 0;
      this.take();
    } else if (ended && this.taking) return;
    else if (ended) {
      // Whether the hands are kept for us comes in a message of its own.
      const lease = this.lease;
      setTimeout(() => { if (this.lease === lease && !this.control.dead && !this.taking) this.drop(message || "You are no longer driving."); }, 250);
    } else toast(message, "bad");
  }

  plate(title, text) {
    this.noPicture = true;
    this.over.replaceChildren(element("div", { class: "plate" }, element("b", {}, title), element("span", {}, text)));
  }

  clearOver() {
    this.noPicture = false;
    this.over.replaceChildren();
    if (this.lease) this.hands.focus();
  }

  /* ---- control ---- */

  async take() {
    try {
      await this.grant();
    } catch (problem) {
      this.drop();
      toast(problem.message, "bad");
    }
  }

  async grant() {
    this.taking = true;
    this.show();
    try {
      const grant = await api("POST", `/sessions${this.path}/control/take`, this.request ? { request: this.request } : {}, 70_000);
      this.lease = grant.lease;
      this.epoch = grant.epoch;
      this.ceiling = Date.parse(grant.ceiling);
      this.idleSpan = Date.parse(grant.idle_until) - now();
      this.idleUntil = now() + this.idleSpan;
      this.send({ type: "hold", lease: this.lease });
      this.hands.start();
    } finally {
      this.taking = false;
      this.show();
      if (this.dialog) this.dialogIs(this.dialog);
    }
  }

  /** The grant ended because nobody could renew it; the driver keeps the hands for us a while. */
  async takeAgain() {
    if (this.taking) return;
    while (this.lease && this.control.dead && !this.settled && !this.ended) {
      try {
        await this.grant();
        return;
      } catch (problem) {
        // A lost connection, or a server that can't tell yet.
        if (problem.status && problem.status < 500) { this.drop(problem.message); return; }
        await pause(500);
      }
    }
  }

  /** Sends input; the driver checks the lease at every event. */
  input(events) {
    if (!this.lease || events.length === 0) return;
    this.idleUntil = now() + this.idleSpan;
    for (let at = 0; at < events.length; at += 64) this.send({ type: "input", lease: this.lease, events: events.slice(at, at + 64) });
  }

  /** Forgets the lease on this side. */
  drop(why) {
    if (!this.lease) return;
    this.hands.stop();
    this.lease = null;
    this.canvas.style.cursor = "";
    if (why) toast(why);
    this.show();
    (this.takeButton && !this.takeButton.hidden ? this.takeButton : this.root.querySelector("[data-act=resize]"))?.focus();
  }

  async letGo() {
    const lease = this.lease;
    this.drop();
    if (lease) await api("POST", `/sessions${this.path}/control/release`, { lease }).catch((problem) => toast(problem.message, "bad"));
  }

  async keep() {
    if (!this.lease) return;
    try {
      const grant = await api("POST", `/sessions${this.path}/control/extend`, { lease: this.lease });
      this.ceiling = Date.parse(grant.ceiling);
      this.idleUntil = now() + this.idleSpan;
    } catch (problem) { toast(problem.message, "bad"); }
    this.show();
    this.hands.focus();
  }

  /** The request is settled: hands off, keep watching. */
  requestEnded() {
    if (!this.request) return;
    this.settled = true;
    this.drop("The request is settled: you are watching now.");
    this.show();
  }

  show() {
    const other = this.control.holder && this.control.holder !== me ? this.control.holder : null;
    const mine = this.control.holder === me && !this.lease;
    const back = this.lease && this.control.dead;
    const waiting = this.taking || back || (this.lease && this.control.pending);
    const hands = this.ended ? "ended" : !this.connected ? "lost" : waiting ? "wait" : this.lease ? "me" : other || mine ? "other" : "watch";
    const text = {
      ended: "View ended", lost: this.lastFrame ? "View lost · reconnecting" : "Connecting", wait: back ? "Taking control back" : "Agent is finishing an action",
      me: TOUCH.matches ? "You are driving" : "You are driving · Esc Esc to let go", other: other ? `${other} is driving` : "You are driving in another window", watch: "Watching",
    }[hands];
    this.root.dataset.hands = hands === "lost" && !this.lastFrame ? "watch" : hands;
    if (this.pill.textContent !== text) this.pill.textContent = text;
    this.age.textContent = hands === "lost" && this.lastFrame ? `, last frame ${Math.round((Date.now() - this.lastFrame) / 1000)} s ago` : "";
    if (this.takeButton) {
      this.takeButton.hidden = Boolean(this.lease) || this.settled || this.ended;
      if (this.takeButton.getAttribute("aria-busy") !== "true") this.takeButton.disabled = !this.connected || Boolean(other);
      this.takeButton.title = other ? `${other} is driving: you can take over when they let go.` : this.connected ? "" : "The view is not connected.";
    }
    if (this.letGoButton) this.letGoButton.hidden = !this.lease;
    if (this.ways) this.ways.hidden = !this.lease;
    this.asked.show();
    if (this.keysButton) this.keysButton.hidden = !this.lease;
    const left = this.lease ? Math.min(this.idleUntil, this.ceiling) - now() : Infinity;
    this.countdown.hidden = left > 60_000;
    if (this.keepButton) this.keepButton.hidden = left > 60_000;
    if (left <= 60_000) this.countdown.textContent = `Handed back in ${clock(left)}`;
  }

  /* ---- the real viewport ---- */

  resize() {
    const { width, height } = this.page;
    const number = (id, value, min, max) => element("input", { id, type: "number", value: String(value), min: String(min), max: String(max), required: true });
    const wide = number("size-width", width, 320, 2560);
    const high = number("size-height", height, 240, 1600);
    // The room that this view has: on a phone, the agent's page then is a phone's page.
    const room = this.stage.getBoundingClientRect();
    const clamp = (value, low, high) => String(Math.round(Math.min(Math.max(value, low), high)));
    const fit = element("button", { type: "button", class: "plain" }, "As large as this view");
    fit.addEventListener("click", () => {
      wide.value = clamp(room.width, 320, 2560);
      high.value = clamp(PHONE.matches ? innerHeight - 240 : room.height, 240, 1600);
    });
    const usual = element("button", { type: "button", class: "plain" }, "1280 × 800");
    usual.addEventListener("click", () => { wide.value = "1280"; high.value = "800"; });
    const go = element("button", { type: "submit", class: "main" }, "Resize");
    const no = element("button", { type: "button" }, "Cancel");
    const form = element("form", { method: "dialog" },
      element("h2", { id: "resize-title" }, "Resize agent browser"),
      element("p", { class: "hint" }, "This changes the agent's real page size, for everybody who watches it."),
      element("div", { class: "sizes" },
        element("div", {}, element("label", { for: "size-width" }, "Width"), wide),
        element("div", {}, element("label", { for: "size-height" }, "Height"), high)),
      element("p", { class: "presets" }, fit, usual),
      element("div", { class: "actions" }, no, go));
    const box = element("dialog", { "aria-labelledby": "resize-title" }, form);
    document.body.append(box);
    box.addEventListener("close", () => box.remove());
    no.addEventListener("click", () => box.close());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      busy(go, async () => {
        try {
          await api("POST", `/sessions${this.path}/resize`, { width: Number(wide.value), height: Number(high.value) });
          box.close();
        } catch (problem) { toast(problem.message, "bad"); }
      });
    });
    box.showModal();
  }
}
