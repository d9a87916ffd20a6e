/* Explains a stream: the characters and stops that span several tokens, and tokens without output.

   In: records as the JSON lines of a trace have them, one after the other. Out: for each token its
   label, its state, the spans that it has a part of, and sentences. Does not use the DOM. */
"use strict";

const streamdecStory = ({ options = {}, conditions = null } = {}) => {
  const { visible, quoted, short, first, bytesOf, spaced, decoded, isWhole, sizeOf, labelOf } = streamdecText;

  const tokens = [];
  const labels = [];
  const outEnds = [];         // where in the text each token's output ends, in units of UTF-16
  const charactersOf = [];    // of each token, the characters over several tokens that it has a part of
  const stopsOf = [];         // and the text that was jailed, and the stops
  const chunkSizes = new Map();
  let parts = [], text = "", end = null, verdict = null, chunkStart = 0;

  /* A span is {from, to, text, open, stop, before, after}: from a token to a token; `open` while it
     is not decided; `before` and `after`: it begins or ends inside the token, not at its edge. */
  const newSpan = (index, more) => ({ from: index, to: index, text: "", open: true, stop: false, before: false, after: false, ...more });
  const reach = (span, index, spansOf) => {
    span.to = index;
    if (!spansOf[index].includes(span)) spansOf[index].push(span);
  };

  const add = (token) => {
    const index = tokens.length, before = tokens[index - 1] || {};
    tokens.push(token);
    labels.push(labelOf(token));
    charactersOf.push([]);
    stopsOf.push([]);
    parts.push(token.text || "");
    outEnds.push((outEnds[index - 1] || 0) + (token.text || "").length);
    if (token.chunk !== before.chunk) chunkStart = index;
    chunkSizes.set(token.chunk, (chunkSizes.get(token.chunk) || 0) + 1);
    addCharacter(token, index, before);
    addJailed(token, index);
  };

  // --- characters over several tokens -----------------------------------------------------------

  let character = null;
  const brokenBy = new Map();   // by token: the character that could not go on with it

  const addCharacter = (token, index, before) => {
    const held = before.held || "", after = token.held || "";
    const data = token.kind === "skipped" || token.kind === "unknown" ? "" : token.data;
    const given = (token.text || "") + (token.jailed || "");
    if (character) {
      const grows = data && after.startsWith(held) && after.length > held.length;
      const isPassed = !data && after === held;   // by a token without bytes
      if (grows || isPassed) {
        reach(character, index, charactersOf);
      } else {
        // It ends here; or it was broken off, and this token begins at a boundary.
        const isBroken = data != null && isWhole(bytesOf(data));
        const bytes = isBroken ? held : held + data;
        character.text = data == null ? first(given) || "□" : first(decoded(bytesOf(bytes)));
        character.open = false;
        if (isBroken) {
          brokenBy.set(index, character);
        } else {
          reach(character, index, charactersOf);
          character.after = [...given].length > 1 || Boolean(after);
        }
        character = null;
      }
    }
    if (after && !character) {
      character = newSpan(index, { before: data != null && after.length < data.length });
      reach(character, index, charactersOf);
    }
  };

  // --- text that is jailed, and stops ---------------------------------------------------------

  let jailSpan = null;   // the span of what is jailed
  let origins = [];     // of each of its units, the token that decided it

  const addJailed = (token, index) => {
    const out = (token.text || "").length, jailed = token.jailed || "";
    if (token.finish_reason === "stop") {
      addStop(token, index, out);
      return;
    }
    const decided = Math.max(out + jailed.length - origins.length, 0);
    origins = [...origins, ...Array(decided).fill(index)].slice(out);
    if (jailSpan) {
      reach(jailSpan, index, stopsOf);
      if (!jailed || origins[0] === index) {
        jailSpan.open = false;
        jailSpan.after = Boolean(jailed);
        jailSpan = null;
      }
    }
    if (!jailed) return;
    if (!jailSpan) jailSpan = newSpan(index, { before: out > 0 });
    reach(jailSpan, index, stopsOf);
    if (jailed.length > jailSpan.text.length) jailSpan.text = jailed;
  };

  const addStop = (token, index, out) => {
    const reason = token.stop_reason, from = beginningOf(reason, index, out);
    let shares = false;   // whether a token ends the output and begins the stop
    if (jailSpan) {
      for (let each = jailSpan.from; each < index; each += 1) {
        stopsOf[each] = stopsOf[each].filter((span) => span !== jailSpan);
      }
      // The jailed text was output before the stop, or all of it or its end is the stop.
      const isCut = isHidden(reason) && from > jailSpan.from;
      shares = isCut;
      const to = isCut ? from : index;
      if (isCut || !isHidden(reason)) {
        spread(Object.assign(jailSpan, { to, open: false, after: shares, text: token.text || jailSpan.text }));
      }
    }
    if (typeof reason === "string") {
      spread(newSpan(from, { to: index, open: false, stop: true, text: reason, before: shares }));
    }
    jailSpan = null;
    origins = [];
  };
  const spread = (span) => {
    for (let each = span.from; each <= span.to; each += 1) stopsOf[each].push(span);
  };

  const { stop: strings = [], stop_regex: patterns = [], include_stop_str_in_output: areShown = false } = conditions || {};
  /** Whether the text of a stop is jailed; that of one id is not, as it comes with the id alone. */
  const isHidden = (reason) => !areShown && (strings.includes(reason) || patterns.includes(reason));

  /** The token with which a stop began that `index` completes, and with which `out` units were output. */
  const beginningOf = (reason, index, out) => {
    if (isHidden(reason)) return out < origins.length ? origins[out] : index;
    if (typeof reason !== "string" || !textUpTo(index).endsWith(reason)) return index;
    let from = index;
    while (from > 0 && outEnds[from - 1] > outEnds[index] - reason.length) from -= 1;
    return from;
  };

  const textUpTo = (index) => {
    text += parts.join("");
    parts = [];
    return text.slice(0, outEnds[index]);
  };

  // --- in words ---------------------------------------------------------------------------------

  const stopInWords = (reason) => {
    if (reason == null) return "the end-of-sequence id";
    if (typeof reason === "string") return `the stop ${quoted(reason)}`;
    return `the stop id ${reason}`;
  };
  const MOST_NAMED = 6;
  const anyOf = (stops) => {
    const named = stops.slice(0, MOST_NAMED).map(stopInWords).join(" or ");
    return stops.length > MOST_NAMED ? `${named} or one of ${stops.length - MOST_NAMED} more` : named || "a section's marker";
  };
  const endInWords = ({ finish_reason: reason, stop_reason: stop }, isSaid) => {
    if (reason !== "stop") return reason + (isSaid ? " (from the caller)" : "");
    return isSaid && stop == null ? "stop (from the caller)" : `stop: ${stopInWords(stop)}`;
  };
  const capital = (sentence) => sentence[0].toUpperCase() + sentence.slice(1);

  /** Sentences: what happened at a token, and why; each [text, index of a token to go to]. */
  const explain = (index) => {
    const token = tokens[index], said = [];
    if (verdict && verdict.equal === false && verdict.token_index === index) {
      said.push([`Here the text first differs from the full decode: ${visible(verdict.reason)}.`]);
    }
    if (token.kind === "unknown") said.push(["The tokenizer has no token with this id."]);
    if (token.finish_reason === "stop") return [...said, ...explainStop(token, index)];
    if (token.finish_reason) said.push([`The stream ends here: ${token.finish_reason}.`]);
    if (token.text) said.push(explainText(token, index));
    else if (!token.finish_reason) said.push(["No text is output."]);
    if (token.held) said.push(...explainHeld(token, index));
    if (token.jailed) said.push(...explainJailed(token, index));
    if (!token.text && !token.finish_reason && !token.held && !token.jailed && token.kind !== "unknown") {
      said.push([token.kind === "skipped"
        ? "It is a special token, which is skipped (skip_special_tokens)."
        : "The token has no text here."]);
    }
    return said;
  };
  const explainStop = (token, index) => {
    const isId = token.stop_reason == null || typeof token.stop_reason === "number", name = stopInWords(token.stop_reason);
    const said = [[`${isId ? `This is ${name}` : `${capital(name)} is complete with this token`}: the stream ends here.`]];
    const stop = stopsOf[index].find((span) => span.stop);
    if (stop && stop.from < index) {
      said.push(isHidden(token.stop_reason)
        ? [`Its text was jailed since token ${stop.from}, and is not output.`, stop.from]
        : [`It began with token ${stop.from}.`, stop.from]);
    }
    const came = isHidden(token.stop_reason) ? "precedes it, and is output" : "is output";
    if (token.text) said.push([`${quoted(token.text)} ${came}.`]);
    return said;
  };
  const explainText = (token, index) => {
    const span = stopsOf[index].find((span) => span.from < index);
    if (span) {
      const part = token.jailed && !span.after ? " (its end may still be one)" : "";
      return [`The text jailed since token ${span.from} is not a stop${part}: ${quoted(token.text)} is output.`, span.from];
    }
    const broken = brokenBy.get(index);
    if (broken) {
      const what = `The bytes since token ${broken.from} are not a character, and U+FFFD replaces them`;
      return [`${what}: ${quoted(token.text)} is output.`, broken.from];
    }
    const whole = charactersOf[index].find((span) => !span.open && span.to === index && span.from < index);
    if (!whole) return [`${quoted(token.text)} is output at once.`];
    const what = `It has the last bytes of ${quoted(whole.text)}, which began at token ${whole.from}`;
    return [`${what}. The character is complete, and is output.`, whole.from];
  };
  const explainHeld = (token, index) => {
    const bytes = bytesOf(token.held), missing = sizeOf(bytes[0]) - bytes.length;
    const needs = missing > 0 ? `${missing} more ${missing === 1 ? "byte is" : "bytes are"}` : "its end is";
    const said = [[options.byte_fallback === "exact"
      ? `The bytes ${spaced(token.held)} are held: the run of byte tokens is not over.`
      : `The bytes ${spaced(token.held)} are held: they begin a character, and ${needs} missing.`]];
    const span = charactersOf[index][charactersOf[index].length - 1];
    if (span.open) said.push([end ? "The stream ended before the rest arrived." : "The rest has not arrived yet."]);
    else said.push([`Token ${Math.max(span.to, index + 1)} completes or breaks the character.`, Math.max(span.to, index + 1)]);
    return said;
  };
  const explainJailed = (token, index) => {
    const said = [[`${quoted(token.jailed)} is jailed: it may become ${anyOf(token.may_become || [])}.`]];
    const spans = stopsOf[index], stop = spans.find((span) => span.stop), span = stop || spans[spans.length - 1];
    const told = stop ? "It becomes the stop at token" : "This is decided at token";
    if (!span.open && span.to > index) said.push([`${told} ${span.to}.`, span.to]);
    else if (span.open && end) said.push(["The stream ended first, so the text was output at the end."]);
    return said;
  };

  // --- what others use --------------------------------------------------------------------------

  return {
    tokens, labels, outEnds, charactersOf, stopsOf, chunkSizes, add, explain, endInWords, anyOf,
    /** What came at the end without a token, or null; and the verdict. */
    finish(given, found) { end = given; verdict = found; },
    get end() { return end; },
    get text() { return textUpTo(tokens.length - 1); },
    /** The token from which on a change may be seen when more tokens come. */
    get unsettled() { return Math.min(chunkStart, ...[character, jailSpan].map((span) => (span ? span.from : chunkStart))); },
    /** The state of a token, which decides its colour. */
    stateOf(index) {
      const token = tokens[index];
      if (token.finish_reason) return token.finish_reason === "stop" ? "stop" : "end";
      if (token.jailed) return "jailed";
      if (token.held) return "held";
      if (token.text) return "out";
      return token.kind === "unknown" ? "unknown" : "mute";
    },
    /** Whether a token has no output because bytes are held or text is jailed. */
    isWithheld(index) {
      const token = tokens[index];
      return !token.text && !token.finish_reason && Boolean(token.held || token.jailed);
    },
    differs(index) { return Boolean(verdict) && verdict.equal === false && verdict.token_index === index; },
    /** All that is known of a token, [name, value, whether the value is text of the stream]. */
    fieldsOf(index) {
      const token = tokens[index], size = chunkSizes.get(token.chunk);
      const may = (token.may_become || []).slice(0, 40).map((stop) => visible(stop)).join("   ");
      const fields = [
        ["index", String(index)],
        ["id", String(token.token_id)],
        ["piece", token.piece == null ? "—" : visible(short(token.piece, 2000)), token.piece != null],
        ["bytes", token.data == null ? "unknown" : spaced(token.data.slice(0, 2000)) || "none"],
        ["kind", { text: "text", special: "special, shown", skipped: "special, skipped", unknown: "unknown" }[token.kind || "text"]],
        ["position", `code point ${token.position}`],
        ["held", spaced(token.held || "") || "nothing"],
        ["jailed", token.jailed ? visible(short(token.jailed, 2000)) : "nothing", Boolean(token.jailed)],
        ["may become", may || "—", Boolean(may)],
        ["output", token.text ? visible(short(token.text, 2000)) : "nothing", Boolean(token.text)],
        ["chunk", size > 1 ? `${token.chunk}, of ${size} tokens` : String(token.chunk)],
        ["finish", token.finish_reason ? endInWords(token, false) : "no"],
      ];
      if (index === tokens.length - 1 && end) {
        fields.push(["at the end", end.text ? `${quoted(end.text)} was output` : "nothing was output"]);
        if (end.finish_reason) fields.push(["stream finish", endInWords(end, true)]);
      }
      return fields;
    },
  };
};
