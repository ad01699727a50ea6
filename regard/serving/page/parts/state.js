// Where somebody is, and what they look at. The address keeps all of it, so that a link shows the
// same; what the pointer is over is kept by the view alone.

import { useCallback, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";

// A document is too long for an address: there a key stands for it, and this tab knows the text.
const LONGEST = 2000, KEYS = new Map();

function keyOf(text) {
  if (!KEYS.has(text)) {
    let sum = 0;
    for (let i = 0; i < text.length; i += 1) sum = (Math.imul(sum, 31) + text.charCodeAt(i)) >>> 0;
    KEYS.set(text, `document-${sum.toString(16)}-${text.length}`);
    try { sessionStorage.setItem(KEYS.get(text), text); } catch { /* known until the page is left */ }
  }
  return KEYS.get(text);
}

// undefined for a document of another tab: what is shown at first is shown then
function textAt(key) {
  if (!/^document-[0-9a-f]+-\d+$/.test(key)) return key;
  for (const [text, its] of KEYS) if (its === key) return text;
  try { return sessionStorage.getItem(key) ?? undefined; } catch { return undefined; }
}

function readAddress(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const said = [...new URLSearchParams(query)].map(([name, value]) => [name, textAt(value)]);
  return { view: path, params: Object.fromEntries(said) };
}

export function addressOf(view, params) {
  const kept = Object.entries(params).filter(([, value]) => value !== "" && value != null)
    .map(([name, value]) => [name, String(value).length > LONGEST ? keyOf(value) : value]);
  const query = new URLSearchParams(kept).toString();
  return `#/${view}${query && `?${query}`}`;
}

/** The place that an address counts from 1, counted from 0; whatever is no number means the one otherwise taken. */
export const placeOf = (said, otherwise = 1) => Math.max(Math.trunc(Number(said) || otherwise), 1) - 1;

export function useAddress(first) {
  const [address, setAddress] = useState(() => readAddress());
  useEffect(() => {
    const moved = () => setAddress(readAddress());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  const here = { view: address.view || first, params: address.params };
  const change = useCallback((wish) => {
    const now = readAddress();
    const params = { ...now.params, ...wish };
    history.replaceState(null, "", addressOf(now.view || first, params));
    setAddress({ view: now.view || first, params });
  }, [first]);
  return { ...here, change };
}

// Hover previews, click pins: what is looked at is what the pointer is over, else what is pinned.
export function useFocus(pinned, setPinned) {
  const [hover, setHover] = useState(null);
  const pins = useMemo(() => readPins(pinned), [pinned]);
  const toggle = (side, place, isAdding) => {
    const isPinned = pins.some((pin) => pin.side === side && pin.place === place);
    const others = isAdding ? pins.filter((pin) => pin.side === side && pin.place !== place) : [];
    setPinned(writePins(isPinned ? others : [...others, { side, place }]));
  };
  const isPinned = hover && pins.some((pin) => pin.side === hover.side && pin.place === hover.place);
  const at = hover && !isPinned ? [hover] : pins;
  return { hover, setHover, pins, toggle, clear: () => setPinned("none"), at };
}

const SIDES = { q: "query", k: "key" };

function readPins(text) {
  return (text ?? "").split(".").map((part) => /^([qk])(\d+)$/.exec(part)).filter(Boolean)
    .map(([, side, place]) => ({ side: SIDES[side], place: Number(place) - 1 }));
}

const writePins = (pins) =>
  pins.map(({ side, place }) => `${side[0]}${place + 1}`).join(".") || "none";

// what a promise gives, while it runs, and what went wrong; an older one never overtakes
export function useAnswer(ask, needs) {
  const [answer, setAnswer] = useState({ value: null, error: null, isBusy: false });
  const latest = useRef(0);
  useEffect(() => {
    latest.current += 1;
    const mine = latest.current, running = ask();
    if (!running) { setAnswer({ value: null, error: null, isBusy: false }); return; }
    setAnswer((last) => ({ ...last, error: null, isBusy: true }));
    running.then(
      (value) => mine === latest.current && setAnswer({ value, error: null, isBusy: false }),
      (error) => mine === latest.current && error.name !== "AbortError"
        && setAnswer({ value: null, error: error.message, isBusy: false }));
  }, needs);
  return answer;
}

export function useMedia(query) {
  const media = useMemo(() => matchMedia(query), [query]);
  const [matches, setMatches] = useState(media.matches);
  useEffect(() => {
    const changed = () => setMatches(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, [media]);
  return matches;
}

// kept on this machine, where the browser allows it
export function useKept(name, first) {
  const [value, setValue] = useState(() => {
    try { return localStorage.getItem(name) ?? first; } catch { return first; }
  });
  return [value, (next) => {
    setValue(next);
    try { localStorage.setItem(name, next); } catch { /* kept for now only */ }
  }];
}
