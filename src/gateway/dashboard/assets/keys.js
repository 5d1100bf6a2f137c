// Keys for those who have many requests. None works while somebody types, drives, or has a dialog open.
import { element, fragment } from "./core.js";

const OFF = "beckon-keys-off";
const stored = { get: () => { try { return localStorage.getItem(OFF) !== null; } catch { return false; } }, set: (off) => { try { if (off) localStorage.setItem(OFF, ""); else localStorage.removeItem(OFF); } catch { /* For this page alone, then. */ } } };
let off = stored.get();

/** The switch of a rendered Help. */
export function keysSwitch(root) {
  const box = root.querySelector("[data-keys-on]");
  if (!box) return;
  box.closest("label").hidden = false;
  box.checked = !off;
  box.addEventListener("change", () => { off = !box.checked; stored.set(off); });
}

async function help() {
  const part = await fragment("/help").catch(() => null);
  const section = part?.querySelector("#keys");
  if (!section) return;
  const close = element("button", { type: "button" }, "Close");
  const box = element("dialog", { "aria-labelledby": "help-keys" }, section, element("div", { class: "actions" }, close));
  document.body.append(box);
  keysSwitch(box);
  box.addEventListener("close", () => box.remove());
  close.addEventListener("click", () => box.close());
  box.showModal();
  close.focus();
}

const GO = { a: "/attention", s: "/sessions", h: "/history" };

/** Listens. `rows` gives the rows of a list, `on` what the other keys do on this page. */
export function keys({ rows = () => [], on = {} } = {}) {
  let went = -Infinity;
  const shown = () => rows().filter((row) => row.offsetParent !== null && row.querySelector("a"));
  const here = () => shown().findIndex((row) => row.contains(document.activeElement));
  const move = (by) => {
    const all = shown();
    const at = here();
    const to = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1);
    all[to]?.querySelector("a").focus();
  };
  const own = {
    "?": help,
    "/": () => document.querySelector("#find")?.focus(),
    j: () => move(1),
    k: () => move(-1),
    o: () => shown()[here()]?.querySelector("a").click(),
    g: (row, event) => { went = event.timeStamp; },
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat || event.defaultPrevented) return;
    if (off && event.key !== "?") return;
    if (event.target.closest?.("input:not([type=checkbox]), textarea, select, dialog, [contenteditable]") || document.querySelector("dialog[open]")) return;
    // By when they were pressed, since a busy page hears of both later.
    const going = event.timeStamp - went < 1500 && GO[event.key];
    went = -Infinity;
    if (going) { event.preventDefault(); location.assign(going); return; }
    const run = on[event.key] ?? own[event.key];
    if (!run) return;
    event.preventDefault();
    run(shown()[here()], event);
  });
}
