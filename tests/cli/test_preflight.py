"""``streamdec preflight``: what people read, what tools read, and the exit status."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import tempfile
import termios
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from streamdec.cli.preflight_sarif import line_of_pointer, sarif_log
from streamdec.cli.preflight_text import as_sentence, printable, text_report
from streamdec.preflight import Evidence, Finding, Reference, Report, inspect
from tests.cli.running import ROOT, Run, command, run, run_process
from tests.cli.terminal import everything_shown, rows_of
from tests.preflight.corrupting import corrupt, corruptions
from tests.preflight.incidents import INCIDENTS
from tests.preflight.making import Parts, control, shared_snapshots

Folder = Callable[..., Path]
Command = Callable[..., Run]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Writes a snapshot of that name below the folder in which the command runs."""
    monkeypatch.chdir(tmp_path)

    def made(name: str = "model", change: Callable[[Parts], object] | None = None) -> Path:
        control(change).write(tmp_path / name)
        return Path(name)

    return made


@pytest.fixture
def preflight(monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command, without rendering: that takes a fifth of a second for each folder."""

    def running(*arguments: str | Path) -> Run:
        return run(monkeypatch, "preflight", "--no-render", *arguments)

    return running


def warns(parts: Parts) -> None:
    parts.generation = {"eos_token_id": [258, 256], "stop_strings": ["User:"]}


def errs(parts: Parts) -> None:
    parts.own[2]["special"] = False


def informs(parts: Parts) -> None:
    parts.generation = None


# --- for people -----------------------------------------------------------------------------------


def test_the_text_output_has_the_stops_and_the_findings(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(monkeypatch, "preflight", folder("kimi", warns))
    assert (result.status, result.err) == (0, "")
    rows = result.out.splitlines()
    assert rows[0] == "kimi   1 warning"
    assert rows[2:5] == [
        "  stops on",
        "    vllm 0.33.0          256  <|endoftext|>  generation_config.json",
        f"{'':25}258  <|im_end|>     tokenizer_config.json, generation_config.json",
    ]
    at = rows.index("  ▲ warning GENERATION_STOP_STRINGS_IGNORED  vllm, sglang")
    assert rows[at + 1 : at + 4] == [
        "    generation_config.json has stop_strings",
        "      generation_config.json#/stop_strings  ['User:']",
        "    → vLLM and SGLang ignore it: pass the strings as stop with each request.",
    ]
    assert rows[-3:] == [
        "  references",
        "    sglang 0.5.23: srt/configs/model_config.py",
        "    vllm 0.33.0: vllm/sampling_params.py",
    ]
    assert "    eos_token, pad_token, chat_template  tokenizer_config.json" in rows
    assert not any(row != row.rstrip() for row in rows)


def test_the_absence_of_findings_is_printed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(monkeypatch, "preflight", folder())
    assert result.status == 0
    assert result.out.startswith("model   no findings\n")


def test_an_engine_that_stops_nowhere_or_whose_stop_is_unknown(
    folder: Folder, preflight: Command
) -> None:
    def nowhere(parts: Parts) -> None:
        parts.say(eos_token=None)
        parts.config, parts.generation = {"model_type": "llama", "eos_token_id": None}, {}

    def unknown(parts: Parts) -> None:
        parts.tokenizer = None
        parts.say(eos_token="<|new|>")

    out = preflight(folder("nowhere", nowhere)).out
    assert "    vllm 0.33.0          none\n" in out
    out = preflight(folder("unknown", unknown), "--engine=vllm@0.19.1").out
    assert "    vllm 0.19.1  258  <|im_end|>  generation_config.json\n" in out
    assert "                   ?  <|new|>     tokenizer_config.json: no file tells its id\n" in out


def test_the_engines_are_those_that_are_asked_about(folder: Folder, preflight: Command) -> None:
    report = preflight(folder(), "--json", "--engine=smg", "--engine", "sglang@0.5.10").out
    assert json.loads(report)["engines"][1] == "sglang@0.5.10"
    out = preflight(folder(), "--engine=SGLang@v0.5.10").out
    assert "    sglang 0.5.10  258  <|im_end|>" in out


def test_untrusted_text_cannot_control_the_terminal(folder: Folder, preflight: Command) -> None:
    evil = "\x1b[31m\x07\u202e\u2066</script><script>alert(1)</script>"

    def change(parts: Parts) -> None:
        parts.others[f"additional_chat_templates/{evil[:8]}.jinja"] = "{{ x"
        parts.decoder["260"] = {"content": evil, "special": True}
        parts.say(eos_token=evil, tokenizer_class=evil, **{f"{evil}_token": evil})
        parts.generation = {"eos_token_id": [260, evil], "stop_strings": evil}

    path = folder("\x1b[31m", change)
    for form in ("", "--json", "--sarif"):
        result = preflight(*([form] if form else []), path)
        assert result.status == 1
        assert not set(result.out) & set("\x1b\x07\u202e\u2066"), form
        if form == "--json":
            stops = json.loads(result.out)["stop_tokens"]["vllm@0.33.0"]["ids"]
            assert evil in [stop["text"] for stop in stops], "nothing is lost by escaping"
    assert printable("a\x1b\u202eä｜😀") == "a\\x1b\\u202eä｜😀"


def test_long_evidence_is_cut_with_a_note() -> None:
    many = [Evidence("config.json", f"/{i}") for i in range(9)]
    first = Evidence(value="v" * 500, ids={i: f" {i}" for i in range(10)}, note="seen")
    reference = Reference("vllm", "0.33.0", "a.py")
    finding = Finding(
        "CODE", "error", ("vllm",), (first, *many), "Do it.", (reference,), "config.json is odd"
    )
    report = Report("m", ("vllm@0.33.0",), (finding, finding, *_infos(2)), {})
    rows = text_report([report]).splitlines()
    assert rows[0] == "m   2 errors · 2 info"
    at = rows.index("  ✖ error   CODE  vllm")
    assert rows[at + 1] == "    config.json is odd"
    seen = rows[at + 2]
    assert seen.startswith(f"      seen  '{'v' * 159}…  0 ' 0', 1 ' 1', ")
    assert seen.endswith("7 ' 7', and 2 more")
    assert rows[at + 3 : at + 8] == [f"      config.json#/{i}" for i in range(5)]
    assert rows[at + 8] == "      and 4 more (--json has them)"
    assert rows[at + 9] == "    → Do it."
    assert rows[-2:] == ["  references", "    vllm 0.33.0: a.py"], "once for both findings"


def _infos(count: int) -> list[Finding]:
    return [Finding("OTHER", "info", ("vllm",), (), "Look.", (), "it is") for _ in range(count)]


def test_a_clause_becomes_a_sentence_but_for_names_of_files() -> None:
    assert as_sentence("the id is odd") == "The id is odd."
    assert as_sentence("config.json is odd") == "config.json is odd."
    assert as_sentence("auto_map names code") == "auto_map names code."


# --- the exit status ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "statuses"),
    [
        (None, {"error": 0, "warning": 0, "info": 0, "never": 0}),
        (informs, {"error": 0, "warning": 0, "info": 1, "never": 0}),
        (warns, {"error": 0, "warning": 1, "info": 1, "never": 0}),
        (errs, {"error": 1, "warning": 1, "info": 1, "never": 0}),
    ],
)
def test_the_status_is_1_from_the_severity_on_that_is_named(
    folder: Folder,
    preflight: Command,
    change: Callable[[Parts], object] | None,
    statuses: Mapping[str, int],
) -> None:
    path = folder("model", change)
    for least, status in statuses.items():
        assert preflight(path, "--fail-on", least).status == status, least
    assert preflight(path).status == statuses["error"], "error is the default"
    assert preflight(folder("clean"), path).status == statuses["error"], "of any folder"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'DIR...'"),
        (["model", "--engine", "tgi"], "unknown engine 'tgi'; known are vllm, sglang"),
        (["model", "--engine", "vllm@new"], "the version must be numbers"),
        (["model", "--fail-on", "fatal"], "'fatal' is not one of"),
        (["model", "--json", "--sarif"], "--json and --sarif cannot be combined: choose one"),
        (["model", "-o", "no/such/folder"], "No such file or directory"),
    ],
)
def test_wrong_usage_is_status_2(
    folder: Folder, preflight: Command, arguments: list[str], message: str
) -> None:
    folder("model")
    result = preflight(*arguments)
    assert (result.status, result.out) == (2, "")
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_missing_folder_is_status_2_and_the_others_are_reported(
    folder: Folder, preflight: Command
) -> None:
    path = folder("model", warns)
    result = preflight(path / "config.json", path, "missing")
    assert result.status == 2
    assert result.out.startswith("model   1 warning\n")
    first, second = result.err.splitlines()
    assert "expected the folder of a model, found a file" in first
    assert "expected the folder of a model, found nothing" in second
    told = json.loads(preflight("missing", path, "--json").out)
    assert list(told[0]) == ["path", "error"]
    assert told[1]["path"] == "model"
    assert preflight("missing").out == ""


# --- for tools ------------------------------------------------------------------------------------


def test_json_is_the_report(folder: Folder, preflight: Command) -> None:
    path = folder("model", warns)
    expected = json.loads(json.dumps(inspect(path, render=False).to_dict()))
    assert json.loads(preflight("--json", path).out) == expected
    several = json.loads(preflight("--json", path, folder("other"), path).out)
    assert [each["path"] for each in several] == ["model", "other"], "each folder once"
    assert several[0] == expected


def test_json_output_is_strict_for_any_file(folder: Folder, preflight: Command) -> None:
    def change(parts: Parts) -> None:
        parts.generation = None
        text = '{"eos_token_id": NaN, "stop_strings": ["\\ud800", 1e400]}'
        parts.others["generation_config.json"] = text

    out = preflight("--json", folder("model", change)).out

    def refuse(name: str) -> None:
        raise AssertionError(name)

    found = json.loads(out, parse_constant=refuse)
    values = [e.get("value") for f in found["findings"] for e in f["evidence"]]
    assert "nan" in values
    assert ["\ud800", "inf"] in values


def test_output_goes_to_a_file(folder: Folder, preflight: Command) -> None:
    path = folder()
    for form in ([], ["--json"], ["--sarif"]):
        result = preflight(path, *form, "-o", "report")
        assert (result.status, result.out, result.err) == (0, "", "")
        assert Path("report").read_text("utf-8") == preflight(path, *form).out


REQUIRED: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "log": {"version": str, "runs": list},
    "run": {"tool": dict, "results": list, "invocations": list, "columnKind": str},
    "driver": {"name": str, "semanticVersion": str, "rules": list},
    "rule": {"id": str, "shortDescription": dict, "help": dict, "defaultConfiguration": dict},
    "result": {"ruleId": str, "ruleIndex": int, "level": str, "message": dict, "locations": list},
}
"""What is required of each object of SARIF 2.1.0 here, or expected by code hosts."""


def check(kind: str, value: Any) -> Any:
    for name, expected in REQUIRED[kind].items():
        assert isinstance(value[name], expected), f"{kind}.{name}"
    return value


def test_sarif_has_the_structure_of_the_standard(folder: Folder, preflight: Command) -> None:
    def everything(parts: Parts) -> None:
        warns(parts)
        errs(parts)

    paths = [folder("a", everything), folder("b", informs), folder("c")]
    log = check("log", json.loads(preflight("--sarif", *paths).out))
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("/sarif-schema-2.1.0.json")
    (only,) = log["runs"]
    rules = check("driver", check("run", only)["tool"]["driver"])["rules"]
    ids = [check("rule", rule)["id"] for rule in rules]
    assert ids == sorted(set(ids))
    assert only["invocations"] == [{"executionSuccessful": True}]
    for result in only["results"]:
        check("result", result)
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        (place,) = result["locations"]
        for each in (place, *result.get("relatedLocations", [])):
            location = each["physicalLocation"]["artifactLocation"]
            assert location["uriBaseId"] == "%SRCROOT%"
            assert Path(location["uri"]).is_file()
            assert each["physicalLocation"].get("region", {"startLine": 1})["startLine"] >= 1
    expected = {(str(path), finding.code) for path in paths for finding in _findings(path)}
    found = {
        (
            r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].split("/")[0],
            r["ruleId"],
        )
        for r in only["results"]
    }
    assert found == expected
    prints = [r["partialFingerprints"]["finding/v1"] for r in only["results"]]
    assert len(set(prints)) == len(prints)


def _findings(path: Path) -> Any:
    return inspect(path, render=False).findings


def test_sarif_says_what_could_not_be_inspected(folder: Folder, preflight: Command) -> None:
    result = preflight("--sarif", folder(), "missing")
    (invocation,) = json.loads(result.out)["runs"][0]["invocations"]
    assert (result.status, invocation["executionSuccessful"]) == (2, False)
    (notification,) = invocation["toolExecutionNotifications"]
    assert "found nothing" in notification["message"]["text"]


def test_sarif_of_a_folder_elsewhere_has_a_whole_address(
    folder: Folder, preflight: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder("mödel #1", warns)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    log = json.loads(preflight("--sarif", "../mödel #1").out)
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    uri = place["artifactLocation"]["uri"]
    assert uri.startswith("file:///")
    assert "/m%C3%B6del%20%231/" in uri


def test_sarif_points_at_the_line(folder: Folder, preflight: Command) -> None:
    path = folder("model", warns)
    (path / "generation_config.json").write_text(
        '{\n "do_sample": true,\n "eos_token_id": [\n  258,\n  900\n ],\n "stop_strings": ["x"]\n}'
    )
    results = json.loads(preflight("--sarif", path).out)["runs"][0]["results"]
    lines = {
        (r["ruleId"], each["physicalLocation"].get("region", {}).get("startLine"))
        for r in results
        for each in (*r["locations"], *r.get("relatedLocations", []))
        if each["physicalLocation"]["artifactLocation"]["uri"] == "model/generation_config.json"
    }
    assert lines == {("GENERATION_STOP_STRINGS_IGNORED", 7), ("EOS_ID_UNKNOWN", 5)}


TEXT = (
    '{"a": 1,\n "b/~": [\n  {},\n  {"c": "]}",\n   "\\u0064": null}],\n "e": {"a": {"a": [[\n7]]}}}'
)


@pytest.mark.parametrize(
    ("pointer", "line"),
    [
        ("/a", 1),
        ("/b~1~0", 2),
        ("/b~1~0/0", 3),
        ("/b~1~0/1", 4),
        ("/b~1~0/1/c", 4),
        ("/b~1~0/1/d", 5),
        ("/e/a/a/0/0", 7),
        ("", 1),
        ("/b~1~0/2", None),
        ("/x", None),
        ("/a/a", None),
    ],
)
def test_the_line_of_a_pointer(pointer: str, line: int | None) -> None:
    assert line_of_pointer(TEXT, pointer) == line
    assert line_of_pointer(TEXT.replace("\n", "\r\n"), pointer) == line


@pytest.mark.parametrize("text", ["", "]", "]]},:", '{"a"', '"', "{]}[", '{"a":}', "[,,]"])
def test_the_line_in_a_file_that_is_not_json(text: str) -> None:
    assert line_of_pointer(text, "/a") in (None, 1)


# --- any files in a folder ------------------------------------------------------------------------


@given(st.sampled_from(sorted(INCIDENTS)), corruptions)
@settings(max_examples=40)
def test_every_corrupted_folder_is_shown(name: str, changes: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        made = control(INCIDENTS[name]).write(Path(place))
        for change in changes:
            corrupt(made, change)
        report = inspect(made, render=False)
        text = text_report([report])
        log = json.loads(json.dumps(sarif_log([report], {})))
    assert all(c.isprintable() or c == "\n" for c in text)
    assert len(log["runs"][0]["results"]) == len(report.findings)
    for finding in report.findings:
        assert f"{finding.code}  {', '.join(finding.engines)}\n" in text


# --- on a terminal --------------------------------------------------------------------------------


def on_terminal(
    *arguments: str | Path, columns: int = 80, **environment: str
) -> tuple[int, str, str]:
    """The status, and what is written to a terminal as stdout and to another one as stderr."""
    leaders, followers = zip(*(pty.openpty() for _ in range(2)), strict=True)
    for follower in followers:
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    said = {"COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR"}
    variables = {k: v for k, v in os.environ.items() if k not in said}
    variables |= {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **environment}
    process = subprocess.Popen(
        command("preflight", "--no-render", *arguments),
        stdin=subprocess.DEVNULL,
        stdout=followers[0],
        stderr=followers[1],
        env=variables,
    )
    for follower in followers:
        os.close(follower)
    # The second holds little, which the terminal keeps until the first is read to its end.
    out, err = (_all_of(leader) for leader in leaders)
    return process.wait(timeout=60), out, err


def _all_of(leader: int) -> str:
    found = b""
    with open(leader, "rb", buffering=0) as terminal:
        try:
            while piece := terminal.read(65536):
                found += piece
        except OSError:
            pass  # so a terminal ends whose other side is closed
    return found.decode()


def test_on_a_terminal_it_is_coloured_and_as_wide_as_that(folder: Folder) -> None:
    path = folder("model", errs)
    status, out, err = on_terminal(path, columns=72)
    assert (status, err) == (1, "")
    rows = rows_of(out)
    assert max(map(len, rows)) <= 72
    assert "\x1b[1;31m" in out, "an error is bold and red"
    action = next(i for i, row in enumerate(rows) if row.startswith("    → "))
    assert rows[action + 1].startswith(" " * 6), "what continues is indented"
    assert rows[action + 1][6] != " "
    sources = next(i for i, row in enumerate(rows) if row.startswith("    vllm 0.33.0"))
    column = rows[sources].index("tokenizer_config.json")
    assert rows[sources + 1] == " " * column + "generation_config.json"
    plain = run_process("preflight", "--no-render", path.absolute()).stdout.decode()
    plain = plain.replace(str(path.absolute()), str(path))
    assert "".join("".join(rows).split()) == "".join(plain.split()), "the same text"


@pytest.mark.parametrize("columns", [50, 20])
def test_on_a_narrow_terminal_names_of_files_stay_whole(folder: Folder, columns: int) -> None:
    report = inspect(folder("model", errs), render=False)
    screen = Console(file=io.StringIO(), force_terminal=True, width=columns)
    rows = rows_of(text_report([report], screen).replace("\n", "\r\n"))
    assert max(map(len, rows)) <= max(columns, 40)
    assert {"generation_config.json", "tokenizer_config.json,"} <= {row.strip() for row in rows}


def test_on_a_terminal_without_colours(folder: Folder) -> None:
    path = folder("model", errs)
    _, out, _ = on_terminal(path, NO_COLOR="1")
    assert "\x1b[1;31m" not in out
    _, out, _ = on_terminal(path, TERM="dumb")
    assert "\x1b" not in out


def test_several_folders_have_a_bar_on_stderr_and_a_table_in_the_end(folder: Folder) -> None:
    _, out, err = on_terminal(folder("a"), folder("bb", errs), folder("c", informs))
    assert "1/3" in everything_shown(err)
    assert rows_of(out)[-3:] == ["a   no findings", "bb  1 error", "c   1 info"]
    assert "/3" not in everything_shown(out)


# --- real snapshots -------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.skipif(not shared_snapshots(), reason="the shared snapshots are not at hand")
def test_all_real_snapshots_at_once(preflight: Command) -> None:
    paths = shared_snapshots()
    told = json.loads(preflight("--json", *paths).out)
    assert [Path(each["path"]) for each in told] == paths
    text = preflight(*paths)
    assert text.status == 1
    assert text.err == ""
    assert all(f"{path}   " in text.out for path in paths)
    codes = {finding["code"] for each in told for finding in each["findings"]}
    rules = json.loads(preflight("--sarif", *paths).out)["runs"][0]["tool"]["driver"]["rules"]
    assert {rule["id"] for rule in rules} == codes
