// How a run learned, or how it is learning: progress, the curves of metrics.jsonl as they grow, and what
// the run answered at each validation.

import { html, useEffect, useState } from "../drawing/vendor/preact.js";
import { Range } from "../drawing/controls.js";
import { Table } from "../drawing/table.js";
import { get } from "../parts/server.js";
import { useAnswer } from "../parts/state.js";

const [WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM] = [640, 250, 56, 14, 10, 36];
// milliseconds between two looks at a training, and how often the time that a look took
const ASKING = 2000, RARELY = 20;

function ticks(low, high, most = 6) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((one) => one >= rough);
  const out = [];
  for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k += 1) out.push(k * step);
  return out;
}

const short = (number, digits = 6) => Number(number.toPrecision(digits)).toString();

function Chart({ title, series }) {
  const points = Object.values(series).flat();
  const range = (axis) => {
    const all = points.map((point) => point[axis]);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    return high > low ? [low, high] : [low - 0.5, high + 0.5];
  };
  const [[x0, x1], [y0, y1]] = [range(0), range(1)];
  const x = (value) => LEFT + (value - x0) / (x1 - x0) * (WIDE - LEFT - RIGHT);
  const y = (value) => HIGH - BOTTOM - (value - y0) / (y1 - y0) * (HIGH - TOP - BOTTOM);
  const names = Object.keys(series), ends = names.map((name) => series[name].at(-1));
  const last = names.map((name) => `${name} ends at ${short(series[name].at(-1)[1])}`).join(", ");
  return html`<figure class="chart"><figcaption>${title} ${names.map((name, i) => html`<span key=${name}>
      <i class=${`swatch line-${i + 1}`}></i>${name} <b>${short(series[name].at(-1)[1], 4)}</b></span>`)}</figcaption>
    <svg viewBox=${`0 0 ${WIDE} ${HIGH}`} role="img" aria-label=${`${title}: ${last}`}>
      ${ticks(y0, y1).map((tick) => html`<g key=${`y${tick}`}><line class="rule" x1=${LEFT}
        x2=${WIDE - RIGHT} y1=${y(tick)} y2=${y(tick)} /><text x=${LEFT - 6} y=${y(tick) + 4}
        text-anchor="end">${short(tick)}</text></g>`)}
      ${ticks(x0, x1, 7).map((tick) => html`<text key=${`x${tick}`} x=${x(tick)} y=${HIGH - BOTTOM + 16}
        text-anchor="middle">${short(tick)}</text>`)}
      <text x=${(LEFT + WIDE) / 2} y=${HIGH - 4} text-anchor="middle">updates</text>
      ${names.map((name, i) => html`<polyline key=${name} class=${`curve line-${i + 1}`}
        points=${series[name].map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ")} />
        <circle class=${`end line-${i + 1}`} cx=${x(ends[i][0])} cy=${y(ends[i][1])} r="3.5" />`)}
    </svg>
    <details><summary>The numbers as a table</summary><${Table} caption=${title}
      heads=${["update", ...names]} rows=${rows(series, names)} /></details></figure>`;
}

function rows(series, names) {
  const by = new Map();
  names.forEach((name, i) => series[name].forEach(([step, value]) => {
    if (!by.has(step)) by.set(step, names.map(() => ""));
    by.get(step)[i] = short(value);
  }));
  return [...by].sort((a, b) => a[0] - b[0]).map(([step, values]) => [short(step), ...values]);
}

// the curves, asked again while the training goes on; the last ones stay meanwhile
function useTraining(run) {
  const [turn, setTurn] = useState(0), [last, setLast] = useState({ run: null, value: null });
  const given = useAnswer(() => {
    const began = performance.now();
    return run && get(["runs", run, "curves"]).then((value) => {
      setLast({ run, value });
      return Math.max(ASKING, RARELY * (performance.now() - began));
    });
  }, [run, turn]);
  const value = last.run === run ? last.value : null, isDone = !value || value.state === "finished";
  useEffect(() => {
    if (isDone || given.isBusy || !given.value) return undefined;
    const waiting = setTimeout(() => setTurn(turn + 1), given.value);
    return () => clearTimeout(waiting);
  }, [isDone, given.isBusy, given.value, turn]);
  return { value, error: given.error };
}

function lasting(seconds) {
  if (seconds < 90) return `${Math.max(Math.round(seconds), 1)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${(seconds / 86400).toFixed(1)} days`;
}

const whole = (count) => count.toLocaleString("en-GB");
const STATES = { running: "Training", quiet: "Quiet", finished: "Finished" };

function Progress({ step, steps, state, seconds_left: left, quiet_seconds: quiet, seconds_per_update: speed, scores }) {
  const told = [steps && state !== "finished" ? `update ${whole(step)} of ${whole(steps)}` : `${whole(step)} updates`,
    left != null && `about ${lasting(left)} left`, speed && `${speed < 1 ? `${(1 / speed).toFixed(1)} updates a second`
      : `${speed.toFixed(1)} s an update`}`,
    state === "running" && quiet != null && `last line ${lasting(quiet)} ago`,
    state === "quiet" && `nothing written for ${lasting(quiet)}: it validates, or was stopped`].filter(Boolean);
  return html`<section class=${`progress ${state}`} aria-label="progress"><p class="state"><b>${STATES[state]}</b> ${told.join(" · ")}</p>
    ${steps && state !== "finished" && html`<progress max=${steps} value=${Math.min(step, steps)} aria-label="updates made"></progress>`}
    <dl class="scores">${Object.entries(scores).map(([name, value]) => html`<div key=${name}><dt>${name}</dt>
      <dd>${short(value, 4)}</dd></div>`)}</dl></section>`;
}

// pairs of places [source word, answer word], or "0-1 2-3"; none in any other form
function linksOf(links) {
  const pairs = typeof links === "string" ? links.trim().split(/\s+/).map((one) => one.split("-").map(Number)) : links;
  return Array.isArray(pairs) ? pairs.filter((one) => Array.isArray(one) && one.length >= 2
    && one.slice(0, 2).every(Number.isInteger)) : [];
}

function Sample({ source, reference, answer, links }) {
  const [at, setAt] = useState(null), pairs = linksOf(links);
  const lit = new Set(pairs.filter(([, target]) => target === at).map(([from]) => from));
  const words = (text) => text.split(" ").filter(Boolean);
  return html`<li class=${answer === reference ? "right" : ""}>
    <p dir="auto" class="quiet">${words(source).map((word, i) => html`<span key=${i} class=${lit.has(i) ? "lit" : ""}>${word} </span>`)}</p>
    <p dir="auto" class="said">${answer ? words(answer).map((word, i) => html`<span key=${i} onPointerEnter=${() => setAt(i)}
      onPointerLeave=${() => setAt(null)}>${word} </span>`) : "(empty)"}</p>
    ${reference && reference !== answer && html`<p dir="auto" class="small quiet">reference: ${reference}</p>`}</li>`;
}

function Samples({ samples, params, change }) {
  const steps = [...new Set(samples.map(({ step }) => step))].sort((a, b) => a - b);
  const newest = steps.length - 1, wish = steps.indexOf(Number(params.update));
  const at = wish < 0 ? newest : wish;
  const shown = samples.filter(({ step }) => step === steps[at]);
  return html`<aside class="side-panel samples" aria-label="sample answers"><section class="group"><h2>What it answered</h2>
    ${steps.length > 1 && html`<div class="bar"><${Range} label="at update" low="0" high=${newest} step="1" value=${at}
      said=${whole(steps[at])} onInput=${(next) => change({ update: Number(next) === newest ? "" : steps[next] })} />
      <span class="quiet small">${shown.filter(({ answer, reference }) => answer === reference).length} of ${shown.length} as the reference</span></div>`}
    <ol>${shown.map((one, i) => html`<${Sample} key=${`${i} ${one.source}`} ...${one} />`)}</ol></section></aside>`;
}

export function Training({ run, info, params, change }) {
  const { value, error } = useTraining(info?.has_metrics && run);
  if (error && !value) return html`<p class="error" role="alert">${error}</p>`;
  if (info && !info.has_metrics) {
    return html`<p>This run has no metrics.jsonl, so how it was trained is not known.</p>`;
  }
  if (!value) return null;
  const [full, empty] = [true, false].map((isFull) => value.charts.filter(({ series }) =>
    Object.keys(series).length > 0 === isFull));
  return html`${error && html`<p class="error" role="alert">${error}</p>`}<${Progress} ...${value} />
    ${!full.length && html`<p class="quiet">No update has been written yet; the curves begin with the first.</p>`}
    <div class=${value.samples.length > 0 ? "workbench" : ""}><div class="charts">${full.map((chart) => html`<${Chart} key=${chart.title} ...${chart} />`)}</div>
    ${value.samples.length > 0 && html`<${Samples} samples=${value.samples} params=${params} change=${change} />`}</div>
    <p class="quiet small">${whole(value.updates)} updates${value.every > 1 ? `; one in ${value.every} is drawn` : ""}. ${
      empty.length > 0 && full.length > 0 ? `Not measured: ${empty.map(({ title }) => title).join("; ")}.` : ""}</p>`;
}
