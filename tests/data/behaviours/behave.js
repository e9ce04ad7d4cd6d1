// Does what the first word of its input says.
const [word, a, b] = require("fs").readFileSync(0, "utf8").split(/\s+/);
if (word === "slow") for (;;);
if (word === "crashing") throw new Error("as asked for");
if (word === "hungry") for (const kept = []; ; ) kept.push(new Array(1 << 17).fill(Math.random()));
console.log(word === "wrong" ? a - b : Number(a) + Number(b));
