// The worked example: a few words, every number of every step, each of them editable.

import { html, useEffect, useMemo, useState } from "../drawing/vendor/preact.js";
import { apart, askedOf, difference, edited, isInput, sources, steps, told } from "../parts/arithmetic.js";
import { Check, Select } from "../drawing/controls.js";
import { get, post } from "../parts/server.js";
import { Group, SidePanel } from "../drawing/side_panel.js";
import { Stage } from "../parts/stage.js";
import { useAnswer } from "../parts/state.js";
import { LoadedHead, useHead } from "./loaded_head.js";

const readEdits = (text) => Object.fromEntries((text ?? "").split("*").filter(Boolean)
  .map((part) => part.split("~")).filter(([, value]) => Number.isFinite(Number(value)))
  .map(([name, value]) => [name, Number(value)]));
const writeEdits = (edits) => Object.entries(edits).map(([name, value]) => `${name}~${value}`).join("*");

const heatOf = (params) => (Number(params.temperature) > 0 ? Number(params.temperature) : 1);

// the inputs of the steps: three words and small matrices
function wishOf(start, params) {
  const count = params.heads === "2" ? "2" : "1";
  const isCross = params.keys === "other";
  return {
    queries: start.inputs, keys: isCross ? start.other_inputs : start.inputs, isCross,
    names: start.words, keyNames: isCross ? start.other_words : start.words,
    projections: start.heads[count].projections, W_O: start.heads[count].W_O,
    isScaled: params.scaled === "on", isCausal: params.mask === "causal", temperature: heatOf(params),
  };
}

// or the queries, keys and values of a head; scaled and masked as in the model unless the reader says otherwise
function loadedWish(given, params) {
  return {
    given, isCross: true, names: given.queries, keyNames: given.keys, temperature: heatOf(params),
    isScaled: params.scaled !== "off", isCausal: params.mask ? params.mask === "causal" : given.is_causal,
  };
}

const divisorOf = ({ divisor, width }) => (Math.abs(divisor - Math.sqrt(width)) < 1e-6 * divisor
  ? `√${width}` : Number(divisor.toFixed(4)));

function Settings({ wish, start, params, change }) {
  const option = (patch) => change({ ...patch, edits: "" });
  return html`<div class="bar">${!wish.given && html`
      <${Select} label="words look at" value=${params.keys ?? "own"} onChange=${(keys) => option({ keys })}
        options=${[["own", "themselves"], ["other", start.other_words.join(" ")]]} />
      <${Select} label="heads" value=${params.heads ?? "1"} options=${[["1", "1"], ["2", "2"]]}
        onChange=${(heads) => option({ heads })} />`}
      <${Check} label=${`divide by ${wish.given ? divisorOf(wish.given) : "√d"}`}
        isOn=${wish.isScaled} onChange=${(isOn) => change({ scaled: isOn ? "on" : "off" })} />
      <${Check} label="causal mask" isOn=${wish.isCausal}
        onChange=${(isOn) => change({ mask: isOn ? "causal" : "none" })} />
      <label>temperature <input type="number" min="0.1" step="0.1" value=${wish.temperature}
        onChange=${(event) => change({ temperature: event.target.value })} /></label>
      <button type="button" onClick=${() => change({ edits: "", temperature: "", scaled: "", mask: "" })}>
        As it was</button></div>`;
}

// the steps from Q, K and V to the context
function Weighing({ head, names, keyNames, shared }) {
  const hidden = (a, b) => !head.visible(a, b), byKey = { names, columns: keyNames };
  const stages = [["products", "products", byKey], ["scores", "scores", { ...byKey, hidden }],
    ["max", "row maximum", { names, columns: ["max"] }], ["exp", "exponentials", { ...byKey, hidden }],
    ["sum", "row sum", { names, columns: ["sum"] }], ["weights", "weights", { ...byKey, hidden }],
    ["context", "context", { names }]];
  return html`<div class="stages">
      <${Stage} stage="Q" title="queries Q" rows=${head.Q} names=${names} ...${shared} />
      <${Stage} stage="K" title="keys K" rows=${head.K} names=${keyNames} ...${shared} />
      <${Stage} stage="V" title="values V" rows=${head.V} names=${keyNames} ...${shared} /></div>
    <div class="stages">${stages.map(([stage, title, more]) => html`<${Stage} key=${stage} stage=${stage}
      title=${title} rows=${head[stage]} ...${more} ...${shared} />`)}</div>`;
}

function Verify({ wish, done, edits }) {
  const [check, setCheck] = useState("");
  useEffect(() => { setCheck(""); }, [done]);
  const isOwn = Object.keys(edits).every((name) => isInput(name, wish));
  const verify = async () => {
    try {
      const most = difference(done, await post(["worked"], askedOf(wish, done)));
      setCheck(`Python computes the same: the largest difference is ${most.toExponential(1)}.`);
    } catch (error) { setCheck(error.message); }
  };
  return html`<div class="bar"><button type="button" disabled=${!isOwn} onClick=${verify}>Check with Python</button>
    <span role="status">${isOwn ? check
      : "Numbers in the middle were changed; Python starts from the inputs."}</span></div>`;
}

