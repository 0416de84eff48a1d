// Keeps an open page up to date: the server says that there is news, and htmx fetches the page anew.
"use strict";
(() => {
  const RETRY_MS = 3000;
  const AGO_MS = 10000;
  // Some figures change with the time alone, such as whether a task is at work.
  const EVERY_S = 30;
  const news = document.getElementById("news");
  const main = () => document.getElementById("main");
  let source = null;
  let retry = null;
  let clock = null;
  let isAway = false;

  // Whoever writes a note must not lose it to an update.
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

  // Whoever writes a note for a gate learns at once that somebody else has decided on it.
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
    if (chosen && act) act.textContent = chosen.closest("label").querySelector("strong").textContent;
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
      time.textContent = days ? `${days} d ${hours % 24} h`
        : hours ? `${hours} h ${minutes % 60} min`
        : minutes ? `${minutes} min` : `${Math.floor(seconds)} s`;
    }
  }

  news?.querySelector("button").addEventListener("click", () => refresh(null, true));
  document.addEventListener("visibilitychange", follow);
  window.addEventListener("pagehide", () => source?.close());
  window.addEventListener("pageshow", (event) => event.persisted && follow());
  document.addEventListener("keydown", (event) => {
    const search = document.querySelector("input[type=search]");
    const isTyping = event.target.closest("input, textarea, select");
    if (event.key === "/" && search && !isTyping) {
      event.preventDefault();
      search.focus();
    }
  });
  document.addEventListener("htmx:after:swap", () => {
    const count = document.getElementById("count")?.textContent.match(/^\d+/);
    const title = document.title.replace(/^\(\d+\) /, "");
    document.title = count ? `(${count[0]}) ${title}` : title;
    ages();
    prepareAll();
    wind();
  });
  for (const kind of ["change", "input"]) {
    document.addEventListener(kind, (event) => {
      const form = event.target.closest("form.decide");
      if (form) prepare(form);
    });
  }
  setInterval(ages, AGO_MS);
  prepareAll();
  follow();
  wind();
})();
