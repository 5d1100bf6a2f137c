// Pages that only show: clocks and the count of open requests.
import { feed, start } from "./core.js";

start();
feed("count", {});
