// The Help page, and the switch for the keys.
import { feed, start } from "./core.js";
import { keys, keysSwitch } from "./keys.js";

start();
keys();
keysSwitch(document);
feed("count", {});
