#!/usr/bin/env bash
# The whole paper on one page: every command, and what it is for. Running it again continues where it stopped.
#
#   MMSPEC=FOLDER bash scripts/reproduce.sh              both 7B models on one GPU; FOLDER holds mmspec.jsonl and images/
#   MODEL=tiny_qwen LIMIT=20 bash scripts/reproduce.sh   the laptop edition: a bundled model on generated inputs
set -euo pipefail
cd "$(dirname "$0")/.."

MODEL=${MODEL:-qwen llava}
PYTHON=${PYTHON:-.venv/bin/python}
SETS="chartqa mathvista mmt_bench ocrbench scienceqa seed_bench textvqa"
FOUR="chartqa mmt_bench ocrbench textvqa"
different=0

run() {  # one cell; outputs that differ from plain decoding (exit code 3) are reported at the end, all else stops here
  echo "+ python run.py $*"
  "$PYTHON" run.py out="$OUT" ${LIMIT:+limit=$LIMIT} "${COMMON[@]}" "$@" || { (($? == 3)) && different=1; }
}

case $MODEL in
  tiny_*)  # eight sets with the real ones' columns and generated contents, since the real ones are not for laptops
    COMMON=(device=cpu dtype=float32)
    OUT=${OUT:-results/local/laptop}   # records: what a run writes, not kept in the repository
    RESULTS=${RESULTS:-results/laptop} # integers a request, tables and figures: small enough to keep
    DATA=${DATA:-.cache/fixtures}
    PER_TOPIC=${PER_TOPIC:-4}
    "$PYTHON" scripts/make_fixtures.py "$DATA"
    at() { echo "bench=$1 bench.path=$DATA/$1"; }
    ;;
  *)  # the seven sets come from their hubs; MMSpec lies in a clone of its repository
    COMMON=(device=cuda dtype=bfloat16)
    OUT=${OUT:-results/raw/${MODEL// /-}}
    RESULTS=${RESULTS:-results/${MODEL// /-}}
    PER_TOPIC=${PER_TOPIC:-20}
    : "${MMSPEC:?the folder of its mmspec.jsonl and images/ (dataset/MMSpec/test of a clone of its repository)}"
    at() { if [[ $1 == mmspec ]]; then echo "bench=mmspec bench.path=$MMSPEC"; else echo "bench=$1"; fi; }
    ;;
esac
SUBSET="$(at mmspec) bench.per_topic=$PER_TOPIC"

for model in $MODEL; do
  # 1. Main results: RECAP and Token Recycling against plain decoding, on seven single-turn sets and MMSpec. Once all is
  #    timed, the rows along the greedy paths are recorded, for 6.
  for bench in $SETS mmspec; do
    run model="$model" $(at $bench) method=recap 'versus=[token_recycling]' record=rows
  done

  # 2. What each part of RECAP is worth: the cumulative ladder on MMSpec's first inputs of each topic.
  run model="$model" $SUBSET experiment=ablations

  # 3. Controls on four sets: weighing rows by confidence (50 inputs a set), the suffix (100 inputs a set).
  for bench in $FOUR; do
    run model="$model" $(at $bench) experiment=control_confidence
    run model="$model" $(at $bench) experiment=control_suffix
  done

  # 4. Does one-token memory gain from what came before? It depends on the order of the stream, so over five of them.
  for order in 0 1 2 3 4; do
    run model="$model" $SUBSET bench.order=$order experiment=control_persistence
  done

  # 5. The same on generated charts, signs and grids, the one benchmark that everyone has; here with every baseline.
  run model="$model" bench=synthetic experiment=baselines record=rows
  run model="$model" bench=synthetic experiment=ablations

  # 6. A few inputs with every step written down, for the report's step inspector.
  run model="$model" bench=synthetic method=recap 'versus=[token_recycling]' trace=true limit=8
done

# 7. What the memories know, from the recorded rows alone; and what the image has to do with it, under other images, the
#    first 100 inputs of each set.
"$PYTHON" -m runners.replay "$OUT"
"$PYTHON" -m runners.counterfactual "$OUT" --limit 100

# 8. What the tables and figures are made of, without what only a rerun needs; tables beside the published numbers,
#    figures, and a report with a step inspector.
"$PYTHON" -m analysis.compact "$OUT" "$RESULTS/cells"
"$PYTHON" -m analysis.tables "$RESULTS"
"$PYTHON" -m analysis.figures "$RESULTS"
"$PYTHON" -m analysis.report "$OUT" --figures "$RESULTS/figures" --out "$RESULTS/report.html"

if ((different)); then
  echo "some outputs differ from plain decoding: see the column 'equal' of the tables" >&2
  exit 3
fi
