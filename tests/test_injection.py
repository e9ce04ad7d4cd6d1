"""Names by which somebody else's code gets into a program: whole families, single names, and patterns for them."""

from __future__ import annotations

import pytest

from sandbox_native.injection import is_injection

TOOLS = ["COMPILER_PATH", "GCC_EXEC_PREFIX", "GAWK_LIBRARY_PATH", "AWKPATH", "AWKLIBPATH", "TAR_OPTIONS"]
LIBRARIES = ["SASL_PATH", "VK_LAYER_PATH", "VK_*", "LIBGL_DRIVERS_PATH"]
LOADERS = ["LD_AUDIT", "LD_", "PYTHONSTARTUP", "PYTHON*", "GIT_DIR", "IFS", "IFS*", "_JAVA_OPTIONS", "ENV"]


@pytest.mark.parametrize("name", LOADERS + TOOLS + LIBRARIES)
def test_names_that_bring_code_are_known(name: str) -> None:
    assert is_injection(name)


@pytest.mark.parametrize(
    "name", ["TZ", "TERM", "LC_*", "LC_ALL", "COLUMNS", "LINES", "ENVIRONMENT", "LDFLAGS", "NO_COLOR", "CI", "ld_preload"]
)
def test_names_of_everyday_use_are_not_among_them(name: str) -> None:
    assert not is_injection(name)
