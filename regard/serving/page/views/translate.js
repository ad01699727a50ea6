// Type a text, see the answers, and look at how each was read off the text.

import { html, useEffect, useState } from "../drawing/vendor/preact.js";
import { Look } from "../drawing/look.js";
import { useRecord } from "../parts/record.js";
import { post } from "../parts/server.js";
import { placeOf, useAnswer } from "../parts/state.js";
import { Statistics } from "../parts/statistics.js";

const SHORT = 100, ROW = 100;

// a document by its beginning, on a button
function beginning(text) {
  if (text.length <= SHORT) return text;
  const words = text.trim().split(/\s+/).length.toLocaleString("en-GB");
  return `${text.slice(0, SHORT).replace(/\s+\S*$/, "")} … (${words} words)`;
}

export function TextForm({ text, info, params, ask, isBusy, hasTarget = true }) {
  const target = (hasTarget && params.target) || "", most = params.most ?? "";
  const [draft, setDraft] = useState(text), [wish, setWish] = useState(target), [limit, setLimit] = useState(most);
  useEffect(() => { setDraft(text); }, [text]);
  useEffect(() => { setWish(target); }, [target]);
  useEffect(() => { setLimit(most); }, [most]);
  const send = (next, answer) => ask({ text: next, most: limit, pin: "", ...(hasTarget ? { target: answer } : {}) });
  const submit = (event) => { event.preventDefault(); send(draft, wish); };
  const offers = (list, name) => list?.length > 0 && html`<div class="offers"><span>${name}</span>
    ${list.map((one) => html`<button type="button" key=${one} dir="auto"
      onClick=${() => send(one, "")}>${beginning(one)}</button>`)}</div>`;
  return html`<form class="ask" onSubmit=${submit}>
    <label>Text <textarea rows=${Math.min(Math.max(Math.ceil(draft.length / ROW), 2), 8)} dir="auto" value=${draft} required
      onInput=${(event) => setDraft(event.target.value)}
      onKeyDown=${(event) => event.key === "Enter" && !event.shiftKey && submit(event)}></textarea></label>
    ${hasTarget && (info?.reads_answers || wish) && html`<details open=${Boolean(wish)}><summary>Look at an answer of your own</summary>
      <label>Answer <input type="text" dir="auto" value=${wish}
        onInput=${(event) => setWish(event.target.value)} /></label></details>`}
    <div class="bar"><button type="submit" class="main" disabled=${!draft.trim()}>Answer</button>
      ${info?.usual_answer && html`<label>at most <input type="number" class="most" min="1" max=${info.longest - 1}
        aria-label="longest answer, in tokens" placeholder=${info.usual_answer} value=${limit} disabled=${Boolean(wish)}
        onInput=${(event) => setLimit(event.target.value)} /> tokens</label>`}
      <span role="status" class="quiet">${isBusy ? "The model is at work …" : ""}</span></div>
    ${offers(info?.examples, "From this run's data:")}
    ${info?.why_no_examples && html`<p class="quiet small">${info.why_no_examples}</p>`}
    ${offers(info?.other_examples, "Or try:")}
  </form>`;
}

// the reader's text, else the first example
export const textOf = (params, info) => params.text ?? info?.examples[0] ?? info?.other_examples[0] ?? "";

// answers of the run in `info`; its limit is left out if the run writes no answers, though the address may have one
export function useAnswers(info, text, most, target) {
  const limit = info?.usual_answer && Number(most) ? { max_tokens: Number(most) } : {};
  return useAnswer(() => info && text?.trim()
    && post(["runs", info.name, "predict"], { text, ...(target ? { target } : limit) }), [info?.name, text, most, target]);
}

// the model's confidence in an answer, word by word for filled-in words
function sureness({ score, filled }) {
  if (score == null) return "yours";
  return filled ? filled.map(([word, chance]) => `${word} ${(100 * chance).toFixed(1)} %`).join(", ")
    : `score ${score.toFixed(4)}`;
}

function Answers({ answers, chosen, choose }) {
  return html`<fieldset class="answers"><legend>Answers, best first</legend>
    ${answers.map((one, i) => html`<label key=${i}><input type="radio" name="answer"
      checked=${i === chosen} onChange=${() => choose(i)} />
      <b dir="auto">${one.text || "(empty)"}</b> <span class="quiet">${sureness(one)}${one.has_ended === false
        ? ", cut at the longest allowed" : ""}</span></label>`)}</fieldset>`;
}

export function Translate({ info, params, change, stops }) {
  const text = textOf(params, info);
  const answered = useAnswers(info, text, params.most, params.target);
  const answers = answered.value?.answers ?? [];
  const place = Math.min(placeOf(params.answer), answers.length - 1);
  const seen = useRecord(answers[place]?.record, params);
  const error = answered.error ?? seen.error;
  return html`<${TextForm} text=${text} info=${info} params=${params} ask=${(next) => change({ ...next, answer: "" })}
      isBusy=${answered.isBusy || seen.isBusy} />
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${answered.value && !answered.error && html`
      ${answered.value.note && html`<p class="note">${answered.value.note}</p>`}
      ${answers.some((one) => one.text || one.score != null) && html`<${Answers} answers=${answers} chosen=${place}
        choose=${(i) => change({ answer: String(i + 1), pin: "" })} />`}`}
    ${seen.numbers && html`<${Look} key=${seen.record.record} record=${seen.record}
      numbers=${seen.numbers} params=${params} change=${change} stops=${stops}
      chances=${answers[place]?.words} Below=${Statistics} />`}`;
}
