/* Operations of a document: search, tick all of a tag, and what the selected ones cost. Without this script a ticked tag
   selects all of its operations. */
"use strict";
{
  const section = document.querySelector("[data-operations]");
  if (section) {
    const groups = [...section.querySelectorAll("details")].map((element) => ({
      element,
      all: element.querySelector("input[name=tag]"),
      rows: [...element.querySelectorAll("tbody tr")].map((row) => ({
        element: row,
        box: row.querySelector("input[name=operation]"),
        tokens: Number(row.dataset.tokens),
        text: row.textContent.toLowerCase(),
      })),
    }));
    const rows = groups.flatMap((group) => group.rows);
    const total = section.querySelector("[data-total]");
    const scope = [...section.querySelectorAll("input[name=scope]")];
    const show = () => {
      const takesAll = scope.some((one) => one.checked && one.value === "all");
      const chosen = rows.filter((row) => takesAll || row.box.checked);
      total.querySelector("[data-count]").textContent = chosen.length.toLocaleString();
      const tokens = chosen.reduce((sum, row) => sum + row.tokens, 0);
      total.querySelector("[data-tokens]").textContent = tokens.toLocaleString();
      for (const group of groups) {
        const ticked = group.rows.filter((row) => row.box.checked).length;
        group.all.checked = ticked === group.rows.length;
        group.all.indeterminate = ticked > 0 && ticked < group.rows.length;
      }
    };
    section.addEventListener("change", (event) => {
      const group = groups.find((one) => one.all === event.target);
      if (group) {
        // What the search hides is not ticked along.
        for (const row of group.rows) if (!row.element.hidden) row.box.checked = event.target.checked;
      }
      if (event.target.name !== "scope" && event.target.type === "checkbox" && event.target.checked) {
        for (const one of scope) one.checked = one.value === "some";
      }
      show();
    });
    const search = section.querySelector("[data-search]");
    search.addEventListener("input", (event) => {
      const words = event.target.value.toLowerCase().split(/\s+/);
      for (const group of groups) {
        for (const row of group.rows) row.element.hidden = !words.every((word) => row.text.includes(word));
        group.element.hidden = group.rows.every((row) => row.element.hidden);
      }
    });
    search.hidden = total.hidden = false;
    show();
  }
}
