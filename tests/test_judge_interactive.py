"""Interactive problems: two programs and two pipes; who is to blame for which end."""

from __future__ import annotations

from pathlib import Path

import pytest
from graded import bash, problem, python, verdict
from judged import submission

from sandbox_native.judge import match
from sandbox_native.judge.outcomes import CaseResult
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import Submission
from sandbox_native.judge.verdicts import Verdict

START = """import os, pathlib, signal, sys, time
feedback = pathlib.Path(sys.argv[3])
def say(*words): print(*words, flush=True)
def end(code, words=""):
    (feedback / "judgemessage.txt").write_text(words)
    sys.exit(code)
def hear():
    line = sys.stdin.readline()
    return line.strip() if line else end(43, "no more input")
"""
ECHO = "say('ping')\nend(42 if hear() == 'pong' else 43, 'heard')"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def judged(store: Store, validator: str, source: str | Submission, **limits: float) -> CaseResult:
    given = bash(source) if isinstance(source, str) else source
    of = problem(validator=START + validator, interactive=True, **limits)
    (case,) = verdict(store, given, of).cases
    return case


def test_a_conversation(store: Store) -> None:
    case = judged(store, ECHO, "read x; [ $x = ping ] && echo pong")
    assert (case.verdict, case.message, case.exit_code) == (Verdict.AC, "heard", 0)
    assert judged(store, ECHO, "read x; echo pang").verdict is Verdict.WA


def test_what_it_writes_is_between_the_two_and_nobody_claims_to_have_counted_it(store: Store) -> None:
    case = judged(store, "end(42 if hear() == 'pong' else 43)", "echo pong; echo words >&2")
    assert (case.verdict, case.output, case.output_bytes, case.errors) == (Verdict.AC, b"", None, b"words\n")
    assert case.to_dict()["output_bytes"] is None


def test_the_answer_is_shown_to_the_validator_alone(store: Store) -> None:
    script = "end(42 if open(sys.argv[1]).read() + open(sys.argv[2]).read() == '' and hear() == 'none' else 43)"
    assert judged(store, script, "ls /judge 2>/dev/null; echo none").verdict is Verdict.AC


# ---- who came first ----


def test_a_validator_that_rejects_has_the_last_word(store: Store) -> None:
    case = judged(store, "end(43, 'no')", "while :; do echo x; done", cpu_seconds=60.0)
    assert (case.verdict, case.message, case.limit) == (Verdict.WA, "no", None)
    case = judged(store, "end(43, 'no')", "trap '' PIPE; while :; do :; done", cpu_seconds=60.0)
    assert (case.verdict, case.message) == (Verdict.WA, "no")


def test_what_a_submission_does_when_it_was_rejected_is_no_crash_of_its_own(store: Store) -> None:
    case = judged(store, "hear()\nend(43, 'no')", "echo; read x || exit 9; exit 8")
    assert (case.verdict, case.message) == (Verdict.WA, "no")


def test_a_submission_that_crashed_has_crashed_whatever_the_validator_says(store: Store) -> None:
    for code in (42, 43):
        case = judged(store, f"sys.stdin.read()\nend({code}, 'no more')", "echo x; kill -SEGV $$")
        assert (case.verdict, case.signal, case.message) == (Verdict.RTE, "SIGSEGV", "no more")


def test_a_submission_must_end_well_after_it_was_accepted(store: Store) -> None:
    case = judged(store, "end(42)", "read x; exit 3")
    assert (case.verdict, case.exit_code) == (Verdict.RTE, 3)
    case = judged(store, "end(42)", "while :; do :; done", cpu_seconds=0.2, wall_seconds=60.0)
    assert (case.verdict, case.limit) == (Verdict.TLE, "cpu")


def test_a_validator_that_breaks_off_is_a_judge_error_unless_the_submission_broke_it(store: Store) -> None:
    case = judged(store, "os.kill(os.getpid(), signal.SIGSEGV)", "read x; exit 3")
    assert case.verdict is Verdict.JE and "signal 11" in case.message
    broken = "say('x' * 500000)\nend(42)"  # it gets EPIPE, and falls over
    case = judged(store, broken, "exit 3")
    assert (case.verdict, case.exit_code) == (Verdict.RTE, 3)
    case = judged(store, f"signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n{broken}", "exit 3")
    assert (case.verdict, case.exit_code) == (Verdict.RTE, 3)


