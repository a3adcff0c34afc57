/* After a switch was pressed, the list is where it was: the switch under the same pointer, and with the focus. After a
   search, the focus is at what was found: the next Tab leads into it. Without this script the address still names the switch, and the browser goes there by itself. */
"use strict";
{
  const KEY = "tools_app.place";

  document.addEventListener("submit", (event) => {
    const pressed = event.submitter;
    if (pressed && pressed.dataset && "keepsPlace" in pressed.dataset) {
      const place = {
        path: location.pathname,
        id: pressed.id,
        offset: pressed.getBoundingClientRect().top,
        top: window.scrollY,
      };
      sessionStorage.setItem(KEY, JSON.stringify(place));
    } else if (event.target.matches("#changelist-search, .hub-narrow")) {
      sessionStorage.setItem(KEY, JSON.stringify({ path: location.pathname, results: true }));
    }
  });

  const kept = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  const place = kept ? JSON.parse(kept) : null;
  if (place && place.path === location.pathname && place.results) {
    const results = document.querySelector("#changelist-form, .hub-empty, .hub-sections > .hub-card, .hub-scroll");
    if (results && !results.hasAttribute("tabindex")) results.setAttribute("tabindex", "-1");
    results?.focus({ preventScroll: true });
  } else if (place && place.path === location.pathname) {
    if (location.hash === `#${place.id}`) {
      // Or the browser would go to the switch on its own, once the page is laid out.
      history.replaceState(history.state, "", location.pathname + location.search);
    }
    const restore = () => {
      const pressed = document.getElementById(place.id);
      const top = pressed ? window.scrollY + pressed.getBoundingClientRect().top - place.offset : place.top;
      window.scrollTo({ top, behavior: "instant" });
      pressed?.focus({ preventScroll: true });
    };
    // The theme shows the page only once its own scripts have run: before that it has no height.
    window.addEventListener("load", () => requestAnimationFrame(() => requestAnimationFrame(restore)));
  }
}
