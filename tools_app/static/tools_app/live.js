/* Parts of a page that follow what happens. One page of a browser holds the event stream and tells the others, since
   browsers open six connections to a host at most; a hidden page holds none, and catches up when it is shown.
   The stream says only when something has changed: the page fetches itself again, and takes the parts over from there.
   Without streams, one page asks every ten seconds. Without this script, pages change when they are loaded. */
"use strict";
{
  const address = document.body.dataset.liveAddress;
  const HEADERS = { "X-ToolHub-Live": "1" };
  const TICK = 2_000;
  const LEASE = 5_000;
  const POLL = 10_000;
  const AGAIN = 60_000;

  // ---- what has changed, and what this page shows of it

  // Topic → when it changed last, as the hub says.
  const known = {};
  // Address → the state of each topic when it was fetched; at first the time at which this page was made, with a margin
  // for what was changed meanwhile.
  const shown = new Map();
  const fetched = new Map();
  const begun = Number(document.body.dataset.liveAt) - 2_000;
  let isOver = false;
  let timer;

  const topicsOf = (region) => region.dataset.live.split(" ");
  const sourceOf = (region) => region.dataset.liveSource || location.href;
  const isStale = (region) => {
    const before = shown.get(sourceOf(region)) || {};
    return topicsOf(region).some((topic) => known[topic] > (before[topic] ?? begun));
  };
  const isBusy = (region) =>
    region.matches(":active") ||
    region.contains(document.activeElement?.closest("input, select, textarea")) ||
    region.querySelector("input:checked, details[open]") !== null ||
    (!getSelection().isCollapsed && region.contains(getSelection().anchorNode));

  const update = () => {
    clearTimeout(timer);
    if (document.hidden || isOver) return;
    const sources = new Set();
    let later = false;
    for (const region of document.querySelectorAll("[data-live]")) {
      if (!isStale(region)) continue;
      if (region.dataset.liveMode === "asking") {
        document.getElementById("hub-live-news")?.removeAttribute("hidden");
      } else if (region.dataset.liveMode !== "switching" || isSwitchedOn()) {
        if (isBusy(region) || Date.now() < (fetched.get(sourceOf(region)) || 0)) later = true;
        else sources.add(sourceOf(region));
      }
    }
    for (const source of sources) refresh(source);
    if (later) timer = setTimeout(update, TICK);
  };

  const refresh = async (source) => {
    const before = { ...shown.get(source) };
    const start = Date.now();
    fetched.set(source, Infinity);
    for (const topic of Object.keys(known)) before[topic] = known[topic];
    const page = await get(source);
    // A page that takes long to make is made seldom.
    fetched.set(source, Date.now() + Math.max(TICK, 10 * (Date.now() - start)));
    if (page === null) return;
    shown.set(source, before);
    const other = new DOMParser().parseFromString(await page.text(), "text/html");
    for (const region of document.querySelectorAll("[data-live]")) {
      if (sourceOf(region) !== source || region.dataset.liveMode === "asking") continue;
      const fresh = other.getElementById(region.id);
      if (fresh && !isBusy(region) && fresh.innerHTML !== region.innerHTML) replace(region, fresh);
    }
    update();
  };

  const FOCUSABLE = "a[href], button, summary, [tabindex]";
  // The same thing as before, wherever it is now: rows that came above it have moved it.
  const nameOf = (element) => `${element.tagName} ${element.id || element.getAttribute("href") || element.getAttribute("aria-label") || element.textContent.trim()}`;
  const replace = (region, fresh) => {
    const before = [...region.querySelectorAll(FOCUSABLE)];
    const place = before.indexOf(document.activeElement);
    const name = place < 0 ? "" : nameOf(before[place]);
    const twin = before.slice(0, Math.max(0, place)).filter((one) => nameOf(one) === name).length;
    region.innerHTML = fresh.innerHTML;
    if (place < 0) return;
    const after = [...region.querySelectorAll(FOCUSABLE)];
    const same = after.filter((one) => nameOf(one) === name);
    (same[twin] || same[0] || after[Math.min(place, after.length - 1)])?.focus({ preventScroll: true });
  };

  // What the hub answers; null if it cannot now, or not to this user any more.
  const get = async (url) => {
    try {
      const answer = await fetch(url, { headers: HEADERS, redirect: "manual", cache: "no-store" });
      if (answer.type === "opaqueredirect" || answer.status === 403) end();
      return answer.ok ? answer : null;
    } catch {
      return null;
    }
  };

  // ---- the switch of a list

  const control = document.getElementById("hub-live-switch");
  const KEPT = "tools_app.live";
  const isSwitchedOn = () => sessionStorage.getItem(KEPT) === "1";
  const showSwitch = () => control?.setAttribute("aria-pressed", String(isSwitchedOn()));
  control?.removeAttribute("hidden");
  control?.addEventListener("click", () => {
    sessionStorage.setItem(KEPT, isSwitchedOn() ? "0" : "1");
    showSwitch();
    update();
  });
  showSwitch();

  // ---- one page of the browser asks the hub

  const NAME = "toolhub.live";
  const me = String(Math.random());
  const channel = new BroadcastChannel(NAME);
  let stream = null;
  let pollsUntil = 0;
  let polledAt = 0;

  const lease = () => JSON.parse(localStorage.getItem(NAME) || "null");
  const leads = () => {
    const held = lease();
    if (held && held.id !== me && held.until > Date.now()) return false;
    localStorage.setItem(NAME, JSON.stringify({ id: me, until: Date.now() + LEASE }));
    return true;
  };
  const learn = (news) => {
    Object.assign(known, news);
    update();
  };
  const tell = (news) => {
    learn(news);
    channel.postMessage({ news: known });
  };
  const open = async () => {
    // Asked first: browsers complain of a stream that leads to the page to sign in.
    pollsUntil = Date.now() + POLL;
    if (!(await poll()) || stream || isOver || document.hidden) return;
    pollsUntil = 0;
    stream = new EventSource(`${address}events`);
    stream.addEventListener("message", (event) => tell(JSON.parse(event.data)));
    // The session has ended, or its user may have other permissions: asked before the next stream.
    stream.addEventListener("end", close);
    stream.addEventListener("error", () => {
      if (stream?.readyState !== EventSource.CLOSED) return; // The browser connects again by itself.
      close();
      pollsUntil = Date.now() + AGAIN;
    });
  };
  const close = () => {
    stream?.close();
    stream = null;
  };
  const poll = async () => {
    polledAt = Date.now();
    const answer = await get(address);
    if (answer) tell(await answer.json());
    return answer !== null;
  };
  const leave = () => {
    close();
    if (lease()?.id === me) {
      localStorage.removeItem(NAME);
      channel.postMessage({ gone: true });
    }
  };
  const end = () => {
    isOver = true;
    leave();
  };
  const tick = () => {
    if (isOver || document.hidden) return;
    if (!leads()) close();
    else if (!stream && pollsUntil < Date.now()) open();
    else if (!stream && polledAt + POLL < Date.now()) poll();
  };

  channel.addEventListener("message", ({ data }) => {
    if (data.news) learn(data.news);
    if (data.ask && stream) channel.postMessage({ news: known });
    if (data.gone) tick();
  });
  const appear = () => {
    if (document.hidden) {
      leave();
    } else {
      channel.postMessage({ ask: true });
      tick();
      update();
    }
  };

  // ---- the time that is left

  const countDown = () => {
    if (document.hidden) return;
    for (const time of document.querySelectorAll("time[data-countdown]")) {
      const seconds = Math.max(0, Math.floor((Date.parse(time.dateTime) - Date.now()) / 1_000));
      const parts = [Math.floor(seconds / 60) % 60, seconds % 60].map((part) => String(part).padStart(2, "0"));
      time.textContent = `${Math.floor(seconds / 3_600)}:${parts.join(":")}`.replace(/^0:0?/, "");
    }
  };

  if (address) {
    document.addEventListener("visibilitychange", appear);
    addEventListener("pagehide", leave);
    addEventListener("pageshow", appear);
    setInterval(tick, TICK);
    setInterval(countDown, 1_000);
    countDown();
  }
}
