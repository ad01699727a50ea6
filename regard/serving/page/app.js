// The studio's frame: the chosen view and run, the theme, the tour, and what all views share.

import { html, render, useEffect, useMemo, useRef, useState } from "./drawing/vendor/preact.js";
import { stopsOf } from "./drawing/colours.js";
import { isTyping, Select } from "./drawing/controls.js";
import { useMedia } from "./drawing/focus.js";
import { useFacts } from "./parts/facts.js";
import { get } from "./parts/server.js";
import { addressOf, useAddress, useAnswer, useKept } from "./parts/state.js";
import { Tour } from "./parts/tour.js";
import { VIEWS } from "./views/all.js";

const THEMES = [["system", "auto"], ["light", "light"], ["dark", "dark"]];
// milliseconds between two looks at runs that are being trained
const ASKING = 5000;
const KEYS = [
  ["1 … 9", "go to a view"], ["Tab", "go on to the next control, line of words or map"],
  ["arrow keys", "move inside a line of words, a map or the grid of heads"],
  ["Home, End", "first and last of a line; with Ctrl the corners of a map"],
  ["Enter or space", "pin what is in focus; with Shift add it to what is pinned"],
  ["Escape", "unpin"], ["[ and ]", "previous and next layer"], [", and .", "previous and next head"],
  ["+, − and 0", "zoom in the atlas, and show all of it"], ["?", "this list"],
];

function useTheme() {
  const [theme, setTheme] = useKept("regard-theme", "system");
  const isNight = useMedia("(prefers-color-scheme: dark)");
  useEffect(() => { document.documentElement.dataset.theme = theme; }, [theme]);
  return { theme, setTheme, isDark: theme === "dark" || (theme === "system" && isNight) };
}

function Help({ dialog }) {
  return html`<dialog ref=${dialog} aria-labelledby="keys">
    <h2 id="keys">Keys</h2>
    <dl>${KEYS.map(([key, does]) => html`<div key=${key}><dt>${key}</dt><dd>${does}</dd></div>`)}</dl>
    <p class="quiet">Single keys rest while you type.</p>
    <form method="dialog"><button type="button" onClick=${() => dialog.current.close()}>Close</button>
    </form></dialog>`;
}

function useKeys(views, go, help) {
  useEffect(() => {
    const pressed = (event) => {
      if (isTyping(event)) return;
      if (event.key === "?") help.current.showModal();
      const place = Number(event.key) - 1;
      if (/^[1-9]$/.test(event.key) && views[place]) go(views[place].name);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}

// what a view is called: by what the run does, where the run decides it
const titleOf = (view, run) => (view.isNamedByTask ? run?.verb : null) ?? view.title;

function runOf(view, served, params) {
  const fitting = served.runs.filter((run) => !view.reads || run.reads === view.reads);
  return { fitting, run: fitting.find(({ name }) => name === params.run) ?? fitting[0] };
}

function Studio({ served, ramps }) {
  const views = useMemo(() => VIEWS.filter((view) => view.suits(served)), [served]);
  const { view, params, change } = useAddress(views[0].name);
  const { theme, setTheme, isDark } = useTheme();
  const help = useRef(null), main = useRef(null);
  const here = views.find((one) => one.name === view) ?? views[0];
  const { fitting, run } = runOf(here, served, params);
  const { info, error } = useFacts(run);
  const shade = ramps[isDark ? "dark" : "light"];
  const stops = useMemo(() => stopsOf(shade.maps[params.map]?.ramp ?? shade.weights), [shade, params.map]);
  const differences = useMemo(() => stopsOf(shade.differences), [shade]);
  const to = (name) => addressOf(name, { run: params.run, text: params.text, most: params.most, map: params.map });
  const go = (name) => { location.hash = to(name); };
  const title = titleOf(here, run);
  useKeys(views, go, help);
  useEffect(() => { document.title = `${title} · regard studio`; }, [title]);
  const shared = { served, run: run?.name, info, params, change, stops, differences, isDark, ramps: shade };
  return html`<a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault(); main.current.focus(); }}>Skip to the view</a>
    <header><div class="top"><b class="brand">regard <span>studio</span></b>
      <nav aria-label="views">${views.map((one) => html`<a key=${one.name} href=${to(one.name)} title=${one.lead}
        aria-current=${one === here ? "page" : null}>${titleOf(one, runOf(one, served, params).run)}</a>`)}</nav>
      <div class="tools">${fitting.length > 1 && !here.choosesRuns && html`<${Select} label="run" value=${run.name}
        options=${fitting.map(({ name }) => [name, name])}
        onChange=${(name) => change({ run: name, pin: "", answer: "", layer: "", head: "",
          // an example of one run says nothing to another
          ...(info?.examples?.includes(params.text) ? { text: undefined } : {}) })} />`}
      <label><span class="unseen">theme</span><select value=${theme} onChange=${(event) => setTheme(event.target.value)}>
        ${THEMES.map(([key, name]) => html`<option key=${key} value=${key} selected=${key === theme}>${name}</option>`)}</select></label>
      <button type="button" onClick=${() => change({ tour: "1" })}>Tour</button>
      <button type="button" aria-label="keys" onClick=${() => help.current.showModal()}>?</button></div></div></header>
    <main id="main" ref=${main} tabIndex="-1"><h1 class="unseen">${title}</h1>
      ${(error || info?.why_not) && html`<p class="error" role="alert">${error ?? info.why_not}</p>`}
      <${here.View} key=${here.name} ...${shared} /></main>
    <footer class="quiet small">${here.lead} ${info?.is_ready && html`${info.name}: ${info.model},
      ${" "}${info.parameters.toLocaleString("en-GB")} parameters, on ${info.device}${info.step ? ` (update ${
        info.step.toLocaleString("en-GB")})` : ""}. `}
      regard ${served.version}. Everything on this page is computed on your machine.</footer>
    ${params.tour && html`<${Tour} views=${views} here=${here} go=${go} params=${params} change=${change}
      close=${() => change({ tour: "" })} />`}
    <${Help} dialog=${help} />`;
}

// the runs that are served; asked again while one of them is still being trained
function useServed() {
  const [turn, setTurn] = useState(0);
  const given = useAnswer(() => get(["runs"]), [turn]), last = useRef(null);
  // the page keeps its objects until something has changed
  if (given.value && JSON.stringify(given.value) !== JSON.stringify(last.current)) last.current = given.value;
  const isWaiting = last.current?.runs.some((run) => !run.is_finished);
  useEffect(() => {
    if (!isWaiting || given.isBusy) return undefined;
    const waiting = setTimeout(() => setTurn(turn + 1), ASKING);
    return () => clearTimeout(waiting);
  }, [isWaiting, given.isBusy, turn]);
  return { served: last.current, error: last.current ? null : given.error };
}

function App() {
  const { served, error } = useServed();
  const colours = useAnswer(() => get(["colours"]), []);
  const wrong = error ?? colours.error;
  if (wrong) return html`<main><p class="error" role="alert">${wrong}</p></main>`;
  if (!served || !colours.value) return html`<main><p role="status">Loading …</p></main>`;
  return html`<${Studio} served=${served} ramps=${colours.value} />`;
}

render(html`<${App} />`, document.getElementById("app"));
