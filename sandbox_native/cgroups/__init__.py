"""The parts of :mod:`sandbox_native.cgroup`, which is the door to them.

``values`` (pure: parsing, names, the numbers of gauges) <- ``files`` (reading, writing, locks) <- ``discover`` (where
may groups be made) <- ``group`` (what both versions share) <- ``v1``, ``v2`` (a base and its slots) and ``sweep``.
"""
