// Throws.
throw new Error("no");
