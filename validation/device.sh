#!/usr/bin/env bash
# device.sh -- everything that a machine with a GPU is needed for, from the unpacked tarball.
#
#     validation/device.sh [PART]...      default: all parts, in the order of the table below, but
#                                         for those in parentheses, which take long
#
# Nothing need be installed but the driver. Results go to $OUT (default: out/device), a JSON file
# for each group (seven at most), with the date, the GPU, the driver and the command behind every
# figure; what programs say besides is in device.log. A failure stops nothing. The last line is the verdict.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
OUT=${OUT:-out/device}
export KVT_DATA=${KVT_DATA:-$PWD/share/kvt} # for device tests that are the whole program

# part | file | seconds a command may take | GPUs it wants | command. A word that begins with *
# stands for each matching program of tests/cuda in turn. A part in parentheses is run where it is
# named.
parts() {
    cat <<'TABLE'
machine   | device    |  30 | 1 | bin/kvtide check --machine --json
tests     | tests     | 120 | 1 | *test_*
bench     | bench     | 120 | 1 | *bench_*
bench     | bench     | 120 | 1 | tests/cuda/bench_gaps validation/scenarios/h200-glm-5.3-100k-dflash2.json --steps 100 --threads 16
sanitizer | tests     | 120 | 1 | compute-sanitizer --tool memcheck --error-exitcode 9 *test_rows
sanitizer | tests     | 120 | 1 | compute-sanitizer --tool racecheck --error-exitcode 9 *test_rows
sanitizer | tests     | 120 | 1 | compute-sanitizer --tool memcheck --error-exitcode 9 tests/cuda/test_resolve small
sanitizer | tests     | 120 | 1 | compute-sanitizer --tool racecheck --error-exitcode 9 tests/cuda/test_resolve small
sanitizer | tests     | 120 | 1 | compute-sanitizer --tool memcheck --error-exitcode 9 tests/cuda/test_draft small
sanitizer | tests     | 120 | 1 | compute-sanitizer --tool racecheck --error-exitcode 9 tests/cuda/test_draft small
sanitizer | tests     | 120 | 1 | compute-sanitizer --tool memcheck --error-exitcode 9 tests/cuda/test_attend small
sanitizer | tests     | 120 | 1 | compute-sanitizer --tool racecheck --error-exitcode 9 tests/cuda/racecheck_attend small
sanitizer | tests     | 120 | 1 | compute-sanitizer --tool memcheck --error-exitcode 9 tests/cuda/test_select small
sanitizer | tests     | 120 | 1 | compute-sanitizer --tool racecheck --error-exitcode 9 tests/cuda/racecheck_select small
sanitizer | tests     | 120 | 1 | compute-sanitizer --tool memcheck --error-exitcode 9 tests/cuda/test_backend turns-k8 -s 2
sanitizer | tests     | 120 | 1 | compute-sanitizer --tool memcheck --error-exitcode 9 tests/cuda/test_backend fast-k4 -s 1
sanitizer | tests     | 120 | 1 | compute-sanitizer --tool racecheck --error-exitcode 9 tests/cuda/racecheck_backend indexer-k4 -s 1
decisions | decisions |  60 | 1 | bin/kvtide validate --suite decisions --quick --json --quiet --threads 15
decisions | decisions | 400 | 1 | bin/kvtide validate --suite decisions --json --quiet --threads 15
lockstep  | lockstep  |  60 | 1 | bin/kvtide validate validation/scenarios/lockstep-small.json --json --quiet --threads 8
lockstep  | lockstep  |  60 | 1 | bin/kvtide validate validation/scenarios/lockstep-small.json --corrupt --steps 8 --json --quiet --threads 8
lockstep  | lockstep  | 120 | 1 | bin/kvtide validate validation/scenarios/lockstep-100k.json --steps 200 --json --quiet --threads 16
policy    | policy    | 120 | 1 | bin/kvtide validate validation/scenarios/h200-policy-lab.json --plugin share/kvt/example/hot_pages.so --set residency=hot-pages --json --quiet --threads 16
policy    | policy    | 120 | 1 | bin/kvtide validate validation/scenarios/h200-policy-lab.json --plugin share/kvt/example/hot_pages.so --set residency=hot-pages --set replacement=s3fifo --json --quiet --threads 16
policy    | policy    | 120 | 1 | bin/kvtide trace record validation/scenarios/h200-policy-lab.json --set run.clock=predicted --set residency=hisparse --set selection=indexer --to gpu.kvsel --json --quiet --threads 16
policy    | policy    | 120 | 1 | bin/kvtide trace replay gpu.kvsel --json --quiet --threads 16
policy    | policy    | 120 | 1 | bin/kvtide trace replay gpu.kvsel --backend cuda --json --quiet --threads 16
policy    | policy    | 120 | 1 | bin/kvtide trace mrc gpu.kvsel --at 1,2,4 --policies lru,s3fifo,belady --json --quiet --threads 16
glm       | glm       | 120 | 1 | bin/kvtide validate validation/scenarios/h200-glm-5.3-100k.json --json --quiet --threads 16
glm       | glm       | 200 | 1 | bin/kvtide validate validation/scenarios/h200-glm-5.3-100k-dflash2.json --steps 300 --json --quiet --threads 16
glm       | glm       | 200 | 1 | bin/kvtide validate validation/scenarios/h200-glm-5.3-100k-dflash2.json --set backend.host_layout=layer --steps 100 --json --quiet --threads 16
(load-step) | glm     | 570 | 1 | bin/kvtide validate validation/scenarios/h200-load-step.json --json --quiet --threads 16
calibrate | glm       | 400 | 1 | bin/kvtide calibrate --json --quiet --threads 16
time      | glm       | 400 | 1 | bin/kvtide validate --suite time --json --quiet --threads 16
two-gpus  | two-gpus  | 120 | 1 | bin/kvtide validate validation/scenarios/h200-two-ranks.json --set backend.devices=[0] --json --quiet --threads 16
two-gpus  | two-gpus  | 120 | 2 | tests/cuda/bench_link
two-gpus  | two-gpus  | 120 | 2 | bin/kvtide calibrate --only 2gpus --json --quiet --threads 16
two-gpus  | two-gpus  | 120 | 2 | bin/kvtide validate --suite time --only 2gpus --json --quiet --threads 16
two-gpus  | two-gpus  | 120 | 2 | bin/kvtide validate validation/scenarios/h200-two-ranks.json --set backend.devices=[0,1] --json --quiet --threads 16
TABLE
}

