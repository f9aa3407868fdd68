// Shows a table that does not fit as a list of cards, and wraps long messages (see lockfast.css).
// Without JavaScript the reader scrolls them sideways, as furo does.

// Figures are compared down a column, so a table of figures stays a table.
const tables = [...document.querySelectorAll("article table.docutils")].filter(
  (table) => !table.querySelector("td.text-right"),
);

for (const table of tables) {
  const columns = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
  for (const row of table.querySelectorAll("tbody tr")) {
    [...row.children].forEach((cell, number) => {
      if (number > 0 && columns[number]) cell.dataset.column = columns[number];
    });
  }
}

// A column of one or two words a line is as hard to read as one beyond the edge of the screen.
function squeezed(cell) {
  return cell.clientWidth < 140 && [...cell.children].some((text) => text.offsetHeight > 130);
}

function fits(table) {
  const frame = table.parentElement;
  const inside = frame.scrollWidth <= frame.clientWidth;
  return inside && ![...table.querySelectorAll("td")].some(squeezed);
}

function arrange() {
  for (const table of tables) {
    table.classList.remove("stacked");
    table.classList.toggle("stacked", !fits(table));
  }
}

// Error messages are wrapped, drawings made of characters are not.
for (const block of document.querySelectorAll("article .highlight-text pre")) {
  if (!/[└├│]|--\|/.test(block.textContent)) block.classList.add("wrapped");
}

arrange();
addEventListener("resize", arrange);
