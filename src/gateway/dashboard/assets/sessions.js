// The list of sessions, kept as it is on the server.
import { feed, markup, start, tick } from "./core.js";
import { keys } from "./keys.js";

const list = document.querySelector("#sessions");
const empty = document.querySelector("#empty");
const cards = new Map([...list.children].map((card) => [card.dataset.key, card]));
let seen = new Set();

function show() {
  empty.hidden = list.children.length > 0;
  list.hidden = list.children.length === 0;
}

start();
keys({ rows: () => [...list.children] });
feed("sessions", {
  hello: () => { seen = new Set(); },
  session: ({ key, html, version }) => {
    seen.add(key);
    const old = cards.get(key);
    if (old?.dataset.version === version) return;
    const card = markup(html).firstElementChild;
    if (!card) return;
    card.dataset.version = version;
    const focused = old?.contains(document.activeElement);
    if (old) old.replaceWith(card); else list.prepend(card);
    if (focused) card.querySelector("a")?.focus();
    cards.set(key, card);
    tick(card);
    show();
  },
  gone: ({ key }) => { cards.get(key)?.remove(); cards.delete(key); show(); },
  synced: () => {
    for (const [key, card] of cards) if (!seen.has(key)) { card.remove(); cards.delete(key); }
    show();
  },
});