usage() {
    {
        echo "device.sh: there is no part \"$1\""
        sed -n '2,5s/^# \{0,1\}//p' "$0"
        echo "parts: $(names | tr '\n' ' ')"
    } >&2
    exit 2
}

names() {
    parts | cut -d'|' -f1 | tr -d ' ()' | uniq
}

# --- JSON ------------------------------------------------------------------------------------------

# Standard input as the inside of a JSON string; a tab and other controls become blanks.
escaped() {
    tr '\000-\010\011\013-\037' ' ' | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g'
}

# What a program printed: one document, or lines that are objects, and lines of text.
results_of() {
    local printed=$1
    if [ "$(head -n 1 "$printed")" = '{' ]; then
        printf '"document": '
        cat "$printed"
        return
    fi
    printf '"results": [%s], "text": [%s]' \
        "$(grep '^{' "$printed" | sed '$!s/$/,/')" \
        "$(grep -v '^{' "$printed" | escaped | sed -e 's/^/"/' -e 's/$/"/' -e '$!s/$/,/')"
}

# --- Commands --------------------------------------------------------------------------------------

passed=0 failed=0 skipped=0 not_run=0

# run_one FILE SECONDS GPUS COMMAND...: its result becomes an entry of $OUT/FILE.json.
run_one() {
    local file=$1 limit=$2 wanted=$3 status started seconds verdict
    shift 3
    if [ "$gpus" -lt "$wanted" ]; then
        verdict='not run' seconds=0
        echo "GPUs wanted: $wanted, here: $gpus" >"$scratch/printed"
    elif ! command -v "$1" >/dev/null; then
        verdict='not run' seconds=0
        echo "no $1 on this machine" >"$scratch/printed"
    else
        printf '== %s\n' "$*" >>"$OUT/device.log"
        started=$(date +%s.%N)
        timeout --kill-after=10 "$limit" "$@" >"$scratch/printed" 2>>"$OUT/device.log" </dev/null
        status=$?
        seconds=$(date +%s.%N | awk -v started="$started" '{ printf "%.2f", $1 - started }')
        case $status in
        0) verdict=passed ;;
        77) verdict=skipped ;;
        124 | 137) verdict="failed: ended after $limit s" ;;
        *) verdict="failed: status $status" ;;
        esac
        grep -v '^{' "$scratch/printed" >>"$OUT/device.log"
    fi
    case $verdict in
    passed) passed=$((passed + 1)) ;;
    skipped) skipped=$((skipped + 1)) ;;
    'not run') not_run=$((not_run + 1)) ;;
    *) failed=$((failed + 1)) ;;
    esac
    {
        printf '{"command": "%s", "verdict": "%s", "seconds": %s,\n' \
            "$(printf '%s' "$*" | escaped)" "$verdict" "$seconds"
        results_of "$scratch/printed"
        printf '}\n'
    } >"$scratch/entry"
    [ ! -s "$scratch/$file" ] || echo , >>"$scratch/$file"
    cat "$scratch/entry" >>"$scratch/$file"
    printf '%-24s %8.1f s  %s\n' "$verdict" "$seconds" "$*"
}

