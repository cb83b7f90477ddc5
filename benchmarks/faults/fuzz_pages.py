"""What the page of a harmed store does: by its tags, and in a real browser."""

from html.parser import HTMLParser
from pathlib import Path

from benchmarks.faults.hostile_page import POLICY, counting_server, look
from benchmarks.shared.chromium import Chromium

BADGE = "span class"
"""Of a verdict, such as that a method is better; the whole store has too few runs for one."""


class Marks(HTMLParser):
    """The kinds of tags of a page, each with the names of its attributes."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(page.read_text(errors="replace"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record a tag, and any value of a link that a browser would run."""
        live = [name for name, value in attrs if (value or "").strip().lower().startswith(("javascript:", "http"))]
        self.found.add(" ".join([tag, *sorted(name for name, _ in attrs), *(f"live {name}" for name in live)]))

    def beyond(self, harmless: set[str]) -> list[str]:
        """Return what may do harm: scripts, handlers of events, frames, and links that run."""
        words = {word for mark in self.found - harmless for word in mark.split()}
        live = {word for word in words if word.startswith("on")} | words & {"script", "iframe", "object", "live"}
        return [f"live tags in the page: {sorted(self.found - harmless)[:3]}"] if live else []


def open_pages(scratch: Path) -> list[str]:
    """Open the pages of hostile stores in a browser, without the policy that would stop them; return what they did."""
    pages = sorted((scratch / "pages").glob("*.html"))
    failures = []
    with counting_server() as (_, requests), Chromium() as browser:
        known = look(browser, requests, scratch / "whole" / "case" / "report" / "index.html")
        for page in pages:
            page.write_text(POLICY.sub("", page.read_text(encoding="utf-8"), count=1), encoding="utf-8")
            seen = look(browser, requests, page)
            foreign = seen.marks - known.marks - {BADGE}
            if seen.harm or seen.asked or seen.console or foreign or seen.schemes - known.schemes:
                did = f"{seen.harm}, {seen.asked} requests, {sorted(foreign)}, {seen.console}, {seen.schemes}"
                failures.append(f"hostile {page.stem}, in the browser: {did}")
    print(f"{len(pages)} pages of hostile stores opened in Chromium")
    return failures
