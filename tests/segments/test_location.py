"""Location: what of a path may be shown and kept."""

from __future__ import annotations

import pytest

from tidelog.segments.errors import OptionError
from tidelog.segments.location import locate, without_secrets


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/data/a@b?c", "/data/a@b?c"),
        ("s3://key:se@cret@bucket/logs?endpoint_override=x", "s3://bucket/logs"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("gs://bucket", "gs://bucket"),
    ],
)
def test_given_a_url_with_a_password_when_shown_then_without_it(path, shown):
    assert without_secrets(path) == shown


def test_given_a_url_that_nobody_knows_when_located_then_the_sentence_has_no_password():
    with pytest.raises(OptionError) as raised:
        locate("nowhere://me:secret@host/logs")

    assert "nowhere://host/logs cannot be read" in str(raised.value)
    assert "secret" not in str(raised.value)
