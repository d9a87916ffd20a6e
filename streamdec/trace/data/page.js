/* The page around the timeline: reads the trace that is in it. */
"use strict";
{
  const [header, ...rows] = JSON.parse(document.getElementById("trace").textContent);
  const last = rows.pop();
  const timeline = streamdecTimeline(document.getElementById("timeline"), header);
  timeline.append(rows);
  timeline.finish(last.end, last.verdict);
  const { equal, token_index: differs } = last.verdict;
  timeline.select(equal === false && differs !== null ? differs : 0, { focus: true });
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    timeline.repaint();
  });
}
