"""One module for each way to run a box; `select` chooses. The rest of the package knows only what `base` names."""
