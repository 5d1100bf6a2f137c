// What the agent's browser itself asks a person, which is in no picture of the page: a date, a colour, an entry of a list, files.
import { element, toast } from "./core.js";

/** Bytes of one message, before base64. */
const PIECE = 9 * 1024;
/** What the socket may hold before the next piece is read. */
const AHEAD = 512 * 1024;
/** What a session's pod takes in all. */
const MOST = 64 * 1024 * 1024;
const WORDS = { date: "date", time: "time", "datetime-local": "date and time", month: "month", week: "week", color: "colour", select: "choice" };
const pause = (millis) => new Promise((done) => setTimeout(done, millis));

export class Asked {
  constructor(view) {
    this.view = view;
    this.box = element("div", { class: "over" });
    view.over.before(this.box);
  }

  picker(picker) { this.open = picker ? { ...picker, type: picker.kind, kind: "picker" } : this.open?.kind === "picker" ? null : this.open; this.render(); }

  chooser(chooser) { this.open = chooser ? { ...chooser, kind: "chooser" } : this.open?.kind === "chooser" ? null : this.open; this.render(); }

  /** Who drives may have changed. */
  show() { if (this.open && this.shown !== Boolean(this.view.lease)) this.render(); }

  render() {
    const { open, view } = this;
    const had = this.box.contains(document.activeElement);
    this.shown = Boolean(view.lease);
    if (!open) {
      this.box.replaceChildren();
      if (had && view.lease) view.hands.focus();
      return;
    }
    const form = element("form", { novalidate: "" });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.append(...(open.kind === "picker" ? this.pick(open, form) : this.files(open, form)));
    if (!view.lease) form.append(element("p", { class: "hint" }, "Take over to answer it."));
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.cancel();
    });
    this.box.replaceChildren(element("div", { class: "page-dialog", role: "dialog", "aria-label": "Asked by the browser" }, form));
    if (view.lease) (form.querySelector("input, select") ?? form.querySelector("button"))?.focus();
  }

  cancel() {
    const { open, view } = this;
    if (!open || !view.lease) return;
    if (open.kind === "picker") view.send({ type: "pick", lease: view.lease, id: open.id, value: null });
    else view.send({ type: "choose", lease: view.lease, id: open.id, accept: false });
  }

  /** The same field as the page's, in the person's own browser. */
  pick(open, form) {
    const { view } = this;
    const disabled = !view.lease;
    const word = WORDS[open.type] ?? "value";
    const name = open.label ? `${open.label}: ${word}` : `The page's ${word}`;
    let field;
    if (open.type === "select") {
      field = element("select", { "aria-label": name, disabled, size: String(Math.min(Math.max(open.options.length, 2), 10)) });
      let group = "", place = field;
      open.options.forEach((option, at) => {
        if (option.group !== group) {
          group = option.group;
          place = group ? element("optgroup", { label: group }) : field;
          if (place !== field) field.append(place);
        }
        place.append(element("option", { value: String(at), disabled: option.disabled, selected: String(at) === open.value }, option.label));
      });
    } else {
      field = element("input", { type: open.type, value: open.value, "aria-label": name, disabled });
      for (const bound of ["min", "max", "step"]) if (open[bound]) field.setAttribute(bound, open[bound]);
    }
    const answer = (value) => view.send({ type: "pick", lease: view.lease, id: open.id, value });
    form.addEventListener("submit", () => answer(field.value));
    field.addEventListener("dblclick", () => open.type === "select" && !disabled && answer(field.value));
    const clear = element("button", { type: "button", disabled }, "Clear");
    clear.addEventListener("click", () => answer(""));
    return [element("b", {}, name), field, this.actions(disabled, "Set", ["color", "select"].includes(open.type) ? [] : [clear])];
  }

  files(open, form) {
    const { view } = this;
    const disabled = !view.lease;
    const field = element("input", { type: "file", multiple: open.multiple, disabled, "aria-label": open.multiple ? "Files for the page" : "File for the page" });
    const said = element("p", { class: "hint", role: "status" }, "It goes from your machine to the agent's browser, and stays there until the session ends.");
    form.addEventListener("submit", async () => {
      const files = [...field.files];
      if (files.length === 0) { said.textContent = "Choose a file first."; return; }
      if (files.reduce((sum, file) => sum + file.size, 0) > MOST) { said.textContent = "A session takes at most 64 MiB of files."; return; }
      for (const one of form.elements) one.disabled = true;
      try {
        for (const file of files) await this.upload(open, file, (part) => { said.textContent = `Sending ${file.name}: ${part} %`; });
        view.send({ type: "choose", lease: view.lease, id: open.id, accept: true });
      } catch {
        if (this.open === open) this.render();
        toast("The files were not sent: choose them again.", "bad");
      }
    });
    return [element("b", {}, open.multiple ? "The page asks for files" : "The page asks for a file"), field, said, this.actions(disabled, "Send", [])];
  }

  async upload(open, file, progress) {
    const { view } = this;
    const { socket, lease } = view;
    for (let at = 0; at === 0 || at < file.size; at += PIECE) {
      const bytes = new Uint8Array(await file.slice(at, at + PIECE).arrayBuffer());
      while (socket.bufferedAmount > AHEAD && socket.readyState === WebSocket.OPEN) await pause(20);
      const data = btoa(String.fromCharCode(...bytes));
      const sent = view.socket === socket && view.lease === lease && this.open === open
        && view.send({ type: "file", lease, id: open.id, name: file.name, data, last: at + PIECE >= file.size });
      if (!sent) throw new Error("interrupted");
      progress(Math.min(100, Math.round(((at + PIECE) * 100) / Math.max(file.size, 1))));
    }
  }

  actions(disabled, word, more) {
    const no = element("button", { type: "button", disabled }, "Cancel");
    no.addEventListener("click", () => this.cancel());
    return element("div", { class: "actions" }, no, ...more, element("button", { type: "submit", class: "main", disabled }, word));
  }
}
