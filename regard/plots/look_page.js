// The page of a record: what the studio draws, of numbers that stand in the page as JSON.

import { html, render, useMemo, useState } from "./drawing/vendor/preact.js";
import { stopsOf } from "./drawing/colours.js";
import { useMedia } from "./drawing/focus.js";
import { tellHeight } from "./drawing/frame_height.js";
import { Look } from "./drawing/look.js";
import { MEAN, said } from "./drawing/numbers.js";

const { record, ramps, view } = JSON.parse(document.getElementById("data").textContent);
const WEIGHTS = { title: "weights", text: "", unit: "weight", is_share: true, is_joined: false, settings: [] };

// the facts of a record, in the form in which the server sends them to the studio
const shown = { ...record, attention: Object.fromEntries(Object.entries(record.attention).map(([kind, one]) =>
  [kind, { ...one, n_layers: one.weights.length, n_heads: one.weights[0].length, shown: { weights: WEIGHTS } }])) };

function numbersOf(kind) {
  const { weights } = record.attention[kind], [[[row]]] = weights;
  const shape = [weights.length, weights[0].length, weights[0][0].length, row.length];
  return { given: { shape, flat: weights.flat(3) }, visible: weights.map(() => null), shown: "weights", quantity: WEIGHTS, settings: {} };
}

// the address keeps what is chosen; a frame in a notebook has no history and keeps it in memory
function useChosen() {
  const first = { ...view, layer: said(view.layer ?? MEAN), head: said(view.head ?? MEAN) };
  const [params, setParams] = useState({ ...first, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))) });
  const change = (wish) => setParams((last) => {
    const next = Object.fromEntries(Object.entries({ ...last, ...wish }).filter(([, value]) => value !== ""));
    try { history.replaceState(null, "", `#${new URLSearchParams(next)}`); } catch { /* no history */ }
    return next;
  });
  return [{ ...params, kind: params.kind in record.attention ? params.kind : view.kind }, change];
}

function Page() {
  const [params, change] = useChosen(), isDark = useMedia("(prefers-color-scheme: dark)");
  const stops = useMemo(() => stopsOf(ramps[isDark ? "dark" : "light"]), [isDark]);
  const numbers = useMemo(() => numbersOf(params.kind), [params.kind]);
  return html`<div class="workbench"><${Look} record=${shown} numbers=${numbers} params=${params} change=${change} stops=${stops} /></div>`;
}

render(html`<${Page} />`, document.getElementById("look"));
tellHeight();
