/* The console without leaving the page: run, cancel, tabs, copy. Everything but cancelling works without this script. */
"use strict";
{
  let running = null;

  const root = () => document.getElementById("console");
  const find = (selector) => root().querySelector(selector);

  const say = (words, { cancels = false, calls = false } = {}) => {
    const progress = find("#progress");
    progress.hidden = words === "";
    progress.querySelector("[data-says]").textContent = words;
    progress.querySelector("[data-seconds]").textContent = "";
    progress.querySelector("[data-cancels]").hidden = !cancels;
    const link = progress.querySelector("[data-calls]");
    if (link) link.hidden = !calls;
  };

  const lock = (locked) => {
    for (const button of root().querySelectorAll("button[type=submit]")) button.disabled = locked;
  };

  const run = async (form, button) => {
    const words = root().dataset;
    const body = new URLSearchParams(new FormData(form));
    if (button) body.set(button.name, button.value);
    running = new AbortController();
    lock(true);
    // What is typed meanwhile would be lost: the answer replaces the form. The arguments of a run may still be read.
    form.inert = Boolean(button && /^(add|remove|skeleton|json|fields)/.test(button.value));
    say(words.running, { cancels: true });
    const began = performance.now();
    const clock = setInterval(() => {
      find("[data-seconds]").textContent = `${((performance.now() - began) / 1000).toFixed(1)} s`;
    }, 100);
    try {
      // Not `form.action`: that is one of its buttons.
      const answer = await fetch(location.href, {
        method: "POST",
        body,
        headers: { "X-Requested-With": "fetch" },
        signal: running.signal,
      });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const shown = page.getElementById("console");
      if (!shown) throw new Error("not the console");
      root().replaceWith(document.adoptNode(shown));
      dress();
      const changed = find("[data-focus]");
      const next = changed?.querySelector("input:not([type=hidden]), textarea, select, button") ?? find("[aria-invalid=true]") ?? find("#outcome-title") ?? find("textarea, input:not([type=hidden])");
      next?.focus();
      // The error of a field is above it, and would be out of view.
      next?.closest(".hub-console-field")?.scrollIntoView({ block: "nearest" });
    } catch (error) {
      lock(false);
      form.inert = false;
      say(error.name === "AbortError" ? words.cancelled : words.failed, { calls: true });
    } finally {
      clearInterval(clock);
      running = null;
    }
  };

  const dressTabs = (group) => {
    const panels = [...group.querySelectorAll("[data-tab]")];
    if (panels.length < 2) return;
    const list = document.createElement("div");
    list.className = "hub-tabs";
    list.setAttribute("role", "tablist");
    const choose = (chosen, focus) => {
      panels.forEach((panel, index) => {
        const tab = list.children[index];
        panel.hidden = index !== chosen;
        tab.setAttribute("aria-selected", String(index === chosen));
        tab.tabIndex = index === chosen ? 0 : -1;
        if (focus && index === chosen) tab.focus();
      });
    };
    panels.forEach((panel, index) => {
      const tab = document.createElement("button");
      tab.type = "button";
      tab.id = `${panel.id}-tab-button`;
      tab.textContent = panel.dataset.tab;
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", panel.id);
      tab.addEventListener("click", () => choose(index, false));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (step) choose((index + step + panels.length) % panels.length, true);
      });
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", tab.id);
      panel.querySelector("h3").hidden = true;
      list.append(tab);
    });
    group.prepend(list);
    choose(0, false);
  };

  const dress = () => {
    for (const hidden of root().querySelectorAll("[data-script-only], [data-console-copies]")) {
      hidden.hidden = false;
    }
    root().querySelectorAll("[data-tabs]").forEach(dressTabs);
  };

  document.addEventListener("submit", (event) => {
    const form = event.target.closest("#console form[data-runs]");
    if (!form) return;
    event.preventDefault();
    if (!running) run(form, event.submitter);
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    const form = event.target.closest("#console form[data-runs]") || find("#arguments");
    const button = form?.querySelector("button[value=run], button[value=confirmed]");
    if (button && !button.disabled) {
      event.preventDefault();
      form.requestSubmit(button);
    }
  });

  document.addEventListener("click", async (event) => {
    if (event.target.closest("#console [data-cancels]")) running?.abort();
    const button = event.target.closest("#console [data-console-copies]");
    if (!button) return;
    const source = document.getElementById(button.dataset.consoleCopies);
    const words = root().dataset;
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.nextElementSibling.textContent = words.copied;
    } catch {
      getSelection().selectAllChildren(source);
      button.nextElementSibling.textContent = words.selected;
    }
  });

  if (root()) dress();
}
