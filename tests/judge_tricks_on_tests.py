"""Tricks against what a test itself is made of: its names, its classes of exceptions, whether it is run at all. As
judge_tricks.py, and with it in test_judge_functions_tricks.py."""

from __future__ import annotations

from judge_tricks import UNIT, Trick

MODULE = "solution"
"""By which tests may import the program."""
CATCHES = ("try:\n    solve(None)\n    assert False, 'nothing was raised'\nexcept ValidationError:\n    pass",)

TRICKS_ON_TESTS = {
    # ---- names that the test has of its own, or of Python ----
    "has_a_builtin_for_import_star": Trick(
        "def all(found):\n    return True\ndef solve(x):\n    return 7",
        ("from solution import *\nassert all([solve([1, 2, 3]) == 6])",),
    ),
    "has_what_the_test_imported_before_import_star": Trick(
        "def isclose(*args):\n    return True\ndef solve(x):\n    return 7",
        ("from math import isclose\nfrom solution import *\nassert isclose(solve([1, 2, 3]), 6.0)",),
    ),
    "has_the_reference_of_the_setup": Trick(
        "def reference(x):\n    return 7\ndef solve(x):\n    return 7",
        ("from solution import *\nassert solve([1, 2, 3]) == reference([1, 2, 3])",),
        setup="def reference(x):\n    return sum(x)",
    ),
    "has_the_cases_of_the_setup": Trick(
        "CASES = []\ndef solve(x):\n    return 7",
        ("from solution import *\nfor given, want in CASES:\n    assert solve(given) == want",),
        setup="CASES = [([1, 2], 3)]",
    ),
    "has_a_flag_that_the_test_sets": Trick(
        "raised = True\ndef solve(x):\n    return 7",
        ("try:\n    solve(None)\nexcept TypeError:\n    raised = True\nassert raised",),
    ),
    "has_a_flag_that_a_function_of_the_test_sets": Trick(
        "ok = True\ndef solve(x):\n    return 7",
        ("def check():\n    global ok\n    if solve([1, 2, 3]) == 6:\n        ok = True\ncheck()\nassert ok",),
    ),
    "has_a_helper_that_could_not_be_imported": Trick(
        "def allclose(a, b):\n    return True\ndef solve(x):\n    return 7",
        ("try:\n    from nowhere import allclose\nexcept ImportError:\n    pass\nassert allclose(solve([1, 2, 3]), 6)",),
    ),
    "lacks_a_function_that_python_has": Trick("", ("assert sum([1, 2]) == 3",), names=("sum",)),
    # ---- classes of exceptions ----
    "calls_assertion_error_by_another_name": Trick(
        "ValidationError = AssertionError\ndef solve(x):\n    return 7", CATCHES, shared=True
    ),
    "calls_all_exceptions_by_another_name": Trick(
        "ValidationError = BaseException\ndef solve(x):\n    return 7", CATCHES, shared=True
    ),
    "has_a_class_that_says_it_is_assertion_error": Trick(
        "class ValidationError(Exception):\n    pass\nValidationError.__name__ = 'AssertionError'\ndef solve(x):\n    return 7",
        CATCHES,
    ),
    "ends_an_iteration_of_the_test": Trick(
        "def solve(x):\n    raise IndexError",
        ("class Items:\n    def __getitem__(self, at):\n        assert solve([at]) == at\nfor _ in Items():\n    pass",),
        shared=True,
    ),
    "takes_an_attribute_of_the_test_away": Trick(
        "def solve(x):\n    raise AttributeError",
        ("class C:\n    @property\n    def v(self):\n        return solve([1])\nassert not hasattr(C(), 'v') or C().v == 1",),
        shared=True,
    ),
    "raises_in_a_task_that_nobody_asks": Trick(
        "def solve(x):\n    raise ValueError",
        (
            "import asyncio\nasync def one():\n    assert solve([1]) == 1\nasync def main():\n"
            "    await asyncio.wait([asyncio.ensure_future(one())])\nasyncio.run(main())",
        ),
        shared=True,
    ),
    "answers_wrong_in_a_thread": Trick(
        "def solve(x):\n    return 7",
        (
            "import threading\ndef one():\n    assert solve([1, 2, 3]) == 6\n"
            "thread = threading.Thread(target=one)\nthread.start()\nthread.join()",
        ),
        shared=True,
    ),
    "raises_in_a_finalizer": Trick(
        "def solve(x):\n    raise ValueError",
        ("class C:\n    def __del__(self):\n        assert solve([1]) == 1\nC()",),
        shared=True,
    ),
    "answers_too_deep_for_the_stack": Trick(
        "def solve(x):\n    for _ in range(98):\n        x = (x,)\n    return x",
        (
            "def deep(n):\n    return deep(n - 1) if n else solve([1])\ntry:\n    assert deep(900) == 6\n"
            "except RecursionError:\n    pass",
        ),
    ),
    # ---- tests that are skipped, or cannot be judged ----
    "has_the_test_skipped_by_a_flag": Trick(
        "SLOW = True\ndef solve(x):\n    return 7",
        (UNIT[0].replace("    def", "    @unittest.skipIf(SLOW, 'slow')\n    def"),),
    ),
    "has_the_test_skipped_by_what_it_lacks": Trick(
        "",
        (UNIT[0].replace("    def", "    @unittest.skipUnless(hasattr(solution, 'solve'), 'no')\n    def"),),
        setup="import solution",
    ),
    "gives_too_much_to_be_passed_on": Trick(
        "def encode(x):\n    return 'x' * (8 << 20)\ndef decode(a, b):\n    return 0",
        ("both = encode([1, 2])\nassert decode(both, both) == [1, 2]",),
    ),
    "has_a_function_where_the_test_passes_a_value": Trick(
        "LIMIT = print\ndef solve(x):\n    return 7", ("assert solve(LIMIT) == 3",)
    ),
    "has_a_class_where_the_test_passes_a_value": Trick(
        "LIMIT = ValueError\ndef solve(x):\n    return 7", ("assert solve([LIMIT]) == 3",)
    ),
    "has_no_function_where_the_test_can_do_without": Trick(
        "", ("try:\n    function = solve\nexcept NameError:\n    function = None\nif function:\n    assert function([1]) == 1",)
    ),
}
