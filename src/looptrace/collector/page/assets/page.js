// Keeps an open page up to date: the server says that there is news, and htmx fetches the page anew.
"use strict";
(() => {
  const RETRY_MS = 3000;
  const AGO_MS = 10000;
  const COPIED_MS = 1500;
  // Some figures change with the time alone, such as whether a task is at work.
  const EVERY_S = 30;
  const news = document.getElementById("news");
  const help = document.getElementById("keys");
  // Notes outlast a sign-in; a browser that blocks cookies has no storage either.
  const drafts = navigator.cookieEnabled ? sessionStorage : null;
  const main = () => document.getElementById("main");
  let source = null;
  let retry = null;
  let clock = null;
  let isAway = false;
  let opened = "";
  let here = location.search;

  // An update would lose a note that is being written.
  const isWriting = () => [...document.querySelectorAll("textarea")].some(
    (area) => area.value !== area.defaultValue);

  function say(text, offersUpdate) {
    if (!news) return;
    const button = news.querySelector("button");
    news.querySelector("span").textContent = text;
    news.hidden = !text;
    button.hidden = !offersUpdate;
  }

  function refresh(kind, force) {
    const kinds = (main()?.dataset.live || "").split(" ");
    if (kind && kind !== "clock" && !kinds.includes(kind)) return;
    if (!force && isWriting()) {
      if (kind === "clock") return;
      say(kind === "turns" ? "New turns came." : "A gate was opened or decided.", true);
      if (kind !== "turns") lookAtOwnGates();
      return;
    }
    say("", false);
    main().dispatchEvent(new CustomEvent("refresh"));
  }

  // Report another decision on the gate while a note is written.
  async function lookAtOwnGates() {
    for (const form of document.querySelectorAll("form.decide[data-gate]")) {
      const area = form.querySelector("textarea");
      if (area.value === area.defaultValue) continue;
      const answer = await fetch(form.dataset.gate);
      if (!answer.ok) continue;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (fresh.querySelector("form.decide")) continue;
      form.querySelector("button").disabled = true;
      say("Somebody else has decided on this gate: your decision would not be carried out. "
        + "Copy your note before you look.", true);
    }
  }

  // The button names the act, and a browser asks for a note without which the server refuses.
  function prepare(form) {
    const chosen = form.querySelector("input[name=decision]:checked");
    const act = form.querySelector(".act");
    const decision = chosen?.value || form.dataset.decision;
    const note = form.querySelector("textarea");
    const isNeeded = decision === "continue" && !note.value.trim()
      && !form.querySelector("input[name=without_note]").checked;
    note.setCustomValidity(isNeeded
      ? "Write what the agent should do otherwise, or tick “Go on without a note” below." : "");
    if (chosen && act) act.textContent = chosen.closest("label").querySelector("strong").firstChild.textContent;
  }

  const prepareAll = () => document.querySelectorAll("form.decide").forEach(prepare);

  function wind() {
    clearTimeout(clock);
    if (!main()?.dataset.live) return;
    clock = setTimeout(() => {
      if (!document.hidden) refresh("clock", false);
      wind();
    }, 1000 * (main().dataset.everyS || EVERY_S));
  }

  // A browser keeps few connections to one server, so that a hidden page gives its own back.
  function follow() {
    clearTimeout(retry);
    source?.close();
    source = null;
    if (document.hidden || !main()?.dataset.live) return;
    const wantsTurns = main().dataset.live.includes("turns");
    source = new EventSource(wantsTurns ? "/changes?turns" : "/changes");
    source.addEventListener("begun", (event) => {
      if (isAway) say("", false);
      isAway = false;
      if (event.data !== main().dataset.state) refresh(null, false);
    });
    source.addEventListener("gates", () => refresh("gates", false));
    source.addEventListener("turns", () => refresh("turns", false));
    source.addEventListener("error", () => {
      isAway = true;
      say("No connection to the server. Trying again.", false);
      // A browser tries again by itself unless the server has answered with an error.
      if (source?.readyState === EventSource.CLOSED) retry = setTimeout(follow, RETRY_MS);
    });
  }

  function ages() {
    for (const time of document.querySelectorAll("time[data-ago]")) {
      const seconds = Math.max(0, (Date.now() - Date.parse(time.dateTime)) / 1000);
      const minutes = Math.floor(seconds / 60);
      const hours = Math.floor(minutes / 60);
      const days = Math.floor(hours / 24);
      const parts = days ? [days, "d", hours % 24, "h"] : hours ? [hours, "h", minutes % 60, "min"] : [];
      time.textContent = parts.length ? (parts[2] ? parts : parts.slice(0, 2)).join(" ")
        : minutes ? `${minutes} min` : `${Math.floor(seconds)} s`;
    }
  }

  // A person reads the time of the wall; that of the logs is one look away.
  function localTimes() {
    for (const time of document.querySelectorAll("time:not([data-ago], [title])")) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      time.title = `${time.textContent} UTC`;
      time.textContent = at.toLocaleString("sv-SE").slice(0, time.textContent.length);
    }
    const zone = document.getElementById("zone");
    const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (zone && name !== "UTC") zone.textContent = `Times are those of ${name}; hover for UTC.`;
  }

  // Another gate beside the list takes the place of a form; its note comes back with it.
  function putDraftsBack() {
    for (const form of document.querySelectorAll("form.decide")) {
      const area = form.querySelector("textarea");
      if (!area.value) area.value = drafts?.getItem(form.action) || "";
    }
  }

  // A browser gives the clipboard to encrypted pages and to those of this machine alone.
  function showCopies() {
    if (!navigator.clipboard) return;
    for (const button of document.querySelectorAll("button.copy")) button.hidden = false;
  }

  // A bar of a timeline leads to its turn, and opens it.
  function unfoldTarget() {
    const turn = location.hash.startsWith("#turn-") && document.getElementById(location.hash.slice(1));
    const fold = turn && turn.querySelector("details");
    if (fold) fold.open = true;
  }

  function dress() {
    showCopies();
    ages();
    localTimes();
    putDraftsBack();
    prepareAll();
  }

  function step(by) {
    const lines = [...document.querySelectorAll("a[data-line]")].filter((each) => each.checkVisibility());
    const at = lines.indexOf(document.activeElement);
    const from = at >= 0 ? at : lines.findIndex((each) => each.ariaCurrent);
    const next = lines[Math.min(Math.max(from + by, 0), lines.length - 1)];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
    return Boolean(next);
  }

  function choose(place) {
    const form = [...document.querySelectorAll("form.decide")].find((each) => each.checkVisibility());
    const choice = form?.querySelectorAll("input[name=decision][type=radio]")[place];
    if (!choice) return false;
    choice.checked = true;
    prepare(form);
    choice.focus({ preventScroll: true });
    // A choice by a key scrolls to the choices, the note and the button.
    form.scrollIntoView({ block: "nearest" });
    return true;
  }

  function search() {
    const field = document.querySelector("input[type=search]");
    const fold = field?.closest("details");
    if (fold) fold.open = true;
    field?.focus();
    return Boolean(field);
  }

  const KEYS = {
    j: () => step(1),
    k: () => step(-1),
    "/": search,
    "?": () => (help?.showModal(), Boolean(help)),
    ...Object.fromEntries([0, 1, 2, 3].map((place) => [place + 1, () => choose(place)])),
  };

  news?.querySelector("button").addEventListener("click", () => refresh(null, true));
  document.addEventListener("visibilitychange", follow);
  window.addEventListener("pagehide", () => source?.close());
  window.addEventListener("pageshow", (event) => event.persisted && follow());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.target.closest("form.decide")?.querySelector("button.main-action").click();
      return;
    }
    const act = KEYS[event.key];
    const isTyping = event.target.closest(
      "textarea, select, input:not([type=radio], [type=checkbox])");
    if (event.key === "Escape" && isTyping) event.target.blur();
    if (!act || isTyping || event.ctrlKey || event.metaKey || event.altKey || help?.open) return;
    if (act()) event.preventDefault();
  });
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    const { copy, copyFrom, copyBlock } = button.dataset;
    let text = copy || location.href;
    if (copyBlock !== undefined) text = button.closest("div, details").querySelector("pre").textContent;
    else if (copyFrom) {
      const answer = await fetch(copyFrom);
      if (!answer.ok) return say("The report cannot be read now. Try again in a moment.", false);
      text = await answer.text();
    } else if (copy?.startsWith("/")) text = location.origin + copy;
    await navigator.clipboard.writeText(text);
    button.classList.add("is-copied");
    setTimeout(() => button.classList.remove("is-copied"), COPIED_MS);
  });
  window.addEventListener("hashchange", unfoldTarget);
  document.querySelector("form.sign-out")?.addEventListener("submit", () => drafts?.clear());
  document.getElementById("show-keys")?.addEventListener("click", () => help.showModal());
  document.addEventListener("click", (event) => {
    const line = event.target.closest("a[data-line][hx-get]");
    if (!line || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    opened = line.id;
    history.pushState(null, "", line.href);
    here = location.search;
  });
  window.addEventListener("popstate", () => location.search !== here && location.reload());
  document.addEventListener("htmx:after:swap", () => {
    const count = document.getElementById("count")?.textContent.match(/^[\d,]+/);
    const title = document.title.replace(/^\([\d,]+\) /, "");
    document.title = count ? `(${count[0]}) ${title}` : title;
    dress();
    wind();
    if (!opened) return;
    const line = document.getElementById(opened);
    opened = "";
    if (line?.checkVisibility()) line.focus({ preventScroll: true });
    else window.scrollTo(0, 0);
  });
  for (const kind of ["change", "input"]) {
    document.addEventListener(kind, (event) => {
      const form = event.target.closest("form.decide");
      if (!form) return;
      prepare(form);
      if (event.target.matches("textarea")) drafts?.setItem(form.action, event.target.value);
    });
  }
  setInterval(ages, AGO_MS);
  dress();
  unfoldTarget();
  follow();
  wind();
})();
