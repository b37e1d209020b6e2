#!/usr/bin/env python3
"""GLM-5.3 at 100K by offered concurrency: DFlash2 in blocks of 4, 6, 8 and by load, and no drafter.

    validation/dflash2_sweep.py --out FILE.json [--concurrency 4,8,..] [OPTION of kvtide compare]..
    validation/dflash2_sweep.py --print FILE.json

One `kvtide compare` for each concurrency, on the scenario's seed. The file is written after each, and
points that it has already are not run again. Beside them: arXiv 2610.13708, Table 2 and the blocks
of its Figure 4.

Acceptance, draft_ms and query_ms were fitted to TPOT at C128 and to those blocks. That the blocks fall
as in the paper shows that one set of constants can do both; it is no evidence for the constants.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]
KVTIDE = os.environ.get("KVTIDE", str(TOP / "build" / "kvtide"))
SCENARIO = "glm-5.3-100k"
DFLASH2 = "speculation.method=dflash2"

# Offered concurrency: requests of a run. Table 2 has six for each offered. With fewer the order stays,
# while ramp and drain weigh more: output and active come out lower, TTFT is the first wave's.
REQUESTS = {4: 24, 8: 48, 16: 64, 32: 96, 64: 128, 128: 256, 256: 320}

VARIANTS = {
    "hisparse": "residency=hisparse",
    "adaptive": "residency=adaptive",
    "block 4": DFLASH2 + ",speculation.block=4",
    "block 6": DFLASH2 + ",speculation.block=6",
    "block 8": DFLASH2 + ",speculation.block=8",
    "by load": DFLASH2,
}
METRICS = ("tokens_per_round", "mean_tpot_ms", "output_throughput_per_gpu", "active_mean", "slots",
           "host_fetch_share", "coverage_mean", "fetched_rows_per_round", "mean_ttft_ms")

# Table 2, as far as it goes.
PAPER = {
    "mean_tpot_ms": {(128, "hisparse"): 50.3, (128, "adaptive"): 46.6, (128, "by load"): 35.9,
                     (256, "hisparse"): 58.0, (256, "adaptive"): 54.4},
    "output_throughput_per_gpu": {(128, "hisparse"): 548, (128, "adaptive"): 622,
                                  (128, "by load"): 793, (256, "hisparse"): 730,
                                  (256, "adaptive"): 823},
    "active_mean": {(128, "hisparse"): 121.1, (128, "adaptive"): 125.6, (128, "by load"): 124.7,
                    (256, "hisparse"): 190.5, (256, "adaptive"): 201.5},
}
PAPER_BLOCK = {4: 8, 8: 8, 16: 8, 32: 8, 64: 6, 128: 4, 256: 4}
WITHIN_BEST = 0.02  # set before the runs: the paper's block is the best, or so close to it


def measure(concurrency, options):
    """One comparison; {variant: {metric: value}}."""
    command = [KVTIDE, "compare"]
    command += [SCENARIO + "," + change for change in VARIANTS.values()]
    command += ["--set", "workload.concurrency=%d" % concurrency,
                "--set", "workload.requests=%d" % REQUESTS[concurrency], "--json", "--quiet"]
    done = subprocess.run(command + options, stdout=subprocess.PIPE, check=True, text=True)
    variants = json.loads(done.stdout)["variants"]
    return {name: {metric: variant["metrics"][metric] for metric in METRICS}
            for name, variant in zip(VARIANTS, variants)}


def best_block(row):
    return max((4, 6, 8), key=lambda block: row["block %d" % block]["output_throughput_per_gpu"])


# What is printed, and to how many places.
TABLES = (("tokens_per_round", "tokens a round", 2), ("mean_tpot_ms", "TPOT, ms", 1),
          ("output_throughput_per_gpu", "output, tokens/s a GPU", 0), ("active_mean", "active", 1))


def print_tables(points):
    for metric, title, places in TABLES:
        print("| %s | %s |" % (title, " | ".join(VARIANTS)))
        print("| --- |" + " --- |" * len(VARIANTS))
        for point in points:
            concurrency, row = point["concurrency"], point["variants"]
            best, cells = "block %d" % best_block(row), []
            for name in VARIANTS:
                text = "%.*f" % (places, row[name][metric])
                if metric == "output_throughput_per_gpu" and name == best:
                    text = "**%s**" % text
                paper = PAPER.get(metric, {}).get((concurrency, name))
                cells.append(text + (" (%g)" % paper if paper else ""))
            print("| C%d | %s |" % (concurrency, " | ".join(cells)))
        print()


def behind(row, block):
    """By how much less a block puts out than the best one."""
    best = row["block %d" % best_block(row)]["output_throughput_per_gpu"]
    return 1 - row["block %d" % block]["output_throughput_per_gpu"] / best


def judge(points):
    """Prints what came out of each point; whether all is as it must be."""
    good = True
    for point in points:
        concurrency, row = point["concurrency"], point["variants"]
        wanted = PAPER_BLOCK[concurrency]
        short = behind(row, wanted)
        gain = (row["adaptive"]["output_throughput_per_gpu"]
                / row["hisparse"]["output_throughput_per_gpu"])
        good = good and short <= WITHIN_BEST and gain > 1
        print("C%d: best block %d; the paper's, %d, is %.1f %% behind; adaptive / hisparse %.3f" % (
            concurrency, best_block(row), wanted, 100 * short, gain))
    return good


def load(path):
    if not path.exists():
        return []
    return json.loads(path.read_text(encoding="utf-8"))["points"]


def save(path, points):
    text = json.dumps({"study": "dflash2-sweep", "scenario": SCENARIO, "points": points}, indent=1)
    partial = path.with_suffix(".partial")
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=pathlib.Path)
    what.add_argument("--print", type=pathlib.Path, dest="shown")
    parser.add_argument("--concurrency", default=",".join(map(str, REQUESTS)))
    arguments, options = parser.parse_known_args()

    points = load(arguments.shown or arguments.out)
    if arguments.out is not None:
        for concurrency in map(int, arguments.concurrency.split(",")):
            if any(point["concurrency"] == concurrency for point in points):
                continue
            points.append({"concurrency": concurrency, "requests": REQUESTS[concurrency],
                           "variants": measure(concurrency, options)})
            points.sort(key=lambda point: point["concurrency"])
            save(arguments.out, points)
    print_tables(points)
    return 0 if judge(points) else 1


if __name__ == "__main__":
    sys.exit(main())
