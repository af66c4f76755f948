#!/bin/bash
# Proves the images and compose.yaml on the engine of this machine: a cluster crawls a website in a
# container beside it, and the website's own log is the referee. The crawls, some ten minutes together:
#
#   scaled      crawlers are added and taken away
#   restarted   each container is restarted
#   killed      each container is killed
#   full        Redis' volume is filled up, and room is made again
#   partitioned a Redis Cluster in place of the one Redis, and one of its primaries is killed
#   daemon      the engine itself is restarted by RESTART_DAEMON, if that is set
#   rendered    the image `renderer`: links exist only once a browser has run the script of the page
#   stored      the image `pipeline`: each page is once in Parquet, JSON lines and SQLite
#   disguised   the image `tls`: the site is behind TLS, and is asked with the handshake of a browser
#
#   docker/try.sh [--servers] [CRAWL...]
#   RESTART_DAEMON='systemctl restart docker' docker/try.sh
#
# --servers builds Kafka, ZooKeeper and Redis, too (compose.servers.yaml). KEEP=1 leaves the cluster up.
set -euo pipefail
cd "$(dirname -- "$0")"
export COMPOSE_PROJECT_NAME=crawlstream-try CRAWLSTREAM_ALLOW_NETWORKS=172.31.250.0/24
export USER_AGENT="crawlstream-trial (+https://example.com)" CRAWLSTREAM_API_KEYS=operate:only-for-this-trial REDIS_PASSWORD=only-for-this-trial KAFKA_PORT=29192 CRAWLSTREAM_REST_PORT=15343
files=(-f compose.yaml)
[ "${1:-}" != --servers ] || { files+=(-f compose.servers.yaml) && shift; }
files+=(-f compose.demo.yaml)
services=(kafka-monitor redis-monitor crawler rest zookeeper redis kafka)

compose() { docker compose --progress quiet "${files[@]}" "$@"; }
verb() { compose run --rm -T crawlstream "$@"; }
scale() { compose up -d --no-recreate --scale crawler="$1" crawler; }
visits() { compose exec -T demo-site sh -c 'cat visits.jsonl 2>/dev/null | wc -l' || echo 0; }
down() { compose --profile '*' down -v --timeout 5 >/dev/null 2>&1; }

after() { # waits until the site has had so many visits
    for _ in $(seq 300); do
        [ "$(visits)" -lt "$1" ] || return 0
        sleep 0.5
    done
    echo "the site has had $(visits) visits after minutes, not $1" >&2
    return 1
}

up() {
    compose up -d --build --wait --scale crawler=2
    verb throttle set default --hits 25 --window 1
}

begin() { # NAME [OPTION...]: a crawl of a site that nobody has seen yet
    echo "--- $1"
    shift
    compose rm --stop --force demo-site
    compose run --rm -T --entrypoint rm crawlstream -f visits.jsonl results.jsonl
    compose up -d --no-recreate --wait demo-site
    crawl=$(verb crawl "${scheme:-http}://172.31.250.10:8000/" --depth 3 --detach "$@")
}

end() { # follows it to its end, and asks the referee
    verb crawl --attach "$crawl" -o results.jsonl
    compose run --rm -T --entrypoint python crawlstream -P - "$@" <referee.py
}

scaled() {
    begin scaled
    after 50; scale 3
    after 150; scale 1
    after 300; scale 2
    end once
}

restarted() {
    begin restarted
    local number=0
    for service in "${services[@]}"; do
        after $((number += 50))
        compose restart "$service"
    done
    end once
}

killed() {
    begin killed
    local number=0
    for service in "${services[@]}"; do
        after $((number += 50))
        compose kill "$service"
        compose start "$service"
    done
    end
}

full() {
    down
    files+=(-f compose.full.yaml)
    up
    begin full
    after 100
    compose exec -T redis sh -c 'cat /dev/zero >/data/ballast' || true
    sleep 10
    echo "with a full volume the site has had $(visits) visits"
    compose exec -T redis rm /data/ballast
    end
}

partitioned() {
    down
    local files=("${files[@]}" -f compose.partitions.yaml)
    up
    begin partitioned
    after 100
    compose kill redis-2
    after 200
    compose start redis-2
    end
    down
}

daemon() {
    [ -n "${RESTART_DAEMON:-}" ] || { echo 'daemon: RESTART_DAEMON is not set' && return; }
    begin daemon
    after 150
    $RESTART_DAEMON
    after 200
    end
}

rendered() {
    local files=("${files[@]}" -f compose.scripted.yaml)
    compose --profile rendering up -d --build --no-recreate --wait renderer
    begin rendered --render
    end once --further 3
    compose --profile rendering rm --stop --force renderer
}

stored() {
    export CRAWLSTREAM_PIPELINE_TARGET=pipeline CRAWLSTREAM_PIPELINES_FILE=./trial.pipelines.toml
    compose --profile pipeline up -d --build --no-recreate --wait pipeline
    begin stored
    end once
    # What a process has not stored when it is stopped, the next does.
    compose --profile pipeline stop pipeline
    compose run --rm -T pipeline pipeline run --until-end
    compose run --rm -T --entrypoint cat crawlstream results.jsonl |
        compose run --rm -T -v "$PWD/stored.py:/stored.py:ro" --entrypoint python pipeline -P /stored.py
}

disguised() {
    down
    export CRAWLSTREAM_TLS_PROFILES=default,chrome,firefox,safari
    local files=("${files[@]}" -f compose.secure.yaml) scheme=https profile
    compose run --rm -T --no-deps --entrypoint openssl crawlstream req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
        -days 2 -subj /CN=trial -addext subjectAltName=IP:172.31.250.10 -keyout key.pem -out certificate.pem
    compose run --rm -T --no-deps --entrypoint sh crawlstream -c 'cat key.pem certificate.pem >site.pem'
    up
    for profile in chrome firefox safari; do
        begin "disguised as $profile" --tls "$profile"
        end once --tls "$profile"
    done
}

[ $# -gt 0 ] || set -- scaled restarted killed daemon full rendered stored disguised partitioned
[ -n "${KEEP:-}" ] || trap down EXIT
up
for each in "$@"; do
    "$each"
done
echo 'All is as it must be.'
