// Tables become cards in a narrow window: each cell has the name of its column next to it. Roles
// are set because browsers do not treat cards as tables. Without scripts a table scrolls sideways.

const ROLES = { TABLE: "table", THEAD: "rowgroup", TBODY: "rowgroup", TR: "row", TD: "cell" };

export function nameCells(root) {
  for (const table of root.querySelectorAll(".wide table")) {
    const names = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    table.classList.add("cards");
    for (const part of [table, ...table.querySelectorAll("thead, tbody, tr, td, th")]) {
      const isHead = part.tagName === "TH";
      const header = part.parentNode.parentNode?.tagName === "THEAD" ? "columnheader" : "rowheader";
      part.setAttribute("role", isHead ? header : ROLES[part.tagName]);
    }
    for (const row of table.tBodies[0]?.rows ?? []) {
      [...row.cells].forEach((cell, at) => cell.setAttribute("data-name", names[at] ?? ""));
    }
  }
}
