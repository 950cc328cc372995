#!/usr/bin/env bash
# The whole paper on one page: every command, and what it is for. Running it again continues where it stopped.
#
#   MMSPEC=FOLDER bash scripts/reproduce.sh              both 7B models on one GPU; FOLDER holds mmspec.jsonl and images/
#   MODEL=tiny_qwen LIMIT=20 bash scripts/reproduce.sh   the laptop edition: a bundled model on generated inputs
set -euo pipefail
cd "$(dirname "$0")/.."

MODEL=${MODEL:-qwen llava}
PYTHON=${PYTHON:-.venv/bin/python}
OUT=${OUT:-results/raw/${MODEL// /-}}      # records
TABLES=${TABLES:-results/${MODEL// /-}}    # tables and figures
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
    DATA=${DATA:-.cache/fixtures}
    PER_TOPIC=${PER_TOPIC:-4}
    "$PYTHON" scripts/make_fixtures.py "$DATA"
    at() { echo "bench=$1 bench.path=$DATA/$1"; }
    ;;
  *)  # the seven sets come from their hubs; MMSpec lies in a clone of its repository
    COMMON=(device=cuda dtype=bfloat16)
    PER_TOPIC=${PER_TOPIC:-20}
    : "${MMSPEC:?the folder of its mmspec.jsonl and images/ (dataset/MMSpec/test of a clone of its repository)}"
    at() { if [[ $1 == mmspec ]]; then echo "bench=mmspec bench.path=$MMSPEC"; else echo "bench=$1"; fi; }
    ;;
esac
SUBSET="$(at mmspec) bench.per_topic=$PER_TOPIC"

for model in $MODEL; do
  # 1. Main results: RECAP and Token Recycling against plain decoding, on seven single-turn sets and MMSpec.
  for bench in $SETS mmspec; do
    run model="$model" $(at $bench) method=recap 'versus=[token_recycling]'
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

  # 5. The same on generated charts, signs and grids: the one benchmark that everyone has.
  run model="$model" bench=synthetic method=recap 'versus=[token_recycling]'
  run model="$model" bench=synthetic experiment=ablations
done

# 6. Tables beside the published numbers, figures, and a report with a step inspector.
"$PYTHON" -m analysis.tables "$OUT" --out "$TABLES"
"$PYTHON" -m analysis.figures "$OUT" --out "$TABLES"
"$PYTHON" -m analysis.report "$OUT" --figures "$TABLES" --out "$TABLES/report.html"

if ((different)); then
  echo "some outputs differ from plain decoding: see the column 'equal' of the tables" >&2
  exit 3
fi
