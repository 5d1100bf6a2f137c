// What every page uses: calls, notices, clocks, the live feed, and staying signed in while somebody is there.

const meta = (name) => document.querySelector(`meta[name="beckon-${name}"]`)?.content ?? "";

/** Who is signed in. */
export const me = meta("user");

/** The server's clock, so that a wrong clock of the viewer's machine does not show wrong times. */
let skew = Number(meta("now")) - Date.now() || 0;
export const now = () => Date.now() + skew;
export const setServerClock = (millis) => { skew = millis - Date.now(); };

/** A refusal or failure of a call, with words for a person. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || body?.title || "The server did not answer.");
    this.status = status;
    this.code = body?.code ?? "";
    this.body = body ?? {};
  }
}

/** Calls the JSON API. */
export async function api(method, path, body, within = 20_000) {
  const abort = AbortSignal.timeout(within);
  let reply;
  try {
    reply = await fetch(`/api/v1${path}`, {
      method, signal: abort, credentials: "same-origin",
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Problem(0, { detail: "The server can't be reached. Nothing was changed as far as this page knows; try again." });
  }
  const value = await reply.json().catch(() => null);
  if (reply.status === 401) signedOut();
  if (!reply.ok) throw new Problem(reply.status, value);
  return value;
}

/** The only way in which text becomes markup here: what this server rendered, where every word of others is escaped. */
const rendered = window.trustedTypes?.createPolicy("beckon", { createHTML: (html) => html }) ?? { createHTML: (html) => html };

/** Markup of this server as nodes. */
export function markup(html) {
  const box = document.createElement("template");
  box.innerHTML = rendered.createHTML(html);
  return box.content;
}

/** A fragment of a page, rendered by the server. */
export async function fragment(path) {
  const reply = await fetch(path, { credentials: "same-origin", headers: { accept: "text/html" } });
  if (reply.redirected) { signedOut(); throw new Problem(401, null); }
  if (!reply.ok) throw new Problem(reply.status, null);
  return markup(await reply.text());
}

/** An element with text; nothing here ever parses markup. */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in node && typeof value !== "string") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** Tells something at the edge of the page. What went wrong stays until it is dismissed. */
export function toast(text, kind = "", within = 8000) {
  const shelf = document.querySelector(".toasts");
  if (!shelf) return;
  const said = typeof text === "string" ? element("span", {}, text) : text;
  for (const old of shelf.children) if (old.firstElementChild.textContent === said.textContent) old.remove();
  const note = element("div", { class: `note ${kind}`, ...(kind === "bad" ? { role: "alert" } : {}) }, said);
  const close = element("button", { type: "button", class: "plain", "aria-label": "Dismiss" }, "✕");
  close.addEventListener("click", () => note.remove());
  note.append(close);
  shelf.append(note);
  while (shelf.children.length > 4) (shelf.querySelector(":scope > :not(.bad)") ?? shelf.firstElementChild).remove();
  if (kind !== "bad") setTimeout(() => note.remove(), within);
}

/** A request that has just been opened, told on whatever page the person is. */
function asked({ key, title }) {
  if (location.pathname === `/attention/${key}`) return;
  toast(element("span", {}, "An agent asks: ", element("a", { href: `/attention/${key}`, dir: "auto" }, title || key)), "info", 20_000);
}

/* ---- what was typed: kept in this tab until it is sent or the person signs out ---- */

const DRAFT = "beckon-draft ";
export const draft = {
  get: (key) => { try { return sessionStorage.getItem(DRAFT + me + " " + key) ?? ""; } catch { return ""; } },
  set: (key, text) => { try { if (text) sessionStorage.setItem(DRAFT + me + " " + key, text); else sessionStorage.removeItem(DRAFT + me + " " + key); } catch { /* Full or forbidden: the page itself still has it. */ } },
  clear: () => { try { for (const key of Object.keys(sessionStorage)) if (key.startsWith(DRAFT)) sessionStorage.removeItem(key); } catch { /* There is none. */ } },
};

/* ---- clocks ---- */

const two = (n) => String(n).padStart(2, "0");

/** 42 s, 12 min, 3 h 05 min, 2 d 4 h. */
export function span(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor(s / 3600) % 24} h`;
}

/** 12:04 under an hour, else as `span`. */
function countdown(seconds) {
  const s = Math.max(0, Math.ceil(seconds));
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : span(s);
}

/** Writes every clock of the page anew. Absolute times appear in the viewer's zone on hover. */
export function tick(root = document) {
  const at = now();
  for (const node of root.querySelectorAll("[data-until]")) {
    const until = Number(node.dataset.until);
    const left = (until - at) / 1000;
    const total = Number(node.dataset.total) || Infinity;
    node.dataset.heat = left <= total * 0.05 ? "bad" : left <= total * 0.2 ? "warn" : "";
    const text = left > 0 ? `${countdown(left)} left` : "time is up";
    const to = node.querySelector("[data-text]") ?? node;
    if (to.textContent !== text) to.textContent = text;
    if (!node.title) node.title = `Until ${new Date(until).toLocaleString()}`;
  }
  for (const node of root.querySelectorAll("[data-since]")) {
    const since = Number(node.dataset.since);
    const text = span((at - since) / 1000);
    if (node.textContent !== text) node.textContent = text;
    if (!node.title) node.title = `Since ${new Date(since).toLocaleString()}`;
  }
  for (const node of root.querySelectorAll("time[data-at]:not([data-done])")) {
    node.dataset.done = "";
    node.title = node.textContent;
    node.textContent = new Date(Number(node.dataset.at)).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  }
}

/* ---- the live feed ---- */

const plainTitle = document.title.replace(/^\(\d+\) /, "");

/** The number of open requests: in the title, at the navigation, and told to screen readers. */
export function setCount(open) {
  document.title = open > 0 ? `(${open}) ${plainTitle}` : plainTitle;
  for (const badge of document.querySelectorAll("[data-open-count]")) {
    badge.hidden = open === 0;
    badge.textContent = open > 99 ? "99+" : String(open);
  }
  const told = document.querySelector("#open-count");
  const text = open === 0 ? "No open requests" : open === 1 ? "1 open request" : `${open} open requests`;
  if (told && told.textContent !== text) told.textContent = text;
}

function linkState(text) {
  const node = document.querySelector(".link-state");
  document.body.classList.toggle("stale", text !== "");
  if (!node) return;
  node.hidden = text === "";
  node.textContent = text;
}

let over = false;

/** The cookie's session is over: say so once, and offer the way back. */
export function signedOut() {
  if (over) return;
  over = true;
  linkState("Signed out");
  document.title = `Signed out · ${plainTitle}`;
  const to = `/login?next=${encodeURIComponent(location.pathname)}`;
  const box = element("dialog", { "aria-labelledby": "signed-out" },
    element("h2", { id: "signed-out" }, "You have been signed out"),
    element("p", {}, "Sign in again to go on. What you typed on this page is still here until you leave it."),
    element("div", { class: "actions" }, element("a", { class: "button", href: to }, "Sign in")));
  document.body.append(box);
  box.showModal();
}

/** Listens to the server. `on` maps event names to handlers of their JSON; a lost feed comes back by itself. */
export function feed(view, on) {
  let source;
  let since = 0;
  let pause = 1000;
  const open = () => {
    source = new EventSource(`/events?view=${view}`);
    const handle = (name, run) => source.addEventListener(name, (event) => run(JSON.parse(event.data)));
    handle("hello", (data) => {
      setServerClock(data.now);
      since = 0;
      pause = 1000;
      linkState("");
      on.hello?.(data);
    });
    handle("count", (data) => setCount(data.open));
    if (!on.asked) handle("asked", asked);
    handle("stale", (data) => linkState(data.stale ? `Not current since ${new Date().toLocaleTimeString()}: the cluster does not answer` : ""));
    for (const [name, run] of Object.entries(on)) if (name !== "hello") handle(name, run);
    source.addEventListener("error", async () => {
      since ||= Date.now();
      linkState(`Not connected since ${new Date(since).toLocaleTimeString()} · reconnecting`);
      if (source.readyState !== EventSource.CLOSED || over) return;
      // The server refused: find out whether the session is over, else try again, less and less often.
      try { await api("GET", "/whoami"); } catch (problem) { if (problem.status === 401) return; }
      setTimeout(open, pause);
      pause = Math.min(pause * 2, 15_000);
    });
  };
  open();
  addEventListener("pagehide", () => source?.close());
  addEventListener("pageshow", (event) => { if (event.persisted) open(); });
}

/* ---- staying signed in while somebody is there ---- */

let touched = Date.now();
function stay() {
  if (over || Date.now() - touched < 60_000) return;
  touched = Date.now();
  api("GET", "/whoami").catch(() => {});
}

/** What every page does. */
export function start() {
  document.querySelector("form.me")?.addEventListener("submit", draft.clear);
  tick();
  setInterval(tick, 1000);
  for (const name of ["pointerdown", "keydown", "wheel"]) addEventListener(name, stay, { passive: true, capture: true });
}

/** Runs `act` with the button busy, so that it can't be pressed twice. */
export async function busy(button, act) {
  if (button.getAttribute("aria-busy") === "true") return;
  const focused = document.activeElement === button;
  button.setAttribute("aria-busy", "true");
  button.disabled = true;
  try { await act(); } finally {
    button.removeAttribute("aria-busy");
    button.disabled = false;
    // A disabled button loses the focus.
    if (focused && document.activeElement === document.body) button.focus();
  }
}
