/* The search over everything as a dialog: Ctrl+K, or a press on its link. The focus stays in the input, arrows move over
   the results, Enter opens one. Without this script, the link opens the page of the search. */
"use strict";
{
  const WAIT = 150;
  const dialog = document.getElementById("hub-palette");
  const opener = document.getElementById("hub-search");

  const attach = () => {
    const form = dialog.querySelector("form");
    const input = form.querySelector("input");
    const list = dialog.querySelector("[role=listbox]");
    const status = dialog.querySelector("[role=status]");
    let timer;
    let asking;

    const options = () => [...list.querySelectorAll("[role=option]")];
    const chosen = () => list.querySelector("[aria-selected=true]");

    const choose = (option) => {
      chosen()?.setAttribute("aria-selected", "false");
      option?.setAttribute("aria-selected", "true");
      option?.scrollIntoView({ block: "nearest" });
      if (option) input.setAttribute("aria-activedescendant", option.id);
      else input.removeAttribute("aria-activedescendant");
    };

    const made = (tag, className, text) => {
      const element = document.createElement(tag);
      element.className = className;
      element.textContent = text;
      return element;
    };

    const optionOf = (result, number) => {
      const option = made("div", "hub-palette-option", "");
      option.id = `hub-palette-${number}`;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.dataset.address = result.address;
      option.append(made("span", "hub-palette-text", result.text));
      if (result.note) option.append(made("span", "hub-quiet", result.note));
      return option;
    };

    const show = (answer) => {
      list.replaceChildren();
      answer.groups.forEach((group, index) => {
        const section = made("div", "", "");
        const title = made("div", "hub-palette-title", group.title);
        title.id = `hub-palette-group-${index}`;
        title.setAttribute("role", "presentation");
        section.setAttribute("role", "group");
        section.setAttribute("aria-labelledby", title.id);
        const results = group.more ? [...group.results, { text: dialog.dataset.more, note: "", address: group.more }] : group.results;
        section.append(title, ...results.map((result, number) => optionOf(result, `${index}-${number}`)));
        list.append(section);
      });
      list.hidden = answer.groups.length === 0;
      input.setAttribute("aria-expanded", String(!list.hidden));
      status.textContent = answer.summary;
      choose(options()[0]);
    };

    const ask = async () => {
      asking?.abort();
      const text = input.value.trim();
      if (!text) {
        show({ groups: [], summary: "" });
        return;
      }
      const asked = new AbortController();
      asking = asked;
      try {
        const answer = await fetch(`${form.action}?${new URLSearchParams({ q: text, format: "json" })}`, { signal: asked.signal });
        // After a session has ended, the answer is the page to sign in.
        if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
        show(await answer.json());
      } catch (error) {
        if (!asked.signal.aborted) show({ groups: [], summary: dialog.dataset.failed });
      }
    };

    const open = () => {
      if (dialog.open) return;
      dialog.showModal();
      input.focus();
      input.select();
      if (input.value) ask();
    };

    input.addEventListener("input", () => {
      clearTimeout(timer);
      // What is chosen belongs to the text before.
      choose(undefined);
      timer = setTimeout(ask, WAIT);
    });
    input.addEventListener("keydown", (event) => {
      // While characters are composed, as in Japanese, keys belong to the input method.
      if (event.isComposing) return;
      const all = options();
      const at = all.indexOf(chosen());
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        if (all.length) choose(all[(at + (event.key === "ArrowDown" ? 1 : all.length - (at < 0 ? 0 : 1))) % all.length]);
      } else if (event.key === "Enter" && at >= 0) {
        event.preventDefault();
        location.assign(all[at].dataset.address);
      }
    });
    list.addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) location.assign(option.dataset.address);
    });
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
    });
    opener.addEventListener("click", (event) => {
      // With a key for a new tab or window, the link is a link.
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      open();
    });
    addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        if (dialog.open) dialog.close();
        else open();
      }
    });
  };

  if (dialog && opener) attach();
}
