"""StatsStyle: how the report of `stats` looks, by day and by night, on a screen and on paper."""

from __future__ import annotations

from typing import Final

__all__ = ["STYLE"]

STYLE: Final = """
:root { color-scheme: light dark; --page: #f9f9f7; --card: #fff; --ink: #16160f; --quiet: #5b5a55;
  --rule: #e2e1dc; --mark: #2a6fc9; --wash: #2a6fc926; }
@media (prefers-color-scheme: dark) {
  :root { --page: #121211; --card: #1c1c1a; --ink: #f2f1ec; --quiet: #b4b2aa; --rule: #34332f;
    --mark: #5b9bea; --wash: #5b9bea33; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 86rem; padding: 1.5rem; background: var(--page);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .75rem; overflow-wrap: anywhere; }
header p, footer p { color: var(--quiet); margin: .25rem 0; }
nav a { color: var(--mark); margin-right: 1rem; }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
  margin: 1.25rem 0; padding: 1.25rem; }
dl { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr));
  margin: 0 0 1rem; }
dt { color: var(--quiet); font-size: .85rem; }
dd { margin: 0; color: var(--quiet); font-size: .8rem; }
dt + dd { color: var(--ink); font-size: 1.35rem; }
.charts { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); }
.tables { display: flex; flex-wrap: wrap; gap: 1.5rem; align-items: flex-start; }
figure { margin: 0; }
figcaption, caption { font-size: .9rem; font-weight: 600; text-align: left; padding: .5rem 0; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--quiet); font-size: 11px; }
.grid { stroke: var(--rule); }
.area { fill: var(--wash); }
.line { fill: none; stroke: var(--mark); stroke-width: 1.5; }
.bar { fill: var(--mark); }
.bar:hover { opacity: .75; }
.hover { fill: transparent; }
.hover:hover { fill: var(--wash); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .88rem; }
th, td { border-bottom: 1px solid var(--rule); padding: .3rem .75rem .3rem 0; text-align: right;
  white-space: nowrap; }
th { color: var(--quiet); font-weight: 500; }
th:first-child, td:first-child { text-align: left; }
@media print { section { break-inside: avoid; } }
"""
