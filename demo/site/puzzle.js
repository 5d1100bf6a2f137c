// A puzzle that a person solves at a glance: pictures drawn on canvas, then a ship to drag.

const SIZE = 94;

const water = (c) => { c.fillStyle = "#9cc9d8"; c.fillRect(0, 0, SIZE, SIZE); c.fillStyle = "#2f7d95"; c.fillRect(0, 62, SIZE, 32); };
const land = (c) => { c.fillStyle = "#bcd9e6"; c.fillRect(0, 0, SIZE, SIZE); c.fillStyle = "#7d9a58"; c.fillRect(0, 66, SIZE, 28); };
const shape = (c, colour, points) => {
  c.fillStyle = colour;
  c.beginPath();
  points.forEach(([x, y], index) => (index ? c.lineTo(x, y) : c.moveTo(x, y)));
  c.fill();
};

const PICTURES = {
  boat: (c) => { water(c); shape(c, "#5b3a21", [[18, 56], [76, 56], [64, 72], [30, 72]]); shape(c, "#f5f0e1", [[46, 14], [46, 50], [22, 50]]); shape(c, "#d9482b", [[50, 20], [50, 50], [72, 50]]); },
  house: (c) => { land(c); shape(c, "#e6d2a8", [[24, 44], [70, 44], [70, 72], [24, 72]]); shape(c, "#a33f2b", [[18, 46], [47, 22], [76, 46]]); },
  tree: (c) => { land(c); shape(c, "#6b4a2b", [[43, 50], [51, 50], [51, 74], [43, 74]]); shape(c, "#37692f", [[47, 14], [72, 54], [22, 54]]); },
  hill: (c) => { land(c); shape(c, "#8a8f98", [[8, 68], [38, 24], [60, 68]]); shape(c, "#6f747d", [[44, 68], [66, 36], [88, 68]]); },
};

// The same numbers for the same seed, so that a test knows what it sees.
const numbers = (seed) => {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
};

const drawTiles = (box, random, changed) => {
  const others = ["house", "tree", "hill"];
  const boats = new Set();
  while (boats.size < 3) boats.add(Math.floor(random() * 9));
  const tiles = [];
  for (let index = 0; index < 9; index += 1) {
    const kind = boats.has(index) ? "boat" : others[Math.floor(random() * others.length)];
    const button = document.createElement("button");
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = SIZE;
    PICTURES[kind](canvas.getContext("2d"));
    button.className = "tile";
    button.id = `tile-${index}`;
    button.setAttribute("aria-label", `Picture ${index + 1}`);
    button.setAttribute("aria-pressed", "false");
    button.append(canvas);
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      changed();
    });
    box.append(button);
    tiles.push({ button, boat: kind === "boat" });
  }
  return tiles;
};

const makeSlider = (track, ship, arrived) => {
  let from = null;
  const most = () => track.clientWidth - ship.offsetWidth - 4;
  const place = (x) => {
    const at = Math.max(0, Math.min(most(), x));
    ship.style.left = `${at + 2}px`;
    ship.setAttribute("aria-valuenow", String(Math.round((100 * at) / most())));
    return at;
  };
  ship.addEventListener("pointerdown", (event) => { from = event.clientX; ship.setPointerCapture(event.pointerId); });
  ship.addEventListener("pointermove", (event) => { if (from !== null) place(event.clientX - from); });
  ship.addEventListener("pointerup", (event) => {
    if (from === null) return;
    const at = place(event.clientX - from);
    from = null;
    if (at >= most() - 6) arrived();
    else place(0);
  });
};

// Calls `solved` once both parts are done. Returns where the person would click, for tests.
export const start = (parts, seed, solved) => {
  const tiles = drawTiles(parts.tiles, numbers(seed), () => {
    const right = tiles.every(({ button, boat }) => (button.getAttribute("aria-pressed") === "true") === boat);
    parts.slide.hidden = !right;
    parts.result.textContent = right ? "Right. One more thing:" : "";
  });
  makeSlider(parts.track, parts.ship, () => {
    if (tiles.every(({ button, boat }) => (button.getAttribute("aria-pressed") === "true") === boat)) solved();
  });
  const middle = (element) => {
    const box = element.getBoundingClientRect();
    return { x: Math.round(box.x + box.width / 2), y: Math.round(box.y + box.height / 2) };
  };
  return () => ({
    tiles: tiles.map(({ button, boat }) => ({ boat, ...middle(button) })),
    ship: parts.slide.hidden ? null : middle(parts.ship),
    dock: parts.slide.hidden ? null : middle(parts.track.querySelector("#dock")),
  });
};
