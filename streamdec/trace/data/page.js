/* The page around the timeline: reads the trace that is in it. */
"use strict";
{
  const [header, ...rows] = JSON.parse(document.getElementById("trace").textContent);
  const { end, verdict } = rows.pop();
  const timeline = streamdecTimeline(document.getElementById("timeline"), header);
  timeline.append(rows);
  timeline.finish(end, verdict);
  const differs = verdict.equal === false ? verdict.token_index ?? rows.length - 1 : 0;
  timeline.select(differs, { focus: true });
  // The keys work wherever on the page the focus is.
  document.addEventListener("keydown", timeline.press);
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    timeline.repaint();
  });
}
