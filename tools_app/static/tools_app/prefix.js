// Shows how the tools of a new source will be called, while its name is entered.
(() => {
  "use strict";
  const field = document.querySelector("input[name=name]");
  const shown = document.querySelector("[data-prefix] code");
  if (!field || !shown) return;
  const show = () => { shown.textContent = `${field.value.trim() || "name"}_…`; };
  field.addEventListener("input", show);
  show();
})();
