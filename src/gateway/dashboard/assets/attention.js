// The Attention page: rows update in place, nothing moves under the pointer, many can be answered at once.
import { api, busy, draft, element, feed, markup, setCount, start, tick, toast } from "./core.js";
import { keys } from "./keys.js";

const body = document.querySelector("#requests tbody");
const table = document.querySelector("#requests");
const empty = document.querySelector("#empty");
const none = document.querySelector(".none");
const find = document.querySelector("#find");
const news = document.querySelector(".news");
const bulk = document.querySelector(".bulk");
const all = document.querySelector("#pick-all");
const rows = new Map([...body.querySelectorAll("tr")].map((row) => [row.dataset.key, row]));
let seen = new Set();
let arrived = 0;

const resting = () => table.matches(":hover") || body.contains(document.activeElement) || picked().length > 0;

function place(row) {
  // Oldest deadline first; under the pointer nothing moves, so a new row waits at the end until the pointer leaves.
  if (resting()) { body.append(row); return; }
  const until = Number(row.dataset.deadline);
  const next = [...body.children].find((other) => other.classList.contains("settled") || Number(other.dataset.deadline) > until);
  body.insertBefore(row, next ?? null);
}

function sort() {
  if (resting()) return;
  const order = [...body.children].sort((a, b) =>
    a.classList.contains("settled") - b.classList.contains("settled") || a.dataset.deadline - b.dataset.deadline);
  if (order.some((row, index) => body.children[index] !== row)) body.append(...order);
}

function update({ key, html, open, version }) {
  seen.add(key);
  const old = rows.get(key);
  if (old?.dataset.version === version) return;
  if (!old && !open) return;
  const row = markup(html).firstElementChild;
  if (!row) return;
  row.dataset.version = version;
  if (old) {
    const was = old.querySelector("input[type=checkbox]");
    const is = row.querySelector("input[type=checkbox]");
    if (is && was?.checked && open) is.checked = true;
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    old.replaceWith(row);
    // What had the focus keeps it, or, when it is gone, the row does.
    if (focused) (row.querySelector(focused.matches("input") ? "input" : focused.matches("button") ? "button" : "a.row-link") ?? row.querySelector("a.row-link"))?.focus();
  } else {
    row.classList.add("arrived");
    place(row);
    arrived += 1;
    news.replaceChildren(`${arrived} new: `, element("bdi", {}, row.querySelector(".row-link").textContent.slice(0, 80)));
  }
  rows.set(key, row);
  tick(row);
  show();
}

function gone(key, what = "Deleted") {
  const row = rows.get(key);
  if (!row) return;
  row.classList.add("settled");
  row.querySelector(".c-left").textContent = what;
  row.querySelector("input[type=checkbox]")?.remove();
  row.querySelector("[data-act=claim]")?.remove();
  rows.delete(key);
  show();
}

/** The rows that fit what is sought. */
function seek() {
  const text = find.value.trim().toLowerCase();
  let left = 0;
  for (const row of body.children) {
    row.hidden = text !== "" && !row.textContent.toLowerCase().includes(text) && !row.dataset.key.includes(text);
    if (!row.hidden) left += 1;
  }
  none.hidden = left > 0;
}

const boxes = () => [...body.querySelectorAll("tr:not([hidden]) input[type=checkbox]")];
const picked = () => boxes().filter((box) => box.checked).map((box) => box.closest("tr"));

function show() {
  const any = body.children.length > 0;
  table.closest(".table-wrap").hidden = !any;
  empty.hidden = any;
  find.hidden = !any;
  seek();
  const n = picked().length;
  bulk.hidden = n === 0;
  bulk.querySelector("[data-number]").textContent = `${n} selected`;
  all.closest("label").hidden = boxes().length === 0;
  all.checked = n > 0 && n === boxes().length;
  all.indeterminate = n > 0 && !all.checked;
}

find.addEventListener("input", show);
table.addEventListener("change", (event) => {
  if (event.target === all) for (const box of boxes()) box.checked = all.checked;
  show();
});
table.addEventListener("click", (event) => {
  const button = event.target.closest("[data-act=claim]");
  if (button) busy(button, () => claim(button.closest("tr")));
});
table.addEventListener("mouseleave", () => { arrived = 0; sort(); });
bulk.querySelector("[data-none]").addEventListener("click", () => {
  for (const box of body.querySelectorAll("input:checked")) box.checked = false;
  show();
});

/** "I am on it." The feed brings the row anew. */
async function claim(row) {
  try { await api("POST", `/attention/${row.dataset.key}/claim`); } catch (problem) { toast(problem.message, "bad"); }
}

/* ---- many at once ---- */

const plural = (n) => (n === 1 ? "1 request" : `${n} requests`);
const DRAFT = "bulk";

