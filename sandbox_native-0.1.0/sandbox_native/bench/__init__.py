"""What a run costs next to a bare ``subprocess.run``: ``python -m sandbox_native.bench [--json FILE] [--html FILE] [--quick]``.

Contenders take turns within one process (A B A B …), so that whatever the machine does meanwhile hits them alike. The
same scenarios are pytest-benchmark files in the source tree's ``bench/``. ``python -m sandbox_native.bench.calls`` counts the
system calls of one launch, ``python -m sandbox_native.bench.steps`` tells where its time goes.
"""
