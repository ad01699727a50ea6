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

function Studio({ served, ramps }) {
  const views = useMemo(() => VIEWS.filter((view) => view.suits(served)), [served]);
  const { view, params, change } = useAddress(views[0].name);
  const { theme, setTheme, isDark } = useTheme();
  const help = useRef(null), main = useRef(null);
  const [isTouring, setTouring] = useState(params.tour != null);
  const here = views.find((one) => one.name === view) ?? views[0];
  const fitting = served.runs.filter((run) => !here.reads || run.reads === here.reads);
  const run = fitting.find(({ name }) => name === params.run)?.name ?? fitting[0]?.name;
  const { info, error } = useFacts(run);
  const shade = ramps[isDark ? "dark" : "light"];
  const stops = useMemo(() => stopsOf(shade.maps[params.map]?.ramp ?? shade.weights), [shade, params.map]);
  const differences = useMemo(() => stopsOf(shade.differences), [shade]);
  const to = (name) => addressOf(name, { run: params.run, text: params.text, most: params.most, map: params.map });
  const go = (name) => { location.hash = to(name); };
  useKeys(views, go, help);
  useEffect(() => { document.title = `${here.title} · regard studio`; }, [here]);
  const shared = { served, run, info, params, change, stops, differences, isDark };
  return html`<a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault(); main.current.focus(); }}>Skip to the view</a>
    <header><div class="top"><b class="brand">regard <span>studio</span></b>
      ${fitting.length > 1 && !here.choosesRuns && html`<${Select} label="run" value=${run}
        options=${fitting.map(({ name }) => [name, name])}
        onChange=${(name) => change({ run: name, pin: "", answer: "", layer: "", head: "" })} />`}
      <${Select} label="theme" value=${theme} onChange=${setTheme}
        options=${[["system", "as the system"], ["light", "light"], ["dark", "dark"]]} />
      <${Select} label="colour map" value=${params.map in shade.maps ? params.map : ""}
        options=${[["", "regard's own"], ...Object.entries(shade.maps).map(([key, { name }]) => [key, name])]}
        onChange=${(map) => change({ map })} />
      <button type="button" onClick=${() => setTouring(true)}>Tour</button>
      <button type="button" aria-label="keys" onClick=${() => help.current.showModal()}>?</button></div>
      <nav aria-label="views">${views.map((one) => html`<a key=${one.name} href=${to(one.name)}
        aria-current=${one === here ? "page" : null}>${one.title}</a>`)}</nav></header>
    <main id="main" ref=${main} tabIndex="-1"><h1>${here.title}</h1>
      <p class="lead">${here.lead}</p>
      ${error && html`<p class="error" role="alert">${error}</p>`}
      <${here.View} key=${here.name} ...${shared} /></main>
    <footer class="quiet small">${info && html`${info.name}: ${info.model},
      ${" "}${info.parameters.toLocaleString("en-GB")} parameters, on ${info.device}. `}
      regard ${served.version}. Everything on this page is computed on your machine.</footer>
    ${isTouring && html`<${Tour} views=${views} here=${here} go=${go} params=${params} change=${change}
      close=${() => { setTouring(false); change({ tour: "" }); }} />`}
    <${Help} dialog=${help} />`;
}

function App() {
  const begun = useAnswer(() => Promise.all([get(["runs"]), get(["colours"])]), []);
  if (begun.error) return html`<main><p class="error" role="alert">${begun.error}</p></main>`;
  if (!begun.value) return html`<main><p role="status">Loading …</p></main>`;
  return html`<${Studio} served=${begun.value[0]} ramps=${begun.value[1]} />`;
}

render(html`<${App} />`, document.getElementById("app"));
