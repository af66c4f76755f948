#!/bin/sh
# The first word chooses the process; any other is a verb of `crawlstream`.
set -eu
case ${1:-} in
    kafka-monitor) shift && exec python -P -m kafka_monitor run "$@" ;;
    redis-monitor) shift && exec python -P -m redis_monitor "$@" ;;
    crawler) shift && exec python -P -m crawling "$@" ;;
    pipelines) shift && exec python -P -m pipeline_service run "$@" ;;
    rest) shift && exec python -P -m rest_service "$@" ;;
    demo-site) shift && exec python -P -m crawlstream_cli.demo "$@" ;;
    *) exec crawlstream "$@" ;;
esac
