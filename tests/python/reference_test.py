# SPDX-License-Identifier: Apache-2.0
"""Every public name of the package is documented, and docs/user/python_api.md has it."""
import importlib.util
import inspect

import pytest


@pytest.fixture(scope="module")
def reference(source):
    spec = importlib.util.spec_from_file_location("python_reference", source / "tools/dev/python_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def documented(reference):
    """(name, object) of every public function, class, method and property."""
    for module, name, found in reference.objects():
        yield f"{module}.{name}", found
        if inspect.isclass(found):
            yield from ((f"{module}.{name}.{member}", value) for member, value in reference.members_of(found))


def test_every_public_name_has_a_docstring_that_says_what_its_arguments_are(reference):
    everything = dict(documented(reference))
    assert len(everything) > 80
    silent = [name for name, found in everything.items() if not reference.documentation_of(found)]
    missing = {}
    for name, found in everything.items():
        if isinstance(found, property) or not reference.is_made_by_users(found):
            continue
        wanted = {p.name for p in reference.parameters_of(found) if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
        missing[name] = wanted - reference.described_parameters(found)
    assert (silent, {name: lacks for name, lacks in missing.items() if lacks}) == ([], {})


def test_the_page_has_every_name_and_setting(reference, source):
    from norn import _settings

    page = (source / "docs/user/python_api.md").read_text(encoding="utf-8")
    headings = {line.lstrip("#").strip() for line in page.splitlines() if line.startswith("##")}
    for name, _ in documented(reference):
        assert name in headings or name.split(".", name.count(".") - 1)[-1] in headings, name
    for name in reference.setting_names():
        assert f"| `{name}` |" in page
    assert len(_settings.table()) == len(reference.setting_names())


def test_what_is_not_documented_is_found(reference):
    def lacking(one, two, three=0):
        """Does something.

        one: is said.
        three: is said, too,
            in two lines that name two: of all
        """

    assert reference.described_parameters(lacking) == {"one", "three"}
    assert reference.rendered(reference.documentation_of(lacking), lacking) == [
        "", "Does something.", "", "- `one`: is said.", "- `three`: is said, too,\n  in two lines that name two: of all"]


def test_settings_are_one_parameter(reference):
    import norn

    assert reference.signature_of("train", norn.train).endswith("**settings)")
    assert "Settings:" not in reference.documentation_of(norn.train)
