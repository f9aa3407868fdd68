// Shows a table that is wider than the screen as a list of cards (see lockfast.css). Without
// JavaScript the reader scrolls it sideways, as furo does. Figures are compared down a column, so a
// table of figures stays a table.
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

function stack() {
  for (const table of tables) {
    table.classList.remove("stacked");
    const frame = table.parentElement;
    table.classList.toggle("stacked", frame.scrollWidth > frame.clientWidth);
  }
}

stack();
addEventListener("resize", stack);
