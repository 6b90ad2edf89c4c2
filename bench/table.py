"""Rows of results, printed as a Markdown table that can go into the README as it is."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Row:
    """One figure, what it is held against, and whether the bar was met."""

    name: str
    ours: str
    floor: str = ""
    ratio: float | None = None
    bar: str = ""
    is_met: bool | None = None


@dataclass(slots=True)
class Table:
    """The rows of one run."""

    rows: list[Row] = field(default_factory=list)

    def add(
        self,
        name: str,
        ours: str,
        floor: str = "",
        *,
        ratio: float | None = None,
        at_most: float | None = None,
        at_least: float | None = None,
    ) -> None:
        """Add a row; `at_most` and `at_least` are the bar that `ratio` is held against."""
        bar, is_met = "", None
        if ratio is not None and at_most is not None:
            bar, is_met = f"<= {at_most:g}", ratio <= at_most
        elif ratio is not None and at_least is not None:
            bar, is_met = f">= {at_least:g}", ratio >= at_least
        self.rows.append(Row(name, ours, floor, ratio, bar, is_met))
        print(f"  {name}: {ours}" + (f"  (ratio {ratio:.2f} {bar})" if ratio else ""), flush=True)

    def markdown(self) -> str:
        lines = ["| what | Tidelog | floor | ratio | bar | met |", "|---|---|---|---|---|---|"]
        for row in self.rows:
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            met = "" if row.is_met is None else ("yes" if row.is_met else "**no**")
            cells = (row.name, row.ours, row.floor, ratio, row.bar, met)
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)
