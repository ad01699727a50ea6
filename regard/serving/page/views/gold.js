// Links that people drew, beside those of each head, and the error rate of every head.

import { html, useMemo } from "../drawing/vendor/preact.js";
import { colour, css, ink, scaleOf, topOf } from "../drawing/colours.js";
import { Check, Range, Select } from "../drawing/controls.js";
import { HeatMap } from "../drawing/heatmap.js";
import { mean, percent, picked } from "../drawing/numbers.js";
import { numbered } from "../drawing/panel.js";
import { ColourMaps } from "../parts/colour_maps.js";
import { get } from "../parts/server.js";
import { placeOf, useAnswer } from "../parts/state.js";
import { Group, SidePanel } from "../drawing/side_panel.js";
import { Numbers } from "../drawing/table.js";
import { Legend } from "../drawing/words.js";

// the ways to draw links, in the order of the menu; the server draws them
const DRAWINGS = {
  argmax: { name: "the heaviest source word of each target word", own: "the head's heaviest source word" },
  intersection: { name: "only those that are heaviest both ways",
    own: "heaviest for its target word and for its source word" },
  threshold: { name: "every weight from a threshold on", own: "a weight from the threshold on" },
};

const sayPlace = (place, what) => (place == null ? `mean of ${what}s` : `${what} ${place}`);

function Grid({ errors, row, layer, head, choose, stops }) {
  const views = errors.views.filter((view) => view.row === row);
  const heads = [...new Set(views.map((view) => view.head))], layers = [...new Set(views.map((view) => view.layer))];
  const rates = views.map((view) => view.error_rate);
  const [low, high] = [Math.min(...rates), Math.max(...rates)];
  return html`<div class="scroll"><table class="rates"><caption>Alignment error rate in %, ${errors.sentences} pairs;
    the lower the better; ★ is the lowest</caption><thead><tr><td></td>${heads.map((each) => html`<th scope="col"
      key=${each}>${sayPlace(each, "head")}</th>`)}</tr></thead>
    <tbody>${layers.map((each) => html`<tr key=${each}><th scope="row">${sayPlace(each, "layer")}</th>
      ${heads.map((one) => {
        const view = views.find((other) => other.layer === each && other.head === one);
        if (!view) return html`<td key=${one}></td>`;
        const share = high > low ? (high - view.error_rate) / (high - low) : 1;
        const ground = colour(stops, 0.1 + 0.9 * share);
        const isHere = String(each ?? "mean") === layer && String(one ?? "mean") === head;
        return html`<td key=${one}><button type="button" aria-pressed=${String(isHere)}
          style=${{ background: css(ground), color: ink(ground) }}
          aria-label=${`${sayPlace(each, "layer")}, ${sayPlace(one, "head")}: ${percent(view.error_rate)}`}
          onClick=${() => choose(each ?? "mean", one ?? "mean")}>${(100 * view.error_rate).toFixed(1)}${
            view.error_rate === low && low < high ? " ★" : ""}</button></td>`;
      })}</tr>`)}</tbody></table></div>`;
}

function Pair({ pair, wish, stops, scale, drawing }) {
  const layer = numbered(wish.layer, pair.weights.length), head = numbered(wish.head, pair.weights[0]?.length);
  const weights = useMemo(() => mean(picked(pair.weights, layer, head)), [pair, layer, head]);
  const same = (place, said) => String(place ?? "mean") === said;
  // undefined for the mean of one head over all layers, which the server does not score
  const drawn = pair.drawn.find((one) => same(one.layer, layer) && same(one.head, head));
  const own = drawn?.links ?? [];
  const marks = [["sure", pair.sure], ["possible", pair.possible], ["own", own]].flatMap(([kind, links]) =>
    links.map(([key, query]) => ({ query, key, kind })));
  const among = (list) => own.filter(([s, t]) => list.some(([a, b]) => a === s && b === t)).length;
  const inSure = among(pair.sure), inPossible = inSure + among(pair.possible);
  const panel = { title: `layer ${layer}, head ${head}`, queries: pair.target, keys: pair.source, weights, isShare: true,
    queryTitle: "query (target)", keyTitle: "key (source)", specials: { query: new Set(), key: new Set() } };
  const top = topOf(scale, panel);
  return html`${drawn && html`<p role="status">This pair: error rate <b class="rate">${percent(drawn.error_rate)}</b>;
      ${" "}${own.length} links drawn, ${inSure} of them sure, ${inPossible} possible; ${pair.sure.length} sure links
      in all.</p>`}
    <p class="quiet small"><span class="swatch-box sure"></span> sure link of people
      <span class="swatch-box possible"></span> possible link of people
      <span class="dot"></span> ${DRAWINGS[drawing].own}</p>
    <${Legend} top=${top} stops=${stops} scale=${scale} />
    <${HeatMap} panel=${panel} stops=${stops} scale=${scale} top=${top} marks=${marks}
      hasMargins=${false} /><${Numbers} panel=${panel} />`;
}

