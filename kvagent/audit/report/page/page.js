"use strict";
// Comforts only: without this script the page says the same.

// Sorting: a click on the head of a column, first the largest, or the first letter.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const numbers = head.classList.contains("n") || table.tBodies[0].rows[0]?.cells[column]?.dataset.v !== undefined;
      const now = head.getAttribute("aria-sort");
      const falling = now ? now === "ascending" : numbers;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      sort(table.tBodies[0], column, numbers, falling);
    });
  });
}

function sort(body, column, numbers, falling) {
  const rows = [...body.rows].map((row) => [value(row.cells[column], numbers), row]);
  const compare = numbers ? (a, b) => a - b : (a, b) => a.localeCompare(b, undefined, { numeric: true });
  rows.sort(([a], [b]) => (falling ? -compare(a, b) : compare(a, b)) || 0);
  body.append(...rows.map(([, row]) => row));
}

function value(cell, number) {
  const text = cell.dataset.v ?? cell.textContent;
  if (!number) return text.trim();
  // What has no figure stands below every figure.
  const figure = parseFloat(text.replace(/[≈,+<>%\s]/g, "").replace("−", "-"));
  return Number.isNaN(figure) ? -1e300 : figure;
}

// Folding: everything at once, and what a link leads to.
const comforts = document.getElementById("comforts");
const folds = () => [...document.querySelectorAll("details")];

function comfort(name, act) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = name;
  button.addEventListener("click", () => act(button));
  comforts.append(button);
}

comfort("Unfold all", (button) => {
  const open = !folds().every((fold) => fold.open);
  for (const fold of folds()) fold.open = open;
  button.textContent = open ? "Fold all" : "Unfold all";
});

function unfold() {
  let id;
  try {
    id = decodeURIComponent(location.hash.slice(1));
  } catch {
    return;
  }
  const target = id && document.getElementById(id);
  if (!target) return;
  for (let each = target; each; each = each.parentElement) if (each.localName === "details") each.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", unfold);
unfold();

// Light or dark, other than the system says.
comfort("Light / dark", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
