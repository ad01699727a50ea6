// The words of captions, and the pictures, tables and settings that follow the word in focus.

import { cellAt, cellBox } from "./drawing/cells.js";
import { tellHeight } from "./drawing/frame_height.js";
import { ARROWS, heaviest, largest, limited, MEAN, named, places, quoted, said as counted, written as number } from "./drawing/numbers.js";
import { cellsOf, draw, fitting, groundOf, make, overlays, records, smoothed, spreadOf, state, titleOf } from "./picture_maps.js";

const LONGER = 800, SMALL = 240, SHOWN = 3;
const HINT = "Point at the picture, or walk over it with the arrow keys, to see which words look there.";
const OUTSIDE = "The model did not see this part.";
const find = (id) => document.getElementById(id);

// one picture with its words

function viewer(article, record, place) {
  const part = (name) => article.querySelector(`.${name}`);
  const stage = part("stage"), image = article.querySelector("img"), line = part("line");
  const big = stage.querySelector("canvas"), grounds = new Map();
  let hover = null, pin = null, cell = null, isOutside = false, isReady = false, view;

  const ground = (longer) => {
    const { is_grey: isGrey } = overlays[state.overlay], key = `${isGrey} ${longer}`;
    if (!grounds.has(key)) grounds.set(key, groundOf(image, overlays[state.overlay], longer));
    return grounds.get(key);
  };

  function looksAnew() {
    const cells = cellsOf(record), isSmooth = overlays[state.overlay].is_smooth;
    const drawn = isSmooth ? cells.map((one) => smoothed(one, record.grid)) : cells;
    const own = drawn.map((one) => largest([isSmooth ? one.numbers : one]));
    const tops = state.scale === "word" ? own : own.map(() => Math.max(...own));
    view = { cells, drawn, tops, entropies: cells.map(spreadOf) };
  }

  const paint = (canvas, word, longer) =>
    draw(record, canvas, ground(longer), view.drawn[word], view.tops[word]);

  const numbersOf = (word) => (record.gates ? `β ${record.gates[word].toFixed(2)} · ` : "")
    + `H ${view.entropies[word].toFixed(2)}`;
  const spot = (i) => `row ${Math.floor(i / record.grid.columns) + 1}, `
    + `column ${i % record.grid.columns + 1}`;

  function said(word) {
    const [[weight, best]] = heaviest(view.cells[word]);
    return `${quoted(record.words[word])} looks most at ${spot(best)} `
      + `(${number(weight)}).`;
  }

  function tell(word) {
    part("readout").textContent = word === null
      ? (record.words.length ? "The picture alone; choose a word." : "The caption has no words.")
      : said(word);
    const n = record.grid.rows * record.grid.columns, pairs = word === null ? [] : [
      ...(record.gates ? [["gate β", number(record.gates[word])]] : []),
      ["entropy H", `${number(view.entropies[word])} of at most ${number(Math.log(n))} nats`],
      ["spread over", `${(100 * Math.exp(view.entropies[word]) / n).toFixed(1)} % of the cells`],
    ];
    part("numbers").replaceChildren(...pairs.flatMap(([name, text]) =>
      [make("dt", name), make("dd", text)]));
    const { key, said: how } = overlays[state.overlay];
    part("legend").querySelector("i").style.background = `linear-gradient(to right, ${key})`;
    part("top").textContent = number(word === null ? largest([view.tops]) : view.tops[word]);
    part("said").textContent = record.words.length ? `Weight of a cell; the map is ${how}.` : "";
    part("title").textContent = titleOf(record);
  }

  // the focus: the word under the pointer or the keyboard focus, else the pinned one
  function show() {
    const word = hover ?? pin;
    stage.classList.toggle("alone", word === null);
    if (word !== null) paint(big, word, LONGER);
    [...line.children].forEach((button, i) => {
      button.classList.toggle("here", i === word);
      button.setAttribute("aria-pressed", String(i === pin));
    });
    [...part("sheet").children].forEach((figure, i) => {
      figure.classList.toggle("here", i === word);
      figure.classList.toggle("pinned", i === pin);
    });
    tell(word);
    mark();
    if (part("table-of-cells").closest("details").open) drawCellTable();
  }

  function keep(word) { pin = pin === word ? null : word; show(); }

  function drawLine() {
    line.replaceChildren(...record.words.map((name, word) => {
      const button = make("button", name, { type: "button", tabIndex: word ? -1 : 0 });
      button.addEventListener("pointerenter", () => { hover = word; show(); });
      button.addEventListener("pointerleave", () => { hover = null; show(); });
      button.addEventListener("focus", () => {
        [...line.children].forEach((other, i) => { other.tabIndex = i === word ? 0 : -1; });
        hover = word;
        show();
      });
      button.addEventListener("blur", () => { hover = null; show(); });
      button.addEventListener("click", () => keep(word));
      return button;
    }));
  }

  function walk(event) {
    const words = [...line.children], here = words.indexOf(document.activeElement);
    const forward = line.matches(":dir(rtl)") ? -1 : 1;
    const steps = { ArrowRight: forward, ArrowLeft: -forward, Home: -here,
      End: words.length - 1 - here };
    const jumps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key === "Escape") { pin = null; hover = null; show(); }
    if (event.key in jumps) {
      viewers[place + jumps[event.key]]?.enter();
      event.preventDefault();
    }
    if (!(event.key in steps) || here < 0) return;
    words[Math.min(Math.max(here + steps[event.key], 0), words.length - 1)].focus();
    event.preventDefault();
  }

  // a click pins a word; the words above have tab stops, so the sheet needs none
  function drawSheet() {
    part("sheet").replaceChildren(...record.words.map((name, word) => {
      const figure = make("figure"), canvas = make("canvas");
      const caption = make("figcaption", name, { dir: "auto", title: name });
      caption.append(make("small", numbersOf(word)));
      paint(canvas, word, SMALL);
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${said(word)} ${numbersOf(word)}.`);
      figure.append(canvas, caption);
      figure.addEventListener("click", () => keep(word));
      return figure;
    }));
  }

  // a cell of the picture: the words with weight there

  function mark() {
    const box = part("mark"), word = hover ?? pin, { columns } = record.grid;
    box.hidden = cell === null;
    if (cell === null) { part("cell").textContent = isOutside ? OUTSIDE : HINT; return; }
    const { left, top, right, bottom } = cellBox(record, Math.floor(cell / columns), cell % columns);
    const share = (length, side) => `${100 * length / side}%`, { width, height } = record.picture;
    Object.assign(box.style, { left: share(left, width), top: share(top, height),
      width: share(right - left, width), height: share(bottom - top, height) });
    const most = heaviest(view.cells.map((cells) => cells[cell])).slice(0, SHOWN)
      .map(([weight, i]) => `${quoted(record.words[i])} ${number(weight)}`).join(", ");
    const own = word === null ? "" : `${quoted(record.words[word])} ${number(view.cells[word][cell])}; `;
    part("cell").textContent = `${spot(cell)}: ${own}most of ${most || "no word"}`;
  }

  function stageEvents() {
    const { rows, columns } = record.grid;
    const at = (event) => {
      const found = cellAt(record, event, stage);
      cell = found && found.row * columns + found.column;
      isOutside = !found;
      mark();
    };
    stage.tabIndex = 0;
    stage.setAttribute("role", "application");
    stage.setAttribute("aria-label", `${image.alt}. ${rows} rows and ${columns} columns of cells. `
      + "Arrow keys move from cell to cell.");
    stage.addEventListener("pointermove", at);
    stage.addEventListener("pointerdown", at);
    stage.addEventListener("pointerleave", () => { cell = null; isOutside = false; mark(); });
    stage.addEventListener("blur", () => { cell = null; mark(); });
    stage.addEventListener("focus", () => {
      const word = hover ?? pin;
      cell ??= word === null ? 0 : heaviest(view.cells[word])[0][1];
      mark();
    });
    stage.addEventListener("keydown", (event) => {
      const steps = { ...ARROWS, Home: [0, -columns], End: [0, columns] };
      if (!(event.key in steps) || cell === null) return;
      const [down, across] = steps[event.key];
      cell = limited(Math.floor(cell / columns) + down, rows) * columns
        + limited(cell % columns + across, columns);
      mark();
      event.preventDefault();
    });
  }

  // the tables

  function table(title, heads, lines) {
    const out = make("table"), body = out.createTBody();
    out.createCaption().textContent = title;
    const head = out.createTHead().insertRow();
    heads.forEach((name) => head.append(make("th", name, { scope: "col" })));
    lines.forEach(([name, ...cells]) => {
      const row = body.insertRow();
      row.append(make("th", name, { scope: "row" }));
      cells.forEach((text) => row.append(make("td", text)));
    });
    return out;
  }

  function drawWordTable() {
    const gate = (texts) => (record.gates ? texts : []);
    part("table-of-words").replaceChildren(table(titleOf(record),
      ["word", ...gate(["gate β"]), "entropy H", "heaviest cell", "its weight"],
      record.words.map((name, word) => {
        const cells = view.cells[word], [[weight, best]] = heaviest(cells);
        return [name, ...gate([record.gates && number(record.gates[word])]),
          number(view.entropies[word]), spot(best), number(weight)];
      })));
  }

  function drawCellTable() {
    const word = hover ?? pin, { rows, columns } = record.grid;
    if (word === null) { part("table-of-cells").replaceChildren(); return; }
    const cells = view.cells[word], [[, best]] = heaviest(cells);
    const out = table(`${quoted(record.words[word])}: the weight of every cell`,
      ["row ↓ column →", ...Array.from({ length: columns }, (_, i) => String(i + 1))],
      Array.from({ length: rows }, (_, i) => [String(i + 1),
        ...cells.slice(i * columns, (i + 1) * columns).map(number)]));
    out.querySelectorAll("td")[best]?.classList.add("most");
    part("table-of-cells").replaceChildren(out);
  }

  return {
    start() {
      const best = cellsOf(record).map((cells) => largest([cells]));
      pin = best.length ? best.indexOf(Math.max(...best)) : null;
      for (const name of ["line", "now"]) part(name).hidden = false;
      part("legend").hidden = !record.words.length;
      drawLine();
      line.addEventListener("keydown", walk);
      article.querySelector("details").addEventListener("toggle", show);
      stageEvents();
      isReady = true;
      this.change();
    },
    change() {
      if (!isReady) return;
      looksAnew();
      drawSheet();
      drawWordTable();
      show();
    },
    enter() { [...line.children].find((word) => word.tabIndex === 0)?.focus(); },
  };
}

// everything together

const articles = [...document.querySelectorAll("article.picture")];
const viewers = articles.map((article, place) => viewer(article, records[place], place));
const most = (count) => Math.max(...records.map(count));
const counts = { layer: most(({ weights }) => weights.length),
  head: most(({ weights }) => weights[0].length) };

function keepAddress() {
  const address = { ...state, layer: counted(state.layer), head: counted(state.head) };
  try { history.replaceState(null, "", `#${new URLSearchParams(address)}`); } catch { /* no history */ }
}

function change(wish) {
  Object.assign(state, wish);
  viewers.forEach((one) => one.change());
  keepAddress();
}

function wished() {
  const asked = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const place = (text, count) =>
    (/^[1-9]\d*$/.test(text) ? fitting(Number(text) - 1, count) : fitting(MEAN, count));
  return { ...(Object.hasOwn(overlays, asked.overlay) ? { overlay: asked.overlay } : {}),
    ...(["word", "caption"].includes(asked.scale) ? { scale: asked.scale } : {}),
    layer: place(asked.layer, counts.layer), head: place(asked.head, counts.head) };
}

function controls() {
  for (const what of ["layer", "head"]) {
    find(what).replaceChildren(...places(counts[what]).map((value) => make("option",
      named(what, value), { value, selected: value === state[what] })));
    find(what).parentElement.hidden = counts[what] === 1;
    find(what).addEventListener("change", ({ target }) =>
      change({ [what]: target.value === MEAN ? MEAN : Number(target.value) }));
  }
  find("scale").value = state.scale;
  find("scale").addEventListener("change", ({ target }) => change({ scale: target.value }));
  find("overlays").querySelectorAll("input").forEach((radio) => {
    radio.checked = radio.value === state.overlay;
    radio.addEventListener("change", () => change({ overlay: radio.value }));
  });
  for (const id of ["controls", "keys"]) find(id).hidden = false;
}

Object.assign(state, wished());
controls();
viewers.forEach((one, i) => {
  const image = articles[i].querySelector("img");
  if (image.complete) one.start();
  else image.addEventListener("load", () => one.start(), { once: true });
});
tellHeight();
