#!/bin/bash
# Starts the Kafka of this image: KAFKA_LOG_DIRS is the property log.dirs, and so on, as in the
# official image. A new volume is given an identity first; a format that was cut short is done again.
set -euo pipefail
properties=/tmp/kafka.properties
heap=${KAFKA_HEAP_OPTS:--Xms512m -Xmx512m}
unset KAFKA_HEAP_OPTS
env | sed -n 's/^KAFKA_\([A-Z0-9_]*\)=\(.*\)$/\1 \2/p' | while read -r name value; do
    name=${name,,}
    printf '%s=%s\n' "${name//_/.}" "$value"
done >"$properties"

java=(java -Djava.awt.headless=true -Dorg.slf4j.simpleLogger.defaultLogLevel=warn
    -Dorg.slf4j.simpleLogger.showDateTime=true -cp '/opt/jars/*')
identity=$(sed -n 's/^cluster\.id=//p' "$KAFKA_LOG_DIRS/meta.properties" 2>/dev/null) ||
    identity=$(head -c 16 /dev/urandom | base64 | tr '+/' '__' | tr -d '=')
"${java[@]}" kafka.tools.StorageTool format --ignore-formatted -t "$identity" -c "$properties" >&2
# The options of the heap are several words.
# shellcheck disable=SC2086
exec "${java[@]}" $heap kafka.Kafka "$properties"
