/* SPDX-License-Identifier: MIT */
"use strict";
// Sorting by a click on a heading, a row filter, and all of a page when it is printed. No other script runs here.
(() => {
  const ABSENT = "—";

  function key(row, column, numeric) {
    const cell = row.cells[column];
    const text = cell.dataset.key ?? cell.textContent.trim();
    if (text === ABSENT || text === "") return null;
    if (!numeric) return text;
    const value = text === "inf" ? Infinity : text === "-inf" ? -Infinity : Number(text);
    return Number.isNaN(value) ? null : value;
  }

  function sort(heading) {
    const body = heading.closest("table").tBodies[0];
    const column = heading.cellIndex;
    const numeric = "number" in heading.dataset;
    const direction = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const rows = Array.from(body.rows, (row) => ({ row, key: key(row, column, numeric) }));
    rows.sort((a, b) => {
      // What is absent comes last either way.
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
      return direction * (numeric ? Math.sign(a.key - b.key) : a.key.localeCompare(b.key, "en", { numeric: true }));
    });
    for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
    body.append(...rows.map((item) => item.row));
  }

  function filter(input) {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of input.closest("section, details").querySelector("table").tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  }

  for (const button of document.querySelectorAll("table.sortable th > button")) {
    button.addEventListener("click", () => sort(button.parentElement));
  }
  for (const input of document.querySelectorAll("input[data-filter]")) {
    input.addEventListener("input", () => filter(input));
  }
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
})();
