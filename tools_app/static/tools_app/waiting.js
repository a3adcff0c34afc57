/* Looks for the first request of a new key while its page is open and visible, for some minutes. Without this script a
   link does it. */
"use strict";
{
  const OFTEN = 2_000;
  const SELDOM = 5_000;
  const OFTEN_UNTIL = 60_000;
  const MOST = 600_000;

  const section = document.getElementById("waiting");
  if (section) {
    const words = section.querySelector("[data-waits]");
    const began = performance.now();
    let timer = 0;
    let asking = false;
    let ended = false;

    const shown = () => document.getElementById("first-request");
    const stop = (text) => {
      ended = true;
      clearTimeout(timer);
      words.hidden = !text;
      words.textContent = text;
    };

    const ask = async () => {
      if (asking) return;
      asking = true;
      try {
        const response = await fetch(shown().dataset.address, { headers: { "X-Requested-With": "fetch", "X-ToolHub-Live": "1" } });
        // A redirect leads to the form of the sign-in.
        if (response.redirected || [401, 403, 404].includes(response.status)) {
          stop(section.dataset.ended);
        } else if (response.ok) {
          const page = new DOMParser().parseFromString(await response.text(), "text/html");
          const found = page.getElementById("first-request");
          // Unchanged text is not read out again.
          if (found && found.innerHTML !== shown().innerHTML) {
            const hadFocus = shown().contains(document.activeElement);
            shown().replaceWith(document.adoptNode(found));
            if (hadFocus) found.querySelector("a, button")?.focus({ preventScroll: true });
          }
          if (found && "arrived" in found.dataset) stop("");
        }
      } catch {
        // The network: the next attempt may succeed.
      }
      asking = false;
      next();
    };

    const next = () => {
      clearTimeout(timer);
      if (ended || document.hidden) return;
      const waited = performance.now() - began;
      if (waited > MOST) stop(section.dataset.paused);
      else timer = setTimeout(ask, waited < OFTEN_UNTIL ? OFTEN : SELDOM);
    };

    document.addEventListener("visibilitychange", next);
    section.querySelector("[data-script-off]").hidden = true;
    section.querySelector("[data-checks]").addEventListener("click", (event) => {
      event.preventDefault();
      ask();
    });
    words.hidden = false;
    next();
  }
}
