"""Background import: a module is loaded in a thread, beside an event loop that must not wait.

A thread that runs Python holds the interpreter lock until somebody has waited for it for the switch
interval, 5 ms if nothing is said, and the loop asks for it each time that it comes back from a
system call, some five times a turn. So the thread lets go of it by itself every `STRETCH_S`, for
long enough that a waiting loop is in time to take it; and the loop, once it has it, is not made to
give it back in the middle of its turn, as a short switch interval by itself would do.

What remains is what C does in one piece: a millisecond or two for the largest modules. One import
runs at a time: with two, the loop would wait for both.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any, Final

STRETCH_S: Final = 0.0002
BREAK_S: Final = 0.0001
SWITCH_INTERVAL_S: Final = 0.001
"""For stretches of a module in which no function is called."""


_one_at_a_time: Final = threading.Lock()


async def import_in_background(name: str) -> ModuleType:
    """Return the module, imported in a thread. It takes twice as long, and the loop turns.

    Raises:
        Exception: whatever the import raises.
    """
    return await asyncio.get_running_loop().run_in_executor(None, import_with_breaks, name)


def import_with_breaks(name: str) -> ModuleType:
    """Import a module on this thread, with breaks; without, if a debugger traces the thread."""
    with _one_at_a_time, _loop_goes_first():
        if sys.gettrace() is not None:
            return importlib.import_module(name)
        sys.settrace(breaks())
        try:
            return importlib.import_module(name)
        finally:
            sys.settrace(None)


@contextmanager
def _loop_goes_first() -> Iterator[None]:
    """Set the interpreter up for a loop that shares it with an import.

    Collections would hold the loop up as well, and are in vain: what is imported stays.
    """
    interval_s, is_collecting = sys.getswitchinterval(), gc.isenabled()
    sys.setswitchinterval(min(interval_s, SWITCH_INTERVAL_S))
    gc.disable()
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        if is_collecting:
            gc.freeze()
            gc.enable()


def breaks(
    clock: Callable[[], float] = time.perf_counter, pause: Callable[[float], None] = time.sleep
) -> Callable[[FrameType | None, str, Any], None]:
    """Return a trace function: Python calls it where a function begins, and nowhere else, because
    it returns None. It costs a quarter of the import; a profile function would cost a half."""
    ends_s = clock() + STRETCH_S

    def take_break_if_due(frame: FrameType | None, event: str, argument: Any) -> None:
        nonlocal ends_s
        if clock() >= ends_s:
            pause(BREAK_S)
            ends_s = clock() + STRETCH_S

    return take_break_if_due
