#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints docs/user/python_api.md: every public name of the Python package, from its signature and docstring, and the settings of
runs from the engine's table. PYTHONPATH says where the package is."""
import importlib
import inspect
import re
import textwrap

MODULES = ("norn", "norn.tune", "norn.daily", "norn.report", "norn.interchange", "norn.implicit", "norn.spark")
ENTRY = re.compile(r"^( *)(\w+(?:, \w+)*): (.*)$")


def public_names(module):
    """Of a module: those of __all__, else the classes and functions that it defines."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name, value in vars(module).items()
                 if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__]
    return [name for name in names if not name.startswith("_")]


def objects():
    """(module's name, name, object), each object once: where it stands first."""
    seen = []
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in public_names(module):
            found = getattr(module, name)
            if not any(found is one for one in seen):
                seen.append(found)
                yield module_name, name, found


def members_of(cls):
    """(name, member) of a class, methods as functions and properties: those that it defines itself, without those that do what
    their base's docstring says."""
    for name, value in vars(cls).items():
        overrides = value.__doc__ is None and any(hasattr(base, name) for base in cls.__mro__[1:])
        if not name.startswith("_") and not overrides and (isinstance(value, (property, classmethod, staticmethod))
                                                           or inspect.isfunction(value)):
            yield name, value if isinstance(value, property) else getattr(cls, name)


def setting_names():
    from norn import _settings

    return {name + "_" if name == "lambda" else name for name in _settings.table()}


def parameters_of(function):
    """Of a function, or of a class's constructor: its parameters without `self`; those of the settings' table, which have a table of their
    own here, are one: **settings."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of the engine's own module
        return []
    settings = setting_names()
    kept = [p for p in parameters if p.name not in ("self", "args", "kwargs")]
    if sum(p.name in settings for p in kept) == len(settings):
        kept = [p for p in kept if p.name not in settings] + [inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD)]
    return kept


def is_made_by_users(found):
    """Functions are called; of classes those whose docstring has the constructor's arguments, or that take none."""
    if not inspect.isclass(found):
        return True
    return not issubclass(found, Exception) and (not parameters_of(found) or bool(described_parameters(found)))


def signature_of(name, function):
    shown = str(inspect.Signature([p.replace(annotation=inspect.Parameter.empty) for p in parameters_of(function)]))
    whole = name + shown
    if len(whole) <= 110:
        return whole
    return "\n".join(textwrap.wrap(whole, 110, subsequent_indent=" " * (len(name) + 1), break_long_words=False, break_on_hyphens=False))


def documentation_of(found):
    """Without the settings that stand under some of them, which have a table here, and the signatures that nanobind puts over them."""
    text = inspect.cleandoc(found.__doc__ or "").split("\n\nSettings:\n")[0]
    return re.sub(r"^\w+\(.*\) -> .*\n\n", "", text)


def blocks_of(text, names):
    """A docstring as paragraphs: (None, text), and what it says of parameters with these names: (names, text)."""
    blocks, margin = [], 0
    in_entry = joined = False
    for line in text.split("\n"):
        found = ENTRY.match(line)
        indentation = len(line) - len(line.lstrip())
        if line.strip() == "Args:":
            in_entry = joined = False
        elif not line.strip():
            joined = False
        elif found and set(found[2].split(", ")) <= names and not (in_entry and joined and indentation > margin):
            blocks.append((found[2].split(", "), found[3]))
            in_entry = joined = True
            margin = indentation
        elif joined and (not in_entry or indentation > margin):
            blocks[-1] = (blocks[-1][0], blocks[-1][1] + "\n" + line.strip())
        else:
            blocks.append((None, line.strip()))
            in_entry, joined = False, True
    return blocks


def described_parameters(function):
    """Names of parameters that its docstring says something of."""
    names = {p.name for p in parameters_of(function)}
    return {name for named, _ in blocks_of(documentation_of(function), names) for name in named or ()}


def linked(text):
    return re.sub(r"docs/user/(\w+\.md)", r"[\1](\1)", text)


def rendered(text, function):
    lines = []
    was_entry = False
    for named, said in blocks_of(text, {p.name for p in parameters_of(function)}):
        said = linked(said)
        if named is None:
            lines += ["", said]
        else:
            lines += ([] if was_entry else [""]) + ["- " + ", ".join(f"`{name}`" for name in named) + ": " + said.replace("\n", "\n  ")]
        was_entry = named is not None
    return lines


def part_of(title, level, name, found):
    """Heading, signature and docstring of a function, class or property."""
    lines = ["", f"{'#' * level} {title}"]
    said = documentation_of(found)
    if isinstance(found, property):
        return lines + rendered(said, found)
    if not is_made_by_users(found):
        bases = [base.__name__ for base in found.__bases__ if base is not object]
        lines += ["", "```python", f"class {name}" + (f"({', '.join(bases)})" if bases else ""), "```"]
    else:
        lines += ["", "```python", signature_of(name, found), "```"]
    return lines + rendered(said, found)


def summary_of(found):
    first = documentation_of(found).split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=[a-z)\]\"`])[.:] ", first + " ")[0].strip().rstrip(".").replace("|", "\\|")


def anchor(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def settings_part():
    from norn import _settings

    lines = ["", "## Settings", "",
             "Keywords of `Recommender`, `train` and `Network.plan`. None, or not to give one, leaves it to the recipe or",
             "the descriptor."]
    group = None
    for name, row in _settings.table().items():
        if row["group"] != group:
            group = row["group"]
            lines += ["", linked(f"**{group}**"), "", "| setting | | one of | by default |", "|---|---|---|---|"]
        shown = name + "_" if name == "lambda" else name
        cells = [f"`{shown}`", row["help"], ", ".join(row["words"]), row["default"]]
        lines.append("| " + " | ".join(linked(cell.replace("|", "\\|")) for cell in cells) + " |")
    return lines


def page():
    everything = list(objects())
    lines = ["# Python API", "",
             "Every public name of the package. Generated by tools/dev/write_reference.sh from signatures and docstrings; do not edit",
             "it. [python.md](python.md) shows them at work.", "", "| | |", "|---|---|"]
    for module, name, found in everything:
        title = f"{module}.{name}"
        lines.append(f"| [{title}](#{anchor(title)}) | {summary_of(found)} |")
    lines.append("| [settings of a run](#settings) | rates, epochs, validation, checkpoints |")
    for module, name, found in everything:
        lines += part_of(f"{module}.{name}", 2, name, found)
        if inspect.isclass(found):
            for member, value in members_of(found):
                lines += part_of(f"{name}.{member}", 3, member, value)
    return "\n".join(lines + settings_part()) + "\n"


if __name__ == "__main__":
    print(page(), end="")
