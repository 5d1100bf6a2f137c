// One request: what is asked, the live view, the answer.
import { api, busy, feed, fragment, start, tick, toast } from "./core.js";
import { LiveView } from "./live.js";

const side = document.querySelector(".side");
const { ns, name } = side.dataset;
const key = `${ns}/${name}`;
const view = document.querySelector(".live[data-session]");
const live = view ? new LiveView(view) : null;
let version = side.dataset.version;

/** Texts of more than twelve lines are cut until asked for. */
function fold(root) {
  for (const text of root.querySelectorAll(".words .foldable")) {
    text.classList.add("long");
    if (text.scrollHeight <= text.clientHeight + 4) { text.classList.remove("long"); continue; }
    const more = document.createElement("button");
    more.type = "button";
    more.className = "plain more";
    more.textContent = "Show all";
    more.setAttribute("aria-expanded", "false");
    more.addEventListener("click", () => {
      const cut = text.classList.toggle("long");
      more.textContent = cut ? "Show all" : "Show less";
      more.setAttribute("aria-expanded", String(!cut));
    });
    text.after(more);
  }
}

function wire() {
  const box = document.querySelector("#message");
  for (const choice of document.querySelectorAll("[data-choice]")) {
    choice.addEventListener("click", () => { if (box) { box.value = choice.textContent; box.focus(); } });
  }
  for (const act of ["resolve", "reject"]) {
    const button = document.querySelector(`.answer [data-act=${act}]`);
    button?.addEventListener("click", () => busy(button, () => answer(act, box.value)));
  }
}

/** Whether an answer of this page is on its way or stored: what is typed is then not lost. */
let sending = false;

async function answer(act, message) {
  sending = true;
  try {
    await api("POST", `/attention/${ns}/${name}/${act}`, { message });
    await refresh();
    document.querySelector(".verdict")?.focus();
  } catch (problem) {
    sending = false;
    toast(problem.message, "bad");
    if (problem.status === 409 || problem.status === 404) await refresh(message).catch(() => {});
  }
}

/** Takes the answer panel and the facts from the server again; what was typed stays. */
async function refresh(unsent = "") {
  const typed = document.querySelector("#message")?.value ?? unsent;
  const part = await fragment(`/attention/${ns}/${name}?part=side`);
  const fresh = part.querySelector(".side");
  if (!fresh) return;
  for (const id of ["facts", "answer"]) {
    const from = fresh.querySelector(`#${id}`);
    const to = side.querySelector(`#${id}`);
    if (from && to) to.replaceWith(from);
  }
  side.dataset.standing = fresh.dataset.standing;
  const box = document.querySelector("#message");
  if (box) box.value = typed;
  else if (typed.trim() && !sending) {
    const lost = document.querySelector("#unsent");
    if (lost) { lost.hidden = false; lost.querySelector("pre").textContent = typed; }
  }
  tick(side);
  wire();
  if (side.dataset.standing !== "open") live?.requestEnded();
}

start();
fold(side);
wire();
feed("attention", {
  attention: (event) => {
    if (event.key !== key || event.version === version) return;
    version = event.version;
    if (!event.open) live?.requestEnded();
    refresh().catch(() => {});
  },
  gone: (event) => { if (event.key === key) { live?.requestEnded(); refresh().catch(() => {}); } },
});
