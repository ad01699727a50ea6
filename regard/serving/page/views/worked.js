// The worked example: three words, every number of every step, each of them editable.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { edited, isInput, nameOf, sources, steps, told } from "../parts/arithmetic.js";
import { Check, Select } from "../parts/controls.js";
import { Formula } from "../parts/formulas.js";
import { get, post } from "../parts/server.js";
import { useAnswer } from "../parts/state.js";

const readEdits = (text) => Object.fromEntries((text ?? "").split("*").filter(Boolean)
  .map((part) => part.split("~")).filter(([, value]) => Number.isFinite(Number(value)))
  .map(([name, value]) => [name, Number(value)]));
const writeEdits = (edits) => Object.entries(edits).map(([name, value]) => `${name}~${value}`).join("*");

function Cell({ value, name, label, isEdited, isSource, change, point, isHidden }) {
  const [draft, setDraft] = useState(null);
  const last = useRef(value), [flashes, setFlashes] = useState(0);
  useEffect(() => {
    if (last.current !== value) { last.current = value; setFlashes((count) => count + 1); }
  }, [value]);
  const finish = () => {
    const number = Number(draft);
    if (draft != null && draft.trim() !== "" && Number.isFinite(number) && number !== value) change(name, number);
    setDraft(null);
    point(null);
  };
  return html`<td class=${[isEdited && "edited", isSource && "source", isHidden && "masked"]
    .filter(Boolean).join(" ")}><input type="text" inputmode="decimal" aria-label=${label}
    key=${flashes} class=${flashes ? "flash" : ""} data-name=${name} data-value=${value}
    value=${draft ?? Number(value.toFixed(4))}
    onFocus=${(event) => { setDraft(String(value)); point(name); event.target.select(); }}
    onInput=${(event) => setDraft(event.target.value)} onBlur=${finish}
    onKeyDown=${(event) => event.key === "Enter" && event.target.blur()}
    onPointerEnter=${() => point(name)} onPointerLeave=${() => point(null)} /></td>`;
}

function Stage({ stage, head, title, rows, names, columns, edits, change, point, marked, hidden,
  isScaled, isCross }) {
  const isSource = (i, j) => marked.some(([other, how, a, b]) => other === stage
    && ((how === "row" && a === i) || (how === "column" && a === j)
      || (how === "cell" && a === i && b === j)));
  return html`<figure class=${`stage ${stage[0]}`}><figcaption>${title}
    <${Formula} stage=${stage} isScaled=${isScaled} isCross=${isCross} /></figcaption>
    <div class="scroll"><table><thead><tr><td></td>${(columns ?? rows[0].map((_, j) => j + 1))
      .map((name, j) => html`<th scope="col" key=${j}>${name}</th>`)}</tr></thead>
    <tbody>${rows.map((row, i) => html`<tr key=${i}><th scope="row">${names?.[i] ?? i + 1}</th>
      ${row.map((number, j) => {
        const name = nameOf(stage, head, i, j);
        return html`<${Cell} key=${j} value=${number} name=${name} change=${change} point=${point}
          label=${`${title}, row ${names?.[i] ?? i + 1}, column ${columns?.[j] ?? j + 1}`}
          isEdited=${name in edits} isSource=${isSource(i, j)} isHidden=${hidden?.(i, j)} />`;
      })}</tr>`)}</tbody></table></div></figure>`;
}

function useWish(start, params) {
  return useMemo(() => {
    const count = params.heads === "2" ? "2" : "1";
    const isCross = params.keys === "other";
    return {
      queries: start.inputs, keys: isCross ? start.other_inputs : start.inputs, isCross,
      names: start.words, keyNames: isCross ? start.other_words : start.words,
      projections: start.heads[count].projections, W_O: start.heads[count].W_O,
      isScaled: params.scaled === "on", isCausal: params.mask === "causal",
      temperature: Number(params.temperature) > 0 ? Number(params.temperature) : 1,
    };
  }, [start, params.heads, params.keys, params.scaled, params.mask, params.temperature]);
}

function difference(mine, theirs) {
  const pairs = (a, b) => (Array.isArray(a) ? a.flatMap((one, i) => pairs(one, b[i])) : [Math.abs(a - b)]);
  const names = { query: "Q", key: "K", value: "V", products: "products", scores: "scores",
    weights: "weights", context: "context" };
  return Math.max(...pairs(mine.out, theirs.out), ...theirs.heads.flatMap((head, h) =>
    Object.entries(names).flatMap(([python, page]) => pairs(mine.heads[h][page], head[python]))));
}

