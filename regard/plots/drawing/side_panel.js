// The settings beside a picture, in groups. They can be folded away, which the browser remembers.

import { html, useState } from "./vendor/preact.js";

const KEPT = "regard-settings";

// frames without storage, as in notebooks, begin unfolded
function kept() {
  try { return localStorage.getItem(KEPT) !== "folded"; } catch { return true; }
}

export function SidePanel({ children, label = "settings" }) {
  const [isOpen, setOpen] = useState(kept);
  const turn = () => {
    setOpen(!isOpen);
    try { localStorage.setItem(KEPT, isOpen ? "folded" : "open"); } catch { /* for now only */ }
  };
  return html`<aside class=${`side-panel${isOpen ? "" : " closed"}`} aria-label=${label}>
    <button type="button" class="fold" aria-expanded=${String(isOpen)} onClick=${turn}>${isOpen ? "Hide" : "Settings"}</button>
    ${isOpen && children}</aside>`;
}

export const Group = ({ title, children }) => html`<section class="group"><h2>${title}</h2>${children}</section>`;
