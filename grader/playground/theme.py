"""Colours and type of the page: Okabe and Ito's palette, on light and on dark ground."""

from __future__ import annotations

# Every colour has a second sign beside it: a dash, a shape, a hatch or a label on the spot.
STYLE = """
:root {
  --pg-ground: #ffffff; --pg-ink: #1b1f24; --pg-soft: #59636e; --pg-faint: #d9dee3; --pg-paper: #f5f7f9;
  --pg-truth: #0072b2; --pg-yours: #c04f00; --pg-ideal: #6b7580; --pg-bad: #c04f00;
  --pg-a: #0072b2; --pg-b: #e69f00; --pg-c: #009e73; --pg-d: #cc79a7; --pg-e: #56b4e9; --pg-f: #d55e00;
  --pg-on-a: #ffffff; --pg-on-b: #1b1f24; --pg-on-c: #ffffff; --pg-on-d: #1b1f24; --pg-on-e: #1b1f24; --pg-on-f: #ffffff;
}
.dark, .dark-theme {
  --pg-ground: #181c1a; --pg-ink: #e8ecef; --pg-soft: #a3adb8; --pg-faint: #39424a; --pg-paper: #22282d;
  --pg-truth: #56b4e9; --pg-yours: #f5a04a; --pg-ideal: #8f9aa5; --pg-bad: #f5a04a;
  --pg-a: #4fa8df; --pg-b: #e69f00; --pg-c: #2cb98f; --pg-d: #cc79a7; --pg-e: #8fd0f5; --pg-f: #e8702a;
  --pg-on-a: #10161b; --pg-on-b: #10161b; --pg-on-c: #10161b; --pg-on-d: #10161b; --pg-on-e: #10161b; --pg-on-f: #10161b;
}
.pg { color: var(--pg-ink); font-size: 16px; line-height: 1.5; max-width: 800px; }
.pg h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.4rem 0 0.6rem; font-weight: 650; }
.pg h2 { font-size: 1.05rem; margin: 0.2rem 0; font-weight: 650; }
.pg p { margin: 0.4rem 0; }
.pg a { color: var(--pg-truth); text-decoration: underline; text-underline-offset: 2px; }
.pg a:focus-visible, .pg summary:focus-visible { outline: 3px solid var(--pg-truth); outline-offset: 2px; border-radius: 2px; }
.pg code { background: var(--pg-paper); padding: 0.1em 0.35em; border-radius: 4px; font-size: 0.88em; }
.pg-nav { display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; font-size: 0.88rem; padding-bottom: 0.5rem;
  border-bottom: 1px solid var(--pg-faint); }
.pg-nav strong { font-weight: 650; }
.pg-nav a[aria-current] { color: var(--pg-ink); font-weight: 650; text-decoration: none; }
.pg-note { border-left: 4px solid var(--pg-truth); background: var(--pg-paper); padding: 0.5rem 0.9rem; border-radius: 0 6px 6px 0; }
.pg-note.pg-off { border-color: var(--pg-yours); }
.pg-yours-note { border-left: 4px dashed var(--pg-yours); padding: 0.3rem 0.9rem; white-space: pre-wrap; font-size: 0.92rem; }
.pg-reading { font-size: 1.02rem; }
.pg figure { margin: 0.8rem 0; }
.pg figcaption { font-size: 0.88rem; color: var(--pg-soft); }
.pg-figure { width: 100%; height: auto; display: block; overflow: visible; font-family: inherit; }
.pg-text { fill: var(--pg-ink); font-size: 13.5px; }
.pg-tick, .pg-axis { fill: var(--pg-soft); font-size: 12.5px; }
.pg-axis { font-weight: 600; }
.pg-grid { stroke: var(--pg-faint); stroke-width: 1; }
.pg-base { stroke: var(--pg-soft); stroke-width: 1.2; }
.pg-line { fill: none; stroke-width: 2.6; stroke-linejoin: round; stroke-linecap: round; }
.pg-line.pg-truth, .pg-mark.pg-truth { stroke: var(--pg-truth); }
.pg-line.pg-yours { stroke: var(--pg-yours); stroke-dasharray: 7 5; }
.pg-mark.pg-yours { stroke: var(--pg-yours); }
.pg-line.pg-ideal { stroke: var(--pg-ideal); stroke-dasharray: 1.5 5; stroke-width: 2; }
.pg-dot { stroke: var(--pg-ground); stroke-width: 1; }
.pg-dot.pg-truth, text.pg-truth { fill: var(--pg-truth); } .pg-dot.pg-yours, text.pg-yours { fill: var(--pg-yours); }
.pg-mark { fill: none; stroke-width: 2.6; }
text.pg-ideal { fill: var(--pg-ideal); } .pg-dot.pg-ideal { fill: var(--pg-ideal); }
.pg-label { font-weight: 600; paint-order: stroke; stroke: var(--pg-ground); stroke-width: 3px; stroke-linejoin: round; }
.pg-inside { fill: var(--pg-ink); font-size: 12.5px; paint-order: stroke; stroke: var(--pg-ground); stroke-width: 3px; }
.pg-area { stroke: none; fill-opacity: 0.3; } .pg-band { fill: var(--pg-bad); fill-opacity: 0.12; }
.pg-line.pg-a { stroke: var(--pg-a); } .pg-line.pg-b { stroke: var(--pg-b); } .pg-line.pg-c { stroke: var(--pg-c); }
.pg-line.pg-d { stroke: var(--pg-d); } .pg-line.pg-e { stroke: var(--pg-e); } .pg-line.pg-f { stroke: var(--pg-f); }
.pg-line.pg-b { stroke-dasharray: 9 4; } .pg-line.pg-c { stroke-dasharray: 3 4; } .pg-line.pg-d { stroke-dasharray: 12 4 3 4; }
.pg-area.pg-a, .pg-dot.pg-a, .pg-box.pg-a { fill: var(--pg-a); } .pg-area.pg-b, .pg-dot.pg-b, .pg-box.pg-b { fill: var(--pg-b); }
.pg-area.pg-c, .pg-dot.pg-c, .pg-box.pg-c { fill: var(--pg-c); } .pg-area.pg-d, .pg-dot.pg-d, .pg-box.pg-d { fill: var(--pg-d); }
.pg-area.pg-e, .pg-dot.pg-e, .pg-box.pg-e { fill: var(--pg-e); } .pg-area.pg-f, .pg-dot.pg-f, .pg-box.pg-f { fill: var(--pg-f); }
.pg-box { stroke: var(--pg-ground); stroke-width: 1; } .pg-box.pg-none { fill: var(--pg-paper); stroke: var(--pg-faint); }
.pg-box.pg-yours { fill: var(--pg-yours); } .pg-box.pg-truth { fill: var(--pg-truth); }
.pg-box.pg-idle { fill: var(--pg-paper); stroke: var(--pg-faint); stroke-dasharray: 3 3; }
.pg-on { font-size: 11.5px; font-weight: 600; pointer-events: none; }
.pg-on.pg-a { fill: var(--pg-on-a); } .pg-on.pg-b { fill: var(--pg-on-b); } .pg-on.pg-c { fill: var(--pg-on-c); }
.pg-on.pg-d { fill: var(--pg-on-d); } .pg-on.pg-e { fill: var(--pg-on-e); } .pg-on.pg-f { fill: var(--pg-on-f); }
.pg-on.pg-truth, .pg-on.pg-yours { fill: var(--pg-ground); }
.pg-limit { stroke: var(--pg-bad); stroke-width: 2.4; stroke-dasharray: 8 4; }
.pg-arrow { stroke-width: 3; fill: none; }
.pg-arrow.pg-truth { stroke: var(--pg-truth); } .pg-arrow.pg-yours { stroke: var(--pg-yours); stroke-dasharray: 8 5; }
.pg-arrow.pg-ideal { stroke: var(--pg-ideal); stroke-width: 2; } .pg-arrow.pg-b { stroke: var(--pg-b); } .pg-head { stroke: none; }
.pg-head.pg-truth { fill: var(--pg-truth); } .pg-head.pg-yours { fill: var(--pg-yours); }
.pg-head.pg-ideal { fill: var(--pg-ideal); } .pg-head.pg-b { fill: var(--pg-b); }
.pg-around { fill: none; stroke-width: 4; } .pg-around.pg-truth { stroke: var(--pg-truth); }
.pg-around.pg-yours { stroke: var(--pg-yours); stroke-dasharray: 9 5; }
.pg-heat { fill: var(--pg-c); } .pg-cell { font-size: 12.5px; } .pg-cross { stroke: var(--pg-ideal); stroke-width: 1; opacity: 0.5; }
.pg-stuck { fill: var(--pg-bad); fill-opacity: 0.16; stroke: var(--pg-bad); stroke-dasharray: 5 4; }
.pg-figure a { text-decoration: none; } .pg-figure a:hover .pg-cell { text-decoration: underline; }
.pg-node { fill: var(--pg-paper); stroke: var(--pg-soft); stroke-width: 1.5; } .pg-round { fill: none; stroke: var(--pg-faint); }
.pg-ring { fill: none; stroke: var(--pg-yours); stroke-width: 3; stroke-dasharray: 7 4; }
.pg details { margin: 0.6rem 0; } .pg summary { cursor: pointer; color: var(--pg-truth); font-weight: 600; }
.pg-scroll { overflow-x: auto; max-height: 26rem; }
.pg table { border-collapse: collapse; font-size: 0.86rem; font-variant-numeric: tabular-nums; margin: 0.5rem 0; }
.pg th, .pg td { text-align: right; padding: 0.2rem 0.7rem; border-bottom: 1px solid var(--pg-faint); }
.pg th { color: var(--pg-soft); font-weight: 600; } .pg th:first-child, .pg td:first-child { text-align: left; }
@media (forced-colors: active) { .pg-figure { forced-color-adjust: none; } }
"""
