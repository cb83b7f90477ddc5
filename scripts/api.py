"""Compare the parts of docs/api.md that are made from docstrings with the code, so that a clone has them as text.

Run as `python -m scripts.api` from the repository's root; `--write` renews them. A part stands between the markers
`<!-- api offpiste.NAME -->` and `<!-- end -->`.
"""

import argparse
import dataclasses
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from offpiste.field_docs import field_docs

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
_PART = re.compile(r"(<!-- api (\S+)((?: \w+)*) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> int:
    """Return 0 if the page says what the code says, or does now."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="renew the parts")
    options = parser.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    new = renewed(text)
    if new != text and options.write:
        PAGE.write_text(new, encoding="utf-8")
    elif new != text:
        print("docs/api.md does not say what the code says; renew it by python -m scripts.api --write")
        return 1
    return 0


def renewed(text: str) -> str:
    """Return the page with each part as the code has it."""
    return _PART.sub(lambda part: part[1] + "\n".join([*described(part[2], part[3].split()), ""]) + part[4], text)


def described(path: str, members: list[str]) -> Iterator[str]:
    """Yield the lines on a name: its signature, its docstring and its fields, or the members named."""
    thing = pkgutil.resolve_name(path.replace("offpiste.", "offpiste:", 1) if path.count(".") == 1 else path)
    yield ""
    if not isinstance(thing, type):
        yield f"**`{path}{_signature(thing)}`**\n"
        yield from (_doc(thing), "")
        return
    yield f"**`{path}`**\n"
    yield from (_doc(thing).partition("\n\nFields:")[0], "")
    docs = field_docs(thing)
    if docs and dataclasses.is_dataclass(thing) and not members:
        yield from ("| field | type | meaning |", "|---|---|---|")
        for field in dataclasses.fields(thing):
            yield f"| `{field.name}` | `{_plain(field.type)}` | {' '.join(docs.get(field.name, '').split())} |"
        for name, value in vars(thing).items():
            if isinstance(value, property):
                kind = _plain(inspect.signature(value.fget).return_annotation)  # type: ignore[arg-type]
                yield f"| `{name}` | `{kind}` | {' '.join(_doc(value).split())} |"
        yield ""
        return
    for name in members or [name for name in vars(thing) if not name.startswith("_")]:
        member = inspect.getattr_static(thing, name, None)
        if isinstance(member, property):
            yield f"- `{name}`: {' '.join(_doc(member).split())}"
        elif inspect.isfunction(member):
            yield f"- `{name}{_signature(member)}`: {' '.join(_doc(member).split())}"
        else:
            yield f"- `{name}`: {' '.join(field_docs(thing).get(name, '').split())}"
    yield ""


def _doc(thing: Any) -> str:
    return inspect.getdoc(thing) or ""


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    return _plain(signature.replace(parameters=parameters))


def _plain(annotation: Any) -> str:
    """Return a type or a signature without the modules of its names."""
    if isinstance(annotation, inspect.Signature):
        text = re.sub(r" = <function.*?>(?=[,)])", " = ...", str(annotation))
    else:
        text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation).replace("'", "")
    text = re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=\w)", "", text)
    text = re.sub(r"ndarray\[tuple\[.*?\], dtype\[(\w+)\]\]", r"NDArray[\1]", text)
    text = re.sub(r"-> '(.*)'$", r"-> \1", text)
    return text.replace("|", "or")


if __name__ == "__main__":
    sys.exit(main())
