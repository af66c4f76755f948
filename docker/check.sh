#!/bin/sh
# Checks what needs tools that the tests do not install: renders the chart for every set of values
# in its folder ci/ and holds the result against the schemas of Kubernetes, KEDA and the
# Prometheus operator; asks compose what it makes of its files.
#
#   go install helm.sh/helm/v3/cmd/helm@latest github.com/yannh/kubeconform/cmd/kubeconform@latest
#
# KUBERNETES names the version; SCHEMAS a folder of kubeconform's, where its own are out of reach.
set -eu
cd "$(dirname -- "$0")"
version=${KUBERNETES:-1.34.0}
catalog='https://raw.githubusercontent.com/datreeio/CRDs-catalog/main/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json'

for values in helm/crawlstream/ci/*.yaml; do
    echo "$values"
    helm lint --quiet --strict helm/crawlstream -f "$values"
    if [ -n "${SCHEMAS:-}" ]; then
        set -- -schema-location "$SCHEMAS/{{.ResourceKind}}{{.KindSuffix}}.json"
    else
        set -- -schema-location default -schema-location "$catalog"
    fi
    helm template crawl helm/crawlstream -f "$values" -n crawl --kube-version "$version" |
        kubeconform -strict -summary -kubernetes-version "$version" "$@"
done
if docker compose version >/dev/null 2>&1; then
    for profile in '' tools wandering pipeline; do
        CRAWLSTREAM_API_KEYS=x REDIS_PASSWORD=x docker compose ${profile:+--profile $profile} config --quiet
    done
    CRAWLSTREAM_API_KEYS=x REDIS_PASSWORD=x docker compose -f compose.yaml -f compose.partitions.yaml config --quiet
    echo "compose.yaml: as it should be"
fi
