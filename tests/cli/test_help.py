"""Help, the manual and what shells complete: all of one table, so that they cannot part."""
import json
import os
import re
import shutil
import subprocess
import sys

import support
from support import KVTIDE, Skip, kvtide, refuses, succeeds

ACTIONS = ("stats", "convert", "record", "replay", "merge", "mrc")


def commands():
    """Every command, and each action of trace as "trace ACTION"."""
    names = re.findall(r"^  ([a-z]+) ", succeeds("--help"), re.MULTILINE)
    assert {"run", "size", "trace", "completion"} <= set(names), names
    return [name for name in names if name != "trace"] + ["trace " + name for name in ACTIONS]


def options_of(command):
    said = succeeds(*command.split(), "--help")
    return re.findall(r"^  (--?[a-z0-9-]+)", said, re.MULTILINE)


def needs(program):
    if shutil.which(program) is None:
        raise Skip("no %s here" % program)


def completed(line, point=None):
    """What bash offers at the end of the line, or at a point of it, as bash would call the function.

    COMP_WORDS are parted as bash parts them, at '=' and ':' too."""
    script = "\n".join((
        'source <("$1" completion bash)',
        'COMP_LINE=$2 COMP_POINT=$3',
        'read -ra COMP_WORDS <<<"$(sed "s/[=:]/ & /g" <<<"$2")"',
        'COMP_CWORD=$((${#COMP_WORDS[@]} - 1))',
        'compopt() { :; }',
        '_kvtide',
        'printf "%s\\n" "${COMPREPLY[@]}"'))
    typed = line.replace("kvtide", KVTIDE, 1)
    done = subprocess.run(
        ("bash", "-c", script, "bash", KVTIDE, typed,
         str(len(typed) if point is None else len(typed) - len(line) + point)),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
    assert done.stderr == "", done.stderr
    return done.stdout.split()


def help_fits_80_columns(folder):
    for command in commands():
        said = succeeds(*command.split(), "--help")
        wide = [line for line in said.splitlines() if len(line) > 80]
        assert not wide, wide


def bash_completes_commands_actions_options_and_values(folder):
    assert completed("kvtide ru") == ["run"]
    assert set(completed("kvtide ")) >= {"run", "trace", "compare", "--help"}
    assert completed("kvtide trace st") == ["stats"]
    assert set(completed("kvtide trace ")) == {*ACTIONS, "--help"}
    assert set(completed("kvtide run --fid")) == {"--fidelity"}
    assert set(completed("kvtide run --fidelity ")) == {"exact", "sampled", "analytic"}
    assert set(completed("kvtide trace mrc --pol")) == {"--policies"}
    assert completed("kvtide completion b") == ["bash"]
    assert "quickstart" in completed("kvtide run quick")
    assert completed("kvtide list scen") == ["scenarios"]
    assert "host_fetch_share" in completed("kvtide compare a b --metric host_f")
    # A key ends in '=', and bash wants what follows the last '=' or ':' alone.
    assert completed("kvtide run --set residency.hot_") == ["residency.hot_tokens="]
    # The cursor stands within the line.
    assert completed("kvtide ru --quiet", len("kvtide ru")) == ["run"]


def names_of(kind):
    return [entry.get("name", entry.get("path")) for entry in json.loads(succeeds("list", kind, "--json"))[kind]]


# Options whose value is one of a list that the program itself has, or of a few words.
OF_A_LIST = {
    "trace stats --format": "formats",
    "trace convert --format": "formats",
    "paper --only": "targets",
    "validate --profile": "profiles",
    "validate --grid": "grids",
    "calibrate --grid": "grids",
    "size --hardware": "hardware",
    "check --hardware": "hardware",
    "compare --metric": "metrics",
    "trace mrc --policies": "replacement",
}
OF_WORDS = {
    "plan --export": {"flags"},
    "check --export": {"flags"},
    "plan --worth": {"analytic", "simulated", "none"},
    "plan --survive": {"rank=1", "node=1"},
    "plan --simulate": {"all"},
    "report --figures": {"svg", "pdf"},
    "report --table": {"latex", "md", "csv"},
    "validate --suite": {"decisions", "time", "fidelity", "public"},
    "trace mrc --stream": {"calls", "rows"},
}


def bash_completes_what_is_one_of_a_list(folder):
    where = os.getcwd()
    try:
        os.chdir(folder)  # where no file is offered beside them
        for option, kind in OF_A_LIST.items():
            assert sorted(completed("kvtide %s " % option)) == sorted(names_of(kind)), option
        for option, words in OF_WORDS.items():
            offered = completed("kvtide %s " % option)
            assert set(offered) == words and len(offered) == len(words), (option, offered)
        families = {entry["family"] for entry in json.loads(succeeds("list", "engines", "--json"))["engines"]
                    if "family" in entry}
        for command, more in (("plan", set()), ("check", set()), ("size", {"ideal"})):
            assert set(completed("kvtide %s --engine " % command)) == families | more, command
        kinds = re.search(r"there are: (.*)", refuses(2, "list", "nothing")).group(1).split()
        assert completed("kvtide list ") == kinds
    finally:
        os.chdir(where)


def bash_completes_one_of_several_kinds_of_value(folder):
    assert completed("kvtide plan quickstart --slo p99_tp") == ["p99_tpot_ms"]
    assert completed("kvtide plan quickstart --slo cl") == ["classes"]
    assert completed("kvtide plan quickstart --maximize output_throughput_per") == ["output_throughput_per_gpu"]
    assert completed("kvtide plan quickstart --maximize cluster.decode.gp") == ["cluster.decode.gpus=",
                                                                              "cluster.decode.gpus_per_node="]
    assert "quickstart" in completed("kvtide check quick")
    where = os.getcwd()
    try:
        os.chdir(folder)
        (folder / "nonesuch").mkdir()
        (folder / "vllm-mine.json").write_text("{}")
        assert completed("kvtide run --cache no") == ["none", "nonesuch"]
        assert completed("kvtide plan --engine vl") == ["vllm", "vllm-mine.json"]
    finally:
        os.chdir(where)


def a_shell_completes_what_a_key_takes(folder):
    assert completed("kvtide run --set run.fidelity=") == ["exact", "sampled", "analytic"]
    assert completed("kvtide sweep --vary residency.policy=ad") == ["adaptive"]
    assert completed("kvtide run --set=cluster.decode.lockstep=t") == ["true"]
    assert completed("kvtide run --set seed=") == []
    schema = json.loads(succeeds("check", "--schema"))
    fidelities = schema["properties"]["run"]["properties"]["fidelity"]["enum"]
    offered = names_of("values")
    assert len(offered) == len(set(offered)) > 100
    assert [name for name in offered if name.startswith("run.fidelity=")] == ["run.fidelity=" + name
                                                                             for name in fidelities]
    for setting in offered:
        said = kvtide("check", "--print", "quickstart", "--set", setting).stderr
        # It may lack what it takes, or be another plug-in's; it is no value that the key does not have.
        wrong = ("is not one of its choices", "no such", "neither true nor false", "PATH=VALUE")
        assert not any(words in said for words in wrong), said


def bash_completes_within_a_word(folder):
    assert completed("kvtide run --fidelity=ex") == ["exact"]
    assert completed("kvtide plan --survive rank=") == ["1"]
    assert completed("kvtide report --figures svg,p") == ["svg,pdf"]
    assert completed("kvtide trace mrc --policies lru,fi") == ["lru,fifo"]


def what_is_offered_is_what_the_parser_takes(folder):
    nothing = folder / "nothing.csv"
    nothing.write_text("nothing\n")
    said = refuses(2, "trace", "stats", "--format", "zz", str(nothing))
    taken = re.search("there are: auto, (.*)", said).group(1).split(", ")
    assert names_of("formats") == taken
    targets = json.loads((support.TOP / "validation" / "paper" / "targets.json").read_text())["targets"]
    assert names_of("targets") == [target["id"] for target in targets]


def every_key_that_is_offered_is_one_that_set_takes(folder):
    offered = completed("kvtide run --set ")
    assert len(offered) == len(set(offered)) > 150 and all(key.endswith("=") for key in offered), offered
    for wanted in ("residency.refill_gb_per_s=", "cluster.decode.gpus=", "slo.classes=", "cluster.faults="):
        assert wanted in offered, wanted
    for key in offered:
        done = kvtide("check", "--print", "quickstart", "--set", key + "1")
        assert not any(words in done.stderr for words in ("unknown key", "from files only", "PATH=VALUE")), done.stderr


def bash_completes_files_and_folders(folder):
    (folder / "mine.json").write_text("{}")
    (folder / "results").mkdir()
    where = os.getcwd()
    try:
        os.chdir(folder)
        assert completed("kvtide run mi") == ["mine.json"]
        assert completed("kvtide run --out re") == ["results"]
        assert completed("kvtide run --out mi") == []
        assert completed("kvtide check mi") == ["mine.json"]
    finally:
        os.chdir(where)


def every_option_of_every_command_is_completed(folder):
    for command in commands():
        offered = set(completed("kvtide %s -" % command))
        assert offered == {"--help", *options_of(command)}, (command, offered)


def other_shells_read_their_scripts(folder):
    missing = []
    for shell in ("zsh", "fish"):
        script = succeeds("completion", shell)
        for command in commands():
            assert all(option[2:] in script for option in options_of(command)), (shell, command)
        if shutil.which(shell) is None:
            missing.append(shell)
            continue
        done = subprocess.run((shell, "-n"), input=script, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        assert done.returncode == 0 and done.stdout == "", (shell, done.stdout)
    if missing:
        raise Skip("no %s here" % " and no ".join(missing))


def fish_offers_what_the_table_has(folder):
    needs("fish")
    script = folder / "kvtide.fish"
    script.write_text(succeeds("completion", "fish"))
    path = folder / "bin"
    path.mkdir()
    (path / "kvtide").symlink_to(KVTIDE)

    def offered(line):
        done = subprocess.run(
            ("fish", "--no-config", "-c", "source %s; complete -C %r" % (script, line)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True,
            env={**os.environ, "PATH": "%s:%s" % (path, os.environ["PATH"]), "HOME": str(folder)})
        return {text.split("\t")[0] for text in done.stdout.splitlines()}

    assert "run" in offered("kvtide r")
    assert {"stats", "merge"} <= offered("kvtide trace ")
    assert "stats" not in offered("kvtide trace stats ")
    assert {"exact", "sampled", "analytic"} <= offered("kvtide run --fidelity ")
    assert "--policies" in offered("kvtide trace mrc --pol")
    assert "--policies" not in offered("kvtide run --pol")
    assert "quickstart" in offered("kvtide run q")
    assert {"vidur", "vllm"} == offered("kvtide trace stats --format v")
    assert "svg,pdf" in offered("kvtide report --figures svg,p")
    assert "lru,fifo" in offered("kvtide trace mrc --policies lru,fi")
    assert "none" in offered("kvtide run --cache ")
    assert {"flags"} == offered("kvtide plan a --export ")
    assert {"residency.hot_tokens="} == offered("kvtide run --set residency.hot")
    assert {"run.fidelity=exact"} == offered("kvtide run --set run.fidelity=e")
    assert {"-v", "--plugin", "--json"} <= offered("kvtide list -")


# What _kvtide asks of zsh, as functions that say what they are given; an option's action is all that is asked for.
ZSH = r"""
compadd() {
    case $1 in
    (--) shift; print -rl -- "$@" ;;
    (*) print -rl -- ${(P)@[-1]} ;;
    esac
}
_files() { print -r -- FILES "$@"; }
_call_program() { shift 2; "$KVTIDE" "$@"; }
compset() { PREFIX=${PREFIX##*,}; }
_arguments() {
    local spec
    for spec; do
        [[ $spec != *"${OPTION}["*'{'*'}' ]] || eval "${${spec#*\{}%\}}"
    done
}
typeset -a expl
OPTION=${1##* } PREFIX=$2
words=(kvtide ${=1} "$2") CURRENT=$#words
source "$0"
"""


def zsh_offers_what_the_table_has(folder):
    needs("zsh")
    script = folder / "_kvtide"
    script.write_text(succeeds("completion", "zsh"))

    def offered(options, typed=""):
        done = subprocess.run(("zsh", "-f", "-c", ZSH, str(script), options, typed), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env={**os.environ, "KVTIDE": KVTIDE})
        assert done.stderr == "", done.stderr
        return done.stdout.split()

    assert offered("trace stats --format") == names_of("formats")
    assert offered("run --fidelity") == ["exact", "sampled", "analytic"]
    assert offered("report --figures", "svg,p") == ["svg", "pdf"]
    assert offered("run --cache") == ["none", "FILES", "-/"]
    assert "run.fidelity=exact" in offered("run --set", "run.fidelity=")


def another_shell_is_named(folder):
    said = refuses(2, "completion", "tcsh")
    assert 'found "tcsh", expected bash, zsh, fish or mdoc' in said, said


def manual():
    path = support.TOP / "build" / os.environ.get("KVT_VARIANT", "release") / "kvtide.1"
    if not path.exists():
        raise Skip("no manual was built beside this program")
    return path


def the_manual_has_every_command_and_option(folder):
    needs("mandoc")
    text = subprocess.run(("mandoc", "-T", "utf8", "-O", "width=200", str(manual())), check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    text = re.sub(".\b", "", text)  # bold and underlined letters are struck twice
    for command in commands():
        section = re.search(r"^   %s$(.*?)(?=^ {0,3}\S)" % command, text, re.MULTILINE | re.DOTALL)
        assert section, command
        for option in options_of(command):
            assert re.search(r"^ +%s\b" % option, section.group(1), re.MULTILINE), (command, option)
    for word in ("EXIT STATUS", "KVT_DATA", "requests.csv"):
        assert word in text, word


def the_manual_is_clean_to_its_linter(folder):
    needs("mandoc")
    done = subprocess.run(("mandoc", "-T", "lint", "-W", "warning", str(manual())),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


CASES = (
    help_fits_80_columns,
    bash_completes_commands_actions_options_and_values,
    bash_completes_what_is_one_of_a_list,
    bash_completes_one_of_several_kinds_of_value,
    bash_completes_within_a_word,
    a_shell_completes_what_a_key_takes,
    zsh_offers_what_the_table_has,
    what_is_offered_is_what_the_parser_takes,
    every_key_that_is_offered_is_one_that_set_takes,
    bash_completes_files_and_folders,
    every_option_of_every_command_is_completed,
    other_shells_read_their_scripts,
    fish_offers_what_the_table_has,
    another_shell_is_named,
    the_manual_has_every_command_and_option,
    the_manual_is_clean_to_its_linter,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
