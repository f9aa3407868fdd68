// Keeps the part of a page that is marked data-live up to date, and searches while one types.
"use strict";
(() => {
  const PAUSE = 400; // milliseconds between an answer and the next question
  const TROUBLE = 3000; // the same, after a question that was not answered
  const TYPING = 200;
  const live = document.getElementById("live");
  if (!live) return;
  document.documentElement.classList.add("scripted");
  let turn = 0; // a question of an earlier turn is not asked again, and its answer is dropped
  let asking = null;

  // Change `old` into `fresh` as little as possible, so that focus and selection stay.
  const key = (node) => (node.nodeType === 1 ? node.id || node.dataset?.key || "" : "");
  function morph(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
      old.replaceWith(fresh);
      return;
    }
    if (old.nodeType !== 1) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of [...fresh.attributes])
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    children(old, fresh);
  }
  function children(old, fresh) {
    const known = new Map();
    for (const child of old.childNodes) if (key(child)) known.set(key(child), child);
    let place = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const same = key(child) ? known.get(key(child)) : null;
      if (same) {
        known.delete(key(child));
        if (same === place) place = place.nextSibling;
        else old.insertBefore(same, place);
        morph(same, child);
      } else if (!key(child) && place && !key(place)) {
        const next = place.nextSibling;
        morph(place, child);
        place = next;
      } else {
        old.insertBefore(child, place);
      }
    }
    while (place) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
  }

  function take(text) {
    const parsed = new DOMParser().parseFromString(text, "text/html");
    const fresh = parsed.getElementById("live") || parsed.body;
    const focused = document.activeElement;
    // A fragment that is parsed alone has no space at its beginning. One node more or less there,
    // and each node after it would be replaced.
    for (const each of [live, fresh])
      while (each.firstChild?.nodeType === 3 && !each.firstChild.nodeValue.trim()) each.firstChild.remove();
    children(live, fresh);
    if (focused && focused !== document.activeElement && live.contains(focused))
      focused.focus({ preventScroll: true });
    said();
  }

  // The age of the scan grows between two answers.
  let aged = null;
  let since = 0;
  function said() {
    aged = live.querySelector("[data-age]");
    since = performance.now() - (aged ? 1000 * Number(aged.dataset.age) : 0);
  }
  setInterval(() => {
    if (!aged || document.hidden) return;
    const seconds = Math.round((performance.now() - since) / 1000);
    const words = seconds < 120 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
    if (aged.textContent !== words) aged.textContent = words;
  }, 1000);

  async function ask(mine, at_once) {
    const look = at_once ? null : live.querySelector("[data-look]");
    const url = live.dataset.live + (look ? (live.dataset.live.includes("?") ? "&" : "?") + "after=" + look.dataset.look : "");
    asking?.abort();
    asking = new AbortController();
    let pause = PAUSE;
    try {
      const answer = await fetch(url, { signal: asking.signal, credentials: "same-origin", redirect: "error" });
      if (!answer.ok) throw new Error(String(answer.status));
      const text = await answer.text();
      if (mine !== turn) return;
      take(text);
      live.classList.remove("cut-off");
    } catch {
      if (mine !== turn) return;
      live.classList.add("cut-off");
      pause = TROUBLE;
    }
    setTimeout(() => {
      if (mine === turn && !document.hidden) ask(mine, false);
    }, pause);
  }
  const restart = (at_once) => ask(++turn, at_once);

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      turn++;
      asking?.abort();
    } else restart(false);
  });

  const form = document.querySelector("[data-search]");
  let typing = 0;
  form?.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      const query = new URLSearchParams(new FormData(form)).toString();
      const path = live.dataset.live.split("?")[0];
      live.dataset.live = `${path}?${query}`;
      history.replaceState(null, "", `${form.getAttribute("action")}?${query}`);
      restart(true);
    }, TYPING);
  });
  said();
  if (!document.hidden) restart(false);
})();
