"""What can be wrong with a lake, and with what is asked of it."""

from __future__ import annotations

__all__ = ["ConflictError", "LakeDamagedError", "LakeError", "UnsafeStoreError"]


class LakeError(Exception):
    """Something that cannot be done with a lake."""


class ConflictError(LakeError):
    """Another writer committed what this change was to, or took away what it needs.

    Nothing of the change is there. Read the log again, and plan anew.
    """


class LakeDamagedError(LakeError):
    """What the log names is not there, or is not what it says. Never normal."""


class UnsafeStoreError(LakeError):
    """This file system cannot create a file only where there is none."""
