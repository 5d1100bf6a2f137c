// Pages that only show: clocks and the count of open requests.
import { feed, start } from "./core.js";
import { keys } from "./keys.js";

start();
keys({ rows: () => [...document.querySelectorAll("tbody tr")] });
feed("count", {});
