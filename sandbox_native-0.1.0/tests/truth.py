"""Whether a receipt is true: what each layer claims, asked from inside of the box that it is about."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from boxes import SHOWN, facts

from sandbox_native import Layer, Limits, Result, Rung, Sandbox

LIMITS = Limits(open_files=77, wall_seconds=10)
# Whose claims are about what a run consumes or brings: tests of their own try them.
ELSEWHERE = frozenset(
    (
        *("memory", "processes", "cpu_seconds", "cpus", "wall_seconds", "control_group"),
        *("protected", "hidden", "host_sockets", "hard_links", "changes", "explain", "keyring"),
    )
)

# One word an answer; nothing here needs /proc but what is asked about it.
SCRIPT = """
say() { name=$1; shift; echo "$name=$*"; }
say processes $(cd /proc 2>/dev/null && echo [0-9]*)
for name in user mnt pid ipc uts net cgroup; do say "ns_$name" "$(readlink /proc/self/ns/$name)"; done
say cgroup $(cut -d: -f3- /proc/self/cgroup 2>/dev/null | sort -u)
for path in /usr/made /etc/made /made; do (: >$path) 2>/dev/null && say made $path; done
for path in /etc/shadow /root /boot /sys/kernel /var/lib; do [ -e $path ] && say seen $path; done
cd /workspace && mkdir removed && rmdir removed 2>/dev/null && say removed yes
exit 0
"""


@dataclass(frozen=True)
class Found:
    """What a guest said of itself."""

    facts: Mapping[str, list[str]]
    shell: Mapping[str, list[str]]

    def one(self, name: str) -> str:
        (value,) = {**self.facts, **self.shell}[name]
        return value


def _apart(name: str) -> Callable[[Found], bool]:
    """A namespace other than ours."""
    return lambda found: found.one(f"ns_{name}") not in ("", os.readlink(f"/proc/self/ns/{name}"))


CHECKS: Mapping[str, Callable[[Found], bool]] = {
    "user": lambda found: found.facts["uids"] == ["1000 1000 1000"] and _apart("user")(found),
    "groups": lambda found: found.one("groups") == "0",
    "mount": _apart("mnt"),
    "root": lambda found: "seen" not in found.shell and "made" not in found.shell,
    "pid": lambda found: found.one("ppid") == "1" and _apart("pid")(found),
    "proc": lambda found: len(found.one("processes").split()) <= 4 and "1" in found.one("processes").split(),
    "ipc": _apart("ipc"),
    "uts": lambda found: found.one("hostname") == "sandbox" and _apart("uts")(found),
    "net": lambda found: found.facts["interface"] == ["lo"] and found.one("lo_up") == "1" and _apart("net")(found),
    "cgroup_namespace": lambda found: set(found.one("cgroup").split()) <= {"/"} and _apart("cgroup")(found),
    "capabilities": lambda found: {found.one(f"Cap{name}") for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16},
    "no_new_privs": lambda found: found.one("no_new_privs") == "1",
    "securebits": lambda found: int(found.one("securebits")) & 0xEF == 0xEF,
    "session": lambda found: (
        found.one("sid") == found.one("pid") and found.one("umask") == "022" and not {"handled", "blocked"} & found.facts.keys()
    ),
    "descriptors": lambda found: [line.split()[0] for line in found.facts["fd"]] == ["0", "1", "2"],
    "seccomp": lambda found: found.one("Seccomp") == "2" and found.one("netlink") == str(errno.EAFNOSUPPORT),
    "landlock": lambda found: found.one("domains") == "15",  # of 16 that a process may be in
    "deletion": lambda found: "removed" not in found.shell,
    "rlimits": lambda found: found.one("rlimit_nofile") == "77 77",
}
# Without namespaces the same names stand for other mechanisms.
BARE: Mapping[str, Callable[[Found], bool]] = {
    **CHECKS,
    "pid": lambda found: found.one("kill") == str(errno.EPERM),
    "capabilities": lambda found: {found.one(f"Cap{name}") for name in ("Inh", "Prm", "Eff", "Amb")} == {"0" * 16},
    "tree": lambda found: True,  # tests of that rung
    "net": lambda found: found.one("inet") != "0",
    "ipc": lambda found: found.one("shmget") != "0",
    "seccomp": lambda found: found.one("Seccomp") == "2" and found.one("netlink") != "0",
}


def ask(box: Sandbox, place: str = SHOWN) -> tuple[Result, Found]:
    """A receipt, and what three guests of that box found; `place`: where tests/probes are in it."""
    inside = box.run([f"{place}/inside"], limits=LIMITS)
    shell = box.run(["/bin/sh", "-c", SCRIPT], limits=LIMITS)
    answers = _answers(box, place)
    assert held(shell) == held(inside)
    return inside, Found(facts=facts(inside), shell={**facts(shell), **answers})


def _answers(box: Sandbox, place: str) -> dict[str, list[str]]:
    """errno of each attempt, by what it is about; of `domains` how many could be entered."""
    asked = {"netlink": "socket 16", "inet": "socket 2", "kill": f"kill {os.getpid()} 0", "domains": "landlock"}
    asked["shmget"] = "syscall 29 0 4096 0x3b6"
    result = box.run([f"{place}/attempts", *" , ".join(asked.values()).split()], limits=LIMITS)
    lines = dict(zip(asked, result.text.splitlines(), strict=True))
    found = {name: [line.rpartition("errno=")[2]] for name, line in lines.items()}
    return {**found, "domains": [lines["domains"].split()[1].removeprefix("entered=")]}


def held(result: Result) -> dict[str, bool | None]:
    return {layer.name: layer.held for layer in result.enforcement.layers}


def untrue(box: Sandbox, place: str = SHOWN) -> list[Layer]:
    """The layers that are said to have held and did not."""
    result, found = ask(box, place)
    checks = BARE if result.enforcement.rung is Rung.LANDLOCK else CHECKS
    claimed = [layer for layer in result.enforcement.layers if layer.held]
    unknown = {layer.name for layer in claimed} - checks.keys() - ELSEWHERE
    assert not unknown, f"no check for {unknown}"
    return [layer for layer in claimed if layer.name in checks and not checks[layer.name](found)]
