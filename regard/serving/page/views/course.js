// The course: prose and code of a chapter, and below each piece of code what it prints and draws.

import { html, useState } from "../drawing/vendor/preact.js";
import { Select } from "../drawing/controls.js";
import { Markdown } from "../parts/markdown.js";
import { get } from "../parts/server.js";
import { useAnswer } from "../parts/state.js";

function Output({ printed, picture }) {
  return html`${printed && html`<pre class="printed" role="region" tabindex="0"
      aria-label="what it prints">${printed}</pre>`}
    ${picture && html`<img src=${`data:image/png;base64,${picture}`} alt="what it draws" />`}`;
}

function Steps({ steps, outputs }) {
  const places = steps.map((step, i) => steps.slice(0, i).filter((one) => one.is_code).length);
  return steps.map((step, i) => (step.is_code
    ? html`<div key=${i}><pre class="code">${step.text}</pre>
        ${outputs && html`<${Output} ...${outputs[places[i]]} />`}</div>`
    : html`<${Markdown} key=${i} text=${step.text} />`));
}

const told = ({ value, isBusy }) => {
  if (isBusy) return "Running: seconds, and half a minute where a model is trained …";
  return value ? "What it prints and draws stands below each piece of code." : "";
};

export function Course({ params, change }) {
  const language = params.language ?? "en", number = params.chapter ?? "1";
  const contents = useAnswer(() => get(["course"], { language }), [language]);
  const chapter = useAnswer(() => get(["course", number], { language }), [number, language]);
  const [wanted, setWanted] = useState("");
  const played = useAnswer(() => (wanted === number ? get(["course", number, "outputs"]) : null), [wanted, number]);
  const wrong = contents.error ?? chapter.error ?? played.error;
  const all = contents.value?.chapters ?? [];
  const next = all.find((one) => String(one.number) === String(Number(number) + 1));
  return html`<section class="picture" aria-label="chapter"><div class="bar">
      <${Select} label="chapter" value=${number} options=${all.map((one) => [one.number, one.title])}
        onChange=${(wish) => change({ chapter: wish })} />
      <${Select} label="language" value=${language} options=${Object.entries(contents.value?.languages ?? {})}
        onChange=${(wish) => change({ language: wish })} />
      <button type="button" class="main" disabled=${played.isBusy} onClick=${() => setWanted(number)}>Run the code</button>
      <span class="quiet" role="status">${told(played)}</span></div>
    ${wrong && html`<p class="error" role="alert">${wrong}</p>`}
    ${chapter.value && html`<article class="chapter" lang=${language}>
      <${Steps} steps=${chapter.value.steps} outputs=${played.value} /></article>`}
    ${next && html`<p><button type="button" onClick=${() => { change({ chapter: next.number }); scrollTo(0, 0); }}>
      ${next.title} →</button></p>`}</section>`;
}
