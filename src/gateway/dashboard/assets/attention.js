// The Attention page: rows update in place, nothing moves under the pointer, many can be answered at once.
import { api, busy, element, feed, setCount, start, tick, toast } from "./core.js";

const body = document.querySelector("#requests tbody");
const table = document.querySelector("#requests");
const empty = document.querySelector("#empty");
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

function parse(html) {
  const box = document.createElement("template");
  box.innerHTML = html;
  return box.content.firstElementChild;
}

function update({ key, html, open, version }) {
  seen.add(key);
  const old = rows.get(key);
  if (old?.dataset.version === version) return;
  if (!old && !open) return;
  const row = parse(html);
  if (!row) return;
  row.dataset.version = version;
  if (old) {
    const was = old.querySelector("input[type=checkbox]");
    const is = row.querySelector("input[type=checkbox]");
    if (is && was?.checked && open) is.checked = true;
    const focused = old.contains(document.activeElement) ? document.activeElement.className : null;
    old.replaceWith(row);
    if (focused !== null) (row.querySelector("a.row-link"))?.focus();
  } else {
    row.classList.add("arrived");
    place(row);
    arrived += 1;
    news.textContent = `${arrived} new: ${row.querySelector(".row-link").textContent.slice(0, 80)}`;
  }
  rows.set(key, row);
  tick(row);
  show();
}

function gone(key) {
  const row = rows.get(key);
  if (!row) return;
  row.classList.add("settled");
  row.querySelector(".c-left").textContent = "Deleted";
  row.querySelector("input[type=checkbox]")?.remove();
  rows.delete(key);
  show();
}

function show() {
  const any = body.children.length > 0;
  table.closest(".table-wrap").hidden = !any;
  empty.hidden = any;
  const chosen = picked();
  bulk.hidden = chosen.length === 0;
  const n = chosen.length;
  bulk.querySelector("[data-number]").textContent = `${n} selected`;
  all.checked = n > 0 && n === body.querySelectorAll("input[type=checkbox]").length;
  all.indeterminate = n > 0 && !all.checked;
}

const picked = () => [...body.querySelectorAll("input[type=checkbox]:checked")].map((box) => box.closest("tr"));

table.addEventListener("change", (event) => {
  if (event.target === all) for (const box of body.querySelectorAll("input[type=checkbox]")) box.checked = all.checked;
  show();
});
table.addEventListener("mouseleave", () => { arrived = 0; sort(); });
bulk.querySelector("[data-none]").addEventListener("click", () => {
  for (const box of body.querySelectorAll("input:checked")) box.checked = false;
  show();
});

/* ---- many at once ---- */

const plural = (n) => (n === 1 ? "1 request" : `${n} requests`);

function ask(outcome) {
  const chosen = picked();
  const n = chosen.length;
  if (n === 0) return;
  const resolve = outcome === "resolve";
  const message = element("textarea", { id: "bulk-message", maxlength: "4000", rows: "3" });
  const go = element("button", { type: "button", class: resolve ? "main" : "danger" }, `${resolve ? "Resolve" : "Reject"} ${plural(n)}`);
  const no = element("button", { type: "button" }, "Cancel");
  const effect = resolve ? (n === 1 ? "Its agent is told to go on." : "Their agents are told to go on.")
    : (n === 1 ? "Its agent is told to give up or try something else." : "Their agents are told to give up or try something else.");
  const box = element("dialog", { "aria-labelledby": "bulk-title" },
    element("h2", { id: "bulk-title" }, `${resolve ? "Resolve" : "Reject"} ${plural(n)}?`),
    element("p", {}, effect),
    element("p", { class: "hint" }, chosen.slice(0, 5).map((row) => `“${row.querySelector(".row-link").textContent.slice(0, 60)}”`).join(" ") + (n > 5 ? ` and ${n - 5} more` : "")),
    element("label", { for: "bulk-message", class: "bulk-label" }, n === 1 ? "Message for the agent" : "Message for the agents"),
    message,
    element("div", { class: "actions" }, no, go));
  document.body.append(box);
  box.addEventListener("close", () => box.remove());
  no.addEventListener("click", () => box.close());
  go.addEventListener("click", () => busy(go, async () => {
    try {
      const requests = chosen.map((row) => ({ namespace: row.dataset.ns, name: row.dataset.name }));
      const { results } = await api("POST", "/attention/bulk", { outcome, message: message.value, requests });
      const failed = results.filter((result) => !result.ok);
      box.close();
      for (const row of chosen) { const tick = row.querySelector("input[type=checkbox]"); if (tick) tick.checked = false; }
      show();
      toast(`${resolve ? "Resolved" : "Rejected"} ${plural(results.length - failed.length)}.`, "good");
      for (const result of failed.slice(0, 3)) toast(`${result.name}: ${result.error}`, "bad");
    } catch (problem) { toast(problem.message, "bad"); }
  }));
  box.showModal();
  message.focus();
}
bulk.querySelector("[data-act=resolve]").addEventListener("click", () => ask("resolve"));
bulk.querySelector("[data-act=reject]").addEventListener("click", () => ask("reject"));

start();
show();
feed("attention", {
  hello: () => { seen = new Set(); },
  attention: update,
  gone: ({ key }) => gone(key),
  synced: ({ open }) => {
    // Whatever the server no longer names has gone while this page was not connected.
    for (const key of rows.keys()) if (!seen.has(key)) gone(key);
    setCount(open);
  },
});
