/* Draws a trace: each token is a block. Characters and stops are drawn across their tokens.

   In: a container, the header of a trace, and its records. Out: an object with append(records),
   finish(end, verdict), select(index) and more (see the end). Nothing is fetched, and all text is
   set as text. Rows that are not visible are not in the document. */
"use strict";

const streamdecTimeline = (container, header = {}) => {
  const { visible, prose, short, ending, first, spaced } = streamdecText;
  const story = streamdecStory(header);
  const { tokens, labels, outEnds, charactersOf, stopsOf, chunkSizes } = story;

  const make = (name, className, parent, text) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  };
  /** Text into an element; spaces become dots that are not as loud as letters. */
  const put = (element, text) => {
    element.textContent = "";
    for (const part of text.split(/( )/)) {
      if (part === " ") make("span", "sd-space", element, "·");
      else if (part) element.append(part);
    }
    return element;
  };

  // --- the parts on the page --------------------------------------------------------------------

  container.classList.add("sd");
  const top = make("div", "sd-top", container);
  const bar = make("div", "sd-bar", top);
  const button = (label, title, action) => {
    const element = make("button", "", bar, label);
    element.type = "button";
    element.title = title;
    element.setAttribute("aria-label", title);
    element.addEventListener("click", action);
  };
  button("⇤", "First token (Home)", () => select(0));
  button("←", "Previous token (left arrow)", () => select(current - 1));
  const place = make("span", "sd-place", bar);
  button("→", "Next token (right arrow)", () => select(current + 1));
  button("⇥", "Last token (End)", () => select(tokens.length - 1));
  button("‹ withheld", "Previous token with held bytes or jailed text ([)", () => goToWithheld(-1));
  button("withheld ›", "Next token with held bytes or jailed text (])", () => goToWithheld(1));
  const searching = make("label", "sd-search", bar);
  make("span", "sd-hidden", searching, "Search");
  const search = make("input", "", searching);
  Object.assign(search, { type: "search", placeholder: "Text, id or #index   ( / )", autocomplete: "off", spellcheck: false });
  const found = make("output", "sd-found", searching);

  const overview = make("div", "sd-overview", top);
  overview.setAttribute("aria-hidden", "true");
  const canvas = make("canvas", "", overview);
  const seen = make("div", "sd-seen", overview);
  const mark = make("div", "sd-mark", overview);
  const legend = make("ul", "sd-legend", top);

  const body = make("div", "sd-body", container);
  const score = make("div", "sd-score", body);
  score.tabIndex = 0;
  score.setAttribute("role", "listbox");
  score.setAttribute("aria-label", "Tokens. Arrow keys step, Home and End go to the first and last.");
  const nothing = make("p", "sd-nothing", score, "No tokens.");
  const sheet = make("div", "sd-sheet", score);
  sheet.setAttribute("role", "presentation");

  const panel = make("aside", "sd-panel", body);
  panel.setAttribute("aria-label", "The current token");
  panel.tabIndex = 0;
  const title = make("h2", "", panel);
  const why = make("p", "sd-why", panel);
  why.setAttribute("aria-live", "polite");
  make("h3", "", panel, "Output");
  const now = make("p", "sd-now", panel);
  make("h3", "", panel, "Details");
  const list = make("dl", "", panel);
  const help = make("p", "sd-help", panel);
  for (const [keys, told] of [["← →", "step"], ["↑ ↓", "rows"], ["Home End", "ends"], ["[ ]", "withheld"], ["/", "search"]]) {
    const one = make("span", "", help);
    make("kbd", "", one, keys);
    one.append(` ${told}`);
    help.append(" ");
  }

  /** What can be seen is explained; what does not occur in this trace is not. */
  const LEGEND = [
    ["sd-out", "output at once", null],
    ["sd-held", "held: bytes of an unfinished character", null],
    ["sd-jailed", "jailed: may become a stop", null],
    ["sd-stop", "stop", (index) => tokens[index].finish_reason === "stop"],
    ["sd-mute", "no text", (index) => story.stateOf(index) === "mute" && tokens[index].kind !== "skipped"],
    ["sd-kind-skipped", "special token, skipped", (index) => tokens[index].kind === "skipped"],
    ["sd-kind-unknown", "unknown id", (index) => tokens[index].kind === "unknown"],
    ["sd-key-chunk", "one chunk", (index) => chunkSizes.get(tokens[index].chunk) > 1],
    ["sd-differs", "first difference", (index) => story.differs(index)],
  ];
  const explained = new Set();
  const fillLegend = (from = 0) => {
    legend.textContent = "";
    for (const [name, told, occursAt] of LEGEND) {
      for (let index = from; occursAt && !explained.has(name) && index < tokens.length; index += 1) {
        if (occursAt(index)) explained.add(name);
      }
      if (occursAt && !explained.has(name)) continue;
      make("span", `sd-key ${name}`, make("li", "", legend)).after(told);
    }
  };

  // --- layout: rows of tokens, as lines of text -------------------------------------------------

  const LINE = { ruler: 17, block: 42, span: 25, out: 25, space: 20 };
  const WIDEST = 230, WIDEST_OUT = 170, NARROWEST = 34, GAP = 3;
  const pen = document.createElement("canvas").getContext("2d");
  const widths = new Map();   // of labels that were measured
  const drawn = new Map();    // of rows that are in the document, their elements
  const blocks = new Map();   // and of their tokens
  let current = -1, rows = [], rowOf = [], xs = [], sizes = [], gutter = 0, sheetWidth = 0, letterWidth = 8.4;

  const NARROW = /[ -~¡-ʯͰ-֏↵]/g, WIDE = /[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3\uff01-\uff60]/g;
  const EM = 14;
  /** Of what fonts of one width have it is known; all else is measured, once: that takes long. */
  const widthOf = (label) => {
    const narrow = (label.match(NARROW) || []).length, wide = (label.match(WIDE) || []).length;
    if (narrow + wide === label.length) return Math.ceil(narrow * letterWidth + wide * EM);
    let width = widths.get(label);
    if (width === undefined) {
      width = Math.ceil(pen.measureText(short(label, 60)).width);
      widths.set(label, width);
    }
    return width;
  };
  const blockWidth = (index) => {
    const token = tokens[index], id = token.token_id == null ? "" : String(token.token_id);
    const out = Math.min(widthOf(visible(short(token.text || "", 60))) + 14, WIDEST_OUT);
    const wanted = Math.max(widthOf(labels[index]) + 14, id.length * 6.6 + 12, out, NARROWEST, String(index).length * 6.4 + 6);
    return Math.min(wanted, WIDEST, sheetWidth - gutter - 12);
  };
  /** Where in a row the lanes are; those in which nothing is take no room. */
  const setLanes = (row) => {
    let hasCharacter = false, hasStop = false, hasJailed = false;
    for (let index = row.from; index <= row.to; index += 1) {
      hasCharacter ||= charactersOf[index].length > 0;
      hasStop ||= stopsOf[index].length > 0;
      hasJailed ||= Boolean(tokens[index].jailed) || stopsOf[index].some((span) => !span.stop);
    }
    let y = LINE.ruler + LINE.block;
    row.character = hasCharacter ? y : null;
    if (hasCharacter) y += LINE.span;
    row.stop = hasStop ? y : null;
    if (hasStop) y += LINE.span;
    row.stopLane = hasJailed ? "jailed" : "stop";
    row.out = y;
    row.height = y + LINE.out + LINE.space;
  };
  /** Sets tokens in rows, from a row on: those before stay. */
  const layout = (fromRow = 0) => {
    const start = fromRow < rows.length ? rows[fromRow].from : 0;
    rows.length = Math.min(fromRow, rows.length);
    for (const number of [...drawn.keys()]) if (number >= fromRow) erase(number);
    let row = null, x = 0;
    for (let index = start; index < tokens.length; index += 1) {
      const width = blockWidth(index);
      if (!row || x + width > sheetWidth - 6) {
        row = { from: index, to: index, y: 0 };
        rows.push(row);
        x = gutter;
      }
      row.to = index;
      xs[index] = x;
      sizes[index] = width;
      rowOf[index] = rows.length - 1;
      x += width + GAP;
    }
    for (let number = fromRow; number < rows.length; number += 1) {
      setLanes(rows[number]);
      const before = rows[number - 1];
      rows[number].y = before ? before.y + before.height : 10;
    }
    const last = rows[rows.length - 1];
    sheet.style.height = `${last ? last.y + last.height + 20 : 0}px`;
    container.classList.toggle("sd-empty", !rows.length);
    draw();
    drawOverview();
  };
  const setWidth = () => {
    pen.font = getComputedStyle(container).getPropertyValue("--sd-measure");
    letterWidth = pen.measureText("x".repeat(100)).width / 100;
    sheetWidth = sheet.clientWidth || 800;
    gutter = sheetWidth > 620 ? 92 : 66;
  };
  const rowAt = (y) => {
    let low = 0, high = rows.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (rows[middle].y <= y) low = middle; else high = middle - 1;
    }
    return low;
  };

  // --- drawing: the rows that are visible -------------------------------------------------------

  const MOST_PRINTED = 4000;   // tokens
  let isPrinting = false;

  const at = (element, x, y, width) => {
    Object.assign(element.style, { left: `${x}px`, top: `${y}px`, width: `${width}px` });
    return element;
  };
  const erase = (number) => {
    for (let index = rows[number] ? rows[number].from : 0; rows[number] && index <= rows[number].to; index += 1) blocks.delete(index);
    drawn.get(number).remove();
    drawn.delete(number);
  };
  const eraseAll = () => [...drawn.keys()].forEach(erase);
  const draw = () => {
    if (!rows.length) return;
    const firstRow = rowAt(score.scrollTop), lastRow = rowAt(score.scrollTop + score.clientHeight);
    const from = isPrinting ? 0 : Math.max(firstRow - 2, 0);
    const to = isPrinting ? rows.length - 1 : Math.min(lastRow + 2, rows.length - 1);
    for (const number of [...drawn.keys()]) if (number < from || number > to) erase(number);
    for (let number = from; number <= to; number += 1) if (!drawn.has(number)) drawRow(number);
    const share = 100 / tokens.length, firstSeen = rows[firstRow].from, lastSeen = rows[lastRow].to;
    Object.assign(seen.style, { left: `${firstSeen * share}%`, width: `${(lastSeen + 1 - firstSeen) * share}%` });
  };
  const drawRow = (number) => {
    const row = rows[number], line = make("div", "sd-row");
    line.setAttribute("role", "presentation");
    Object.assign(line.style, { top: `${row.y}px`, height: `${row.height}px` });
    const lanes = [[LINE.ruler + 10, "token"], [row.character, "character"], [row.stop, row.stopLane], [row.out, "output"]];
    for (const [y, told] of lanes) {
      if (y !== null) quiet(at(make("span", "sd-gutter", line, told), 0, y, gutter - 8));
    }
    const spans = new Set();
    for (let index = row.from; index <= row.to; index += 1) {
      drawToken(line, row, index);
      charactersOf[index].forEach((span) => spans.add(span));
      stopsOf[index].forEach((span) => spans.add(span));
    }
    for (const span of spans) (charactersOf[span.from].includes(span) ? drawCharacter : drawStop)(line, row, span);
    drawn.set(number, line);
    sheet.append(line);
  };
  /** What a screen reader is told in words by the panel need not be read as well. */
  const quiet = (element) => {
    element.setAttribute("aria-hidden", "true");
    return element;
  };
  const drawToken = (line, row, index) => {
    const token = tokens[index], x = xs[index], width = sizes[index], state = story.stateOf(index);
    drawNumber(line, index);
    const block = at(make("div", `sd-token sd-${state} sd-kind-${token.kind || "text"}`, line), x, LINE.ruler, width);
    blocks.set(index, block);
    block.id = `${container.id || "sd"}-token-${index}`;
    block.title = labels[index].length > 20 ? short(labels[index], 400) : "";
    block.classList.toggle("sd-differs", story.differs(index));
    block.classList.toggle("sd-hit", hits.has(index));
    block.classList.toggle("sd-current", index === current);
    block.setAttribute("role", "option");
    block.setAttribute("aria-selected", String(index === current));
    block.setAttribute("aria-label", `token ${index}, ${short(labels[index], 100)}`);
    put(make("bdi", "sd-label", block), short(labels[index], 60));
    make("span", "sd-id", block, token.token_id == null ? "" : String(token.token_id));
    drawOutcome(line, row, index, state);
  };
  const drawNumber = (line, index) => {
    const token = tokens[index], size = chunkSizes.get(token.chunk);
    const number = quiet(at(make("span", "sd-index", line, String(index)), xs[index], 0, sizes[index]));
    if (size === 1) return;
    const isIn = (other) => Boolean(other) && other.chunk === token.chunk;
    number.classList.add("sd-chunk");
    number.title = `chunk ${token.chunk}, of ${size} tokens`;
    number.classList.toggle("sd-chunk-from", !isIn(tokens[index - 1]));
    number.classList.toggle("sd-chunk-to", !isIn(tokens[index + 1]));
    if (isIn(tokens[index + 1])) number.style.width = `${sizes[index] + GAP}px`;
  };
  const drawOutcome = (line, row, index, state) => {
    const token = tokens[index], end = story.end, came = token.text || "";
    const out = quiet(at(make("span", `sd-outcome sd-${state}`, line), xs[index], row.out, sizes[index]));
    const isLast = index === tokens.length - 1 && end && end.text;
    if (came || isLast) {
      const shown = visible(came + (isLast ? end.text : ""));
      put(make("bdi", "", out), short(shown, 60));
      if (shown.length > 20) out.title = short(shown, 400);
    } else if (token.finish_reason) {
      out.textContent = "■";
    } else {
      out.classList.add("sd-none");
    }
    if (isLast) {
      out.classList.add("sd-last");
      out.title = `${visible(short(end.text, 400))} was output at the end`;
    }
  };

  const BIG = 8, SMALL = 6;   // the width of a letter, large or small, at least
  /** The part of a span that is in a row, with what it says as far as there is room. */
  const drawSpan = (line, row, span, y, className, text, remark) => {
    const from = Math.max(span.from, row.from), to = Math.min(span.to, row.to);
    let left = xs[from], right = xs[to] + sizes[to];
    if (from === span.from && span.before) left += sizes[from] / 2;
    if (to === span.to && span.after) right -= sizes[to] / 2;
    const width = Math.max(right - left, 12);
    const element = quiet(at(make("div", `sd-span ${className}`, line), left, y, width));
    element.classList.toggle("sd-from-before", span.from < row.from);
    element.classList.toggle("sd-goes-on", span.to > row.to || span.open);
    put(make("bdi", "sd-big", element), short(text, 80));
    if ([...text].length * BIG + remark.length * SMALL + 24 <= width) make("span", "sd-small", element, remark);
    return element;
  };
  const drawCharacter = (line, row, span) => {
    const end = story.end, count = span.to - span.from + 1;
    const text = span.open ? (end && end.text ? visible(first(end.text)) : "…") : visible(span.text);
    const element = drawSpan(line, row, span, row.character, "sd-character", text, count > 1 ? `${count} tokens` : "");
    element.title = span.open ? "a character that was not finished" : `${visible(span.text)}, of tokens ${span.from} to ${span.to}`;
  };
  const drawStop = (line, row, span) => {
    const remark = span.stop ? "stop" : span.open ? "undecided" : "no stop", text = visible(short(span.text, 200));
    const element = drawSpan(line, row, span, row.stop, span.stop ? "sd-jail sd-is-stop" : "sd-jail", text, remark);
    const may = story.anyOf(tokens[span.from].may_become || []);
    element.title = span.stop ? `${text} is the stop` : span.open ? `${text} may become ${may}` : `${text} might have become ${may}`;
  };

  // --- the overview: one column of pixels for one token or many ---------------------------------

  const STACK = ["out", "mute", "unknown", "held", "jailed", "end", "stop"];
  const SHARE = { out: 0.4, mute: 0.6, unknown: 0.6, held: 0.85, jailed: 0.85 };
  let isOverviewPlanned = false;
  const drawOverview = () => {
    if (isOverviewPlanned) return;
    isOverviewPlanned = true;
    requestAnimationFrame(() => { isOverviewPlanned = false; drawOverviewNow(); });
  };
  const drawOverviewNow = () => {
    const width = overview.clientWidth, height = overview.clientHeight, scale = window.devicePixelRatio || 1;
    if (!width || !tokens.length) return;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const brush = canvas.getContext("2d"), style = getComputedStyle(container);
    brush.scale(scale, scale);
    const columns = Math.min(Math.floor(width), tokens.length), step = width / columns;
    const counts = Array.from({ length: columns }, () => ({}));
    for (let index = 0; index < tokens.length; index += 1) {
      const count = counts[Math.floor((index * columns) / tokens.length)], state = story.stateOf(index);
      count[state] = (count[state] || 0) + 1;
    }
    const isSingle = columns === tokens.length;
    counts.forEach((count, column) => {
      const all = Object.values(count).reduce((sum, each) => sum + each, 0);
      let bottom = height;
      for (const state of STACK) {
        if (!count[state]) continue;
        // One token is a bar of its own height; several share a column. An end is always seen whole.
        const isEnd = state === "stop" || state === "end";
        const size = isSingle || isEnd ? height * (isEnd ? 1 : SHARE[state]) : (height * count[state]) / all;
        brush.fillStyle = style.getPropertyValue(`--sd-${state}`);
        brush.globalAlpha = state === "out" ? 0.45 : 1;
        brush.fillRect(column * step, isEnd ? 0 : bottom - size, Math.max(step - (step > 4 ? 1 : 0), isEnd ? 2 : step), size);
        bottom -= size;
      }
    });
  };

  // --- the current token ------------------------------------------------------------------------

  const select = (index, { focus = false, scroll = true } = {}) => {
    if (!tokens.length) return;
    const before = blocks.get(current);
    if (before) {
      before.classList.remove("sd-current");
      before.setAttribute("aria-selected", "false");
    }
    current = Math.min(Math.max(index, 0), tokens.length - 1);
    if (scroll) show(current);
    draw();
    const block = blocks.get(current);
    if (block) {
      block.classList.add("sd-current");
      block.setAttribute("aria-selected", "true");
      score.setAttribute("aria-activedescendant", block.id);
    }
    place.textContent = `${current} of 0 to ${tokens.length - 1}`;
    mark.style.left = `${(100 * (current + 0.5)) / tokens.length}%`;
    fillPanel();
    if (focus) score.focus({ preventScroll: true });
  };
  const show = (index) => {
    const row = rows[rowOf[index]], above = score.scrollTop, height = score.clientHeight;
    if (row.y < above + 4) score.scrollTop = row.y - 10;
    else if (row.y + row.height > above + height) {
      const isFar = row.y > above + 2 * height;
      score.scrollTop = isFar ? row.y - height / 3 : row.y + row.height - height + 8;
    }
  };
  const goToWithheld = (direction) => {
    for (let index = current + direction; tokens[index]; index += direction) {
      if (story.isWithheld(index)) { select(index); return; }
    }
  };

  const LOOK_BACK = 260;   // units of the text before that the panel shows
  const fillPanel = () => {
    const token = tokens[current];
    title.textContent = `Token ${current}`;
    put(make("bdi", `sd-name sd-${story.stateOf(current)}`, title), short(labels[current], 400));
    why.textContent = "";
    for (const [sentence, target] of story.explain(current)) {
      const span = make("span", "", why, sentence);
      if (target !== undefined && target !== current && tokens[target]) {
        const link = make("button", "sd-link", span, `Go to ${target}`);
        link.type = "button";
        link.addEventListener("click", () => select(target, { focus: true }));
      }
      why.append(" ");
    }
    const came = story.text.slice(0, outEnds[current - 1] || 0), isLast = current === tokens.length - 1;
    now.textContent = "";
    make("span", "", now, (came.length > LOOK_BACK ? "…" : "") + prose(ending(came, LOOK_BACK)));
    if (token.text) make("mark", "sd-new", now, prose(short(token.text, 2000)));
    if (token.jailed) put(make("span", "sd-now-jailed", now), visible(short(token.jailed, 2000))).title = "jailed";
    if (token.held) make("span", "sd-now-held", now, spaced(token.held)).title = "held";
    if (isLast && story.end && story.end.text) {
      make("mark", "sd-new sd-now-end", now, prose(short(story.end.text, 2000))).title = "output at the end";
    }
    now.scrollTop = now.scrollHeight;
    list.textContent = "";
    for (const [name, told, isText] of story.fieldsOf(current)) {
      make("dt", "", list, name);
      const value = make("dd", `sd-field-${name.replaceAll(" ", "-")}`, list, told);
      if (isText) put(value, told);
      else if (["nothing", "—", "none", "no"].includes(told)) value.classList.add("sd-faint");
    }
  };

  // --- searching --------------------------------------------------------------------------------

  const MOST_HITS = 20000;
  let hits = new Set(), order = [], asked = "";
  const tokenAt = (offset) => {
    let low = 0, high = outEnds.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (outEnds[middle] > offset) high = middle; else low = middle + 1;
    }
    return low;
  };
  const look = () => {
    asked = search.value;
    hits = new Set();
    const index = /^#(\d+)$/.exec(asked);
    if (index && tokens[Number(index[1])]) hits.add(Number(index[1]));
    if (asked && !index) lookFor(asked);
    order = [...hits].sort((one, other) => one - other);
    eraseAll();
    draw();
    tell();
  };
  const lookFor = (wanted) => {
    const text = story.text, lower = text.toLowerCase(), lowerWanted = wanted.toLowerCase();
    // Lower case may have other lengths; then the case counts.
    const [where, what] = lower.length === text.length ? [lower, lowerWanted] : [text, wanted];
    for (let offset = where.indexOf(what); offset >= 0 && hits.size < MOST_HITS; offset = where.indexOf(what, offset + 1)) {
      for (let index = tokenAt(offset); tokens[index] && (outEnds[index - 1] || 0) < offset + what.length; index += 1) {
        if (tokens[index].text) hits.add(index);
      }
    }
    tokens.forEach((token, index) => {
      const names = [labels[index], token.piece || ""];
      const isHit = String(token.token_id) === wanted || names.some((name) => name.toLowerCase().includes(lowerWanted));
      if (isHit && hits.size < MOST_HITS) hits.add(index);
    });
  };
  const tell = () => {
    const position = order.indexOf(current), count = order.length < MOST_HITS ? String(order.length) : `${MOST_HITS} and more`;
    found.textContent = !asked ? "" : order.length ? `${position >= 0 ? position + 1 : "–"} of ${count}` : "not found";
  };
  const goToHit = (direction) => {
    if (search.value !== asked) look();
    if (!order.length) return;
    const next = direction > 0 ? order.find((index) => index > current) ?? order[0]
      : order.findLast((index) => index < current) ?? order[order.length - 1];
    select(next);
    tell();
  };
  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      look();
      if (order.length && !hits.has(current)) goToHit(1);
    }, 120);
  });
  search.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(waiting);
      goToHit(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      search.value = "";
      look();
      score.focus({ preventScroll: true });
    }
  });

  // --- keys and the mouse -----------------------------------------------------------------------

  const inNextRow = (direction) => {
    const row = rows[rowOf[current] + direction];
    if (!row) return direction < 0 ? 0 : tokens.length - 1;
    const middle = xs[current] + sizes[current] / 2;
    for (let index = row.from; index <= row.to; index += 1) if (xs[index] + sizes[index] >= middle) return index;
    return row.to;
  };
  const onNextPage = (direction) => {
    const y = rows[rowOf[current]].y + direction * score.clientHeight * 0.85;
    return rows[rowAt(Math.max(y, 0))].from;
  };
  const STEPS = {
    ArrowRight: () => current + 1, ArrowLeft: () => current - 1, ArrowDown: () => inNextRow(1), ArrowUp: () => inNextRow(-1),
    Home: () => 0, End: () => tokens.length - 1, PageDown: () => onNextPage(1), PageUp: () => onNextPage(-1),
  };
  const press = (event) => {
    // Where "[" is typed with AltGr, it comes with Ctrl and Alt.
    const isCommand = (event.ctrlKey || event.metaKey || event.altKey) && !event.getModifierState("AltGraph");
    if (event.defaultPrevented || isCommand || !tokens.length) return;
    if (/^(INPUT|TEXTAREA|SELECT|SUMMARY)$/.test(event.target.tagName)) return;
    // The panel scrolls with these.
    if (panel.contains(event.target) && /^(ArrowUp|ArrowDown|Page|Home|End)/.test(event.key)) return;
    if (event.key === "/") search.focus();
    else if (event.key === "[") goToWithheld(-1);
    else if (event.key === "]") goToWithheld(1);
    else if (STEPS[event.key]) select(STEPS[event.key](), { focus: true });
    else return;
    event.preventDefault();
  };
  container.addEventListener("keydown", press);
  sheet.addEventListener("click", (event) => {
    if (!event.target.closest(".sd-row") || String(window.getSelection())) return;
    const box = sheet.getBoundingClientRect(), x = event.clientX - box.left;
    const row = rows[rowAt(event.clientY - box.top)];
    for (let index = row.from; x >= gutter && index <= row.to; index += 1) {
      if (x < xs[index] + sizes[index] + GAP) { select(index, { focus: true, scroll: false }); return; }
    }
  });
  const jump = (event) => {
    if (!tokens.length) return;
    const box = overview.getBoundingClientRect();
    const index = Math.floor(((event.clientX - box.left) / box.width) * tokens.length);
    score.scrollTop = rows[rowOf[Math.min(Math.max(index, 0), tokens.length - 1)]].y - score.clientHeight / 3;
    select(index, { focus: true, scroll: false });
  };
  overview.addEventListener("pointerdown", (event) => { overview.setPointerCapture(event.pointerId); jump(event); });
  overview.addEventListener("pointermove", (event) => { if (event.buttons & 1) jump(event); });
  let isDrawPlanned = false;
  score.addEventListener("scroll", () => {
    if (isDrawPlanned) return;
    isDrawPlanned = true;
    requestAnimationFrame(() => { isDrawPlanned = false; draw(); });
  }, { passive: true });

  const fit = () => {
    const before = sheetWidth;
    setWidth();
    if (before === sheetWidth) { draw(); return; }
    const anchor = rows.length ? rows[rowAt(score.scrollTop + 20)].from : 0;
    layout();
    if (rows.length) score.scrollTop = anchor ? rows[rowOf[anchor]].y - 10 : 0;
    draw();
  };
  new ResizeObserver(fit).observe(score);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawOverview);
  window.addEventListener("beforeprint", () => { isPrinting = tokens.length <= MOST_PRINTED; draw(); });
  window.addEventListener("afterprint", () => { isPrinting = false; draw(); });

  // --- what others use --------------------------------------------------------------------------

  fillLegend();
  return {
    /** Draws more tokens: objects as the lines of a trace have them, in their order. */
    append(records) {
      const follows = current >= 0 && current === tokens.length - 1, size = tokens.length;
      // What spans tokens may have begun in a row before the last.
      const changed = Math.max(Math.min(rows.length - 1, rowOf[story.unsettled] ?? rows.length - 1), 0);
      records.forEach(story.add);
      if (!sheetWidth) setWidth();
      layout(changed);
      fillLegend(Math.max(size - 1, 0));
      if (tokens.length) select(follows ? tokens.length - 1 : Math.max(current, 0), { scroll: follows });
    },
    /** What came at the end without a token, {text, finish_reason, stop_reason} or null; the verdict. */
    finish(given, verdict = null) {
      story.finish(given, verdict);
      if (given && given.text) nothing.textContent = `No tokens. ${streamdecText.quoted(given.text)} was output at the end.`;
      eraseAll();
      draw();
      fillLegend();
      if (current >= 0) select(current, { scroll: false });
    },
    select,
    /** Takes a keydown event that happened elsewhere on the page. */
    press,
    repaint: drawOverview,
    get current() { return current; },
    get length() { return tokens.length; },
  };
};
