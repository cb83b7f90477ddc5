"""A report on a store that a stranger has named, in a real browser: every name is text, and nothing of it runs.

Each payload stands in every field that a store's writer controls: game, method, variant, bonus, its options, settings,
fingerprints, state, hardware and versions of attempts, folders, imported series and their files. `offpiste report`
makes the page, and Chromium opens it. Bar: no dialog, no script, no request, no tag or attribute that the page of the
same store with harmless names does not have, and no message in the console; with the page's Content-Security-Policy
and also without it. The detectors are checked on pages that hold the payloads as they are, on which they must all fire;
and so is the policy alone, under which nothing on these pages may run or load. The harmless page must look as it
should under the policy, in light and dark. `--quick` takes four payloads.
"""

import argparse
import http.server
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.shared.chromium import Chromium
from benchmarks.shared.synthetic_store import learning_curve, write_run
from offpiste.config import RunConfig
from offpiste.methods import base_run
from offpiste.store.documents import signed, unsigned
from offpiste.store.identity import parse_run
from offpiste.store.storage import Folder

QUICK = ("octal", "tags", "attribute", "svg")
FRAMES = 1_200
SCHEDULE = replace(RunConfig().schedule, iteration_steps=100)
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
LOOK = """(() => {
  const all = [...document.querySelectorAll("*")];
  for (const one of all)
    for (const kind of ["mouseover", "focus", "pointerenter"]) one.dispatchEvent(new MouseEvent(kind));
  for (const one of document.querySelectorAll("a[href^='javascript:' i]")) one.click();
  return {
    marks: [...new Set(all.map(one => [one.localName, ...one.getAttributeNames().sort()].join(" ")))],
    schemes: [...new Set([...document.querySelectorAll("a")].map(one => one.protocol))],
    title: document.title,
  };
})()"""
COLOURS = """(() => {
  const colour = (of, name) => getComputedStyle(document.querySelector(of)).getPropertyValue(name);
  const ground = colour("body", "background-color"), captions = colour("figcaption", "color");
  return [ground, captions, colour(".drawing text[text-anchor=end]", "fill")];
})()"""
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 22, 26)"


@dataclass(frozen=True)
class Seen:
    """What a page did in the browser."""

    dialogs: int
    scripts: int
    """1 if code of a payload ran."""
    asked: int
    """Requests that the page made or tried to make, besides that for itself."""
    arrived: int
    """Requests that came to our server."""
    marks: frozenset[str]
    """Each kind of tag with the names of its attributes."""
    schemes: frozenset[str]
    """Of its links."""
    console: tuple[str, ...]

    @property
    def harm(self) -> dict[str, int]:
        """What was done, where there is any."""
        found = {"dialogs": self.dialogs, "scripts": self.scripts, "requests that arrived": self.arrived}
        return {what: count for what, count in found.items() if count}


