"""A reader for plain YAML: block mappings and lists of scalars, two blanks a level.

Enough for this repository's own files, so that the tests need no YAML package. Anything else
(anchors, flow collections, block texts, tabs) is an error, never a guess.
"""

import re

_ENTRY = re.compile(r'("[^"]*"|[A-Za-z0-9_./-]+):(?: (.*))?')


def load_plain_yaml(text):
    """Return dicts, lists, texts, numbers, booleans and None.

    Raises:
        ValueError: the text is not plain; the message names the line.
    """
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    value, rest = _block(lines, 0)
    if rest:
        raise ValueError(f"line {rest[0][0]}: wrong indentation")
    return value


def _block(lines, indent):
    if not lines or _indent(lines[0]) < indent:
        return None, lines
    return (_list if lines[0][1][indent:].startswith("- ") else _mapping)(lines, indent)


def _list(lines, indent):
    items = []
    while lines and _indent(lines[0]) == indent and lines[0][1][indent:].startswith("- "):
        number, line = lines[0]
        inner = line[indent + 2 :]
        if _ENTRY.fullmatch(inner):  # a mapping begins behind the dash
            item, lines = _mapping([(number, " " * (indent + 2) + inner), *lines[1:]], indent + 2)
        else:
            item, lines = _scalar(inner, number), lines[1:]
        items.append(item)
    return items, lines


def _mapping(lines, indent):
    found = {}
    while lines and _indent(lines[0]) == indent:
        number, line = lines[0]
        match = _ENTRY.fullmatch(line[indent:])
        if match is None or match[1].strip('"') in found:
            raise ValueError(f"line {number}: not plain: {line}")
        if match[2] is None:
            value, lines = _block(lines[1:], indent + 2)
        else:
            value, lines = _scalar(match[2], number), lines[1:]
        found[match[1].strip('"')] = value
    return found, lines


def _indent(numbered):
    number, line = numbered
    indent = len(line) - len(line.lstrip(" "))
    if indent % 2 or "\t" in line:
        raise ValueError(f"line {number}: wrong indentation")
    return indent


def _scalar(text, number):
    if text[:1] == '"':
        if not re.fullmatch(r'"[^"\\]*"', text):
            raise ValueError(f"line {number}: not plain: {text}")
        return text[1:-1]
    if text[:1] in tuple("&*!|>%@`'{[") or " #" in text or ": " in text:
        raise ValueError(f"line {number}: not plain: {text}")
    if re.fullmatch(r"-?[0-9]+", text):
        return int(text)
    return {"true": True, "false": False, "null": None}.get(text, text)
