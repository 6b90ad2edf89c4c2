"""The scanner that tells on which line of a TOML text a key stands."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from broker.toml_lines import lines_of


def test_given_values_of_many_lines_when_scanned_then_keys_inside_them_are_not_keys():
    text = "\n".join(
        [
            "# log.level = 1",  # 1
            "[storage]  # a table",  # 2
            "data_dirs = [",  # 3
            '  "/a", # [x]',  # 4
            '  "b = ]",',  # 5
            "]",  # 6
            "note = '''",  # 7
            "fake = 1",  # 8
            "'''",  # 9
            'open_files_max = 3 # "',  # 10
            "",  # 11
            "[ 'log' ]",  # 12
            '"level" = "info"',  # 13
            "a . b = 1",  # 14
        ]
    )
    assert tomllib.loads(text)

    found = lines_of(text)

    assert found == {
        "storage": 2,
        "storage.data_dirs": 3,
        "storage.note": 7,
        "storage.open_files_max": 10,
        "log": 12,
        "log.level": 13,
        "log.a.b": 14,
    }


VALUES = st.sampled_from(
    ["1", '"x = 1"', "[1,\n 2]", '"""\n[a]\n"""', "'''\nq = 1'''", '"\\""', "{ z = 1 }", "'#'"]
)


@given(values=st.lists(VALUES, min_size=1, max_size=8))
def test_given_any_values_when_scanned_then_each_key_is_on_its_own_line(values):
    pieces = [f"k{number} = {value}  # c" for number, value in enumerate(values)]
    text = "[t]\n" + "\n".join(pieces)
    lines = text.split("\n")
    assert len(tomllib.loads(text)["t"]) == len(values)

    found = lines_of(text)

    assert set(found) == {"t", *(f"t.k{number}" for number in range(len(values)))}
    for number in range(len(values)):
        assert lines[found[f"t.k{number}"] - 1].startswith(f"k{number} =")


@given(text=st.text(alphabet="[]{}\"'=.#ab\\\n ", max_size=80))
def test_given_any_text_when_scanned_then_lines_are_inside_it(text):
    found = lines_of(text)

    assert all(1 <= line <= text.count("\n") + 1 for line in found.values())
