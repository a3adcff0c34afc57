/* A button that copies a text of the page. Where the browser does not allow it, the text is selected instead. */
"use strict";
for (const button of document.querySelectorAll("button[data-copies]")) {
  const source = document.getElementById(button.dataset.copies);
  const note = document.getElementById("copied");
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(source.textContent);
      note.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(source);
      note.textContent = "Selected: press Ctrl+C or ⌘C to copy.";
    }
  });
}
