/* The page of the server: requests a trace, and shows it as it arrives.

   The trace has the text that may be shown, and the bytes and text that are withheld. Everything is
   inserted as text. timeline.js draws the tokens. */
"use strict";
{
  const { visible, quoted } = streamdecText;
  const at = (id) => document.getElementById(id);
  const [form, start, stop, out, jailed, held, now, status] =
    ["form", "start", "stop", "out", "jailed", "held", "now", "status"].map(at);
  let timeline = null, running = null;

  const say = (told, kind = "") => { status.textContent = told; status.className = kind; };

  /** What was typed in a line: \n, \t, \r and \\ are what they are in most languages. */
  const unescaped = (line) => line.replace(/\\([ntr\\])/g, (_, letter) => ({ n: "\n", t: "\t", r: "\r", "\\": "\\" })[letter]);

  const stopsTyped = () => at("stops").value.split("\n").filter(Boolean).map(unescaped);

  const body = () => {
    const asked = { model: document.body.dataset.model, prompt: at("prompt").value, stop: stopsTyped(),
      max_tokens: Number(at("most").value) || 1, include_stop_str_in_output: at("include").checked };
    if (at("seed").value !== "") asked.seed = Number(at("seed").value);
    return asked;
  };

  /** The events of a response, each {name, data}, as they come. */
  async function* eventsOf(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        const lines = part.split("\n"), of = (field) => lines.filter((line) => line.startsWith(field)).map((line) => line.slice(field.length));
        const data = of("data: ");
        if (data.length) yield { name: of("event: ")[0], data: JSON.parse(data.join("\n")) };
      }
    }
  }

  /** Tokens are drawn once for each frame, however many come. */
  const drawer = () => {
    let records = [], isPlanned = false, count = 0, last = null;
    const draw = () => {
      isPlanned = false;
      if (!records.length) return;
      const follows = !timeline.length || timeline.current === timeline.length - 1;
      timeline.append(records);
      if (follows) timeline.select(timeline.length - 1);
      out.append(records.map((record) => record.text || "").join(""));
      count += records.length;
      last = records[records.length - 1];
      records = [];
      jailed.textContent = visible(last.jailed || "");
      held.textContent = (last.held || "").replace(/(..)(?=.)/g, "$1 ");
      const waits = (last.may_become || []).map((each) => typeof each === "string" ? quoted(each) : `ids ${each.join(" ")}`);
      now.textContent = `token ${count} · id ${last.token_id}`
        + (last.held ? ` · held ${held.textContent}` : "")
        + (last.jailed ? ` · withheld ${quoted(last.jailed)}` : "")
        + (waits.length ? `, may become ${waits.join(" or ")}` : "");
      const text = at("text");
      text.scrollTop = text.scrollHeight;
    };
    return {
      add(record) {
        records.push(record);
        if (!isPlanned) { isPlanned = true; requestAnimationFrame(draw); }
      },
      /** At the end the withheld text is output, unless it is the stop. */
      end(text) { draw(); out.append(text); jailed.textContent = held.textContent = ""; },
      get count() { return count + records.length; },
      get last() { return last; },
    };
  };

  const ended = (count, last, { end, verdict, error }) => {
    const { finish_reason: reason, stop_reason: by } = end || last || {};
    const isEnd = end != null; // without a token: the engine ended the stream
    const why = { stop: by != null ? `the stop ${typeof by === "string" ? quoted(by) : by}`
        : isEnd ? "the engine" : "the end-of-sequence id",
      length: "max tokens", abort: "an abort", error: "an error" }[reason] || "the engine";
    say(`${count} tokens, ended by ${why}. ${error ? error : `Equal to the full decode: ${verdict.equal === null ? "not compared" : verdict.equal ? "yes" : "no"}.`}`,
      error || verdict.equal === false ? "problem" : verdict.equal ? "yes" : "");
  };

  const run = async (signal) => {
    out.textContent = jailed.textContent = held.textContent = now.textContent = "";
    const old = at("timeline"), fresh = document.createElement("div");
    fresh.id = "timeline";
    old.replaceWith(fresh);
    timeline = null;
    const headers = { "content-type": "application/json" };
    if (at("key").value) headers.authorization = `Bearer ${at("key").value}`;
    const response = await fetch("v1/streamdec/trace", { method: "POST", headers, body: JSON.stringify(body()), signal });
    if (!response.ok) {
      const { error } = await response.json();
      say(`${error.message} (${response.status})`, "problem");
      return;
    }
    say("Streaming.");
    const drawing = drawer();
    let isOver = false;
    const speak = (how) => fresh.querySelectorAll("[aria-live]").forEach((each) => each.setAttribute("aria-live", how));
    try {
      for await (const { name, data } of eventsOf(response)) {
        if (name === "header") {
          timeline = streamdecTimeline(fresh, data);
          speak("off"); // while it streams the current token is another one at each frame
        }
        else if (name === "token") drawing.add(data);
        else if (name === "error") { say(data.error.message, "problem"); isOver = true; }
        else if (name === "end") {
          drawing.end(data.end ? data.end.text : "");
          timeline.finish(data.end, data.verdict);
          ended(drawing.count, drawing.last, data);
          isOver = true;
        }
      }
      if (!isOver) say("The connection was lost.", "problem");
    } finally {
      if (!isOver && timeline) drawing.end("");
      speak("polite");
    }
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (running) return;
    running = new AbortController();
    start.disabled = true;
    stop.disabled = false;
    try {
      await run(running.signal);
    } catch (error) {
      if (error.name === "AbortError") say("Stopped: the server has closed the engine.");
      else say("The server cannot be reached.", "problem");
    } finally {
      running = null;
      start.disabled = false;
      stop.disabled = true;
    }
  });
  stop.addEventListener("click", () => { if (running) running.abort(); });
  // The keys of the drawing work wherever on the page the focus is, but where something is typed.
  document.addEventListener("keydown", (event) => { if (timeline && event.target.tagName !== "BUTTON") timeline.press(event); });
  at("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    if (timeline) timeline.repaint();
  });
}
