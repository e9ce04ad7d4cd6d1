"""What is closed or unmapped is forgotten first: at any moment a fork may hand a child what the host remembers, and the child
gives that back as its own. A number or an address that is free already may be somebody else's there."""

from __future__ import annotations

import os
from typing import Any

import pytest
from lingering import descriptor, ending, is_mapped, is_open, mapping
from running import sh

from sandbox_native import Sandbox
from sandbox_native._native import ffi, lib
from sandbox_native.backends.watched import Watched

_PAGE, _SPILL, _RELAY = 4096, 65536, 65536  # csrc/host/streams.c, host.h


def new_box() -> Any:
    raw = ffi.new("struct sn_box *")
    lib.sn_box_init(raw)
    return raw


FIELDS = ["epoll", "channel", "pidfd", "stdin_fd", "workspace_fd", "changes_fd", "handed_in", "handed_out"]


@pytest.mark.parametrize("name", FIELDS)
def test_a_box_has_forgotten_what_it_is_just_closing(name: str) -> None:
    raw = new_box()
    with descriptor() as fd:
        setattr(raw, name, fd)
        with ending(lambda: lib.sn_box_close(raw), lambda: is_open(fd)):
            assert getattr(raw, name) == -1


@pytest.mark.parametrize("stream", ["out", "err"])
def test_so_has_a_stream(stream: str) -> None:
    raw = new_box()
    with descriptor() as fd:
        getattr(raw, stream).fd = fd
        with ending(lambda: lib.sn_box_close(raw), lambda: is_open(fd)):
            assert getattr(raw, stream).fd == -1


@pytest.mark.parametrize("stream", ["out", "err"])
def test_what_was_captured_is_forgotten_before_it_is_unmapped(stream: str) -> None:
    raw = new_box()
    with mapping(_PAGE + _SPILL) as address:
        getattr(raw, stream).bound, getattr(raw, stream).data = _PAGE, ffi.cast("uint8_t *", address)
        with ending(lambda: lib.sn_box_close(raw), lambda: is_mapped(address)):
            assert getattr(raw, stream).data == ffi.NULL


def test_so_is_what_is_relayed() -> None:
    raw = new_box()
    with mapping(_RELAY) as address:
        raw.relay = ffi.cast("uint8_t *", address)
        with ending(lambda: lib.sn_box_close(raw), lambda: is_mapped(address)):
            assert raw.relay == ffi.NULL


@pytest.mark.parametrize("name", ["control", "pidfd"])
def test_so_is_a_process(name: str) -> None:
    process = ffi.new("struct sn_process *", {"pidfd": -1, "control": -1})
    with descriptor() as fd:
        setattr(process, name, fd)
        with ending(lambda: lib.sn_process_close(process, 0, lib.SN_KILL_NEVER), lambda: is_open(fd)):
            assert getattr(process, name) == -1


@pytest.mark.parametrize("name", ["fd", "_ready"])
def test_so_is_what_an_event_loop_watched(name: str) -> None:
    watched = Watched()
    with descriptor() as fd:
        setattr(watched, name, fd)
        with ending(watched.close, lambda: is_open(fd)):
            assert getattr(watched, name) == -1


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_a_child_that_is_forked_while_a_watched_descriptor_is_handed_on_gives_all_back() -> None:
    with Sandbox() as sandbox, sandbox.spawn(sh("read x")) as process:
        box: Any = process._run.box
        engine = box.slot.engine
        box._watched.fd = box.raw.epoll  # as `close` does before it takes it from the box
        child = os.fork()
        if child == 0:
            os._exit([engine._launcher.control, engine._launcher.pidfd, box.raw.epoll, box._watched.fd] != [-1] * 4)
        box._watched.fd = -1
        assert os.waitpid(child, 0)[1] == 0
