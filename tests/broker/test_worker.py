"""Jobs in other processes: what comes back, what dies with whom, what is not inherited."""

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.worker import InlineWorker, WorkerDiedError, WorkerPool
from protocol.errors import BatchCorruptError
from tests.support.jobs import (
    about_the_process,
    add,
    count_to,
    give_back_a_socket,
    refuse,
    run_for_ever,
    run_until_told,
    say,
)

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 30


@pytest.fixture
async def pool():
    pool = WorkerPool(idle_s=TIMEOUT_S, stop_timeout_s=1.0)
    yield pool
    await pool.close()


async def started(pool, function):
    """Start a job that tells its process id; return its task and that."""
    told = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(pool.run(function, on_progress=told.set_result))
    return task, await asyncio.wait_for(told, TIMEOUT_S)


def is_there(process_id):
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def wait_gone(process_id):
    try:
        descriptor = os.pidfd_open(process_id)
    except ProcessLookupError:
        return
    gone = select.poll()
    gone.register(descriptor)
    assert gone.poll(TIMEOUT_S * 1000), f"process {process_id} is still there"
    os.close(descriptor)


async def test_given_a_job_when_run_then_its_result_and_progress_come_back(pool):
    seen = []

    result = await pool.run(count_to, 3, on_progress=seen.append)

    assert (result, seen) == (3, [0, 1, 2])


async def test_given_no_job_yet_when_asked_then_there_is_no_process(pool):
    assert pool.process_ids == []


async def test_given_two_jobs_when_run_after_each_other_then_one_process_does_both(pool):
    await pool.run(add, 1, 2)
    first = pool.process_ids

    assert await pool.run(add, b"x" * 1_000_000, b"y") == b"x" * 1_000_000 + b"y"

    assert pool.process_ids == first
    assert len(first) == 1


async def test_given_a_job_that_raises_when_run_then_the_error_comes_back_with_its_fields(pool):
    with pytest.raises(BatchCorruptError) as caught:
        await pool.run(refuse, 17)

    assert caught.value.position == 17
    assert "in refuse" in caught.value.__notes__[0]
    assert await pool.run(add, 1, 2) == 3


async def test_given_a_result_that_cannot_be_sent_when_run_then_it_is_said(pool):
    with pytest.raises(RuntimeError, match="cannot be sent"):
        await pool.run(give_back_a_socket)


async def test_given_a_job_that_logs_when_run_then_the_broker_says_it(pool):
    with capture_logs() as logs:
        await pool.run(say, "something")

    assert logs == [{"event": "something", "log_level": "warning", "count": 3, "path": "/a"}]


async def test_given_a_worker_when_killed_then_its_job_fails_and_the_next_has_another(pool):
    task, process_id = await started(pool, run_for_ever)

    os.kill(process_id, signal.SIGKILL)

    with pytest.raises(WorkerDiedError):
        await asyncio.wait_for(task, TIMEOUT_S)
    assert await pool.run(add, 1, 2) == 3


async def test_given_a_running_job_when_closed_then_it_is_told_and_its_last_result_comes(pool):
    task, process_id = await started(pool, run_until_told)

    await pool.close()

    assert await task == "stopped"
    assert not is_there(process_id)


async def test_given_a_job_that_does_not_stop_when_closed_then_it_is_killed():
    pool = WorkerPool(stop_timeout_s=0.05)
    task, process_id = await started(pool, run_for_ever)

    await pool.close()

    with pytest.raises(WorkerDiedError):
        await task
    assert not is_there(process_id)
    with pytest.raises(WorkerDiedError):
        await pool.run(add, 1, 2)


async def test_given_a_caller_when_cancelled_then_the_job_stops_and_others_can_run(pool):
    task, process_id = await started(pool, run_until_told)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert await pool.run(add, 1, 2) == 3
    assert process_id not in pool.process_ids


async def test_given_a_cancelled_job_that_does_not_stop_when_settled_then_its_process_is_gone():
    """Others may run at once, but who needs what it was writing has to wait."""
    pool = WorkerPool(stop_timeout_s=0.05)
    task, process_id = await started(pool, run_for_ever)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_there(process_id)

    await pool.settle()

    assert not is_there(process_id)
    await pool.close()


async def test_given_a_broker_with_locks_and_sockets_when_a_worker_runs_then_it_has_none(
    pool, tmp_path
):
    with socket.create_server(("127.0.0.1", 0)) as listener, (tmp_path / "lock").open("w") as lock:
        os.set_inheritable(listener.fileno(), True)
        os.set_inheritable(lock.fileno(), True)
        process_id, niceness, descriptors, main, ignored = await pool.run(about_the_process)

    assert process_id != os.getpid()
    assert niceness == os.nice(0) + 10
    assert str(tmp_path / "lock") not in descriptors
    assert sum(each.startswith("socket:") for each in descriptors) <= 2  # its own; and stderr's
    assert main == "broker.worker_process"
    assert ignored == [signal.SIG_IGN, signal.SIG_IGN]


def test_given_a_program_without_a_guard_when_it_embeds_a_pool_then_it_is_not_run_again(tmp_path):
    """And: killed in the middle of a job, it takes its worker with it."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import asyncio, os, signal, sys
        from tests.support.jobs import run_for_ever
        from broker.worker import WorkerPool

        print("imported", flush=True)

        async def go():
            def told(process_id):
                print(process_id, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            await WorkerPool().run(run_for_ever, on_progress=told)

        asyncio.run(go())
        """)
    )

    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip

    imported, process_id = done.stdout.split()
    assert imported == "imported"
    assert done.returncode == -signal.SIGKILL
    wait_gone(int(process_id))


async def test_given_an_inline_worker_when_a_job_runs_then_it_is_as_in_a_process():
    worker, seen = InlineWorker(), []

    result = await worker.run(count_to, 2, on_progress=seen.append)

    assert (result, seen) == (2, [0, 1])
    worker.should_stop = True
    assert await worker.run(run_until_told) == "stopped"


async def test_given_an_inline_worker_that_is_to_die_when_a_job_runs_then_it_does_once():
    worker = InlineWorker()
    worker.deaths = 1

    with pytest.raises(WorkerDiedError):
        await worker.run(add, 1, 2)

    assert await worker.run(add, 1, 2) == 3
