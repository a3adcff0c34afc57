/* What the frame of every page does: light or dark, the menu, panels that open and close. All of it is links and
   <details> without this script; with it they also close by Escape and by a press beside them, and the choices stay. */
"use strict";
{
  const root = document.documentElement;

  // ---- light, dark or as the system says; before anything is painted

  const THEME = "adminTheme";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    const kept = (localStorage.getItem(THEME) || "").replaceAll('"', "");
    return ["light", "dark"].includes(kept) ? kept : "auto";
  };
  const paint = () => {
    const theme = chosen();
    root.classList.toggle("dark", theme === "dark" || (theme === "auto" && dark.matches));
    for (const button of document.querySelectorAll("button[data-theme]")) {
      button.setAttribute("aria-pressed", String(button.dataset.theme === theme));
    }
  };
  dark.addEventListener("change", paint);
  paint();

  // ---- the menu at the side: kept open or closed on wide screens, over the page on small ones

  const MENU = "sidebarDesktopOpen";
  const wide = matchMedia("(min-width: 1280px)");
  root.classList.add("hub-scripted");
  root.classList.toggle("hub-menu-closed", localStorage.getItem(MENU) === "0");

  const menuIsOpen = () => (wide.matches ? !root.classList.contains("hub-menu-closed") : root.classList.contains("hub-menu-open"));
  const setMenu = (open) => {
    if (wide.matches) {
      root.classList.toggle("hub-menu-closed", !open);
      localStorage.setItem(MENU, open ? "1" : "0");
    } else {
      root.classList.toggle("hub-menu-open", open);
    }
    tellMenu();
  };
  const tellMenu = () => {
    document.getElementById("hub-menu-button")?.setAttribute("aria-expanded", String(menuIsOpen()));
  };
  wide.addEventListener("change", tellMenu);

  // ---- panels over the page: the filters of a list

  const panel = () => document.querySelector(".hub-panel.hub-open");
  const setPanel = (one, open) => {
    one.classList.toggle("hub-open", open);
    const opener = document.querySelector(`a[href="#${one.id}"]`);
    opener?.setAttribute("aria-expanded", String(open));
    if (open) one.querySelector("a, button, input, select, summary")?.focus();
    else opener?.focus();
  };

  // A panel over the page keeps the focus: behind the panel it would not be visible.
  const over = () => (panel() && getComputedStyle(panel()).position === "fixed" ? panel() : !wide.matches && menuIsOpen() ? document.getElementById("hub-menu") : null);
  const keepFocus = (event) => {
    const places = [...over().querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")].filter(
      (place) => place.checkVisibility(),
    );
    const [first, last] = event.shiftKey ? [places.at(-1), places[0]] : [places[0], places.at(-1)];
    if (!over().contains(document.activeElement) || document.activeElement === last) {
      event.preventDefault();
      first?.focus();
    }
  };

  addEventListener("DOMContentLoaded", () => {
    paint();
    tellMenu();
    for (const active of document.querySelectorAll("#nav-sidebar a.active")) {
      active.setAttribute("aria-current", "page");
      active.scrollIntoView({ block: "nearest" });
    }
    const warned = document.querySelector("form.warn-unsaved-form");
    if (warned) {
      const warn = (event) => event.preventDefault();
      warned.addEventListener("input", () => addEventListener("beforeunload", warn), { once: true });
      warned.addEventListener("submit", () => removeEventListener("beforeunload", warn));
    }
  });

  addEventListener("click", (event) => {
    const target = event.target;
    const theme = target.closest("button[data-theme]");
    if (theme) {
      localStorage.setItem(THEME, theme.dataset.theme);
      paint();
    } else if (target.closest("#hub-menu-button")) {
      event.preventDefault();
      setMenu(!menuIsOpen());
      if (menuIsOpen() && !wide.matches) document.querySelector("#hub-menu a")?.focus();
    } else if (target.closest(".hub-menu-close") || (!wide.matches && menuIsOpen() && !target.closest("#hub-menu"))) {
      setMenu(false);
      if (target.closest(".hub-menu-close")) {
        event.preventDefault();
        document.getElementById("hub-menu-button")?.focus();
      }
    }
    const opener = target.closest("a[data-opens]");
    if (opener) {
      event.preventDefault();
      setPanel(document.getElementById(opener.dataset.opens), true);
    } else if (target.closest("a[data-closes]") || target.classList.contains("hub-open")) {
      event.preventDefault();
      if (panel()) setPanel(panel(), false);
    }
    for (const open of document.querySelectorAll("details.hub-dropdown[open]")) {
      if (!open.contains(target)) open.open = false;
    }
  });

  addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      const open = document.querySelector("details.hub-dropdown[open]");
      if (open) {
        open.open = false;
        open.querySelector("summary").focus();
      } else if (panel()) {
        setPanel(panel(), false);
      } else if (!wide.matches && menuIsOpen()) {
        setMenu(false);
        document.getElementById("hub-menu-button")?.focus();
      }
    } else if (event.key === "Tab" && over()) {
      keepFocus(event);
    } else if (event.key === "/" && !event.target.closest("input, textarea, select, [contenteditable]")) {
      const search = document.getElementById("searchbar");
      if (search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    }
  });
}