# A command of the table, once or once for each program that its * names.
run_line() {
    local file=$1 limit=$2 wanted=$3 word program
    shift 3
    local -a words=("$@")
    for word in "${!words[@]}"; do
        [[ ${words[word]} == \** ]] || continue
        for program in tests/cuda/${words[word]#\*}; do
            run_one "$file" "$limit" "$wanted" "${words[@]:0:word}" "$program" \
                "${words[@]:word+1}"
        done
        return
    done
    run_one "$file" "$limit" "$wanted" "${words[@]}"
}

# --- Main ------------------------------------------------------------------------------------------

chosen=("$@")
for part in ${chosen[@]+"${chosen[@]}"}; do
    names | grep -qxF -- "$part" || usage "$part"
done
is_chosen() {
    local name=${1//[()]/}
    if [ "${#chosen[@]}" = 0 ]; then
        [ "$name" = "$1" ]
    else
        printf '%s\n' "${chosen[@]}" | grep -qxF -- "$name"
    fi
}

mkdir -p "$OUT" || exit 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
: >"$OUT/device.log"
gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU')
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | sort | uniq -c |
    sed -e 's/^ *//' | paste -sd ';' -)

build=$(bin/kvtide --version 2>/dev/null)

while IFS='|' read -r part file limit wanted command; do
    read -ra words <<<"$command"
    ! is_chosen "${part// /}" ||
        run_line "${file// /}" "${limit// /}" "${wanted// /}" "${words[@]}"
done < <(parts)

for entries in "$scratch"/*; do
    name=${entries##*/}
    case $name in printed | entry) continue ;; esac
    {
        printf '{"date": "%s", "gpu": "%s", "kernel": "%s", "build": "%s", "commands": [\n' \
            "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(printf '%s' "${gpu:-none}" | escaped)" \
            "$(uname -sr)" "$(printf '%s' "$build" | escaped)"
        cat "$entries"
        printf ']}\n'
    } >"$OUT/$name.json"
done
echo "device.sh: $passed passed, $failed failed, $skipped skipped, $not_run not run, in" \
    "$SECONDS s; results in $OUT"
if [ $((passed + failed + skipped)) = 0 ]; then
    echo "device.sh: nothing ran: $gpus GPUs here" >&2
    exit 3
fi
[ "$failed" = 0 ]
