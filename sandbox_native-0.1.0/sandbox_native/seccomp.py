"""Compiles the tables of syscalls.py into a seccomp filter: classic BPF, as bytes.

Called once for a plan, in the host process; pure, and of any machine's numbers. The launcher only loads the result.

The space of call numbers is cut into ranges with one answer each, and the filter finds the range by halving (about a
hundred ranges, so seven comparisons). On x86_64 the x32 numbers are a range like any other. Only loads of the number and the
architecture, comparisons and masks come before an unconditional ALLOW, which is what the kernel (since 5.11) needs to
see that a call is always allowed and to skip the filter for it.

Jumps reach 255 instructions forward, so the program is laid out from its end: what a branch jumps to is
already placed, and where it is out of reach a copy (of a return) or a long jump is put nearer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sandbox_native.syscall_checks import ALLOW, ENOSYS, EPERM, IGNORE, INIT, Step
from sandbox_native.syscalls import ABSENT, WITH_PATHS, checks, permitted

RET_KILL_PROCESS: Final = 0x80000000
RET_ERRNO: Final = 0x00050000
RET_USER_NOTIF: Final = 0x7FC00000
RET_ALLOW: Final = 0x7FFF0000

AUDIT_ARCH_X86_64: Final = 0xC000003E
AUDIT_ARCH_AARCH64: Final = 0xC00000B7

X32_BIT: Final = 0x40000000
_NUMBERS: Final = 1 << 32
_NR_AT, _ARCH_AT, _ARGS_AT = 0, 4, 16  # struct seccomp_data
_LOAD, _AND, _JUMP, _JEQ, _JGE, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06  # of <linux/bpf_common.h>
_REACH: Final = 255
_NOTHING: Final[Mapping[str, Sequence[Step]]] = {}
_NOT_CALLS: Final = frozenset({"syscalls", "arch_specific_syscall"})  # __NR_ macros that count or mark


@dataclass(frozen=True)
class _Return:
    action: int


@dataclass(frozen=True)
class _Change:
    """Loads or masks the accumulator, then goes on."""

    code: int
    operand: int
    then: _Node


@dataclass(frozen=True)
class _Branch:
    code: int
    operand: int
    yes: _Node
    no: _Node


_Node: TypeAlias = _Return | _Change | _Branch
_Range: TypeAlias = tuple[int, _Node]  # from this value up to the next range


def filter_bytes(
    numbers: Mapping[str, int],
    arch: int,
    *,
    end_action: int = RET_KILL_PROCESS,
    groups: Iterable[str] = (),
    instead: Mapping[str, Sequence[Step]] = _NOTHING,
) -> bytes:
    """The strict filter for calls named and numbered by `numbers`, an array of struct sock_filter.

    `arch` is the native AUDIT_ARCH_*. `end_action` is what a call through another architecture's entry gets (int 0x80 and
    x32 included): RET_USER_NOTIF where init listens, which then ends the tree, else RET_KILL_PROCESS. `groups` of
    syscalls.OPTIONAL are permitted in addition; `instead` has steps by which calls are checked in place of all that. Raises
    ValueError for an architecture that is not x86_64 or aarch64 (the tables count arguments as those do), for numbers out of
    range and for another `end_action`; KeyError for an unknown group.
    """
    if end_action not in (RET_USER_NOTIF, RET_KILL_PROCESS):
        raise ValueError(f"{end_action:#x} does not end a guest")
    answers = _Answers(groups, instead)
    return _program(numbers, arch, answers.of, _Return(end_action), _errno(ENOSYS))


def asking_bytes(numbers: Mapping[str, int], arch: int, *, groups: Iterable[str] = (), refuses: bool = True) -> bytes:
    """The filter that explains: it asks its listener wherever the strict one with these groups refuses a call or ends the guest,
    and for every permitted call with a path. With `refuses` false only for these. Raises as `filter_bytes`."""
    answers = _Answers(groups)

    def of(name: str) -> _Node:
        permits = _check(WITH_PATHS[name], _Return(RET_USER_NOTIF)) if name in WITH_PATHS else _Return(RET_ALLOW)
        return _asked(answers.of(name), permits) if refuses else permits

    other = _Return(RET_USER_NOTIF if refuses else RET_ALLOW)
    return _program(numbers, arch, of, other, other.action)


def allowing_bytes() -> bytes:
    """A filter that permits everything: what explains the calls of a policy that has none."""
    return _Layout().program(_Return(RET_ALLOW))


def _program(numbers: Mapping[str, int], arch: int, answer: Callable[[str], _Node], ends: _Return, unknown: int) -> bytes:
    if arch not in (AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64):
        raise ValueError(f"no filter for architecture {arch:#x}: only x86_64 and aarch64 are known")
    calls = {number: answer(name) for name, number in numbers.items() if name not in _NOT_CALLS}
    if not calls or min(calls) < 0 or max(calls) >= X32_BIT:
        raise ValueError("call numbers must be between 0 and 2**30, and there must be some")
    answers = list(_spread(calls, _Return(unknown)))
    if arch == AUDIT_ARCH_X86_64:
        answers += _x32(ends, _Return(unknown))
    native = _Change(_LOAD, _NR_AT, _halve(_merge(answers)))
    return _Layout().program(_Change(_LOAD, _ARCH_AT, _Branch(_JEQ, arch, native, ends)))


def name_of(numbers: Mapping[str, int], number: int) -> str | None:
    """The name of a call, or None when the headers have none for this number."""
    return next((name for name, known in numbers.items() if known == number and name not in _NOT_CALLS), None)


def _errno(number: int) -> int:
    return RET_ERRNO | number


def _outcome(outcome: int) -> _Node:
    if outcome in (ALLOW, INIT):
        return _Return(RET_ALLOW if outcome == ALLOW else RET_USER_NOTIF)
    return _Return(_errno(0 if outcome == IGNORE else outcome))  # errno 0: the call answers 0


class _Answers:
    """What each call is answered with, by its name."""

    def __init__(self, groups: Iterable[str] = (), instead: Mapping[str, Sequence[Step]] = _NOTHING) -> None:
        chosen = tuple(groups)
        self._permitted, self._checks = permitted(chosen), {**checks(chosen), **instead}

    def of(self, name: str) -> _Node:
        if name in self._checks:
            return _check(self._checks[name], _Return(RET_ALLOW))
        if name in self._permitted:
            return _Return(RET_ALLOW)
        return _Return(_errno(ENOSYS if name in ABSENT else EPERM))


def _asked(node: _Node, permits: _Node) -> _Node:
    """The same questions; what permits is `permits`, and what refuses asks."""
    if isinstance(node, _Change):
        return _Change(node.code, node.operand, _asked(node.then, permits))
    if isinstance(node, _Branch):
        return _Branch(node.code, node.operand, _asked(node.yes, permits), _asked(node.no, permits))
    if node.action == RET_ALLOW:
        return permits
    return node if node.action == _errno(0) else _Return(RET_USER_NOTIF)


def _check(steps: Sequence[Step], node: _Node) -> _Node:
    for step in reversed(steps):
        node = _test(step, node)
    return node


def _test(step: Step, otherwise: _Node) -> _Node:
    applies = _check(step.then, _Return(RET_ALLOW)) if step.then else _outcome(step.outcome)
    inside, outside = (otherwise, applies) if step.unless else (applies, otherwise)
    found = _halve(_merge(_spread(dict.fromkeys(step.values, inside), outside)))
    if step.mask != 0xFFFFFFFF:
        found = _Change(_AND, step.mask, found)
    return _Change(_LOAD, _ARGS_AT + 8 * step.arg + (4 if step.high else 0), found)


def _spread(points: Mapping[int, _Node], between: _Node) -> Iterable[_Range]:
    """The whole space of 32-bit values: `points`, and `between` everywhere else."""
    following = 0
    for point in sorted(points):
        if point > following:
            yield following, between
        yield point, points[point]
        following = point + 1
    if following < _NUMBERS:
        yield following, between


def _x32(ends: _Node, unknown: _Node) -> list[_Range]:
    # Bit 30 set is x32 but for -1, which is no call (the kernel's own mark for one that is skipped).
    return [(X32_BIT, ends), (2 * X32_BIT, unknown), (3 * X32_BIT, ends), (_NUMBERS - 1, unknown)]


def _merge(ranges: Iterable[_Range]) -> list[_Range]:
    merged: list[_Range] = []
    for first, node in ranges:
        if not merged or merged[-1][1] != node:
            merged.append((first, node))
    return merged


def _halve(ranges: Sequence[_Range]) -> _Node:
    if len(ranges) == 1:
        return ranges[0][1]
    if len(ranges) == 3 and ranges[0][1] == ranges[2][1] and ranges[1][0] + 1 == ranges[2][0]:
        return _Branch(_JEQ, ranges[1][0], ranges[1][1], ranges[0][1])
    middle = len(ranges) // 2
    return _Branch(_JGE, ranges[middle][0], _halve(ranges[middle:]), _halve(ranges[:middle]))


class _Layout:
    """Places nodes from the program's end to its start; a place is counted from the end."""

    def __init__(self) -> None:
        self._backwards: list[bytes] = []
        self._places: dict[_Node, int] = {}  # where each node was placed last
        self._sizes: dict[_Node, int] = {}

    def program(self, first: _Node) -> bytes:
        self._next(first)
        return b"".join(reversed(self._backwards))

    def _emit(self, code: int, yes: int, no: int, operand: int) -> int:
        self._backwards.append(struct.pack("=HBBI", code, yes, no, operand))
        return len(self._backwards) - 1

    def _distance(self, place: int) -> int:
        """From the instruction that will be emitted next."""
        return len(self._backwards) - place - 1

    def _place(self, node: _Node) -> int:
        """The place of a node, which is put here unless there is one within reach."""
        place = self._places.get(node)
        if place is not None and (self._distance(place) < _REACH or not isinstance(node, _Return)):
            return place
        self._places[node] = place = self._put(node)
        return place

    def _put(self, node: _Node) -> int:
        if isinstance(node, _Return):
            return self._emit(_RETURN, 0, 0, node.action)
        if isinstance(node, _Change):
            self._next(node.then)
            return self._emit(node.code, 0, 0, node.operand)
        # The longer side first: the shorter one then stands between it and the branch.
        longer, shorter = sorted((node.yes, node.no), key=self._size, reverse=True)
        self._place(longer)
        self._place(shorter)
        yes, no = self._near(node.yes), self._near(node.no)
        return self._emit(node.code, self._distance(yes), self._distance(no), node.operand)

    def _next(self, node: _Node) -> None:
        """Makes the node what follows the instruction that is emitted next."""
        place = self._place(node)
        if self._distance(place) > 0:
            self._emit(_JUMP, 0, 0, self._distance(place))

    def _near(self, node: _Node) -> int:
        """A place from which a branch (after one more long jump, perhaps) reaches the node."""
        place = self._place(node)
        if self._distance(place) < _REACH:
            return place
        return self._emit(_JUMP, 0, 0, self._distance(place))

    def _size(self, node: _Node) -> int:
        if node not in self._sizes:
            below: tuple[_Node, ...] = ()
            if isinstance(node, _Change):
                below = (node.then,)
            elif isinstance(node, _Branch):
                below = (node.yes, node.no)
            self._sizes[node] = 1 + sum(map(self._size, below))
        return self._sizes[node]