def test_who_leaves_in_the_middle_of_a_conversation_is_wrong_whatever_that_does_to_the_validator(store: Store) -> None:
    for first in ("", "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"):
        case = judged(store, f"{first}say('x' * 500000)\nend(42)", "exit 0")
        assert (case.verdict, case.message.partition(";")[0]) == (Verdict.WA, LEFT)


LEFT = "the submission ended in the middle of the conversation"
HEARS = "say(7)\nend(42 if int(input()) == 8 else 43)"  # falls over at the end of its input, and at what is no number
TWICE = f"say(6)\nint(input())\n{HEARS}"


@pytest.mark.parametrize(
    ("validator", "text"),
    [
        (HEARS, ":"),
        (HEARS, "echo x"),
        (HEARS, "echo x; sleep 0.1"),
        (HEARS, "sleep 0.03"),
        (HEARS, "read x"),
        (HEARS, "exec 1>&-; sleep 0.3"),
        (HEARS, "exec 1>&-; read x; read x; read x"),
        (HEARS, "exec 0<&- 1>&-; sleep 0.3"),
        (TWICE, "read x; echo $x"),
        ("while True: input() and say(1)", "echo 1"),
    ],
)
def test_a_validator_that_falls_over_when_it_was_left_is_no_judge_error(store: Store, validator: str, text: str) -> None:
    for _ in range(4):
        case = judged(store, validator, text, cpu_seconds=60.0)
        assert (case.verdict, case.message.partition(";")[0], case.limit) == (Verdict.WA, LEFT, None)


def test_who_left_and_goes_on_has_its_own_end_first(store: Store) -> None:
    case = judged(store, HEARS, "exec 0<&- 1>&-; while :; do :; done", cpu_seconds=0.2, wall_seconds=60.0)
    assert (case.verdict, case.limit) == (Verdict.TLE, "cpu")
    case = judged(store, HEARS, "exec 1>&-; sleep 100", cpu_seconds=60.0, wall_seconds=0.5)
    assert (case.verdict, case.limit) == (Verdict.TLE, "wall")
    case = judged(store, HEARS, "exec 1>&-; sleep 0.3; exit 3")
    assert (case.verdict, case.exit_code) == (Verdict.RTE, 3)


@pytest.mark.parametrize("text", ["echo x; read x; read x", "echo x; trap '' PIPE; sleep 100", "echo x; while :; do :; done"])
def test_a_validator_that_falls_over_before_one_that_is_there_with_both_ends_is_a_judge_error(store: Store, text: str) -> None:
    case = judged(store, HEARS, text, cpu_seconds=60.0)
    assert case.verdict is Verdict.JE and "ValueError" in case.message
    assert judged(store, "hear()\nsys.exit(1)", "echo; read x", cpu_seconds=60.0).verdict is Verdict.JE


# ---- time ----


def test_two_that_wait_for_each_other_are_found_out(store: Store) -> None:
    case = judged(store, "hear()", "read x", cpu_seconds=300.0)
    assert (case.verdict, case.limit) == (Verdict.TLE, "deadlock")
    assert case.message == "deadlock: the submission waits to read, and the validator waits to read"


def test_two_that_both_write_and_do_not_read_are_found_out(store: Store) -> None:
    script = "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\nsay('x' * 10**7)\nhear()"
    case = judged(store, script, python("print('x' * 10**7)\ninput()\n"), cpu_seconds=300.0)
    assert (case.verdict, case.limit) == (Verdict.TLE, "deadlock")
    assert case.message == "deadlock: the submission waits to write, and the validator waits to write"


def test_waiting_in_poll_with_other_threads_waiting_too_is_a_deadlock(store: Store) -> None:
    text = "import select, threading\nthreading.Thread(target=threading.Event().wait).start()\nselect.select([0], [], [])\n"
    case = judged(store, "hear()", python(text), cpu_seconds=300.0)
    assert (case.verdict, case.limit) == (Verdict.TLE, "deadlock")


