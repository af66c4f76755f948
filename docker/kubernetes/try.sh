#!/bin/bash
# Proves the chart on the Kubernetes that kubectl reaches: a release crawls a website in a pod beside it,
# and the website's own log is the referee. Some twelve minutes together:
#
#   checked     network policies, rights, limits and probes do what the chart says
#   scaled      the autoscaler adds crawlers while pages wait, and takes them away
#   drained     each node of the release is drained and comes back
#   noticed     each crawler gets a notice of its machine's end, and its pod is gone when it has left
#   upgraded    every pod is replaced by an upgrade, and by a way back; REST answers all along
#   killed      of each Deployment one process is killed, and the pod beside it deleted by force
#   hung        a crawler hangs, until its probe finds it
#
#   docker/kubernetes/try.sh [CRAWL...]
#
# The nodes need the images, or must be able to pull them: IMAGE and NEXT (two tags of one repository, both
# this version), KAFKA_IMAGE, ZOOKEEPER_IMAGE, REDIS_IMAGE. For kind: kind load docker-image NAME…
# It works in the namespace crawlstream-try, which must not exist and is deleted at the end, unless KEEP=1.
# The pods' network must enforce NetworkPolicy, and the group external.metrics.k8s.io must be free.
# What stands in single quotes is for the shells of pods.
# shellcheck disable=SC2016
set -Eeuo pipefail
cd "$(dirname -- "$0")"
namespace=crawlstream-try release=crawl name=crawl-crawlstream
image=${IMAGE:-crawlstream:0.1.0} next=${NEXT:-crawlstream:next}
trap 'echo "WRONG: line $LINENO: $BASH_COMMAND" >&2' ERR
components=(kafka-monitor redis-monitor rest crawler-link)
files=$(mktemp -d)

k() { kubectl -n "$namespace" "$@"; }
fail() { echo "WRONG: $*" >&2; exit 1; }
in_site() { k exec -i site -- "$@"; }
verb() { in_site crawlstream "$@"; }
pods() { k get pods -l "app.kubernetes.io/instance=$release,app.kubernetes.io/component=$1" --field-selector=status.phase=Running -o name; }
visits() { in_site sh -c 'cat visits.jsonl 2>/dev/null | wc -l'; }
rolled() { for each in "${components[@]}"; do k rollout status --timeout=240s "deployment/$name-$each" >/dev/null; done; }
wanted() { k get "deployment/$name-crawler-link" -o 'jsonpath={.spec.replicas}'; }
restarts() { k get pods -l "app.kubernetes.io/instance=$release" -o 'jsonpath={range .items[*]}{.metadata.name}={.status.containerStatuses[0].restartCount} {end}'; }

until_true() { # SECONDS WHAT COMMAND...
    local seconds=$1 what=$2
    shift 2
    for _ in $(seq "$seconds"); do
        ! "$@" || return 0
        sleep 1
    done
    fail "after $seconds seconds still not so: $what"
}

visited() { [ "$(visits)" -ge "$1" ]; }
after() { until_true 240 "the site has had $1 visits" visited "$1"; }

