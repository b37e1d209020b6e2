"""A serving engine of known costs, stepped token by token: an oracle for calibrate and validate."""
import json

import support

RTX_4090 = support.TOP / "validation" / "scenarios" / "rtx-4090-llama-3.1-8b.json"

STEP_S, QUERY_S, ROW_S, TOKEN_S = 15e-3, 80e-6, 0.3e-6, 95e-6
LENGTHS = [(300 + 541 * i % 1700, 60 + 277 * i % 240) for i in range(60)]


def engine(concurrency, arrivals=None, chunk=2048):
    """A closed loop of so many at once, or requests as they arrive; prompts are computed in chunks
    beside decoding. Of each request: when it was sent, input, output, when each token came."""
    waiting, sent, running, now = list(range(len(LENGTHS))), [], [], 0.0
    times, began = {}, {}

    def send():
        while waiting and (arrivals[waiting[0]] <= now if arrivals else
                           len(sent) + len(running) < concurrency):
            index = waiting.pop(0)
            began[index] = arrivals[index] if arrivals else now
            sent.append([index, LENGTHS[index][0]])

    send()
    while sent or running or waiting:
        if not sent and not running:
            now = arrivals[waiting[0]]
            send()
        budget, prompts, done = chunk - len(running), 0, []
        for entry in sent:
            part = min(budget, entry[1])
            entry[1] -= part
            budget -= part
            prompts += part
            if entry[1] == 0:
                done.append(entry)
        rows = sum(LENGTHS[i][0] + len(times[i]) for i in running)
        now += STEP_S + QUERY_S * len(running) + ROW_S * rows + TOKEN_S * prompts
        for i in list(running):
            times[i].append(now)
            if len(times[i]) == LENGTHS[i][1]:
                running.remove(i)
        for entry in done:
            sent.remove(entry)
            times[entry[0]] = [now]
            running.append(entry[0])
        send()
    return [(began[i], *LENGTHS[i], times[i]) for i in sorted(began)]


def bench(served, **more):
    """As `vllm bench serve --save-result --save-detailed` has it."""
    gaps = [[b - a for a, b in zip(t, t[1:])] for _, _, _, t in served]
    tpots = [(t[-1] - t[0]) / (out - 1) for _, _, out, t in served]
    duration = max(t[-1] for *_, t in served)
    outputs = sum(out for _, _, out, _ in served)
    mean = lambda values: sum(values) / len(values)
    return {"duration": duration, "completed": len(served),
            "total_input_tokens": sum(n for _, n, _, _ in served), "total_output_tokens": outputs,
            "request_throughput": len(served) / duration, "output_throughput": outputs / duration,
            "mean_ttft_ms": 1e3 * mean([t[0] - s for s, _, _, t in served]),
            "mean_tpot_ms": 1e3 * mean(tpots),
            "input_lens": [n for _, n, _, _ in served], "output_lens": [n for _, _, n, _ in served],
            "ttfts": [t[0] - s for s, _, _, t in served], "itls": gaps,
            "start_times": [5000 + s for s, _, _, _ in served], "errors": [""] * len(served),
            **more}


def scenario(folder, name="llama.json", changes=None):
    tree = json.loads(RTX_4090.read_text(encoding="utf-8"))
    tree["workload"] = {"arrival": "closed", "concurrency": 8, "requests": 60,
                        "lengths": {"input": {"law": "empirical", "path": "inputs.csv"},
                                    "output": {"law": "empirical", "path": "outputs.csv"}}}
    (folder / "inputs.csv").write_text("".join("%d\n" % n for n, _ in LENGTHS))
    (folder / "outputs.csv").write_text("".join("%d\n" % n for _, n in LENGTHS))
    (folder / name).write_text(json.dumps(support.changed(tree, changes or {})), encoding="utf-8")
    return name


def write(folder, name, tree):
    (folder / name).write_text(json.dumps(tree) + "\n", encoding="utf-8")
    return name
