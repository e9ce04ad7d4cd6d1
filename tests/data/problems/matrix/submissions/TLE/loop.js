// Does not end.
for (;;);
