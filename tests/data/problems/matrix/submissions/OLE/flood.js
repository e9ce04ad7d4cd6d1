// Writes for ever.
for (;;) require("fs").writeSync(1, "42\n".repeat(1000));
