"""Audit plan: what ought to be in a data directory, and is not."""

from __future__ import annotations

from tests.support.audits import audited, batches
from tests.support.spark_logs import write_checkpoint
from tidelog.segments.audit.audit_plan import plan_audit
from tidelog.segments.audit.fault import FaultKind, Severity
from tidelog.segments.location import locate


def test_given_durable_offsets_without_a_log_when_audited_then_they_are_missing(tmp_path):
    batches(tmp_path / "t-0", 0).unlink()
    write_checkpoint(tmp_path, "recovery-point-offset-checkpoint", {("t", 0): 9})

    faults = audited(tmp_path)

    assert [(each.severity, each.kind, each.offsets) for each in faults][:1] == [
        (Severity.ERROR, FaultKind.MISSING, "0-8")
    ]


def test_given_a_data_directory_named_like_a_partition_when_audited_then_its_logs_are(tmp_path):
    batches(tmp_path / "disk-1" / "t-0", 0, 1, 1)
    write_checkpoint(tmp_path / "disk-1", "recovery-point-offset-checkpoint", {("t", 0): 9})

    found = audited(tmp_path / "disk-1")

    assert [(each.kind, each.offsets) for each in found] == [
        (FaultKind.OVERLAP, "1"), (FaultKind.MISSING, "2-8"),
    ]  # fmt: skip


def test_given_partitions_whose_directories_are_gone_when_audited_then_those_not_deleted_are_named(
    tmp_path,
):
    batches(tmp_path / "t-0", 0)
    (tmp_path / f"u-0.{'0' * 32}-delete").mkdir()
    points = {("t", 0): 1, ("t", 1): 9, ("t", 2): 0, ("u", 0): 5, ("v", 0): 3}
    write_checkpoint(tmp_path, "recovery-point-offset-checkpoint", points)

    assert [fault.text for fault in audited(tmp_path)] == [
        "there is no t-1; offsets up to 8 of it were durable",
        "there is no v-0; offsets up to 2 of it were durable",
    ]
    assert len(plan_audit(locate(tmp_path), ["t"]).faults) == 1
    assert {fault.severity for fault in audited(tmp_path)} == {Severity.WARNING}
