// One request: what is asked, the live view, the answer.
import { api, busy, draft, feed, fragment, start, tick, toast } from "./core.js";
import { keys } from "./keys.js";
import { LiveView } from "./live.js";

const side = document.querySelector(".side");
const { ns, name } = side.dataset;
const key = `${ns}/${name}`;
const view = document.querySelector(".live[data-session]");
const live = view ? new LiveView(view) : null;
let version = side.dataset.version;
let seen = false;

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

const message = () => document.querySelector("#message");
const buttons = () => [...document.querySelectorAll(".answer [data-act]")];

function failed(text) {
  const note = document.querySelector("#failed");
  if (note) { note.hidden = text === ""; note.textContent = text; } else if (text) toast(text, "bad");
}

/** What was typed comes back, in the box or, when it can't be sent any more, below the outcome. */
function restore() {
  const typed = draft.get(key);
  const box = message();
  if (box) { if (!box.value) box.value = typed; return; }
  const said = document.querySelector(".verdict .said")?.textContent ?? "";
  const answer = document.querySelector("#answer");
  if (answer?.hasAttribute("data-mine") && said.trim() === typed.trim()) draft.set(key, "");
  else if (typed.trim()) {
    const lost = document.querySelector("#unsent");
    if (lost) { lost.hidden = false; lost.querySelector("pre").textContent = typed; }
  }
}

side.addEventListener("input", (event) => { if (event.target === message()) { draft.set(key, event.target.value); failed(""); } });
side.addEventListener("click", (event) => {
  const choice = event.target.closest("[data-choice]");
  if (choice && message()) {
    message().value = choice.textContent;
    draft.set(key, choice.textContent);
    message().focus();
  }
  const button = event.target.closest("[data-act]");
  if (button) busy(button, () => act(button));
});

async function act(button) {
  const what = button.dataset.act;
  if (what === "resolve" || what === "reject") { await answer(what); return; }
  try {
    await api("POST", `/attention/${key}/${what}`, what === "extend" ? { seconds: Number(button.dataset.seconds) } : undefined);
    await refresh();
  } catch (problem) {
    toast(problem.message, "bad");
    if (problem.status === 409 || problem.status === 404) await refresh().catch(() => {});
  }
}

async function answer(what) {
  const typed = message().value;
  if (what === "resolve" && !typed.trim() && document.querySelector("#answer").hasAttribute("data-needs-words")) {
    failed("This asks for an answer in words: type it first.");
    message().focus();
    return;
  }
  failed("");
  const others = buttons();
  for (const button of others) button.disabled = true;
  try {
    await api("POST", `/attention/${key}/${what}`, { message: typed });
    draft.set(key, "");
  } catch (problem) {
    // Nobody loses what they typed: it is in the box, and in this tab even after a reload.
    draft.set(key, typed);
    for (const button of others) button.disabled = false;
    if (problem.status === 409 || problem.status === 404) {
      await refresh().catch(() => {});
      if (message()) failed(problem.message); else toast(problem.message, "bad");
    } else if (problem.status !== 401) {
      failed(`${problem.message} Your message is still here.`);
      message()?.scrollIntoView({ block: "nearest" });
    }
    return;
  }
  await refresh().catch(() => toast("The answer is stored. This page could not be brought up to date: reload it.", "good"));
  document.querySelector(".verdict")?.focus();
}

/** Takes the facts and the outcome from the server again. The box keeps its text, its caret and its composition. */
async function refresh() {
  const fresh = (await fragment(`/attention/${key}?part=side`)).querySelector(".side");
  if (!fresh) return;
  const active = document.activeElement;
  const had = side.contains(active);
  const mark = active.dataset.act ?? active.getAttribute("href") ?? "";
  for (const id of ["facts", "answer"]) {
    const from = fresh.querySelector(`#${id}`);
    const to = side.querySelector(`#${id}`);
    if (!from || !to) continue;
    if (id === "answer" && from.dataset.state === to.dataset.state && from.dataset.state !== "settled") continue;
    to.replaceWith(from);
  }
  side.dataset.standing = fresh.dataset.standing;
  for (const choice of side.querySelectorAll("[data-choice]")) choice.disabled = !message();
  restore();
  tick(side);
  // What had the focus keeps it, or, when it is gone, the outcome does.
  if (had && document.activeElement === document.body) {
    (side.querySelector(`[data-act="${CSS.escape(mark)}"], a[href="${CSS.escape(mark)}"]`) ?? document.querySelector(".verdict"))?.focus();
  }
  if (side.dataset.standing !== "open") live?.requestEnded();
}

start();
fold(side);
restore();
keys({
  on: {
    c: () => side.querySelector("[data-act=claim]")?.click(),
    r: () => side.querySelector("[data-act=resolve]")?.focus(),
    e: () => side.querySelector("[data-act=reject]")?.focus(),
    t: () => live?.takeButton?.click(),
  },
});
feed("attention", {
  hello: () => { seen = false; },
  attention: (event) => {
    if (event.key !== key) return;
    seen = true;
    if (event.version === version) return;
    version = event.version;
    if (!event.open) live?.requestEnded();
    refresh().catch(() => {});
  },
  gone: (event) => { if (event.key === key) deleted(); },
  // Settled or deleted while this page was not connected.
  synced: () => { if (!seen && side.dataset.standing === "open") refresh().catch((problem) => { if (problem.status === 404) deleted(); }); },
});

function deleted() {
  live?.requestEnded();
  for (const button of buttons()) button.disabled = true;
  failed("This request was deleted. Its agent was told so, and nothing can be answered any more. Your message is still here.");
}
