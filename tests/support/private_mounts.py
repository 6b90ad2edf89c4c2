"""File systems of a test's own, for a broker on a real disk that is small, or fails.

They are mounted in a mount namespace that a child process holds: nobody else sees them, and the
kernel takes them away when that process and the broker have ended, however they end. Small ones in
memory need no rights where users may have namespaces; a disk on a loop device takes root.
"""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60
UNSHARE = ("unshare", "--mount", "--propagation", "private")


class PrivateMounts:
    """The namespace; `run` runs a shell command in it, and `launcher` a daemon."""

    def __init__(self):
        as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
        self._holder = subprocess.Popen(
            [*UNSHARE, *as_root, "sh", "-c", "echo held; read -r end"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self._holder.stdout.readline() != "held\n":
            reason = self._holder.communicate()[1].strip()
            pytest.skip(f"NOT TESTED on a real disk: no mount namespace to be had: {reason}")
        in_user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        self.launcher = ["nsenter", "-t", str(self._holder.pid), "--mount", *in_user]
        self.launcher += [f"--wd={ROOT}"]
        """The start of a command that is to run in the namespace."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._holder.communicate("\n")

    def run(self, command, *, skip_because=""):
        """Run a shell command; with a reason, its failure skips the test, and says so."""
        outcome = subprocess.run(
            [*self.launcher, "sh", "-ec", command],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if outcome.returncode and skip_because:
            said = (outcome.stderr or outcome.stdout).strip()
            pytest.skip(f"NOT TESTED on a real disk: {skip_because}: {said}")
        assert outcome.returncode == 0, f"{command}: {outcome.stdout}{outcome.stderr}"
        return outcome.stdout

    def mount_memory(self, path, size):
        """Mount a file system in memory of `size`, "16m" for one, at a new directory."""
        quoted = shlex.quote(str(path))
        self.run(
            f"mkdir -p {quoted}; mount -t tmpfs -o size={size},mode=700 tidelog-test {quoted}",
            skip_because="no file system in memory can be mounted",
        )

    def see(self, path):
        """Return how a path of the namespace is reached from outside."""
        return Path(f"/proc/{self._holder.pid}/root{path}")
