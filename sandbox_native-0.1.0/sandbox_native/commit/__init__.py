"""What a guest changed in an overlay, committed to the host's directory after its run. Host process, host's credentials.

    marks ──▶ tree ──▶ refusals (resolve, repositories) ──▶ listing ──▶ Changes
                                                   └──────▶ staging ──▶ journal ──▶ apply

- marks.py: how an overlay writes down what was changed. tree.py reads that next to the host's directory, into nodes (node.py).
- refusals.py, with protected.py, lookalikes.py, repositories.py and resolve.py: what a guest may not change, also by links.
- place.py: the lock and the staging directory. staging.py fills it, journal.py writes down what is to be done, apply.py does it.
- overlay.py: one overlay from reading to committing. changes.py: what the caller gets. uppers.py: changes that are kept on disk.

A commit is all or nothing. Data and metadata are staged first, on the host directory's own file system; renaming the finished
journal into its place is the commit. Each step after it is a rename that takes its source away, so that whoever finds the
journal after a kill (`recover`, which every later run with that directory calls) sees what is left to do. Without a
journal, what was staged is thrown away.
"""

from __future__ import annotations
