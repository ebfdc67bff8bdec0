# SPDX-License-Identifier: Apache-2.0
"""Pages as a browser without a screen has them."""
import html.parser
import shutil
import subprocess
import urllib.parse


class Page(html.parser.HTMLParser):
    """What a test asks of a page: its elements with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text = [], text
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def all(self, tag, **wanted):
        return [a for t, a in self.elements if t == tag and all((a.get(k) or "").split(" ")[0] == v for k, v in wanted.items())]


class Browsing:
    """Of a test that has a folder."""

    def browse(self, page, *arguments, size="1280,3000"):
        """The page as the browser has it after its script has run; the script must not complain."""
        browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if browser is None:
            self.skipTest("chromium is not installed; tools/install_dependencies.sh --browser does that")
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                   f"--user-data-dir={self.folder / 'chrome'}", "--virtual-time-budget=2000",
                   "--enable-logging=stderr", f"--window-size={size}", *arguments, f"file://{urllib.parse.quote(str(self.folder / page))}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        # Pages of the browser's own complain, too: of a machine that is slow.
        said = [line for line in done.stderr.splitlines() if ":CONSOLE" in line and "source: chrome://" not in line]
        self.assertEqual(said, [], done.stderr[-2000:])
        return done.stdout

    def numbers_are_numbers(self, dom):
        for tag, attributes in dom.elements:
            for name, value in attributes.items():
                self.assertNotRegex(value or "", "NaN|Infinity|undefined", f"{tag} {name}")
