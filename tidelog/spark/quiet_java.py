"""QuietJava: a Spark that writes nothing to the terminal of whoever started it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tidelog.spark.jobs.job import JobError

__all__ = ["quiet_java"]


@contextmanager
def quiet_java() -> Iterator[None]:
    """Let what is started meanwhile write nothing to the terminal.

    Raises:
        JobError: Java ended at once; the error has the first line of what it said.
    """
    with tempfile.TemporaryFile() as log:
        try:
            with _standard_error_to(log):
                yield
        except Exception as error:
            if "JAVA_GATEWAY_EXITED" not in str(error):
                raise
            log.seek(0)
            lines = log.read().decode(errors="replace").splitlines()
            said = next((line.strip() for line in lines if "rror" in line), "it does not say why")
            raise JobError(f"Spark's Java did not start: {said}") from error


@contextmanager
def _standard_error_to(file: IO[bytes]) -> Iterator[None]:
    """Have the processes that are started meanwhile write their standard error into a file.

    Java and its Python workers keep it: they tell every failure of a task with pages of stack
    trace, of which whoever started them makes one sentence.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
