"""The documentation is a site whose every link leads somewhere, and CITATION.cff agrees with the program."""
import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[1]


class Page(html.parser.HTMLParser):
    """Targets of links, ids, and whatever a browser would load by itself."""

    def __init__(self, path):
        super().__init__()
        self.links, self.ids, self.loaded = [], set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            self.ids.add(attrs["id"])
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        if tag in ("img", "script", "iframe") and attrs.get("src"):
            self.loaded.append(attrs["src"])
        if tag == "link" and attrs.get("rel") != "canonical":
            self.loaded.append(attrs["href"])


def built(folder):
    """The site of this checkout as it stands, made below folder."""
    config = folder / "docs/mkdocs.yml"
    config.parent.mkdir(parents=True)
    shutil.copyfile(TOP / "docs/mkdocs.yml", config)
    subprocess.run((sys.executable, str(TOP / "docs/site.py"), str(folder / "build/site/pages")), check=True)
    done = subprocess.run(("mkdocs", "build", "-q", "-f", str(config)), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return folder / "build/site/html"


def link_faults(site, pages):
    """Links within the site that lead nowhere: a page, or a heading of one."""
    faults = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                faults.append("%s: %s" % (path.relative_to(site), link))
            elif anchor and target in pages and anchor not in pages[target].ids:
                faults.append("%s: %s: no such heading" % (path.relative_to(site), link))
    return faults


def unlisted_pages(site, pages):
    """Pages that neither the menu nor the list of decisions leads to."""
    start = pages[site / "index.html"]
    listed = {(site / link.partition("#")[0]).resolve() for link in start.links if "://" not in link}
    return ["%s: not in the menu of docs/mkdocs.yml" % path.relative_to(site) for path in pages
            if path not in listed and "adr" not in path.parts]


def missing_decisions(site, pages):
    listed = pages[site / "docs/adr/index.html"].links
    return ["%s: not in docs/adr/README.md" % path.name for path in sorted((TOP / "docs/adr").glob("0*.md"))
            if path.with_suffix(".html").name not in listed]


def loaded_from_elsewhere(pages):
    return ["%s: loads %s" % (path.name, source) for path, page in pages.items()
            for source in page.loaded if re.match(r"(https?:)?//", source)]


def citation_faults():
    text = (TOP / "CITATION.cff").read_text(encoding="utf-8")
    header = (TOP / "sim/include/kvt/version.h").read_text(encoding="utf-8")
    version = re.search(r'KVT_VERSION "([^"]+)"', header).group(1)
    wanted = ("cff-version: 1.2.0", "version: %s" % version, "license: Apache-2.0", "title:", "authors:", "message:")
    return ["CITATION.cff: %r is expected" % line for line in wanted
            if not re.search("^" + re.escape(line), text, re.MULTILINE)]


def main():
    verdicts = [("CITATION.cff", citation_faults())]
    skipped = 0
    if shutil.which("mkdocs") is None:
        print("skipped: the site; no mkdocs here (Debian package: mkdocs)")
        skipped = 4
    else:
        with tempfile.TemporaryDirectory() as folder:
            site = built(pathlib.Path(folder).resolve())
            pages = {path: Page(path) for path in sorted(site.rglob("*.html"))
                     if path.name != "404.html"}  # links from wherever a server puts it
            verdicts += [("links", link_faults(site, pages)), ("menu", unlisted_pages(site, pages)),
                         ("decisions", missing_decisions(site, pages)),
                         ("network", loaded_from_elsewhere(pages))]
    failed = [(name, faults) for name, faults in verdicts if faults]
    for name, faults in failed:
        print("failed: %s:\n  %s" % (name, "\n  ".join(faults)))
    print("%d passed, %d failed, %d skipped" % (len(verdicts) - len(failed), len(failed), skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