def main() -> int:
    """Print what each page did and return 0 if the bar holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four payloads only")
    parser.add_argument("--out", type=Path, help="keep stores, reports and screenshots here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hostile-page-") as scratch, counting_server() as (url, requests):
        folder = options.out or Path(scratch)
        all_payloads = payloads(url)
        chosen = {name: all_payloads[name] for name in (QUICK if options.quick else all_payloads)}
        harmless = make_report(folder / "harmless", dict.fromkeys(chosen, ""))
        hostile = make_report(folder / "hostile", chosen)
        with Chromium() as browser:
            failed = [
                *check_harmless(browser, requests, harmless, folder),
                *check_hostile(browser, requests, harmless, hostile, chosen),
                *check_detectors(browser, requests, harmless, chosen, folder),
            ]
    for reason in failed:
        print(f"missed: {reason}")
    print(
        f"{len(chosen)} payloads in every name of a store: "
        f"{'not all of it is text' if failed else 'nothing ran, nothing was asked for, nothing but text on the page'}"
    )
    return 1 if failed else 0


def payloads(url: str) -> dict[str, str]:
    """Return names that run a script, load something or change the page wherever they are taken for more than text."""
    once = "if(document.title!='PWNED')"  # a dialog gives the focus back when it is closed
    script = f"{once}{{document.title='PWNED';fetch('{url}fetched');alert(1)}}"
    # The page writes games in title case, which no entity and no octal escape minds.
    coded = "".join(f"&#{ord(character)};" for character in script)
    image = f'<img src={url}image onerror="{coded}">'
    return {
        "octal": "".join(f"\\{ord(character):03o}" for character in f'"><img src={url}octal onerror="{script}">'),
        "hex": "".join(f"\\x{ord(character):02x}" for character in image) + r"\N{LESS-THAN SIGN}\u003c",
        "group": rf"\g<0>\g<1>\1\0{image}\\",
        "tags": f"</pre></style></title></textarea><script>{script}</script>{image}",
        "attribute": f'" onmouseover="{coded}" style="background: url({url}attribute)" x="',
        "quote": f"' onfocus='{coded}' autofocus tabindex=1 x='",
        "unquoted": f"x onpointerenter={coded} onmouseover={coded} ",
        "svg": f'--></text></svg><svg onload="{coded}"><image href="{url}svg"/><script href="{url}js"/><!--',
        "animate": f'</text><svg><animate onbegin="{coded}" attributeName=x dur=1s /><use href="{url}#x"/></svg>',
        "foreign": f"<foreignObject><iframe srcdoc='{image}'></iframe><iframe src=\"javascript:{coded}\"></iframe>",
        "style": f"</style><link rel=stylesheet href={url}sheet><style>@import url({url}import);*{{all:unset}}</style>",
        "link": f"javascript:{script}//",
        "embed": f"<object data={url}object></object><embed src={url}embed><video poster={url}poster src={url}video>",
        "navigation": f"<base href={url}base/><form action={url}><meta http-equiv=refresh content='0;url={url}go'>",
        "jinja": f"{{{{ '{image}' | safe }}}}{{% raw %}}{{{{ self.__init__.__globals__ }}}}{{# #}}",
        "mathtext": rf"$\frac{{1$ $\mathrm{{{image}}}$ \$",
        "entities": f"&lt;script&gt;{script}&lt;/script&gt;&amp;lt;b&amp;gt;&#60;i&#62;",
        "path": f"../../../../{'x/../' * 8}%2e%2e%2f?#{image}",
        "long": image * 40,
    }


def make_report(folder: Path, chosen: Mapping[str, str]) -> Path:
    """Write a store whose names begin and end with these payloads and return the page of its report."""
    store, report = folder / "store", folder / "report"
    for number, payload in enumerate(chosen.values()):
        write_store(Folder(store), number, payload)
    argv = [sys.executable, "-m", "offpiste", "report", str(store), "--out", str(report), "--allow-mixed"]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return report / "index.html"


def write_store(store: Folder, number: int, payload: str) -> None:
    """Write the runs of one game: a baseline, two seeds that differ in a setting, one that tunes and one unfinished."""

    def called(field: str) -> str:
        return f"{payload}{field}{number}{payload}"  # at its beginning too, for there a link has its scheme

    runs = {"baseline": (0, ""), "first": (0, ""), "second": (1, ""), "tuning": (2, "variant"), "unfinished": (3, "")}
    for kind, (seed, variant) in runs.items():
        config = replace(base_run(f"game_{number}", "cts"), seed=seed, frames=FRAMES, schedule=SCHEDULE)
        config = replace(config, variant=kind)  # a folder of its own
        write_run(store, config, learning_curve(5.0 + seed, 1.0, 0.5), 3, done=0.7 if kind == "unfinished" else 1.0)
        folder = store.below(config.run_id).local_path
        assert folder is not None
        about = unsigned(json.loads((folder / "run.json").read_text()))
        own = about["config"]
        own |= {"game": called("game"), "variant": variant and called(variant)}
        own["method"] = "epsilon_greedy" if kind == "baseline" else called("method")
        own["bonus"] |= {"name": called("bonus"), "options": {called("option"): called(f"value of {kind}")}}
        own["world"][called("setting")] = called("value")
        about |= {"protocol_fingerprint": called("protocol"), "offpiste": called("version")}
        about["method_fingerprint"] = called(f"fingerprint of {kind}")
        (folder / "run.json").write_text(json.dumps(signed(about)))
        if kind == "unfinished":
            status = parse_run(about).identity | {"state": called("state"), "target_frames": FRAMES}
            (folder / "status.json").write_text(json.dumps(signed(status)))
        attempts = pq.read_table(folder / "attempts.parquet")
        first = attempts.slice(0, 1).to_pylist()[0]
        names = {key: called(key) for key in ("host", "hardware", "versions", "note")}
        later = first | {"attempt": "000002-abcdef", "start_step": 100} | names
        pq.write_table(attempts.from_pylist([first, later], attempts.schema), folder / "attempts.parquet")
    curves = {key: called(key) for key in ("series", "game", "agent", "file", "sha256", "fingerprint")}
    curves |= {"method": "epsilon_greedy", "protocol": {}, "runs_joined": True, "iteration_frames": 400}  # type: ignore[dict-item]
    store.put(f"published/{number}.json", json.dumps(signed(curves | {"returns": [[1.0, 2.0, 3.0]]})).encode())
    folder_name = called("folder").replace("/", "|")[:200]
    store.put(f"{folder_name}/run.json", b"{")
    store.put(f"published/{folder_name}.json", b"{}")


def check_harmless(browser: Chromium, requests: list[str], page: Path, folder: Path) -> Iterator[str]:
    """Whether the page looks as it should under its policy, and nothing in it offends against that."""
    seen = look(browser, requests, page)
    print(f"harmless: {len(seen.marks)} kinds of tags, {len(seen.console)} messages in the console")
    if seen.harm or seen.asked or seen.console:
        yield f"the harmless page is not quiet: {seen.harm} {seen.asked} {seen.console}"
    for scheme, ground in (("light", LIGHT), ("dark", DARK)):
        browser.screenshot(folder / f"harmless-{scheme}.png", width=1280, height=2400, scheme=scheme)
        found, captions, figures = browser.evaluate(COLOURS)
        if found != ground or captions != figures:
            yield f"in {scheme} colours, the ground is {found}, captions are {captions}, the text of figures {figures}"
    browser.set_scheme("light")
    if (
        browser.evaluate("document.querySelector('summary').click(), document.querySelector('details').open")
        is not True
    ):
        yield "a part that can be opened does not open"


def check_hostile(
    browser: Chromium, requests: list[str], harmless: Path, hostile: Path, chosen: Mapping[str, str]
) -> Iterator[str]:
    """Whether the page of the hostile store is made of the tags of the harmless one and does as little."""
    known = look(browser, requests, harmless)
    bare = hostile.with_name("without_policy.html")
    bare.write_text(POLICY.sub("", hostile.read_text(encoding="utf-8"), count=1), encoding="utf-8")
    for page, what in ((hostile, "hostile"), (bare, "hostile, without the policy")):
        seen = look(browser, requests, page)
        foreign = seen.marks - known.marks
        print(
            f"{what}: {seen.dialogs} dialogs, {seen.scripts} scripts, {seen.asked} requests, "
            f"{len(foreign)} kinds of tags that are not ours, {len(seen.console)} messages in the console"
        )
        if seen.harm or seen.asked or foreign or seen.console or seen.schemes != known.schemes:
            yield f"{what}: {seen.harm}, {seen.asked} requests, {sorted(foreign)}, {seen.console}, {seen.schemes}"
        text = browser.evaluate("document.body.textContent")
        if missing := [name for name, payload in chosen.items() if payload not in text]:
            yield f"{what}: not on the page as they are: {', '.join(missing)}"


def check_detectors(
    browser: Chromium, requests: list[str], harmless: Path, chosen: Mapping[str, str], folder: Path
) -> Iterator[str]:
    """Whether all detectors fire on pages that hold the payloads as they are, and the policy alone stops them."""
    policy = POLICY.search(harmless.read_text(encoding="utf-8"))
    assert policy is not None
    page = folder / "as_it_is.html"
    fired: set[str] = set()
    live = []
    for name, payload in chosen.items():
        body = f"<title>x</title><p>{payload}</p><p title='{payload}'></p><p class={payload}></p>"
        body += f'<p title="{payload}"></p><a href="{payload}">x</a>'
        page.write_text(f"<!doctype html><meta charset=utf-8>{body}", encoding="utf-8")
        harm = look(browser, requests, page).harm
        fired |= set(harm)
        live += [name] if harm else []
        if name == "navigation":
            continue  # where to go is not a policy's business
        page.write_text(f"<!doctype html><meta charset=utf-8>{policy[0]}{body}", encoding="utf-8")
        if harm := look(browser, requests, page).harm:
            yield f"the policy alone does not stop {name}: {harm}"
    print(f"as they are: {len(live)} of {len(chosen)} payloads do harm, and none under the policy ({', '.join(live)})")
    if len(fired) < 3:
        yield f"not every detector works: only {', '.join(sorted(fired))}"


def look(browser: Chromium, requests: list[str], page: Path) -> Seen:
    """Open a page, touch all its parts and return what it did."""
    requests.clear()
    browser.open(page)
    found = browser.evaluate(LOOK)
    browser.listen(0.5)
    title = browser.evaluate("document.title")
    asked = [event["request"]["url"] for event in browser.events_of("Network.requestWillBeSent")]
    console = [event["entry"]["text"] for event in browser.events_of("Log.entryAdded")]
    console += [
        str(event) for kind in ("consoleAPICalled", "exceptionThrown") for event in browser.events_of(f"Runtime.{kind}")
    ]
    return Seen(
        dialogs=len(browser.events_of("Page.javascriptDialogOpening")),
        scripts=int("PWNED" in (title, found["title"])),
        asked=len([url for url in asked if url != page.absolute().as_uri()]),
        arrived=len(requests),
        marks=frozenset(found["marks"]),
        schemes=frozenset(found["schemes"]),
        console=tuple(console),
    )


@contextmanager
def counting_server() -> Iterator[tuple[str, list[str]]]:
    """Yield the URL of a server on this machine, and the list of what it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", asked
        server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
