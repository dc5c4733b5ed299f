"use strict";
// Whatever scrolls sideways can be reached with the Tab key, to scroll it with the arrow keys.
(() => {
  const article = document.querySelector("article");
  const reach = () => {
    for (const box of article.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
      const wider = box.scrollWidth > box.clientWidth;
      if (wider && !box.hasAttribute("tabindex")) box.tabIndex = 0;
    }
  };
  new ResizeObserver(reach).observe(article);
  new MutationObserver(reach).observe(article, // the theme makes scroll boxes late, and takes focus away
    { childList: true, subtree: true, attributes: true, attributeFilter: ["tabindex"] });
})();
// A click on a heading sorts a table of numbers: first ascending, then descending.
(() => {
  const numberIn = (cell) => {
    const found = cell.textContent.replaceAll(",", "").match(/^\s*[−-]?\d+(\.\d+)?(e[+-]?\d+)?/i);
    return found ? Number(found[0].replace("−", "-")) : NaN;
  };
  const compare = (column, sign) => (one, other) => {
    const [a, b] = [one, other].map((row) => row.cells[column]);
    const [x, y] = [numberIn(a), numberIn(b)];
    if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1; // what is missing comes last
    return sign * (isNaN(x) ? a.textContent.localeCompare(b.textContent, "en", { numeric: true }) : x - y);
  };
  const sortable = (table) => {
    const rows = [...table.tBodies[0].rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const falling = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        table.tBodies[0].append(...rows.sort(compare(column, falling ? -1 : 1)));
      });
    });
  };
  for (const table of document.querySelectorAll("article table:not([class])")) {
    const numbers = [...table.querySelectorAll("td")].filter((cell) => !isNaN(numberIn(cell)));
    if (table.tHead && table.tBodies[0].rows.length > 3 && numbers.length > 8) sortable(table);
  }
})();
