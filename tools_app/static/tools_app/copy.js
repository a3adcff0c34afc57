/* Buttons that copy a text of the page. Where the browser does not allow it, the text is selected instead. */
"use strict";
{
  for (const button of document.querySelectorAll("button[data-copies]")) button.hidden = false;
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copies]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copies);
    const note = button.nextElementSibling;
    try {
      await navigator.clipboard.writeText(source.textContent);
      note.textContent = button.dataset.copied;
    } catch {
      getSelection().selectAllChildren(source);
      note.textContent = button.dataset.selected;
    }
  });
}
