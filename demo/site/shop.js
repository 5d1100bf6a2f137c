// The shop. All of its state is in this page: who finds the cart full and the puzzle solved is on the page that was left.

import { isGood } from "./code.js";
import { note } from "./events.js";
import { start } from "./puzzle.js";

const part = (id) => document.getElementById(id);
const parameters = new URLSearchParams(location.search);
const cart = [];
const visit = Math.random().toString(36).slice(2, 8).toUpperCase();
let step = "shop";
let whereToClick = () => ({});

const money = (cents) => `€ ${(cents / 100).toFixed(2)}`;
const total = () => cart.reduce((sum, item) => sum + item.price, 0);

const tell = () => requestAnimationFrame(() => {
  const box = part("code-input").getBoundingClientRect();
  const code = step === "code" ? { x: Math.round(box.x + 40), y: Math.round(box.y + box.height / 2) } : null;
  note({ type: "layout", step, visit, width: innerWidth, height: innerHeight, code, ...(step === "puzzle" ? whereToClick() : {}) });
});

const go = (next) => {
  part(step).hidden = true;
  step = next;
  part(step).hidden = false;
  document.title = `Harbour Tea: ${step}`;
  tell();
};

part("visit").textContent = visit;
part("since").textContent = new Date().toLocaleTimeString();

for (const button of document.querySelectorAll("[data-add]")) {
  button.addEventListener("click", () => {
    cart.push({ name: button.dataset.add, price: Number(button.dataset.price) });
    part("cart").textContent = `Your cart: ${cart.length} item${cart.length === 1 ? "" : "s"}, ${money(total())}`;
    part("to-checkout").disabled = false;
  });
}

part("to-checkout").addEventListener("click", () => {
  const parts = { tiles: part("tiles"), slide: part("slide"), track: part("track"), ship: part("ship"), result: part("puzzle-result") };
  const seed = parameters.has("seed") ? Number(parameters.get("seed")) : Date.now();
  whereToClick = start(parts, seed, () => go("code"));
  parts.tiles.addEventListener("click", tell);
  go("puzzle");
});

part("code-form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (isGood(part("code-input").value.trim(), Date.now())) {
    part("total").textContent = money(total());
    go("pay");
  } else {
    part("code-result").textContent = "That is not the code. Look at your phone.";
  }
});

part("pay-button").addEventListener("click", () => {
  const order = `HT-${visit}-${cart.length}`;
  part("order").textContent = `Your order number is ${order}.`;
  note({ type: "order", order });
  go("done");
});

addEventListener("resize", tell);
tell();
