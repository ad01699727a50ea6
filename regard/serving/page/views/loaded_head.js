// A head of a loaded run for the worked example: its text, its place, and its matrices.

import { html } from "../drawing/vendor/preact.js";
import { HeadChoice, headOf } from "../parts/head_choice.js";
import { get } from "../parts/server.js";
import { useAnswer } from "../parts/state.js";
import { TextForm, textOf, useAnswers } from "../parts/ask.js";

// the first answer to a text, its record, and the numbers of one head of it
export function useHead(info, params) {
  const text = textOf(params, info);
  const answered = useAnswers(info, text, params);
  const name = answered.value?.answers[0]?.record;
  const record = useAnswer(() => name && get(["records", name]), [name]);
  const attention = record.value?.attention;
  const { kind, layer, head } = headOf(params, attention, "encoder");
  const given = useAnswer(() => kind && get(["records", name, "worked", kind, layer - 1, head - 1]),
    [name, kind, layer, head]);
  return { text, attention, kind, layer, head, given: given.value,
    error: answered.error ?? record.error ?? given.error,
    isBusy: answered.isBusy || record.isBusy || given.isBusy };
}

export function LoadedHead({ run, info, loaded, params, change }) {
  const { given, attention, kind, layer, head } = loaded;
  const turned = given && given.K[0].length < given.width;
  return html`<${TextForm} text=${loaded.text} hasTarget=${false} info=${info} params=${params} isBusy=${loaded.isBusy}
      ask=${(next) => change({ ...next, edits: "" })} />
    ${loaded.error && html`<p class="error" role="alert">${loaded.error}</p>`}
    ${attention && html`<div class="bar"><${HeadChoice} attention=${attention} kind=${kind} layer=${layer} head=${head}
      change=${(wish) => change({ ...wish, edits: "" })} /></div>`}
    ${given && html`<p class="quiet">Queries, keys and values of ${run}: ${given.title}, as it read this text.
      ${turned ? html` The head has ${given.width} numbers to a piece. ${given.keys.length} keys lie in a space of
        as many dimensions, so all are turned into it: ${given.K[0].length} numbers to a piece, and every product
        is what it was.` : ""}</p>`}`;
}
