"use strict";
// Every number drawn here stands in the page: pictures of 4-byte numbers, as Python computed them.
(() => {
  const told = JSON.parse(document.getElementById("record").textContent);
  const find = (id) => document.getElementById(id);
  const LEAST = { lift: 0.1, log: 1e-7 }, MOST = { lift: 1000 }, AROUND = 12;

  const numbers = (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  };
  const unpacked = new Map();
  const picture = () => {
    const number = Number(find("shown").value), one = told.pictures[number];
    if (!unpacked.has(number)) {
      unpacked.set(number, { values: numbers(one.numbers), open: numbers(one.allowed) });
    }
    return { ...one, ...unpacked.get(number) };
  };
  let shown, at = { row: 0, column: 0 };

  // a weight times the number of keys that the queries of its row of pixels may see
  const lift = (weight, row) => weight * shown.open[row];

  const SCALES = {
    lift: (weight, row) => Math.log(Math.max(lift(weight, row), LEAST.lift) / LEAST.lift)
      / Math.log(MOST.lift / LEAST.lift),
    log: (weight) => Math.log(Math.max(weight, LEAST.log) / LEAST.log) / Math.log(1 / LEAST.log),
    sqrt: (weight) => Math.sqrt(weight / shown.top),
    linear: (weight) => weight / shown.top,
  };

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const stops = () => (dark.matches ? told.ramps.dark : told.ramps.light)
    .map((text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)));

  function colours() {
    const ramp = stops();
    return Array.from({ length: 256 }, (_, level) => {
      const place = level / 255 * (ramp.length - 1);
      const left = Math.min(Math.floor(place), ramp.length - 2);
      return ramp[left].map((low, i) => Math.round(low + (ramp[left + 1][i] - low) * (place - left)));
    });
  }

  function draw() {
    shown = picture();
    shown.top = shown.values.reduce((most, value) => Math.max(most, value), 0) || 1;
    const [rows, columns] = shown.shape, canvas = find("canvas"), table = colours();
    Object.assign(canvas, { width: columns, height: rows });
    const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
    const scale = SCALES[find("scale").value], masked = dark.matches ? [70, 74, 80] : [205, 208, 212];
    for (let row = 0; row < rows; row += 1) {
      for (let column = 0; column < columns; column += 1) {
        const place = row * columns + column, weight = shown.values[place];
        const share = Math.min(Math.max(scale(weight, row), 0), 1);
        const [red, green, blue] = weight < 0 ? masked : table[Math.round(share * 255)];
        image.data.set([red, green, blue, 255], 4 * place);
      }
    }
    context.putImageData(image, 0, 0);
    // few rows or columns are drawn large enough to be seen
    const size = (count) => count * Math.min(Math.max(Math.floor(512 / count), 1), 24);
    find("cells").style.cssText = `width:${size(columns)}px;height:${size(rows)}px`;
    find("map-title").textContent = shown.name;
    find("down").textContent = `${told.queries[0]}, ${told.queries[1].toLocaleString("en")} pieces`;
    find("across").textContent = `${told.keys[0]}, ${told.keys[1].toLocaleString("en")} pieces`;
    const [high, wide] = shown.scale, side = `${high} × ${wide} cells a pixel`;
    find("said").textContent = shown.is_exact ? `${side}, every query`
      : `${side}, ${shown.rows} of ${high} queries of each`;
    legend();
    at = { row: Math.min(at.row, rows - 1), column: Math.min(at.column, columns - 1) };
    find("cells").setAttribute("aria-label", `${shown.name}: ${rows} by ${columns} pixels. `
      + "Arrow keys move.");
    mark(document.activeElement === find("cells"));
  }

  function legend() {
    const ends = { lift: ["lift 0.1 or less", "1,000 or more"], log: ["weight 0.0000001 or less", "1"],
      sqrt: ["weight 0", shown.top.toPrecision(3)], linear: ["weight 0", shown.top.toPrecision(3)] };
    [find("low").textContent, find("high").textContent] = ends[find("scale").value];
    find("ramp").style.background = `linear-gradient(to right, ${stops().map((c) => `rgb(${c})`)})`;
  }

  const text = (pieces, first, count) => {
    const cut = (from, to) => pieces.slice(Math.max(from, 0), to).join("").replaceAll("▁", " ");
    const end = Math.min(first + count, pieces.length), half = AROUND / 2;
    const all = count > AROUND ? `${cut(first, first + half)} … ${cut(end - half, end)}` : cut(first, end);
    return `${cut(first - AROUND, first)}⟦${all}⟧${cut(end, end + AROUND)}`;
  };

  function mark(isShown) {
    const [rows, columns] = shown.shape, { row, column } = at;
    const lines = { "row-mark": [row / rows, 0, 1 / rows, 1], "column-mark": [0, column / columns, 1, 1 / columns] };
    for (const [id, [top, left, high, wide]] of Object.entries(lines)) {
      find(id).style.cssText = `top:${100 * top}%;left:${100 * left}%;height:${100 * high}%;`
        + `width:${100 * wide}%;display:${isShown ? "block" : "none"}`;
    }
    if (!isShown) return;
    const weight = shown.values[row * columns + column];
    const [down, across] = shown.scale;
    const range = (place, scale, count) => {
      const first = place * scale, last = Math.min(first + scale, count);
      return scale === 1 ? `${first + 1}` : `${first + 1}–${last}`;
    };
    const said = weight < 0 ? "masked"
      : `heaviest ${weight.toPrecision(6)} (lift ${lift(weight, row).toPrecision(3)})`;
    find("readout").textContent = `queries ${range(row, down, told.queries[1])} → keys `
      + `${range(column, across, told.keys[1])}: ${said}`;
    find("query-text").textContent = text(told.pieces.query, row * down, down);
    find("key-text").textContent = text(told.pieces.key, column * across, across);
  }

  const box = find("cells");
  const point = (event) => {
    const frame = box.getBoundingClientRect(), [rows, columns] = shown.shape;
    const place = (offset, size, count) =>
      Math.min(Math.max(Math.floor(offset / size * count), 0), count - 1);
    at = { row: place(event.clientY - frame.top, frame.height, rows),
      column: place(event.clientX - frame.left, frame.width, columns) };
    mark(true);
  };
  box.addEventListener("pointermove", point);
  box.addEventListener("pointerdown", point);
  box.addEventListener("focus", () => mark(true));
  box.addEventListener("keydown", (event) => {
    const far = event.ctrlKey ? Infinity : 0;
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
      PageUp: [-10, 0], PageDown: [10, 0], Home: [-far, -Infinity], End: [far, Infinity] };
    if (!(event.key in steps)) return;
    const limit = (place, by, count) => Math.min(Math.max(by ? place + by : place, 0), count - 1);
    const [down, across] = steps[event.key], [rows, columns] = shown.shape;
    at = { row: limit(at.row, down, rows), column: limit(at.column, across, columns) };
    mark(true);
    event.preventDefault();
  });
  find("shown").replaceChildren(...told.pictures.map((one, value) =>
    Object.assign(document.createElement("option"), { value, textContent: one.name })));
  find("shown").addEventListener("change", draw);
  find("scale").addEventListener("change", draw);
  dark.addEventListener("change", draw);
  find("look").hidden = false;
  draw();
})();
