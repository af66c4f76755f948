#!/bin/sh
# Proves the image and compose.yaml: a cluster, a crawl of a website in a container beside it, one
# crawler more and two fewer while it runs, and the site's own log as the referee. Two minutes.
# KEEP=1 leaves it up.
set -eu
cd "$(dirname -- "$0")"
export COMPOSE_PROJECT_NAME=crawlstream-try CRAWLSTREAM_ALLOW_NETWORKS=172.31.250.0/24
export CRAWLSTREAM_API_KEYS=operate:only-for-this-trial REDIS_PASSWORD=only-for-this-trial KAFKA_PORT=29192 CRAWLSTREAM_REST_PORT=15343

compose() { docker compose -f compose.yaml -f compose.demo.yaml "$@"; }
scale() { compose up -d --no-recreate --scale crawler="$1" crawler; }
visits() { compose exec -T demo-site sh -c 'cat visits.jsonl 2>/dev/null | wc -l'; }
after() { while [ "$(visits)" -lt "$1" ] && kill -0 "$crawl" 2>/dev/null; do sleep 0.2; done; }

[ -n "${KEEP:-}" ] || trap 'compose --profile "*" down -v --timeout 5 >/dev/null 2>&1' EXIT
compose up -d --wait --scale crawler=2
compose run --rm -T crawlstream throttle set default --hits 25 --window 1
compose run --rm -T crawlstream crawl http://172.31.250.10:8000/ --depth 3 -o results.jsonl &
crawl=$!
after 50 && scale 3
after 150 && scale 1
after 300 && scale 2
wait $crawl
compose run --rm -T --entrypoint python crawlstream -P - <referee.py
