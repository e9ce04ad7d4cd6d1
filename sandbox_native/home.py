"""Secrets that every host has at known places: what `ReadPolicy.HOST` hides by itself. Linux, host process."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from typing import Final

OF_A_HOME: Final = (".ssh", ".gnupg", ".aws", ".config/gcloud", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc")
"""Relative to every home directory."""

OF_THE_HOST: Final = (
    "/root",
    *("/run", "/var/run"),  # sockets of everything that runs
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-"),
)

_ACCOUNTS: Final = "/etc/passwd"


def hidden_paths() -> list[str]:
    """Host paths, whether they are there or not: of the caller's home and of every home that passwd names."""
    return [*OF_THE_HOST, *(f"{home.rstrip('/')}/{name}" for home in _homes() for name in OF_A_HOME)]


def named_secrets() -> list[str]:
    """As `hidden_paths`, of every home that is named, without a look at any: one on a network may make whoever looks wait."""
    homes = (home.rstrip("/") for home in dict.fromkeys(_named()) if os.path.isabs(home))
    return [*OF_THE_HOST, *(f"{home}/{name}" for home in homes for name in OF_A_HOME)]


def where_homes_come_from() -> list[str]:
    """Host paths: the list of accounts, and homes that it names and that are not there."""
    missing = [home for home in dict.fromkeys(_named()) if os.path.isabs(home) and not os.path.isdir(home)]
    return [_ACCOUNTS, *missing]


def _homes() -> list[str]:
    return [home for home in dict.fromkeys(_named()) if os.path.isabs(home) and os.path.isdir(home)]


def _named() -> Iterator[str]:
    yield os.path.expanduser("~")
    try:
        yield pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        pass  # a caller without an entry
    try:
        with open(_ACCOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        fields = line.split(":")
        if len(fields) >= 6:
            yield fields[5]
