// A page in a frame tells how high it is, so that the frame can show all of it without a scroll bar.

export function tellHeight() {
  if (window.parent === window) return;
  const body = document.body;
  // what stands below a box by its margin belongs to the height
  const tell = () => parent.postMessage({ regardHeight: Math.ceil(body.getBoundingClientRect().bottom + scrollY
    + parseFloat(getComputedStyle(body).marginBottom)) }, "*");
  new ResizeObserver(tell).observe(body);
  tell();
  // a frame out of sight is laid out later
  addEventListener("load", tell);
}