function ask(outcome) {
  let chosen = picked();
  if (chosen.length === 0) return;
  const resolve = outcome === "resolve";
  const word = resolve ? "Resolve" : "Reject";
  const message = element("textarea", { id: "bulk-message", maxlength: "4000", rows: "3" });
  const go = element("button", { type: "button", class: resolve ? "main" : "danger" });
  const no = element("button", { type: "button" }, "Cancel");
  const title = element("h2", { id: "bulk-title" });
  const effect = element("p", {});
  const names = element("p", { class: "hint" });
  const label = element("label", { for: "bulk-message", class: "bulk-label" });
  const failed = element("div", { class: "note bad", role: "alert", hidden: true });
  message.value = draft.get(DRAFT);
  message.addEventListener("input", () => draft.set(DRAFT, message.value));
  const write = () => {
    const n = chosen.length;
    title.textContent = `${word} ${plural(n)}?`;
    go.textContent = `${word} ${plural(n)}`;
    const told = n === 1 ? "Its agent is told" : "Their agents are told";
    effect.textContent = `${told} ${resolve ? "to go on." : "to give up or try something else."}`;
    label.textContent = n === 1 ? "Message for the agent" : "Message for the agents";
    names.replaceChildren(...chosen.slice(0, 5).flatMap((row) => ["“", element("bdi", {}, row.querySelector(".row-link").textContent.slice(0, 60)), "” "]),
      n > 5 ? `and ${n - 5} more` : "");
  };
  write();
  const box = element("dialog", { "aria-labelledby": "bulk-title" }, title, effect, names, label, message, failed, element("div", { class: "actions" }, no, go));
  document.body.append(box);
  box.addEventListener("close", () => box.remove());
  no.addEventListener("click", () => box.close());
  go.addEventListener("click", () => busy(go, async () => {
    failed.hidden = true;
    try {
      const requests = chosen.map((row) => ({ namespace: row.dataset.ns, name: row.dataset.name }));
      const { results } = await api("POST", "/attention/bulk", { outcome, message: message.value, requests }, 60_000);
      const bad = results.filter((result) => !result.ok);
      for (const row of chosen) { const tick = rows.get(row.dataset.key)?.querySelector("input[type=checkbox]"); if (tick) tick.checked = false; }
      show();
      if (bad.length < results.length) toast(`${resolve ? "Resolved" : "Rejected"} ${plural(results.length - bad.length)}.`, "good");
      if (bad.length === 0) { draft.set(DRAFT, ""); box.close(); return; }
      // The message stays, for those that can still be answered.
      const again = new Set(bad.filter((result) => !["ALREADY_SETTLED", "NOT_FOUND", "FORBIDDEN"].includes(result.code)).map((result) => `${result.namespace}/${result.name}`));
      const reason = (result) => rows.get(`${result.namespace}/${result.name}`)?.querySelector(".row-link")?.textContent.slice(0, 60) ?? result.name;
      failed.hidden = false;
      failed.replaceChildren(element("div", {}, element("p", {}, `${plural(bad.length)} could not be ${resolve ? "resolved" : "rejected"}:`),
        element("ul", {}, ...bad.slice(0, 5).map((result) => element("li", {}, "“", element("bdi", {}, reason(result)), `”: ${result.error}`))),
        bad.length > 5 ? element("p", {}, `and ${bad.length - 5} more`) : ""));
      chosen = chosen.filter((row) => again.has(row.dataset.key));
      if (chosen.length > 0) write();
      else { title.textContent = "Not all were answered"; effect.textContent = ""; names.textContent = ""; go.hidden = true; no.textContent = "Close"; no.focus(); }
    } catch (problem) {
      failed.hidden = false;
      failed.textContent = problem.message;
    }
  }));
  box.showModal();
  message.focus();
}
bulk.querySelector("[data-act=resolve]").addEventListener("click", () => ask("resolve"));
bulk.querySelector("[data-act=reject]").addEventListener("click", () => ask("reject"));

start();
show();
keys({
  rows: () => [...body.children],
  on: {
    x: (row) => { const box = row?.querySelector("input[type=checkbox]"); if (box) { box.checked = !box.checked; show(); } },
    c: (row) => { if (row?.querySelector("[data-act=claim]")) claim(row); },
    r: () => ask("resolve"),
    e: () => ask("reject"),
  },
});
feed("attention", {
  hello: () => { seen = new Set(); },
  // The row itself tells of a new request here.
  asked: () => {},
  attention: update,
  gone: ({ key }) => gone(key),
  synced: ({ open }) => {
    // Whatever the server no longer names was settled or deleted while this page was not connected.
    for (const key of [...rows.keys()]) if (!seen.has(key) && !rows.get(key).classList.contains("settled")) gone(key, "No longer open");
    setCount(open);
  },
});
