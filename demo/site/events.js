// What reached this page, in `window.__events`: the proof of who moved the mouse. The oldest are dropped beyond 2000.
//
// With `?log` the newest are shown at the foot of the page. With `?report=/path` they are sent there as they happen.

const TYPES = ["pointerdown", "pointermove", "pointerup", "mousedown", "mouseup", "click", "dblclick", "wheel", "keydown", "keyup", "input", "paste", "touchstart", "touchend"];
const parameters = new URLSearchParams(location.search);
const report = parameters.get("report");
const shown = parameters.has("log") ? document.getElementById("log") : null;
const events = [];
window.__events = events;
let number = 0;
let unsent = [];

const send = () => {
  const body = JSON.stringify(unsent);
  unsent = [];
  fetch(report, { method: "POST", body, keepalive: true }).catch(() => {});
};

// Remembers, and tells, that something happened.
export const note = (event) => {
  number += 1;
  const entry = { number, time: Date.now(), ...event };
  events.push(entry);
  if (events.length > 2000) events.shift();
  if (shown) {
    shown.hidden = false;
    shown.textContent = events.filter((e) => e.type !== "pointermove").slice(-30)
      .map((e) => `${e.number} ${e.type}${e.trusted === undefined ? "" : e.trusted ? " trusted" : " scripted"} ${e.target ?? ""} ${e.key ?? ""}`).join("\n");
  }
  if (report) {
    if (unsent.length === 0) queueMicrotask(send);
    unsent.push(entry);
  }
};

for (const type of TYPES) {
  addEventListener(type, (event) => note({
    type,
    trusted: event.isTrusted,
    target: event.target?.id || event.target?.tagName?.toLowerCase(),
    x: event.clientX,
    y: event.clientY,
    key: event.key,
    value: type === "input" ? event.target.value : undefined,
  }), { capture: true, passive: true });
}
