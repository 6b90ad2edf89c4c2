"""`meta.properties`, Java properties text to values and back."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import DataDirectoryError, StoredFormatError
from protocol.stored import meta_properties
from protocol.stored.meta_properties import MetaProperties, decode, encode
from tests.support.damage import any_bytes, error_of

KAFKA_4 = (
    b"#\n#Sat Nov 21 04:04:46 UTC 2026\nnode.id=1\ndirectory.id=wGKQ3xXOdvDFJ_2KxVGTAQ\n"
    b"version=1\ncluster.id=lUhlvIBKisRuMnGbdXhCtw\n"
)
KAFKA_2 = (
    b"#\n#Sat Nov 21 03:47:34 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=1vMv2jTqQBSlaETsjeufnA\n"
)
DIRECTORY_ID = UUID("c06290df-15ce-76f0-c527-fd8ac5519301")

# Java's chars are UTF-16 units: a lone surrogate is text there, and goes through here.
TEXTS = st.text(st.characters(max_codepoint=0x2FFF), max_size=12)
OTHER_ENTRIES = st.dictionaries(
    TEXTS.filter(lambda key: key not in {"version", "node.id", "broker.id", "directory.id"}),
    TEXTS,
    max_size=4,
)


def test_given_kafka_4s_file_when_decoded_then_its_values_come_out() -> None:
    properties = decode(KAFKA_4)

    assert properties.version == 1
    assert properties.cluster_id == "lUhlvIBKisRuMnGbdXhCtw"
    assert properties.node_id == 1
    assert properties.directory_id == DIRECTORY_ID
    assert properties.data_format_version is None
    assert encode(properties) == KAFKA_4


def test_given_kafka_2s_file_when_decoded_then_its_broker_id_is_the_node_id() -> None:
    properties = decode(KAFKA_2)

    assert (properties.version, properties.node_id, properties.directory_id) == (0, 1, None)
    assert encode(properties) == KAFKA_2


def test_given_a_new_directory_when_encoded_then_kafkas_keys_and_ours_are_there() -> None:
    properties = meta_properties.new(cluster_id="c", node_id=7, directory_id=DIRECTORY_ID)

    data = encode(properties)

    assert data == (
        b"version=1\ncluster.id=c\nnode.id=7\ndirectory.id=wGKQ3xXOdvDFJ_2KxVGTAQ\n"
        b"tidelog.data.format.version=1\n"
    )
    assert decode(data) == properties
    assert properties.data_format_version == 1


def test_given_kafkas_directory_when_adopted_then_only_our_version_is_added() -> None:
    adopted = decode(KAFKA_4).adopted()

    assert encode(adopted) == KAFKA_4 + b"tidelog.data.format.version=1\n"
    assert adopted.adopted() == adopted


@pytest.mark.parametrize("line", [b"tidelog.data.format.version=2\nversion=1\n", b"version=2\n"])
def test_given_a_newer_version_when_decoded_then_a_sentence_refuses_it(line: bytes) -> None:
    with pytest.raises(DataDirectoryError, match=r"version 2, .* use a newer Tidelog"):
        decode(line)


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        (b"a=b", ("a", "b")),
        (b"a:b", ("a", "b")),
        (b"a b", ("a", "b")),
        (b"  a \t= \t b ", ("a", "b ")),
        (b"a", ("a", "")),
        (b"a==b", ("a", "=b")),
        (rb"a\=b=c\:d", ("a=b", "c:d")),
        (rb"a\ b=\u00e4\t\q", ("a b", "ä\tq")),
        (b"a=b\\\n   c", ("a", "bc")),
        (b"a=b\\\r\n   c", ("a", "bc")),
        (b"a=b\\\\", ("a", "b\\")),
        (b"a=b\\", ("a", "b")),
        (b"a=\xe4", ("a", "ä")),
        (b"a=b\\\n#c", ("a", "b#c")),
    ],
)
def test_given_java_properties_when_decoded_then_as_java_reads_them(
    line: bytes, entry: tuple[str, str]
) -> None:
    properties = decode(b"version=1\n" + line)

    assert properties.entries == (("version", "1"), entry)


def test_given_a_key_twice_when_decoded_then_the_last_counts() -> None:
    assert decode(b"version=0\nversion=1\n").version == 1


@given(others=OTHER_ENTRIES)
def test_given_any_entries_when_encoded_and_decoded_then_the_same(others: dict[str, str]) -> None:
    properties = MetaProperties(
        (("version", "1"), *others.items()), comments=("#", "! written by hand")
    ).with_entry("tidelog.data.format.version", "1")

    assert decode(encode(properties)) == properties


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"node.id=1\n",
        b"version=one\n",
        b"version=-1\n",
        b"version=99999999999\n",
        b"version=1\nnode.id=x\n",
        b"version=1\nnode.id=\n",
        b"version=1\ndirectory.id=short\n",
        b"version=1\ntidelog.data.format.version=1.0\n",
        b"version=1\na=\\u12\n",
        b"version=1\na=\\uzzzz\n",
    ],
)
def test_given_a_malformed_file_when_decoded_then_refused(data: bytes) -> None:
    with pytest.raises(StoredFormatError):
        decode(data)


@given(data=any_bytes(st.sampled_from([KAFKA_4, KAFKA_2])))
def test_given_any_bytes_when_decoded_then_properties_or_our_error(data: bytes) -> None:
    error = error_of(decode, data)

    assert error is None or isinstance(error, StoredFormatError | DataDirectoryError)
