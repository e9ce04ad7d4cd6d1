"""Describes the extension sandbox_native._native to cffi: setup.py names `ffibuilder` in cffi_modules.

The declarations are the headers themselves (HEADERS below), read by cffi and by the compiler alike, so neither can
drift from the other. Warnings, hardening and -Werror are added by setup.py, as for the launcher.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cffi import FFI

# cffi runs this file by its text: __file__ is then the path that setup.py gave, relative to the project.
CSRC = Path(__file__).resolve().parent
sys.path.insert(0, str(CSRC))

from syscall_tables import c_source  # noqa: E402

sys.path.remove(str(CSRC))

HEADERS = ("common/wire.h", "common/plan.h", "common/run.h", "decl.h")
PREAMBLE = """\
#include <stdint.h>

#include "common/wire_checked.h"

#include "decl.h"

"""

ffibuilder = FFI()
ffibuilder.cdef("\n".join((CSRC / header).read_text() for header in HEADERS))
ffibuilder.set_source(
    "sandbox_native._native",
    PREAMBLE + c_source(),
    sources=[os.path.relpath(source) for source in sorted(CSRC.glob("host/*.c"))],
    depends=[os.path.relpath(header) for header in sorted(CSRC.glob("**/*.h"))],
    include_dirs=[os.path.relpath(CSRC)],
    extra_compile_args=["-fvisibility=hidden"],
    define_macros=[("Py_LIMITED_API", "0x030b0000")],
    py_limited_api=True,
)

if __name__ == "__main__":
    ffibuilder.compile(verbose=True)