export function Gold({ run, params, change, stops, ramps }) {
  const row = params.row === "next" ? "next" : "predicting";
  const drawing = params.drawing in DRAWINGS ? params.drawing : "argmax";
  const threshold = Math.min(Math.max(Number(params.threshold) || 0.2, 0.02), 1);
  const punctuation = params.punctuation === "left_out" ? "left_out" : "counted";
  const how = { drawing, threshold, punctuation };
  const list = useAnswer(() => get(["gold"]), []);
  const errors = useAnswer(() => run && get(["gold", run], how), [run, ...Object.values(how)]);
  const place = placeOf(params.pair);
  const pair = useAnswer(() => run && get(["gold", run, place], { row, ...how }),
    [run, place, row, ...Object.values(how)]);
  const best = errors.value?.best_head;
  const layer = params.layer || String(best?.layer ?? "mean"), head = params.head || String(best?.head ?? "mean");
  const error = list.error ?? errors.error ?? pair.error;
  return html`<div class="workbench"><section class="picture" aria-label="links of people and of heads">
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${pair.value && html`<${Pair} pair=${pair.value} wish=${{ layer, head }} stops=${stops} drawing=${drawing}
      scale=${scaleOf(params.scale)} />`}</section>
    <${SidePanel}><${Group} title="Which links"><div class="bar"><${Select} label="pair" value=${place + 1} onChange=${(next) => change({ pair: next })}
        options=${(list.value?.sentences ?? []).map(([source], i) => [i + 1, `${i + 1}. ${source.slice(0, 60)}`])} />
      <${Select} label="a word's row is the one that" value=${row} onChange=${(next) => change({ row: next })}
        options=${[["predicting", "writes it"], ["next", "reads it, one later"]]} />
      <${Select} label="links are" value=${drawing} options=${Object.entries(DRAWINGS).map(([key, one]) => [key, one.name])}
        onChange=${(next) => change({ drawing: next === "argmax" ? "" : next })} />
      ${drawing === "threshold" && html`<${Range} label="threshold" value=${threshold} low="0.02" high="1" step="0.02"
        onInput=${(next) => change({ threshold: next })} />`}
      <${Check} label="punctuation counts" isOn=${punctuation === "counted"}
        onChange=${(isOn) => change({ punctuation: isOn ? "" : "left_out" })} /></div></${Group}>
    <section class="group">${errors.isBusy && html`<p role="status">Every head is being scored …</p>`}
    ${errors.value && html`<${Grid} errors=${errors.value} row=${row} layer=${layer} head=${head} stops=${stops}
      choose=${(l, h) => change({ layer: String(l), head: String(h) })} />
      ${best && html`<p class="quiet small">Best head, chosen on every second pair and reported on the others: layer
        ${" "}${best.layer}, head ${best.head}, ${best.row} row, ${percent(best.reported_on.error_rate)}.</p>`}`}</section>
    <${ColourMaps} ramps=${ramps} params=${params} change=${change} />
    <${Group} title="What to make of it"><p class="quiet small">Words of several pieces: weights are summed over a source word's pieces and averaged
      over a target word's. Where punctuation does not count, links of people and of heads from or to words
      without a letter or digit are left out alike. Attention is not alignment: it need not look where a
      translator would.</p></${Group}></${SidePanel}></div>`;
}
