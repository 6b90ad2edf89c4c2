"""Main: the entry point of `tidelog` and of `python -m tidelog`.

It looks at the first argument before anything is imported: `serve` is the daemon, which has no use
for typer and rich, and `health` is called every few seconds, so it has to be quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def run() -> None:
    """Run the command that the process's arguments name, and end the process."""
    try:
        code = _dispatch(sys.argv[1:])
    except KeyboardInterrupt:  # before or after the command itself; that handles its own
        code = 130
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # else the interpreter would complain when it flushes at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _dispatch(arguments: Sequence[str]) -> int:
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", ())
    if command == "serve":
        from tidelog.cli.serve import serve

        return serve(rest)
    if command == "health":
        from tidelog.cli.health import health

        return health(rest)
    from tidelog.cli.app import execute

    return execute(arguments)


if __name__ == "__main__":
    run()