values() { # all addresses but the site's are internal: the policy is shown to let nothing else through
    local internal
    internal=$(in_site python -P -c 'if True:
        import ipaddress, json, sys
        others = [ipaddress.ip_network("0.0.0.0/0")]
        site = ipaddress.ip_network(sys.argv[1])
        print(json.dumps([str(each) for each in others[0].address_exclude(site)]))' "$site")
    cat <<END
image: {repository: ${image%:*}, tag: "${image##*:}"}
kafka: {hosts: "kafka:9092", partitions: 4, replication: 1}
redis: {host: redis, passwordSecret: redis}
zookeeper: {hosts: "zookeeper:2181"}
settings:
  USER_AGENT: crawlstream-trial (+https://example.com)
  CRAWLSTREAM_ALLOW_NETWORKS: $site/32
kafkaMonitor: {resources: &small {requests: {cpu: 20m, memory: 128Mi}, limits: {memory: 512Mi}}}
redisMonitor: {resources: *small}
rest: {apiKeysSecret: rest, resources: *small}
crawlers: {link: {cpu: 50m, memoryMb: 256, terminationGracePeriodSeconds: 25}}
networkPolicy: {enabled: true, internalNetworks: $internal}
END
}

deploy() { helm upgrade --install "$release" ../helm/crawlstream -n "$namespace" -f "$files/values.yaml" --wait --timeout 5m "$@" >/dev/null; }

up() {
    ! kubectl get namespace "$namespace" >/dev/null 2>&1 || fail "there is a namespace $namespace: kubectl delete namespace $namespace"
    trap down EXIT
    kubectl create namespace "$namespace"
    k create secret generic redis --from-literal=password=only-for-this-trial
    k create secret generic rest --from-literal=keys=operate:only-for-this-trial
    sed "s|CRAWLSTREAM_IMAGE|$image|; s|ZOOKEEPER_IMAGE|${ZOOKEEPER_IMAGE:-zookeeper:3.9.5}|
         s|KAFKA_IMAGE|${KAFKA_IMAGE:-apache/kafka:4.4.0}|; s|REDIS_IMAGE|${REDIS_IMAGE:-redis:7.4}|" servers.yaml | k apply -f -
    k wait --for=condition=Ready --timeout=240s pod --all
    site=$(k get pod site -o 'jsonpath={.status.podIP}')
    values >"$files/values.yaml"
    deploy
}

down() {
    [ -n "${KEEP:-}" ] || {
        kubectl get nodes -o name | xargs kubectl uncordon
        kubectl delete --ignore-not-found apiservice -l app=crawlstream-try
        kubectl delete --ignore-not-found --timeout=120s namespace "$namespace"
    } >/dev/null
    rm -r "$files"
}

begin() { # NAME HITS: a crawl of a site that nobody has seen yet, at so many pages a second
    echo "--- $1"
    hits=$2
    verb throttle set default --hits "$hits" --window 1 >/dev/null
    in_site sh -c 'rm -f visits.jsonl results.jsonl && kill "$(cat /tmp/site.pid)"'
    until_true 60 'the site is ready' reaches pod/site "$site" 8000
    crawl=$(verb crawl "http://$site:8000/" --depth 3 --detach)
}

end() { # follows it to its end, and asks the referee
    verb crawl --attach "$crawl" -o results.jsonl
    in_site python -P - --host "$site" --hits "$hits" "$@" <../referee.py
}

reaches() { # WHO ADDRESS PORT
    k exec "$1" -- python -P -c 'import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)' "$2" "$3" >/dev/null 2>&1
}

policies() {
    local rest="$name-rest" crawler="deployment/$name-crawler-link" monitor="deployment/$name-kafka-monitor" pod
    pod=$(k get "$(pods rest | sed -n 1p)" -o 'jsonpath={.status.podIP}')
    reaches "$crawler" "$site" 8000 || fail 'a crawler does not reach the site'
    reaches "$crawler" kafka 9092 || fail 'a crawler does not reach Kafka'
    reaches pod/site "$rest" 80 || fail 'REST cannot be reached'
    reaches pod/site "$pod" 9100 || fail 'metrics cannot be reached'
    ! reaches "$crawler" "$pod" 5343 || fail 'a crawler reaches an internal address: is NetworkPolicy enforced here?'
    ! reaches "$crawler" kubernetes.default 443 || fail 'a crawler reaches the API of Kubernetes'
    ! reaches "$monitor" "$site" 8000 || fail 'a monitor reaches the web'
    echo 'network policies: kept'
}

rights() {
    local each limit
    for each in "${components[@]}"; do
            k exec "deployment/$name-$each" -- sh -c '! touch /opt/x 2>/dev/null && [ "$(id -u)" = 10001 ] && ! grep -Eq "^Cap(Prm|Eff|Bnd):.0*[1-9a-f]" /proc/self/status && grep -q "^NoNewPrivs:.*1" /proc/self/status && grep -q "^Seccomp:.*2" /proc/self/status' ||
            fail "$each has more rights than it should"
        limit=$(k exec "deployment/$name-$each" -- sh -c 'cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || true')
        [ "$limit" -lt 1000000000 ] || fail "$each has no limit of memory: $limit"
    done
    echo 'rights and limits: as the chart says'
}

endpoints() { k get endpointslices -l "kubernetes.io/service-name=$name-rest" -o 'jsonpath={.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}' | wc -w; }
endpoints_are() { [ "$(endpoints)" = "$1" ]; }

probes() { # a Redis that does not answer for some time
    local before
    before=$(restarts)
    k exec deployment/redis -- sh -c 'redis-cli -a "$REDIS_PASSWORD" --no-auth-warning client pause 60000' >/dev/null
    until_true 60 'REST is out of its Service without Redis' endpoints_are 0
    until_true 90 'REST is in its Service again' endpoints_are 2
    rolled
    [ "$(restarts)" = "$before" ] || fail "a probe has ended processes that only waited: $before, $(restarts)"
    echo 'probes: without Redis no process is ready, and none is restarted'
}

checked() {
    echo '--- checked'
    policies
    rights
    probes
}

fewer() { [ "$(wanted)" -lt "$1" ]; }
more() { [ "$(wanted)" -gt "$1" ]; }

scaled() {
    ! kubectl get apiservice v1beta1.external.metrics.k8s.io >/dev/null 2>&1 || fail 'something serves external.metrics.k8s.io here: scaled cannot'
    openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=metrics -keyout "$files/tls.key" -out "$files/tls.crt" 2>/dev/null
    k create secret tls metrics --cert "$files/tls.crt" --key "$files/tls.key"
    k create configmap metrics --from-file=metrics.py
    sed "s|CRAWLSTREAM_IMAGE|$image|; s|NAMESPACE|$namespace|" metrics.yaml | k apply -f -
    k rollout status --timeout=120s deployment/metrics
    kubectl wait --for=condition=Available --timeout=60s apiservice v1beta1.external.metrics.k8s.io
    deploy --set-json 'crawlers.link.autoscaling={"kind":"hpa","min":1,"max":3,"queuePerWorker":100,"calmSeconds":10}'
    until_true 120 'an idle release has one crawler' fewer 2
    begin scaled 10
    until_true 120 'pages that wait bring more crawlers' more 2
    echo "crawlers: $(wanted), at $(visits) visits"
    end once
    until_true 150 'without pages crawlers are taken away' fewer 3
    echo "crawlers: $(wanted)"
    deploy
}

drained() {
    local node nodes
    nodes=$(k get pods -l "app.kubernetes.io/instance=$release" -o 'jsonpath={.items[*].spec.nodeName}' | xargs -n1 | sort -u)
    begin drained 5
    after 50
    # Twice: where there is no other node, the budgets keep one of each monitor, and a drain gives up.
    for node in $nodes $nodes; do
        kubectl drain "$node" --pod-selector "app.kubernetes.io/instance=$release" --delete-emptydir-data --timeout 15s >"$files/drain" 2>&1 || true
        [ -n "$(pods kafka-monitor)" ] || fail 'a drain has left no kafka-monitor'
        echo "evicted: $(grep -c 'evicted$' "$files/drain" || true), put off by a budget: $(grep -o 'pods/"[^"]*".*violate' "$files/drain" | sort -u | wc -l)"
        kubectl uncordon "$node" >/dev/null
        rolled
    done
    echo "drained at $(visits) visits"
    end once
}

noticed() {
    deploy --set-json 'crawlers.link.extraSettings={"CRAWLSTREAM_NOTICE":"file:/tmp/spot","CRAWLSTREAM_NOTICE_S":20}'
    local each
    begin noticed 5
    after 50
    for each in $(pods crawler-link); do
        k exec "$each" -- touch /tmp/spot
        until_true 20 "$each has ended by its notice" ended "$each"
        k delete "$each" --force --grace-period=0
        rolled
    done
    end once
    deploy
}
ended() { [ -n "$(k get "$1" -o 'jsonpath={.status.containerStatuses[0].lastState.terminated.reason}{.status.containerStatuses[0].state.terminated.reason}')" ]; }

images() { k get pods -l "app.kubernetes.io/instance=$release" -o 'jsonpath={.items[*].spec.containers[0].image}' | xargs -n1 | sort -u; }
images_are() { [ "$(images)" = "$1" ]; }

upgraded() {
    local asking
    begin upgraded 5
    after 20
    in_site sh -c 'rm -f /tmp/asked; touch /tmp/asking'
    in_site python -P - "$name-rest" <<'END' >"$files/asked" &
import os, sys, time
from urllib.request import Request, urlopen
page = Request(f"http://{sys.argv[1]}/", headers={"Authorization": "Bearer only-for-this-trial"})
good, bad = 0, []
while os.path.exists("/tmp/asking"):
    try:
        urlopen(page, timeout=5).read()
        good += 1
    except OSError as error:
        bad.append(repr(error))
    time.sleep(0.2)
print(f"REST: {good} answers, {len(bad)} failures", *bad[:3])
sys.exit(bool(bad))
END
    asking=$!
    deploy --set "image.tag=${next##*:}"
    until_true 60 "all pods are of $next" images_are "$next"
    echo "all pods are of $next, at $(visits) visits"
    helm rollback "$release" -n "$namespace" --wait --timeout 5m >/dev/null
    until_true 60 "all pods are of $image" images_are "$image"
    echo "all pods are of $image, at $(visits) visits"
    end once
    in_site rm /tmp/asking
    wait "$asking" || fail "$(cat "$files/asked")"
    cat "$files/asked"
}

killed() {
    local component each number=0
    begin killed 5
    for component in "${components[@]}"; do
        after $((number += 40))
        each=$(pods "$component" | sed -n 1p)
            k exec "$each" -- sh -c 'kill -9 $(cat /proc/1/task/1/children)'
        after $((number += 40))
        k delete --force --grace-period=0 --wait=false "$(pods "$component" | tail -n 1)" 2>/dev/null
    done
    end
    rolled
}

hung() {
    local each before
    begin hung 25
    after 50
    each=$(pods crawler-link | sed -n 1p)
    before=$(restarts)
    k exec "$each" -- sh -c 'kill -STOP $(cat /proc/1/task/1/children)'
    until_true 150 'a crawler that hangs is restarted' restarted_since "$before"
    end
    rolled
}
restarted_since() { [ "$(restarts)" != "$1" ]; }

[ $# -gt 0 ] || set -- checked scaled drained noticed upgraded killed hung
up
for each in "$@"; do
    "$each"
done
echo 'All is as it must be.'
