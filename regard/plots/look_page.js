"use strict";
// Every number drawn here stands in the page's JSON; means and sums of words are made from them.
(() => {
  const { record, ramps, view: first } = JSON.parse(document.getElementById("record").textContent);
  const MEAN = -1, LONG = 120, TABLE = 60, SHOWN = 5;
  const find = (id) => document.getElementById(id);
  const make = (tag, text, parts = {}) =>
    Object.assign(document.createElement(tag), { textContent: text ?? "" }, parts);
  const state = { ...first, layer: first.layer ?? MEAN, head: first.head ?? MEAN };
  let view, hover = null, pin = null, cell = { query: 0, key: 0 };

  // numbers

  const zeros = (rows, columns) => Array.from({ length: rows }, () => new Float64Array(columns));

  function mean(kind, layer, head) {
    const layers = record.attention[kind].weights;
    const chosen = (layer === MEAN ? layers : [layers[layer]])
      .flatMap((heads) => (head === MEAN ? heads : [heads[head]]));
    const out = zeros(chosen[0].length, chosen[0][0].length);
    for (const one of chosen) {
      one.forEach((row, i) => row.forEach((weight, j) => { out[i][j] += weight / chosen.length; }));
    }
    return out;
  }

  // a word's weight: summed over the pieces of a key, averaged over those of a query
  function merged(weights, queries, keys) {
    const out = zeros(queries.names.length, keys.names.length);
    const sizes = new Array(queries.names.length).fill(0);
    queries.words.forEach((word) => { sizes[word] += 1; });
    weights.forEach((row, i) => {
      const word = queries.words[i];
      row.forEach((weight, j) => { out[word][keys.words[j]] += weight / sizes[word]; });
    });
    return out;
  }

  const largest = (weights) => weights.reduce((most, row) => Math.max(most, ...row), 0) || 1;

  function panel() {
    const one = record.attention[state.kind];
    const pieces = mean(state.kind, state.layer, state.head);
    const isWords = state.unit === "words";
    const weights = isWords ? merged(pieces, one.queries, one.keys) : pieces;
    const names = (side) => (isWords ? side.names : side.pieces);
    const special = (side) => new Set(isWords ? side.specials
      : side.words.flatMap((word, i) => (side.specials.includes(word) ? [i] : [])));
    return { one, weights, top: largest(weights), queries: names(one.queries),
      keys: names(one.keys), specials: { query: special(one.queries), key: special(one.keys) } };
  }

  // colours

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const ramp = () => (dark.matches ? ramps.dark : ramps.light)
    .map((text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)));

  function colour(stops, share) {
    const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
    const left = Math.min(Math.floor(place), stops.length - 2);
    return stops[left].map((low, i) => Math.round(low + (stops[left + 1][i] - low) * (place - left)));
  }

  function ink(rgb) {
    const [r, g, b] = rgb.map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
  }

  function paint(canvas, weights, top) {
    const [rows, columns] = [weights.length, weights[0].length];
    Object.assign(canvas, { width: columns, height: rows });
    const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
    const stops = ramp();
    weights.forEach((row, i) => row.forEach((weight, j) => {
      image.data.set([...colour(stops, weight / top), 255], 4 * (i * columns + j));
    }));
    context.putImageData(image, 0, 0);
  }

  // words

  const quoted = (name) => `“${name}”`;
  const number = (weight) => weight.toFixed(4);

  function line(side, names, title) {
    const box = find(side === "query" ? "queries" : "keys");
    box.className = `line ${state.unit}`;
    box.setAttribute("aria-label", title);
    box.previousElementSibling.textContent = title;
    box.replaceChildren(...names.map((name, place) => {
      const word = make("button", name, { type: "button", tabIndex: place ? -1 : 0 });
      word.classList.toggle("special", view.specials[side].has(place));
      word.addEventListener("pointerenter", () => { hover = { side, place }; focusOn(); });
      word.addEventListener("pointerleave", () => { hover = null; focusOn(); });
      word.addEventListener("focus", () => { hover = { side, place }; roam(box, place); focusOn(); });
      word.addEventListener("blur", () => { hover = null; focusOn(); });
      word.addEventListener("click", () => {
        pin = pin && pin.side === side && pin.place === place ? null : { side, place };
        focusOn();
      });
      return word;
    }));
  }

  const roam = (box, place) =>
    [...box.children].forEach((word, i) => { word.tabIndex = i === place ? 0 : -1; });

  function walk(event, side) {
    const box = event.currentTarget, words = [...box.children];
    const here = words.indexOf(document.activeElement), forward = box.matches(":dir(rtl)") ? -1 : 1;
    const steps = { ArrowRight: forward, ArrowLeft: -forward, Home: -here,
      End: words.length - 1 - here };
    if (event.key === "Escape") { pin = null; focusOn(); }
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const other = find(side === "query" ? "keys" : "queries");
      [...other.children].find((word) => word.tabIndex === 0)?.focus();
      event.preventDefault();
    }
    if (!(event.key in steps) || here < 0) return;
    words[Math.min(Math.max(here + steps[event.key], 0), words.length - 1)].focus();
    event.preventDefault();
  }

  // what is looked at: the word under the pointer or the keyboard, else the pinned one
  function focusOn() {
    const { weights, queries, keys, top } = view, at = hover ?? pin, stops = ramp();
    const isQuery = at?.side === "query";
    const shades = { query: at && !isQuery ? weights.map((row) => row[at.place]) : null,
      key: at && isQuery ? [...weights[at.place]] : null };
    for (const [side, box] of [["query", find("queries")], ["key", find("keys")]]) {
      [...box.children].forEach((word, place) => {
        const ground = shades[side] ? colour(stops, shades[side][place] / top) : null;
        word.style.background = ground ? `rgb(${ground})` : "";
        word.style.color = ground ? ink(ground) : "";
        word.classList.toggle("here", at?.side === side && at.place === place);
        word.setAttribute("aria-pressed", String(pin?.side === side && pin.place === place));
      });
    }
    if (!at) { say("Point at a word, or reach it with Tab and the arrow keys."); return; }
    const [names, own, verb] = isQuery ? [keys, queries, "looks at"] : [queries, keys, "is seen by"];
    const row = shades[isQuery ? "key" : "query"];
    const most = row.map((weight, place) => [weight, place]).sort((a, b) => b[0] - a[0]);
    say(`${quoted(own[at.place])} ${verb} ` + most.slice(0, SHOWN)
      .map(([weight, place]) => `${quoted(names[place])} ${number(weight)}`).join(", "));
  }

  function say(text) { find("readout").textContent = text; }

  // the heat map

  function drawMap() {
    const { weights, queries, keys, top, one } = view, box = find("cells");
    const frame = box.parentElement, isLong = Math.max(queries.length, keys.length) > LONG;
    frame.style.setProperty("--queries", queries.length);
    frame.style.setProperty("--keys", keys.length);
    frame.classList.toggle("small", isLong);
    find("axis").textContent = `${one.query_title} ↓ ${one.key_title} →`;
    const labels = (names) => (isLong ? [] : names)
      .map((name) => make("div", name, { title: name }));
    find("rows").replaceChildren(...labels(queries));
    find("columns").replaceChildren(...labels(keys));
    paint(find("canvas"), weights, top);
    box.setAttribute("aria-label", `${title()}: ${queries.length} queries by ${keys.length} keys. `
      + "Arrow keys move from cell to cell.");
    cell = { query: Math.min(cell.query, queries.length - 1), key: Math.min(cell.key, keys.length - 1) };
    mark(false);
  }

  function mark(isShown) {
    const { query, key } = cell, { weights, queries, keys } = view;
    const cross = (rows, columns, top, left) => `height:calc(var(--cell)*${rows});`
      + `width:calc(var(--cell)*${columns});top:calc(var(--cell)*${top});`
      + `left:calc(var(--cell)*${left});display:${isShown ? "block" : "none"}`;
    find("row-mark").style.cssText = cross(1, keys.length, query, 0);
    find("column-mark").style.cssText = cross(queries.length, 1, 0, key);
    [...find("rows").children].forEach((name, i) =>
      name.classList.toggle("here", isShown && i === query));
    [...find("columns").children].forEach((name, i) =>
      name.classList.toggle("here", isShown && i === key));
    if (!isShown) return;
    const said = `query ${query + 1} ${quoted(queries[query])} → key ${key + 1} `
      + `${quoted(keys[key])}: ${number(weights[query][key])}`;
    find("cell").textContent = said;
  }

  function mapEvents() {
    const box = find("cells");
    const at = (event) => {
      const frame = box.getBoundingClientRect();
      const place = (offset, size, count) =>
        Math.min(Math.max(Math.floor(offset / size * count), 0), count - 1);
      cell = { query: place(event.clientY - frame.top, frame.height, view.queries.length),
        key: place(event.clientX - frame.left, frame.width, view.keys.length) };
      mark(true);
    };
    box.addEventListener("pointermove", at);
    box.addEventListener("pointerdown", at);
    box.addEventListener("pointerleave", () => mark(document.activeElement === box));
    box.addEventListener("focus", () => mark(true));
    box.addEventListener("blur", () => mark(false));
    box.addEventListener("keydown", (event) => {
      const far = event.ctrlKey ? Infinity : 0;
      const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
        PageUp: [-10, 0], PageDown: [10, 0], Home: [-far, -Infinity], End: [far, Infinity] };
      if (!(event.key in steps)) return;
      const limit = (place, by, count) => Math.min(Math.max(by ? place + by : place, 0), count - 1);
      const [down, across] = steps[event.key];
      cell = { query: limit(cell.query, down, view.queries.length),
        key: limit(cell.key, across, view.keys.length) };
      mark(true);
      event.preventDefault();
    });
  }

  // every head

  const named = (what, place) => (place === MEAN ? `mean of ${what}s` : `${what} ${place + 1}`);
  // where there is one, it is its own mean
  const places = (count) => (count === 1 ? [0] : [...Array(count).keys(), MEAN]);

  function title() {
    const { layer, head } = state, { weights } = record.attention[state.kind];
    const [layers, heads] = [`${weights.length} layers`, `${weights[0].length} heads`];
    const where = layer !== MEAN && head !== MEAN ? `layer ${layer + 1}, head ${head + 1}`
      : layer !== MEAN ? `layer ${layer + 1}, mean of ${heads}`
        : head !== MEAN ? `head ${head + 1}, mean of ${layers}` : `mean of ${layers} × ${heads}`;
    return `${state.kind} attention, ${where}`;
  }

  function drawHeads() {
    const { weights } = record.attention[state.kind];
    const top = Math.max(...weights.flat().map(largest)), table = make("table");
    const head = table.createTHead().insertRow(), body = table.createTBody();
    head.append(make("td"));
    const across = places(weights[0].length), down = places(weights.length);
    across.forEach((j) => head.append(make("th", named("head", j), { scope: "col" })));
    for (const i of down) {
      const row = body.insertRow();
      row.append(make("th", named("layer", i), { scope: "row" }));
      for (const j of across) {
        const canvas = make("canvas"), button = make("button", "", { type: "button" });
        button.setAttribute("aria-label", `${named("layer", i)}, ${named("head", j)}`);
        button.dataset.place = `${i} ${j}`;
        button.append(canvas);
        button.addEventListener("click", () => change({ layer: i, head: j }));
        paint(canvas, mean(state.kind, i, j), top);
        row.insertCell().append(button);
      }
    }
    find("heads").replaceChildren(table);
  }

  function markHead() {
    find("heads").querySelectorAll("button").forEach((button) => {
      const isChosen = button.dataset.place === `${state.layer} ${state.head}`;
      button.setAttribute("aria-pressed", String(isChosen));
      button.tabIndex = isChosen ? 0 : -1;
    });
  }

  function walkHeads(event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const here = document.activeElement.closest("td");
    if (!(event.key in steps) || !here) return;
    const [down, across] = steps[event.key], rows = [...find("heads").querySelectorAll("tbody tr")];
    const row = rows[rows.indexOf(here.parentElement) + down];
    row?.cells[here.cellIndex + across]?.querySelector("button")?.focus();
    event.preventDefault();
  }

  // the numbers

  function drawTable() {
    const { weights, queries, keys, one } = view, table = make("table");
    const isLong = Math.max(queries.length, keys.length) > TABLE;
    table.createCaption().textContent = title()
      + (isLong ? `; the ${SHOWN} heaviest keys of each query` : "");
    const head = table.createTHead().insertRow(), body = table.createTBody();
    head.append(make("th", `${one.query_title} ↓ ${one.key_title} →`, { scope: "col" }));
    (isLong ? [...Array(SHOWN).keys()].map((i) => `${i + 1}.`) : keys)
      .forEach((name) => head.append(make("th", name, { scope: "col" })));
    weights.forEach((row, i) => {
      const out = body.insertRow(), most = Math.max(...row);
      out.append(make("th", queries[i], { scope: "row" }));
      const shown = isLong ? [...row].map((weight, j) => [weight, keys[j]])
        .sort((a, b) => b[0] - a[0]).slice(0, SHOWN) : [...row].map((weight) => [weight, ""]);
      shown.forEach(([weight, name]) => out.append(make("td", `${name} ${number(weight)}`.trim(),
        { className: weight === most ? "most" : "" })));
    });
    find("table").replaceChildren(table);
  }

  // everything together

  function strongest() {
    const best = view.weights.map((row, place) => [Math.max(...row), place])
      .filter(([, place]) => !view.specials.query.has(place)).sort((a, b) => b[0] - a[0])[0];
    return best ? { side: "query", place: best[1] } : null;
  }

  function options(id, names, chosen) {
    find(id).replaceChildren(...names.map(([value, name]) =>
      make("option", name, { value, selected: String(value) === String(chosen) })));
  }

  function change(wish) {
    const before = view && { ...state };
    Object.assign(state, wish);
    const { weights } = record.attention[state.kind];
    const fitting = (place, count) => (count === 1 ? 0 : place < count ? place : MEAN);
    state.layer = fitting(state.layer, weights.length);
    state.head = fitting(state.head, weights[0].length);
    const last = view?.queries;
    view = panel();
    options("kind", Object.keys(record.attention).map((kind) => [kind, kind]), state.kind);
    options("layer", places(weights.length).map((i) => [i, named("layer", i)]), state.layer);
    options("head", places(weights[0].length).map((j) => [j, named("head", j)]), state.head);
    options("unit", [["words", "words"], ["pieces", "sub-word pieces"]], state.unit);
    if (last !== view.queries || before?.kind !== state.kind) {
      line("query", view.queries, view.one.query_title);
      line("key", view.keys, view.one.key_title);
      hover = null;
      pin = strongest();
    }
    if (before?.kind !== state.kind) drawHeads();
    find("legend-top").textContent = number(view.top);
    find("ramp").style.background = `linear-gradient(to right, ${ramp().map((c) => `rgb(${c})`)})`;
    find("map-title").textContent = title();
    markHead();
    drawMap();
    drawTable();
    focusOn();
    const said = (place) => (place === MEAN ? "mean" : place + 1);
    const address = { ...state, layer: said(state.layer), head: said(state.head) };
    try { history.replaceState(null, "", `#${new URLSearchParams(address)}`); } catch { /* no history */ }
  }

  function wished() {
    const asked = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    const place = (text) => (/^[1-9]\d*$/.test(text) ? Number(text) - 1 : MEAN);
    return { ...(asked.kind in record.attention ? { kind: asked.kind } : {}),
      ...(["words", "pieces"].includes(asked.unit) ? { unit: asked.unit } : {}),
      ...("layer" in asked ? { layer: place(asked.layer) } : {}),
      ...("head" in asked ? { head: place(asked.head) } : {}) };
  }

  for (const id of ["kind", "layer", "head", "unit"]) {
    find(id).addEventListener("change", (event) => {
      const { value } = event.target;
      change({ [id]: id === "layer" || id === "head" ? Number(value) : value });
    });
  }
  find("queries").addEventListener("keydown", (event) => walk(event, "query"));
  find("keys").addEventListener("keydown", (event) => walk(event, "key"));
  find("heads").addEventListener("keydown", walkHeads);
  dark.addEventListener("change", () => { drawHeads(); change({}); });
  mapEvents();
  change(wished());
  find("look").hidden = false;
})();