function Example({ start, params, change }) {
  const wish = useWish(start, params);
  const edits = useMemo(() => readEdits(params.edits), [params.edits]);
  const [pointed, setPointed] = useState(null), [check, setCheck] = useState("");
  const done = useMemo(() => steps(wish, edits), [wish, edits]);
  useEffect(() => { setCheck(""); }, [done]);
  const set = (name, value) => change({ edits: writeEdits(edited(edits, name, value)) });
  const option = (patch) => change({ ...patch, edits: "" });
  const [stage, h, i, j] = pointed ? pointed.split(".").map((part, k) => (k ? Number(part) : part)) : [];
  const marked = pointed ? sources(stage, i, j) : [];
  const shared = { edits, change: set, point: setPointed, isScaled: wish.isScaled, isCross: wish.isCross };
  const inHead = (one) => ({ ...shared, head: one, marked: marked.length && h === one ? marked : [] });
  const outside = { ...shared, head: 0, marked };
  const isOwn = Object.keys(edits).every((name) => isInput(name.split(".")[0]));
  const verify = async () => {
    const asked = { queries: done.X, keys: done.Y, W_O: done.W_O, is_scaled: wish.isScaled,
      is_causal: wish.isCausal, temperature: wish.temperature,
      heads: done.heads.map(({ W_Q, W_K, W_V }) => ({ W_Q, W_K, W_V })) };
    try {
      const most = difference(done, await post(["worked"], asked));
      setCheck(`Python computes the same: the largest difference is ${most.toExponential(1)}.`);
    } catch (error) { setCheck(error.message); }
  };
  const { names, keyNames } = wish;
  return html`<div class="bar">
      <${Select} label="words look at" value=${params.keys ?? "own"} onChange=${(keys) => option({ keys })}
        options=${[["own", "themselves"], ["other", start.other_words.join(" ")]]} />
      <${Select} label="heads" value=${params.heads ?? "1"} options=${[["1", "1"], ["2", "2"]]}
        onChange=${(heads) => option({ heads })} />
      <${Check} label="divide by √d" isOn=${wish.isScaled}
        onChange=${(isOn) => change({ scaled: isOn ? "on" : "" })} />
      <${Check} label="causal mask" isOn=${wish.isCausal}
        onChange=${(isOn) => change({ mask: isOn ? "causal" : "" })} />
      <label>temperature <input type="number" min="0.1" step="0.1" value=${wish.temperature}
        onChange=${(event) => change({ temperature: event.target.value })} /></label>
      <button type="button" onClick=${() => change({ edits: "", temperature: "", scaled: "", mask: "" })}>
        As it was</button></div>
    <p class="readout" role="status">${pointed ? html`<b>${stage}</b> ${told(done, stage, h, i, j)}`
      : "Point at a number to see the sum that made it; change it, and everything to its right follows."}</p>
    <div class="stages">
      <${Stage} stage="X" title=${wish.isCross ? "X, of the queries" : "X"} rows=${done.X}
        names=${names} ...${outside} />
      ${wish.isCross && html`<${Stage} stage="Y" title="Y, of the keys" rows=${done.Y}
        names=${keyNames} ...${outside} />`}</div>
    ${done.heads.map((head, one) => html`<section key=${one} class="head">
      <h2>${done.heads.length > 1 ? `Head ${one + 1}` : "The head"}</h2><div class="stages">
      <${Stage} stage="W_Q" title="W_Q" rows=${head.W_Q} ...${inHead(one)} />
      <${Stage} stage="W_K" title="W_K" rows=${head.W_K} ...${inHead(one)} />
      <${Stage} stage="W_V" title="W_V" rows=${head.W_V} ...${inHead(one)} /></div><div class="stages">
      <${Stage} stage="Q" title="queries Q" rows=${head.Q} names=${names} ...${inHead(one)} />
      <${Stage} stage="K" title="keys K" rows=${head.K} names=${keyNames} ...${inHead(one)} />
      <${Stage} stage="V" title="values V" rows=${head.V} names=${keyNames} ...${inHead(one)} /></div>
      <div class="stages">
      <${Stage} stage="products" title="products" rows=${head.products} names=${names}
        columns=${keyNames} ...${inHead(one)} />
      <${Stage} stage="scores" title="scores" rows=${head.scores} names=${names} columns=${keyNames}
        hidden=${(a, b) => !head.visible(a, b)} ...${inHead(one)} />
      <${Stage} stage="max" title="row maximum" rows=${head.max} names=${names}
        columns=${["max"]} ...${inHead(one)} />
      <${Stage} stage="exp" title="exponentials" rows=${head.exp} names=${names} columns=${keyNames}
        hidden=${(a, b) => !head.visible(a, b)} ...${inHead(one)} />
      <${Stage} stage="sum" title="row sum" rows=${head.sum} names=${names} columns=${["sum"]} ...${inHead(one)} />
      <${Stage} stage="weights" title="weights" rows=${head.weights} names=${names} columns=${keyNames}
        hidden=${(a, b) => !head.visible(a, b)} ...${inHead(one)} />
      <${Stage} stage="context" title="context" rows=${head.context} names=${names} ...${inHead(one)} />
      </div></section>`)}
    <section class="head"><h2>Together</h2><div class="stages">
      <${Stage} stage="joined" title="heads side by side" rows=${done.joined} names=${names} ...${outside} />
      <${Stage} stage="W_O" title="W_O" rows=${done.W_O} ...${outside} />
      <${Stage} stage="out" title="output" rows=${done.out} names=${names} ...${outside} /></div></section>
    <div class="bar"><button type="button" disabled=${!isOwn} onClick=${verify}>Check with Python</button>
      <span role="status">${isOwn ? check
        : "Numbers in the middle were changed; Python starts from the inputs."}</span></div>`;
}

export function Worked({ params, change }) {
  const start = useAnswer(() => get(["worked"]), []);
  if (start.error) return html`<p class="error" role="alert">${start.error}</p>`;
  return start.value && html`<${Example} start=${start.value} params=${params} change=${change} />`;
}
