// Type a text, see the answers, and look at how each was read off the text.

import { html } from "../drawing/vendor/preact.js";
import { Look } from "../drawing/look.js";
import { Group } from "../drawing/side_panel.js";
import { TextForm, textOf, useAnswers } from "../parts/ask.js";
import { ColourMaps } from "../parts/colour_maps.js";
import { useRecord } from "../parts/record.js";
import { Saving } from "../parts/saving.js";
import { post } from "../parts/server.js";
import { placeOf, useAnswer } from "../parts/state.js";
import { Statistics } from "../parts/statistics.js";

// the model's confidence in an answer, word by word for filled-in words
function sureness({ score, filled }) {
  if (score == null) return "yours";
  return filled ? filled.map(([word, chance]) => `${word} ${(100 * chance).toFixed(1)} %`).join(", ")
    : `score ${score.toFixed(4)}`;
}

// what the model wrote: all of it, or the words that it filled in
const said = ({ text, filled }) => (filled ? filled.map(([word]) => word).join(", ") : text);
const ending = (one) => (one.has_ended === false ? ", cut at the longest allowed" : "");

function Answers({ answers, chosen, choose }) {
  return html`<section class="group"><fieldset class="answers"><legend><h2>${answers.length > 1 ? "Answers, best first" : "Answer"}</h2></legend>
    ${answers.map((one, i) => html`<label key=${i}><input type="radio" name="answer"
      checked=${i === chosen} onChange=${() => choose(i)} />
      <b dir="auto">${one.text || "(empty)"}</b> <span class="quiet">${sureness(one)}${ending(one)}</span></label>`)}
    </fieldset></section>`;
}

export function Answer({ info, params, change, stops, ramps }) {
  const text = textOf(params, info);
  const answered = useAnswers(info, text, params);
  const answers = answered.value?.answers ?? [];
  const place = Math.min(placeOf(params.answer), answers.length - 1), one = answers[place];
  const seen = useRecord(one?.record, params);
  // whether a text is like the training texts is told when it is known; no answer waits for it
  const unlike = useAnswer(() => info && text.trim() && post(["runs", info.name, "familiarity"], { text }), [info?.name, text]);
  const error = answered.error ?? seen.error, isThere = answered.value && !answered.error;
  const isWritten = isThere && answers.some((each) => each.text || each.score != null);
  const list = isWritten && html`<${Answers} answers=${answers} chosen=${place}
    choose=${(i) => change({ answer: String(i + 1), pin: "" })} />`;
  return html`<div class="workbench"><div>
      <${TextForm} text=${text} info=${info} params=${params} ask=${(next) => change({ ...next, answer: "" })}
        isBusy=${answered.isBusy || seen.isBusy} change=${change} />
      ${error && html`<p class="error" role="alert">${error}</p>`}
      ${isThere && answered.value.note && html`<p class="note told">${answered.value.note}</p>`}
      ${isThere && unlike.value?.unlike && html`<p class="note unlike">${unlike.value.unlike}</p>`}
      ${isWritten && one?.text && html`<p class="headline"><b dir="auto">${said(one)}</b></p>`}</div>
    ${seen.numbers ? html`<${Look} key=${seen.record.record} record=${seen.record}
      numbers=${seen.numbers} params=${params} change=${change} stops=${stops}
      chances=${one?.words} notes=${info?.labels_words ? one?.text.split(" ") : null} Below=${Statistics} first=${list}
      last=${(panel, view) => html`<${ColourMaps} ramps=${ramps} params=${params} change=${change} />
        <${Saving} record=${seen.record.record} view=${view} params=${params} panel=${panel} />`} />`
      : list && html`<aside class="side-panel" aria-label="answers">${list}</aside>`}</div>`;
}
