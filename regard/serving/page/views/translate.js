// Type a text, see the answers, and look at how each was read off the text.

import { html, useEffect, useState } from "../vendor/preact.js";
import { Look, useRecord } from "../parts/look.js";
import { post } from "../parts/server.js";
import { placeOf, useAnswer } from "../parts/state.js";

export function TextForm({ text, info, ask, isBusy, target, hasTarget = true }) {
  const [draft, setDraft] = useState(text), [wish, setWish] = useState(target);
  useEffect(() => { setDraft(text); }, [text]);
  useEffect(() => { setWish(target); }, [target]);
  const submit = (event) => { event.preventDefault(); ask(draft, wish); };
  const offers = (list, name) => list?.length > 0 && html`<div class="offers"><span>${name}</span>
    ${list.map((one) => html`<button type="button" key=${one} dir="auto"
      onClick=${() => ask(one, "")}>${one}</button>`)}</div>`;
  return html`<form class="ask" onSubmit=${submit}>
    <label>Text <textarea rows="2" dir="auto" value=${draft} required
      onInput=${(event) => setDraft(event.target.value)}
      onKeyDown=${(event) => event.key === "Enter" && !event.shiftKey && submit(event)}></textarea></label>
    ${hasTarget && html`<details open=${Boolean(wish)}><summary>Look at an answer of your own</summary>
      <label>Answer <input type="text" dir="auto" value=${wish}
        onInput=${(event) => setWish(event.target.value)} /></label></details>`}
    <div class="bar"><button type="submit" class="main" disabled=${!draft.trim()}>Answer</button>
      <span role="status" class="quiet">${isBusy ? "The model is at work …" : ""}</span></div>
    ${offers(info?.examples, "From this run's data:")}
    ${offers(info?.other_examples, "Or try:")}
  </form>`;
}

// what is looked at before anybody has typed anything
export const textOf = (params, info) => params.text ?? info?.examples[0] ?? info?.other_examples[0] ?? "";

export function useAnswers(run, text, target) {
  return useAnswer(() => run && text?.trim()
    && post(["runs", run, "predict"], { text, ...(target ? { target } : {}) }), [run, text, target]);
}

function Answers({ answers, chosen, choose }) {
  return html`<fieldset class="answers"><legend>Answers, best first</legend>
    ${answers.map((one, i) => html`<label key=${one.record}><input type="radio" name="answer"
      checked=${i === chosen} onChange=${() => choose(i)} />
      <b dir="auto">${one.text || "(empty)"}</b> <span class="quiet">${one.score == null
        ? "yours" : `score ${one.score.toFixed(4)}`}${one.has_ended === false
        ? ", cut at the longest allowed" : ""}</span></label>`)}</fieldset>`;
}

export function Translate({ run, info, params, change, stops }) {
  const text = textOf(params, info);
  const answered = useAnswers(info && run, text, params.target);
  const answers = answered.value?.answers ?? [];
  const place = Math.min(placeOf(params.answer), answers.length - 1);
  const seen = useRecord(answers[place]?.record, params);
  const ask = (next, target) => change({ text: next, target, answer: "", pin: "" });
  const error = answered.error ?? seen.error;
  return html`<${TextForm} text=${text} target=${params.target ?? ""} info=${info} ask=${ask}
      isBusy=${answered.isBusy || seen.isBusy} />
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${answered.value && !answered.error && html`
      ${answered.value.note && html`<p class="note">${answered.value.note}</p>`}
      ${answers.some((one) => one.text || one.score != null) && html`<${Answers} answers=${answers} chosen=${place}
        choose=${(i) => change({ answer: String(i + 1), pin: "" })} />`}`}
    ${seen.numbers && html`<${Look} key=${seen.record.record} record=${seen.record}
      numbers=${seen.numbers} params=${params} change=${change} stops=${stops}
      chances=${answers[place]?.words} />`}`;
}
