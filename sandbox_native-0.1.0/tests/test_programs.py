"""Programs that ask a lot of a machine, in a box of `Policy.strict`."""

from __future__ import annotations

import pytest

from sandbox_native import Limits, Policy, Sandbox

PYTHON = "/usr/bin/python3"
NUMPY = """
import numpy, random
a = numpy.random.default_rng(1).random((300, 300))
assert numpy.allclose(a @ numpy.linalg.inv(a), numpy.eye(300))
assert numpy.linalg.svd(a)[1][0] > 0 and numpy.fft.ifft(numpy.fft.fft(a[0])).real.sum() > 0
numpy.save("a.npy", a); assert (numpy.load("a.npy", mmap_mode="r") == a).all()
print("done")
"""


@pytest.mark.needs("userns", "numpy")
@pytest.mark.parametrize("processes", [1, 64])
def test_numpy_computes_with_the_threads_that_it_may_have(processes: int) -> None:
    """R29: OpenBLAS asks for NUMA placement, which is refused, and for a thread for each core."""
    limits = Limits(processes=processes, wall_seconds=60)
    with Sandbox(Policy.strict(), limits) as sandbox:
        result = sandbox.run([PYTHON, "-c", NUMPY])
    assert (result.text, result.stderr, result.hint) == ("done\n", b"", None)
