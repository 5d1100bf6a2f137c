import { codeAt } from "./code.js";

const show = () => { document.getElementById("code").textContent = codeAt(Date.now()); };
show();
setInterval(show, 1000);
