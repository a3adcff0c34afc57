/* While a toolset is put together, what would be in it follows every choice. Without this script a button shows it. */
"use strict";
{
  const shown = document.getElementById("preview");
  const form = shown?.closest("form");
  if (form) {
    let asked = 0;
    const show = async () => {
      const number = ++asked;
      shown.setAttribute("aria-busy", "true");
      try {
        const answer = await fetch(shown.dataset.address, { method: "POST", body: new FormData(form) });
        const text = answer.ok ? await answer.text() : null;
        // The answers of earlier questions come late sometimes.
        if (number === asked && text !== null) shown.innerHTML = text;
      } catch {
        // The hub cannot be reached: what was shown last stays, and the button still asks.
      }
      if (number === asked) shown.removeAttribute("aria-busy");
    };
    form.addEventListener("change", show);
  }
}
