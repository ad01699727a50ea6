// What a reader with a keyboard or a screen reader needs beside the theme.
document.addEventListener("DOMContentLoaded", () => {
  for (const wide of document.querySelectorAll("pre, .table-wrapper")) wide.tabIndex = 0;
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "All pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
  const isChinese = /\/(learn\/zh\/[^/]*|zh\.html)$/.test(location.pathname);
  if (isChinese) document.querySelector("article")?.setAttribute("lang", "zh");
  const article = document.querySelector("#furo-main-content");
  if (article && !document.querySelector("h1")) {
    article.prepend(Object.assign(document.createElement("h1"), { textContent: "Search" }));
  }
});
