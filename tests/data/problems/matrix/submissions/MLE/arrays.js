// Arrays.
const blocks = [];
for (;;) blocks.push(new Array(1 << 16).fill(1.5));
