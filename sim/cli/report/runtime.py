"""What draws the charts of a report, made into the files that are embedded in the program.

fetch()   asks npm for the packages of package-lock.json and keeps of them what is needed, once for
          each lock: vega.js, vega-lite.js, vega-interpreter.js and the licences.
bundle()  puts those and our own scripts together: one script for browsers, one for node, and the
          policy that lets a page run these scripts and no other.
"""
import base64
import hashlib
import os
import re
import shutil
import subprocess
import tempfile

# Package, the file of it, and what it is called here.
PARTS = (
    ("vega", "build/vega.min.js", "vega.js"),
    ("vega-lite", "build/vega-lite.min.js", "vega-lite.js"),
    ("vega-interpreter", "build/vega-interpreter.js", "vega-interpreter.js"),
)
LICENCES = "licences.txt"
LOCKED = ("package.json", "package-lock.json", ".npmrc")
# What the program embeds: sim/cli/report/runtime.c has a name for each.
EMBEDDED = ("library.js", "page.js", "figures.js", "page.css", "policy.txt", LICENCES)


class Missing(Exception):
    """npm, or what it should have brought."""


def key_of(folder):
    """Equal for equal locks."""
    digest = hashlib.sha256()
    for name in LOCKED + ("runtime.py",):
        with open(os.path.join(folder, name), "rb") as source:
            digest.update(source.read())
    return digest.hexdigest()[:16]


def is_fetched(folder, kept):
    """Whether `kept` has what the lock in `folder` names."""
    names = [name for _, _, name in PARTS] + [LICENCES]
    try:
        with open(os.path.join(kept, "key"), encoding="utf-8") as stamp:
            return stamp.read() == key_of(folder) and all(os.path.exists(os.path.join(kept, n)) for n in names)
    except FileNotFoundError:
        return False


def licences_of(modules):
    """Each text once, under the packages that have it."""
    packages = {}
    for folder, _, files in sorted(os.walk(modules)):
        name = os.path.relpath(folder, modules)
        is_package = name.count("/") == (1 if name.startswith("@") else 0)
        for file in sorted(files):
            if is_package and re.match(r"licen[cs]e(\.|$)", file, re.IGNORECASE):
                with open(os.path.join(folder, file), encoding="utf-8") as text:
                    packages.setdefault(text.read().strip(), []).append(name)
                break
    if "vega" not in sum(packages.values(), []):
        raise Missing("the licence of vega")
    return "\n\n\n".join("%s\n\n%s" % (", ".join(sorted(names)), text)
                         for text, names in sorted(packages.items(), key=lambda item: item[1]))


def fetch(folder, kept, environment):
    """Bring what the lock in `folder` names into `kept`, unless it is there; whether it was not."""
    if is_fetched(folder, kept):
        return False
    with tempfile.TemporaryDirectory() as place:
        for name in LOCKED:
            shutil.copy(os.path.join(folder, name), place)
        command = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        try:
            done = subprocess.run(command, cwd=place, env=environment, timeout=300,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, encoding="utf-8", errors="replace")
        except FileNotFoundError:
            raise Missing("npm") from None
        except subprocess.TimeoutExpired:
            raise Missing("npm ci did not end within 300 s") from None
        if done.returncode != 0:
            said = [line for line in done.stdout.splitlines() if line.strip()]
            raise Missing("npm ci: " + " / ".join(said[:3]))
        modules = os.path.join(place, "node_modules")
        os.makedirs(kept, exist_ok=True)
        for package, file, name in PARTS:
            shutil.copy(os.path.join(modules, package, file), os.path.join(kept, name))
        with open(os.path.join(kept, LICENCES), "w", encoding="utf-8") as out:
            out.write(licences_of(modules) + "\n")
    with open(os.path.join(kept, "key"), "w", encoding="utf-8") as stamp:
        stamp.write(key_of(folder))
    return True


def as_global(text):
    """A script that would be a module under node sets the same global as in a browser."""
    text = re.sub(r"\n//# sourceMappingURL=\S*\s*$", "", text)
    return "(function () { var exports, module, define;\n%s\n}).call(globalThis);\n" % text


def interpreter_as_script(text):
    """The one part that comes as a module: its import and its export, by what they stand for."""
    taken, exported = r"import (\{[^}]*\}) from 'vega-util';", r"export \{ (\w+) as (\w+) \};"
    if len(re.findall(r"^import ", text, re.MULTILINE)) != 1 or not re.search(taken, text) or \
            len(re.findall(r"^export ", text, re.MULTILINE)) != 1 or not re.search(exported, text):
        raise Missing("vega-interpreter as it was when this was written: one import, one export")
    text = re.sub(taken, r"const \1 = vega;", text)
    return as_global(re.sub(exported, r"globalThis.\2 = \1;", text))


def allowed(script):
    """How a page's policy names a script: by its hash. It must stand in a page as it is."""
    if re.search(r"</script|<!--|\r", script, re.IGNORECASE):
        raise Missing("a script that can stand in a page")
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return "'sha256-%s'" % base64.b64encode(digest).decode("ascii")


def bundle(folder, kept, out):
    """Write EMBEDDED into `out`."""
    def read(*path):
        with open(os.path.join(*path), encoding="utf-8") as source:
            return source.read()

    library = as_global(read(kept, "vega.js")) + as_global(read(kept, "vega-lite.js"))
    library += interpreter_as_script(read(kept, "vega-interpreter.js")) + read(folder, "draw.js")
    page = read(folder, "page.js")
    policy = ("default-src 'none'; script-src %s %s; style-src 'unsafe-inline'; "
              "base-uri 'none'; form-action 'none'" % (allowed(library), allowed(page)))
    made = dict(zip(EMBEDDED, (library, page, read(folder, "figures.js"), read(folder, "page.css"),
                               policy, read(kept, LICENCES))))
    os.makedirs(out, exist_ok=True)
    for name, text in made.items():
        with open(os.path.join(out, name), "w", encoding="utf-8", newline="\n") as target:
            target.write(text)