@pytest.mark.parametrize("how", ["sleep", "alarm", "timeout", "thread"])
def test_who_sleeps_does_not_wait_for_ever(store: Store, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(match, "STUCK_SECONDS", 0.1)
    rest = {
        "sleep": "time.sleep(0.5)\nprint('pong')",
        "alarm": "signal.signal(signal.SIGALRM, answer)\nsignal.setitimer(0, 0.5)\ninput()",
        "timeout": "select.select([0], [], [], 0.5)\nprint('pong')",
        "thread": "threading.Timer(0.5, answer).start()\ninput()",
    }[how]
    answer = "def answer(*_):\n    print('pong', flush=True)\n    os._exit(0)\n"
    text = f"import os, select, signal, threading, time\n{answer}input()\n{rest}\n"
    assert judged(store, ECHO, python(text)).verdict is Verdict.AC


def test_who_waits_with_a_thread_that_ticks_is_told_so_at_the_wall_limit(store: Store) -> None:
    tick = "def tick():\n    while True: time.sleep(0.01)\n"
    text = f"import threading, time\n{tick}threading.Thread(target=tick, daemon=True).start()\ninput()\n"
    case = judged(store, "hear()", python(text), cpu_seconds=20.0, wall_seconds=1.0)
    assert (case.verdict, case.limit) == (Verdict.TLE, "wall")
    assert case.message.startswith("deadlock: ")


def test_a_submission_that_sleeps_is_too_slow(store: Store) -> None:
    case = judged(store, ECHO, "sleep 100", cpu_seconds=20.0, wall_seconds=0.5)
    assert (case.verdict, case.limit, case.message) == (Verdict.TLE, "wall", "no more input")


def test_a_submission_does_not_pay_for_the_time_that_the_validator_works(store: Store) -> None:
    script = f"start = time.process_time()\nwhile time.process_time() < start + 1.5: pass\n{ECHO}"
    case = judged(store, script, "read x; echo pong", cpu_seconds=20.0, wall_seconds=1.0)
    assert (case.verdict, case.wall_seconds > 1.0) == (Verdict.AC, True)


def test_a_submission_that_computes_is_stopped_by_its_own_limit(store: Store) -> None:
    case = judged(store, ECHO, "echo x; while :; do :; done", cpu_seconds=0.2, wall_seconds=60.0)
    assert case.verdict in (Verdict.WA, Verdict.TLE)
    case = judged(store, f"say('ping')\n{ECHO}", "while :; do :; done", cpu_seconds=0.2, wall_seconds=60.0)
    assert (case.verdict, case.limit) == (Verdict.TLE, "cpu")


# ---- ends of pipes ----


def test_a_validator_that_closes_its_output_and_waits_lets_the_submission_see_the_end(store: Store) -> None:
    script = "say('a')\nos.close(1)\nend(42 if hear() == 'a' else 43)"
    assert judged(store, script, "echo $(cat)", cpu_seconds=60.0).verdict is Verdict.AC


def test_a_validator_that_closes_its_input_and_works_on_does_not_hang_the_submission(store: Store) -> None:
    script = "os.close(0)\nsay('ready')\nend(42)"
    text = "read x; trap '' PIPE; head -c 1000000 /dev/zero 2>/dev/null; exit 0"
    assert judged(store, script, text, cpu_seconds=60.0).verdict is Verdict.AC


def test_a_submission_cannot_keep_the_validator_from_seeing_its_end(store: Store) -> None:
    """It has no end but its own, and what it leaves behind is ended with it."""
    text = "read x; sleep 100 3>/proc/self/fd/1 & exec 4</proc/self/fd/1; echo pong"
    script = "say('ping')\nend(42 if hear() == 'pong' and not sys.stdin.read() else 43, 'heard')"
    case = judged(store, script, text, cpu_seconds=60.0)
    assert (case.verdict, case.message, case.killed_processes) == (Verdict.AC, "heard", 1)


def test_a_lot_of_data_goes_through(store: Store) -> None:
    size = 3_000_000
    script = f"say('x' * {size})\nend(42 if len(hear()) == {size} else 43)"
    source = submission({"main.py": f"line = input()\nassert len(line) == {size}\nprint(line)\n"})
    assert judged(store, script, source).verdict is Verdict.AC
