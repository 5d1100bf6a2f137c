// One session: its page, who has the hands, what it waits for.
import { api, busy, element, feed, fragment, start, tick, toast } from "./core.js";
import { keys } from "./keys.js";
import { LiveView } from "./live.js";

const side = document.querySelector(".side");
const { ns, name } = side.dataset;
const view = document.querySelector(".live[data-session]");
const live = view ? new LiveView(view) : null;

async function refresh() {
  const part = await fragment(`/sessions/${ns}/${name}?part=side`);
  for (const id of ["facts", "banner"]) {
    const from = part.querySelector(`#${id}`);
    const to = document.querySelector(`#${id}`);
    if (from && to) to.replaceWith(from);
  }
  const ended = part.querySelector(".side")?.dataset.ended;
  if (ended) { live?.sessionEnded(ended); document.querySelector("#close-session")?.closest(".answer").remove(); }
  tick();
}

const close = document.querySelector("#close-session");
close?.addEventListener("click", () => {
  const open = document.querySelectorAll("#banner [data-request]").length;
  const go = element("button", { type: "button", class: "danger" }, "Close session");
  const no = element("button", { type: "button" }, "Cancel");
  const box = element("dialog", { "aria-labelledby": "close-title" },
    element("h2", { id: "close-title" }, `Close session ${name}?`),
    element("p", {}, open > 0
      ? `Its browser ends, and ${open === 1 ? "its open request is" : `its ${open} open requests are`} rejected. This can't be undone.`
      : "Its browser ends. This can't be undone."),
    element("div", { class: "actions" }, no, go));
  document.body.append(box);
  box.addEventListener("close", () => box.remove());
  no.addEventListener("click", () => box.close());
  go.addEventListener("click", () => busy(go, async () => {
    try { await api("POST", `/sessions/${ns}/${name}/close`, {}); box.close(); await refresh(); } catch (problem) { toast(problem.message, "bad"); }
  }));
  box.showModal();
  no.focus();
});

function gone() {
  live?.sessionEnded("The session is gone. Its record was deleted.");
  document.querySelector("#close-session")?.closest(".answer").remove();
}

start();
keys({ rows: () => [...document.querySelectorAll("#banner [data-request]")], on: { t: () => live?.takeButton?.click() } });
let version = side.dataset.version;
let seen = false;
feed("sessions", {
  hello: () => { seen = false; },
  gone: (event) => { if (event.key === `${ns}/${name}`) gone(); },
  synced: () => { if (!seen) gone(); },
  session: (event) => {
    if (event.key !== `${ns}/${name}`) return;
    seen = true;
    if (event.version === version) return;
    version = event.version;
    refresh().catch(() => {});
  },
});