function Example({ wish, start, params, change, above, choice }) {
  const edits = useMemo(() => readEdits(params.edits), [params.edits]);
  const [pointed, setPointed] = useState(null);
  const done = useMemo(() => steps(wish, edits), [wish, edits]);
  const set = (name, value) => change({ edits: writeEdits(edited(edits, name, value)) });
  const [stage, h, i, j] = pointed ? pointed.split(".").map((part, k) => (k ? Number(part) : part)) : [];
  const marked = pointed ? sources(stage, i, j) : [];
  const shared = { edits, change: set, point: setPointed, isScaled: wish.isScaled, isCross: wish.isCross,
    isGiven: Boolean(wish.given) };
  const inHead = (one) => ({ ...shared, head: one, marked: marked.length && h === one ? marked : [] });
  const outside = { ...shared, head: 0, marked };
  const { names, keyNames } = wish;
  const isAsLoaded = wish.given && !Object.keys(edits).length && wish.temperature === 1 && wish.isScaled
    && wish.isCausal === wish.given.is_causal;
  // the settings come first: Tab would reach them only behind all numbers
  return html`<${SidePanel}><${Group} title="What is computed">${choice}
      <${Settings} wish=${wish} start=${start} params=${params} change=${change} /></${Group}>
      <${Group} title="Is it right?"><${Verify} wish=${wish} done=${done} edits=${edits} /></${Group}></${SidePanel}>
    <section class="picture" aria-label="every number">${above}
    <p class="readout" role="status">${pointed ? html`<b>${stage}</b> ${told(done, stage, h, i, j)}`
      : "Point at a number to see the sum that made it; change it, and everything to its right follows."}</p>
    ${!wish.given && html`<div class="stages">
      <${Stage} stage="X" title=${wish.isCross ? "X, of the queries" : "X"} rows=${done.X}
        names=${names} ...${outside} />
      ${wish.isCross && html`<${Stage} stage="Y" title="Y, of the keys" rows=${done.Y}
        names=${keyNames} ...${outside} />`}</div>`}
    ${done.heads.map((head, one) => html`<section key=${one} class="head">
      <h2>${done.heads.length > 1 ? `Head ${one + 1}` : "The head"}</h2>
      ${head.W_Q && html`<div class="stages">
        <${Stage} stage="W_Q" title="W_Q" rows=${head.W_Q} ...${inHead(one)} />
        <${Stage} stage="W_K" title="W_K" rows=${head.W_K} ...${inHead(one)} />
        <${Stage} stage="W_V" title="W_V" rows=${head.W_V} ...${inHead(one)} /></div>`}
      <${Weighing} head=${head} names=${names} keyNames=${keyNames} shared=${inHead(one)} /></section>`)}
    ${done.out && html`<section class="head"><h2>Together</h2><div class="stages">
      <${Stage} stage="joined" title="heads side by side" rows=${done.joined} names=${names} ...${outside} />
      <${Stage} stage="W_O" title="W_O" rows=${done.W_O} ...${outside} />
      <${Stage} stage="out" title="output" rows=${done.out} names=${names} ...${outside} /></div></section>`}
    ${isAsLoaded && html`<p class="as-loaded">These are the weights of the model itself: the largest difference is
      ${" "}${apart(done.heads[0].weights, wish.given.weights).toExponential(1)}.</p>`}
    </section>`;
}

function Loaded({ run, info, params, change, choice }) {
  const loaded = useHead(info, params);
  const wish = useMemo(() => loaded.given && loadedWish(loaded.given, params),
    [loaded.given, params.scaled, params.mask, params.temperature]);
  const above = html`<${LoadedHead} run=${run} info=${info} loaded=${loaded} params=${params} change=${change} />`;
  return wish && !loaded.error ? html`<${Example} wish=${wish} params=${params} change=${change} above=${above} choice=${choice} />`
    : html`<section class="picture" aria-label="every number">${above}</section><${SidePanel}>${choice}</${SidePanel}>`;
}

function Small({ start, params, change, choice }) {
  const wish = useMemo(() => wishOf(start, params),
    [start, params.heads, params.keys, params.scaled, params.mask, params.temperature]);
  return html`<${Example} wish=${wish} start=${start} params=${params} change=${change} choice=${choice} />`;
}

export function Worked({ served, run, info, params, change }) {
  const start = useAnswer(() => get(["worked"]), []);
  if (start.error) return html`<p class="error" role="alert">${start.error}</p>`;
  const hasRun = served.runs.some(({ name, reads }) => name === run && reads === "texts");
  const isLoaded = hasRun && params.numbers === "model";
  const take = (numbers) => change({ numbers, edits: "", scaled: "", mask: "", temperature: "", layer: "", head: "" });
  const choice = hasRun && html`<div class="bar"><${Select} label="numbers" value=${isLoaded ? "model" : ""}
      options=${[["", "three words, small numbers"], ["model", `load from ${run}`]]} onChange=${take} /></div>`;
  return html`<div class="workbench">${isLoaded ? html`<${Loaded} run=${run} info=${info} params=${params} change=${change} choice=${choice} />`
    : start.value && html`<${Small} start=${start.value} params=${params} change=${change} choice=${choice} />`}</div>`;
}
