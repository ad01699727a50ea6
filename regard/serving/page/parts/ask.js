// The form in which a text is asked, with examples of the run's own and what may be set.

import { html, useEffect, useState } from "../drawing/vendor/preact.js";
import { useAnswer } from "./state.js";
import { post } from "./server.js";

const SHORT = 60, ROW = 100;

// a document by its beginning, on a button
function beginning(text) {
  if (text.length <= SHORT) return text;
  const words = text.trim().split(/\s+/).length.toLocaleString("en-GB");
  return `${text.slice(0, SHORT).replace(/\s+\S*$/, "")} … (${words} words)`;
}

function Sampling({ params, change }) {
  const isOn = params.sample === "on";
  const number = (label, name, rest) => html`<label>${label} <input type="number" class="most" value=${params[name] ?? ""}
    ...${rest} onChange=${(event) => change({ [name]: event.target.value, pin: "", answer: "" })} /></label>`;
  return html`<div class="bar"><label class="check"><input type="checkbox" checked=${isOn}
      onChange=${(event) => change({ sample: event.target.checked ? "on" : "", pin: "", answer: "" })} /> draw instead of search</label>
    ${isOn && html`${number("temperature", "heat", { min: 0.05, step: 0.05, placeholder: 1 })}
      ${number("top k", "topk", { min: 1, step: 1, placeholder: "all" })} ${number("seed", "seed", { min: 0, step: 1, placeholder: 0 })}`}</div>`;
}

export function TextForm({ text, info, params, ask, isBusy, hasTarget = true, change }) {
  const target = (hasTarget && params.target) || "", most = params.most ?? "";
  const [draft, setDraft] = useState(text), [wish, setWish] = useState(target), [limit, setLimit] = useState(most);
  useEffect(() => { setDraft(text); }, [text]);
  useEffect(() => { setWish(target); }, [target]);
  useEffect(() => { setLimit(most); }, [most]);
  const send = (next, answer) => ask({ text: next, most: limit, pin: "", ...(hasTarget ? { target: answer } : {}) });
  const submit = (event) => { event.preventDefault(); send(draft, wish); };
  const offers = info?.examples ?? [];
  return html`<form class="ask" onSubmit=${submit}>
    <div class="ask-row"><label><span class="unseen">Text</span> <textarea rows=${Math.min(Math.max(Math.ceil(draft.length / ROW), 1), 3)}
        dir="auto" value=${draft} required placeholder="Type a text" onInput=${(event) => setDraft(event.target.value)}
        onKeyDown=${(event) => event.key === "Enter" && !event.shiftKey && submit(event)}></textarea></label>
      <button type="submit" class="main" disabled=${!draft.trim()}>${info?.verb ?? "Answer"}</button></div>
    <div class="ask-more">
      ${offers.length > 0 && html`<div class="offers scroll"><span>From this run's data:</span> ${offers.map((one) => html`<button type="button"
        key=${one} dir="auto" title=${one.slice(0, 300)} aria-pressed=${String(one === text)} onClick=${() => send(one, "")}>${beginning(one)}</button>`)}</div>`}
      ${info?.why_no_examples && html`<span class="quiet">${info.why_no_examples}</span>`}
      <span role="status" class="quiet">${isBusy ? "The model is at work …" : ""}</span>
      ${info?.usual_answer && html`<label>at most <input type="number" class="most" min="1" max=${info.longest - 1}
        aria-label="longest answer, in tokens" placeholder=${info.usual_answer} value=${limit} disabled=${Boolean(wish)}
        onInput=${(event) => setLimit(event.target.value)} /> tokens</label>`}
      ${hasTarget && (info?.reads_answers || wish) && html`<details open=${Boolean(wish || params.sample)}><summary>More</summary>
        <div class="bar"><label>Answer <input type="text" dir="auto" value=${wish} placeholder="an answer of your own to look at"
          onInput=${(event) => setWish(event.target.value)} /></label></div>
        ${change && info?.may_sample && html`<${Sampling} params=${params} change=${change} />`}</details>`}
    </div></form>`;
}

// the reader's text, else the first example
export const textOf = (params, info) => params.text ?? info?.examples[0] ?? "";

// answers of the run in `info`; what does not concern the run is left out, though the address may have it
export function useAnswers(info, text, { most, target, sample, heat, topk, seed }) {
  const limit = info?.usual_answer && Number(most) ? { max_tokens: Number(most) } : {};
  const wished = { temperature: Number(heat) || 1, ...(Number(topk) ? { top_k: Number(topk) } : {}), seed: Number(seed) || 0 };
  const drawn = sample === "on" && info?.may_sample ? { sampling: wished } : {};
  const body = { text, ...(target ? { target } : { ...limit, ...drawn }) };
  return useAnswer(() => info && text?.trim() && post(["runs", info.name, "predict"], body), [info?.name, info?.version, JSON.stringify(body)]);
}
