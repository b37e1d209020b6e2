"""The pages of the site: copies of this checkout's Markdown where it lies, and of what it links to.

    site.py PAGES    fills the folder PAGES, which docs/mkdocs.yml reads
"""
import pathlib
import re
import shutil
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "docs/*/*.md")
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
# What a test reads behind a language is none of the site's business.
FENCE = re.compile(r"^(\s*```\w+) .*$", re.MULTILINE)


def fill(pages):
    shutil.rmtree(pages, ignore_errors=True)
    sources = [path for pattern in PAGES for path in sorted(TOP.glob(pattern))]
    for source in sources:
        text = source.read_text(encoding="utf-8")
        target = pages / source.relative_to(TOP)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(FENCE.sub(r"\1", folders_named(source, text)), encoding="utf-8")
        for link, _ in LINK.findall(text):
            copy_linked(source, link, pages, sources)


def folders_named(source, text):
    """A link to a folder goes to the list of its pages, which a site needs and a checkout does not."""
    def named(match):
        folder = source.parent / match.group(1)
        if not folder.is_dir():
            return match.group(0)
        first = sorted(folder.glob("*.md"))[0].name
        return match.group(0).replace(match.group(1), match.group(1).rstrip("/") + "/" + first)
    return LINK.sub(named, text)


def copy_linked(source, link, pages, sources):
    linked = (source.parent / link).resolve()
    if "://" in link or linked in sources or not linked.is_file():
        return  # mkdocs complains of what is not there
    target = pages / linked.relative_to(TOP)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(linked, target)


if __name__ == "__main__":
    fill(pathlib.Path(sys.argv[1]))
