// Links that people drew, beside those of each head, and the error rate of every head.

import { html, useMemo } from "../vendor/preact.js";
import { colour, css, ink, scaleOf } from "../parts/colours.js";
import { Select } from "../parts/controls.js";
import { HeatMap } from "../parts/heatmap.js";
import { heaviest, largest, zeros } from "../parts/numbers.js";
import { numbered } from "../parts/panel.js";
import { get } from "../parts/server.js";
import { useAnswer } from "../parts/state.js";
import { Numbers } from "../parts/table.js";
import { Legend } from "../parts/words.js";

const percent = (share) => (100 * share).toFixed(1);

function meanOf(weights, layer, head) {
  const some = (place, list) => (place === "mean" ? list : [list[place - 1]]);
  const chosen = some(layer, weights).flatMap((heads) => some(head, heads));
  const out = zeros(chosen[0].length, chosen[0][0]?.length ?? 0);
  chosen.forEach((one) => one.forEach((row, i) => row.forEach((weight, j) => {
    out[i][j] += weight / chosen.length;
  })));
  return out;
}

function Grid({ errors, row, layer, head, choose, stops }) {
  const views = errors.views.filter((view) => view.row === row);
  const heads = [...new Set(views.map((view) => view.head))], layers = [...new Set(views.map((view) => view.layer))];
  const rates = views.map((view) => view.error_rate);
  const [low, high] = [Math.min(...rates), Math.max(...rates)];
  const named = (place, what) => (place == null ? `mean of ${what}s` : `${what} ${place}`);
  return html`<div class="scroll"><table class="rates"><caption>Alignment error rate in %, ${errors.sentences} pairs;
    the lower the better; ★ is the lowest</caption><thead><tr><td></td>${heads.map((each) => html`<th scope="col"
      key=${each}>${named(each, "head")}</th>`)}</tr></thead>
    <tbody>${layers.map((each) => html`<tr key=${each}><th scope="row">${named(each, "layer")}</th>
      ${heads.map((one) => {
        const view = views.find((other) => other.layer === each && other.head === one);
        if (!view) return html`<td key=${one}></td>`;
        const share = high > low ? (high - view.error_rate) / (high - low) : 1;
        const ground = colour(stops, 0.1 + 0.9 * share);
        const isHere = String(each ?? "mean") === layer && String(one ?? "mean") === head;
        return html`<td key=${one}><button type="button" aria-pressed=${String(isHere)}
          style=${{ background: css(ground), color: ink(ground) }}
          aria-label=${`${named(each, "layer")}, ${named(one, "head")}: ${percent(view.error_rate)} %`}
          onClick=${() => choose(each ?? "mean", one ?? "mean")}>${percent(view.error_rate)}${
            view.error_rate === low && low < high ? " ★" : ""}</button></td>`;
      })}</tr>`)}</tbody></table></div>`;
}

function Pair({ pair, wish, stops, scale }) {
  const layer = numbered(wish.layer, pair.weights.length), head = numbered(wish.head, pair.weights[0]?.length);
  const weights = useMemo(() => meanOf(pair.weights, layer, head), [pair, layer, head]);
  const own = weights.flatMap((row, query) => {
    const [[weight, key]] = heaviest(row);
    return weight > 0 ? [{ query, key, kind: "own" }] : [];
  });
  const marks = [...pair.sure.map(([key, query]) => ({ query, key, kind: "sure" })),
    ...pair.possible.map(([key, query]) => ({ query, key, kind: "possible" })), ...own];
  const has = (list, { query, key }) => list.some(([s, t]) => s === key && t === query);
  const inSure = own.filter((link) => has(pair.sure, link)).length;
  const inPossible = inSure + own.filter((link) => has(pair.possible, link)).length;
  const rate = 1 - (inSure + inPossible) / (own.length + pair.sure.length || 1);
  const top = largest(weights) || 1;
  const panel = { title: `layer ${layer}, head ${head}`, queries: pair.target, keys: pair.source, weights,
    queryTitle: "query (target)", keyTitle: "key (source)", specials: { query: new Set(), key: new Set() } };
  return html`<p role="status">This pair: error rate <b class="rate">${percent(rate)} %</b>; ${own.length}${" "}
      links drawn, ${inSure} of them sure, ${inPossible} possible; ${pair.sure.length} sure links in all.</p>
    <p class="quiet small"><span class="swatch-box sure"></span> sure link of people
      <span class="swatch-box possible"></span> possible link of people
      <span class="dot"></span> the head's heaviest source word</p>
    <${Legend} top=${top} stops=${stops} scale=${scale} />
    <${HeatMap} panel=${panel} stops=${stops} share=${(w) => scale.share(w, top)} marks=${marks}
      hasMargins=${false} /><${Numbers} panel=${panel} />`;
}

export function Gold({ run, params, change, stops }) {
  const row = params.row === "next" ? "next" : "predicting";
  const list = useAnswer(() => get(["gold"]), []);
  const errors = useAnswer(() => run && get(["gold", run]), [run]);
  const place = Math.max(Number(params.pair || 1) - 1, 0);
  const pair = useAnswer(() => run && get(["gold", run, place], { row }), [run, place, row]);
  const best = errors.value?.best_head;
  const layer = params.layer || String(best?.layer ?? "mean"), head = params.head || String(best?.head ?? "mean");
  const error = list.error ?? errors.error ?? pair.error;
  return html`${error && html`<p class="error" role="alert">${error}</p>`}
    <div class="bar"><${Select} label="pair" value=${place + 1} onChange=${(next) => change({ pair: next })}
        options=${(list.value?.sentences ?? []).map(([source], i) => [i + 1, `${i + 1}. ${source.slice(0, 60)}`])} />
      <${Select} label="a word's row is the one that" value=${row} onChange=${(next) => change({ row: next })}
        options=${[["predicting", "writes it"], ["next", "reads it, one later"]]} /></div>
    ${errors.isBusy && html`<p role="status">Every head is being scored …</p>`}
    ${errors.value && html`<${Grid} errors=${errors.value} row=${row} layer=${layer} head=${head} stops=${stops}
      choose=${(l, h) => change({ layer: String(l), head: String(h) })} />
      ${best && html`<p class="quiet">Best head, chosen on every second pair and reported on the others: layer
        ${" "}${best.layer}, head ${best.head}, ${best.row} row, ${percent(best.reported_on.error_rate)} %.</p>`}`}
    ${pair.value && html`<${Pair} pair=${pair.value} wish=${{ layer, head }} stops=${stops}
      scale=${scaleOf(params.scale)} />`}
    <p class="quiet small">Words of several pieces: weights are summed over a source word's pieces and averaged
      over a target word's. Attention is not alignment: it need not look where a translator would.</p>`;
}
